# Two commands do everything: `make poc` runs the main job, `make test` passes the tests. Each makes .venv when it is missing.

PYTHON ?= python3
BIN := .venv/bin

# What is compiled is kept, whatever the caller's environment says: the tests start hundreds of interpreters, and each of
# them would compile flarelog anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: poc test nvflare kubernetes deploy mutations soak scale fuzz check audit format protos protos-check bench bench-compare \
	bench-page bench-profile picture way man page clean

# Tests that need more than this tree's environment: make nvflare and make kubernetes run them.
APART := --ignore integration/nvflare --ignore integration/kubernetes

poc: .venv/installed
	$(BIN)/flarelog poc

test: .venv/developing
	$(BIN)/python -m pytest tests -n 3
	$(BIN)/python -m pytest integration -n 4 --dist worksteal $(APART)

# Inside a real NVFlare, which gets an environment of its own; one after the other, because its ports are its own as well.
# ONLY="-m essential" is the part that CI runs.
ONLY ?=
nvflare: .venv/developing
	$(BIN)/python -m pytest integration/nvflare $(ONLY)

# On a node of real parts: a kubelet and an API server, which are built when they are missing, and Debian's containerd.
# CI leaves out what needs flarelog's image: ONLY='-m "not soak"'.
kubernetes: .venv/developing
	$(BIN)/python -m integration.kubernetes.parts
	$(BIN)/python -m pytest integration/kubernetes -m "" $(ONLY)

# The manifests of deploy/kustomize, from the chart, whenever the chart changes. Helm is built when it is missing.
deploy: .venv/developing
	$(BIN)/python -m integration.kubernetes.helm

# Whether the tests would notice: each law is broken in its turn, and they must fail.
mutations: .venv/developing
	$(BIN)/python -m tests.mutations

# What make test leaves out: random faults against a model, each round with a new seed; all tests with the mark soak, and
# all that is tried less often each time; then both ends killed at each of their I/O calls: make soak SECONDS=600
SECONDS ?= 300
soak: .venv/developing
	FLARELOG_SOAK=$(SECONDS) $(BIN)/python -m pytest -s tests/joined/test_stateful.py::test_soak
	FLARELOG_SOAK=$(SECONDS) $(BIN)/python -m pytest tests -n 2 -m "" -k "not test_soak"
	$(BIN)/python -m pytest integration -n 2 -m soak $(APART)
	$(BIN)/python -m integration.test_storms --seconds $(SECONDS)
	$(BIN)/python -m integration.harness.sweep
	$(BIN)/python -m bench.hostile --size 262144 --log '*-long' --most 2 --a-line 20

# The store that receivers share, over three nats-servers: whatever dies, is stopped, cut off or full, bytes are compared. Ten minutes.
scale: .venv/developing
	$(BIN)/python -m integration.harness.nats
	$(BIN)/python -m pytest -s -m "" $(wildcard integration/test_nats_*.py integration/test_shared_*.py)
	$(BIN)/flarelog poc --store nats --fault all

# Any bytes for every parser, guided by coverage where atheris can be installed: make fuzz SECONDS=3600
fuzz: .venv/developing
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[fuzz]'
	$(BIN)/python -m fuzz --seconds $(SECONDS)

check: .venv/developing
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/test_mutants.py -k each_mutant -m soak

# Whether a dependency has a known vulnerability. It needs PyPI's advisories and fails where they cannot be had, so it
# is no part of check.
audit: .venv/installed
	$(PYTHON) -m venv .venv/audit
	.venv/audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit
	$(BIN)/python -m pip freeze --disable-pip-version-check --exclude-editable > .venv/audit/installed.txt
	.venv/audit/bin/pip-audit --strict --no-deps --disable-pip --progress-spinner off -r .venv/audit/installed.txt

format: .venv/developing
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Measures, with the peers beside it; about half an hour, or five minutes: make bench ARGS=--quick
ARGS ?=
bench: .venv/developing
	$(BIN)/python -m bench $(ARGS)

# A fresh run, or a result that was made, against the last one that is kept: make bench-compare ARGS="--with FILE"
bench-compare: .venv/developing
	$(BIN)/python -m bench.compare $(ARGS)

# Writes the last kept run, or RESULT=FILE, into docs/performance.md and draws its pictures.
RESULT ?=
bench-page: .venv/developing
	$(BIN)/python -m bench.page $(RESULT)

# Counts system calls and Python calls, and profiles, one bulk round each; strace and perf where they are there.
bench-profile: .venv/developing
	$(BIN)/python -m bench.profile --write

# What README and docs/web.md show of a terminal and of the page, taken of real processes; the page needs chromium. All
# pages at three widths and in both themes are in build/pictures.
picture: .venv/developing
	$(BIN)/python -m docs.picture
	$(BIN)/python -m docs.report_picture

# The way of a line, from a file to a screen, drawn from the code.
way: .venv/developing
	$(BIN)/python -m docs.way

# The manual page, made from the help of the commands.
man: .venv/developing
	$(BIN)/python -m docs.man

# What a browser loads of the page: its code and styles in a short form. Needs Node; a test says when it is due.
page: .venv/developing
	$(BIN)/python -m docs.short

protos: .venv/protos/done
	.venv/protos/bin/python -m grpc_tools.protoc -Iprotos --python_out=. --pyi_out=. protos/flarelog/v1/log.proto

protos-check: .venv/protos/done
	rm -rf .venv/generated && mkdir -p .venv/generated
	.venv/protos/bin/python -m grpc_tools.protoc -Iprotos --python_out=.venv/generated --pyi_out=.venv/generated \
		protos/flarelog/v1/log.proto
	diff -r -x __init__.py -x __pycache__ .venv/generated/flarelog/v1 flarelog/v1

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "flarelog needs Python 3.11 or later; say which with: make PYTHON=python3.11"; exit 1; }
	$(PYTHON) -m venv .venv

.venv/installed: .venv/bin/python setup.cfg pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

.venv/developing: .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

# The generator wants an older protobuf than anybody runs: it gets a place of its own.
.venv/protos/done: .venv/bin/python setup.cfg
	$(PYTHON) -m venv .venv/protos
	.venv/protos/bin/python -m pip install --quiet --disable-pip-version-check grpcio-tools==1.68.1 'setuptools<81'
	touch $@

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
