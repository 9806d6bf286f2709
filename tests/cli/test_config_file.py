"""A configuration file: its keys are the flags, and an error message gives the line."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from flarelog.cli import main
from flarelog.cli.config_file import Document, chosen, configured, options
from flarelog.cli.options import asks, one_source, option
from flarelog.stores.local.store import LocalStore
from tests.certificates import Authority
from tests.cli.test_options import Kind
from tests.rows import together

levels: list[str] = []


@click.group
@click.option("--log-level", default="info")
def root(log_level: str) -> None: ...


@root.command
@asks(kind=Kind)
def kind(kind: partial[Kind]) -> None:
    click.echo(kind())


@root.command
@option("--store")
@option("--receiver")
@click.pass_context
def place(context: click.Context, store: str | None, receiver: str | None) -> None:
    click.echo(one_source(context, store, receiver))


@root.group
def inner() -> None: ...


@inner.command
@click.option("--days", type=int, default=1)
def site(days: int) -> None:
    click.echo(days)


configured(root, levels.append)


def said(path: Path, text: str, *args: str, **variables: str) -> str:
    path.write_text(text)
    done = CliRunner().invoke(root, [*args, "--config", str(path)], env=variables)
    return done.output.rstrip() if done.exit_code == 0 else f"{done.exit_code}: {done.output.rstrip()}"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.toml"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("", Kind(), id="empty"),
        pytest.param("[kind]\nmost = 3\nname = 'a'\nwait = 1\n", Kind(3, "a", 1.0), id="values"),
        pytest.param("[kind]\nname = 12", Kind(name="12"), id="a-number-for-a-name"),
        pytest.param("[kind]\nquick = true\nranks = false\n", Kind(quick=True, ranks=False), id="switches"),
        pytest.param("[kind]\nranks = 'off'\ncompression = true", Kind(ranks=False, compression="on"), id="on-off"),
        pytest.param("[kind]\nonly = ['a', 'b']", Kind(globs=("a", "b")), id="list"),
        pytest.param("[kind]\nonly = 'a'", Kind(globs=("a",)), id="one-of-a-list"),
        pytest.param("kind.most = 3", Kind(3), id="dotted"),
    ],
)
def test_what_a_file_says(path: Path, text: str, found: Kind) -> None:
    assert eval(said(path, text, "kind")) == found


def test_a_flag_outweighs_a_variable_and_that_the_file_and_that_the_default(path: Path) -> None:
    text = "[kind]\nmost = 1\nname = 'file'\nwait = 1.5"
    found = eval(said(path, text, "kind", "--most", "3", FLARELOG_MOST="2", FLARELOG_NAME="variable"))
    assert found == Kind(3, "variable", 1.5)


@pytest.mark.parametrize(
    ("args", "variables", "found"),
    [
        ((), {}, "('a', None)"),
        (("--receiver", "b"), {}, "(None, 'b')"),
        ((), {"FLARELOG_RECEIVER": "b"}, "(None, 'b')"),
        (("--store", "c"), {"FLARELOG_RECEIVER": "b"}, "('c', None)"),
    ],
)
def test_of_two_that_exclude_each_other_the_nearer_one_counts(
    path: Path, args: tuple[str, ...], variables: dict[str, str], found: str
) -> None:
    assert said(path, "[place]\nstore = 'a'", "place", *args, **variables) == found


@pytest.mark.parametrize(
    ("text", "args", "variables", "by"),
    [
        ("", (), {"FLARELOG_STORE": "a", "FLARELOG_RECEIVER": "b"}, ", by FLARELOG_STORE and FLARELOG_RECEIVER"),
        ("[place]\nreceiver = 'b:1'\nstore = 'a'", (), {}, ", by {0}, line 3 and {0}, line 2"),
        ("", ("--store", "a", "--receiver", "b"), {}, ""),
    ],
)
def test_of_two_places_it_is_told_where_they_were_given(
    path: Path, text: str, args: tuple[str, ...], variables: dict[str, str], by: str
) -> None:
    found = said(path, text, "place", *args, **variables)
    assert found.startswith("2: ")
    assert f"two places were given{by.format(path)}: give either --store DIR or --receiver" in found


def test_a_command_of_a_group_has_a_table_within_the_groups(path: Path) -> None:
    assert said(path, "[inner.site]\ndays = 7", "inner", "site") == "7"


def test_the_level_of_the_talk_stands_before_the_tables(path: Path) -> None:
    levels.clear()
    said(path, "log-level = 'debug'", "kind")
    assert levels == ["debug"]


@pytest.mark.parametrize(
    ("text", "code", "sentence"),
    [
        pytest.param("\n[kind]\nmosst = 3", 78, "line 3: flarelog kind has no option 'mosst': did you mean most?"),
        pytest.param("[knid]\nmost = 3", 78, "line 1: flarelog has no command 'knid': did you mean kind?"),
        pytest.param("moost = 3", 78, "line 1: flarelog has no option 'moost'"),
        pytest.param("[kind]\nmost = 'x'", 2, "line 2: most: 'x' is not a valid integer"),
        pytest.param("[kind]\nmost = true", 2, "line 2: most: true is not of type integer"),
        pytest.param("[kind]\nmost = [1]", 2, "line 2: most: [1] is not of type integer: give one value"),
        pytest.param("[kind]\nquick = 1", 2, "line 2: quick: 1 is neither true nor false"),
        pytest.param("[kind]\ncompression = 'z'", 2, "line 2: compression: 'z' is not one of 'auto', 'on', 'off'"),
        pytest.param(
            "[kind]\ncompression = ['on']", 2, "line 2: compression: ['on'] is not one of 'auto', 'on', 'off': give one"
        ),
        pytest.param("[kind]\nmost = 1\n\nmost = 2\n[place]", 78, ", line 4: the key most is given twice"),
        pytest.param("[kind]\nmost = 1\nmost = 2", 78, ", line 3: the key most is given twice"),
        pytest.param("[kind]\nmost = 1\n[place]\n [kind] # again\n", 78, ", line 4: the table [kind] is given twice"),
        pytest.param("place = { store = 'a', store = 'b' }", 78, ", line 1: the key store is given twice"),
        pytest.param("[kind]\nmost = 1\nmost.a = 2", 78, ", line 3: the key most.a is given twice"),
        pytest.param("kind = 3", 78, "line 1: kind is not a table: write [kind] on a line of its own"),
        pytest.param("[kind]\nmost = ", 78, "cannot be read: Invalid value (at end of document)"),
        pytest.param("[kind]\na = 1\nb = 2", 78, "(2 faults: flarelog config check "),
        pytest.param("[kind]\ninner = 2", 78, "flarelog kind has no option 'inner'"),
        pytest.param("[kind]\n'no-ranks' = true", 78, "flarelog kind has no option 'no-ranks'"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(path: Path, text: str, code: int, sentence: str) -> None:
    found = said(path, text, "kind")
    assert found.startswith(f"{code}: flarelog: ")
    assert str(path) in found
    assert sentence in found


def test_a_command_counts_the_faults_that_config_check_names(path: Path) -> None:
    path.write_text("[serve]\na = 1\nb = 2\n[agent]\nrun-from = 'x'\nidle = -1\n")
    path.chmod(0o600)
    named = CliRunner().invoke(main, ["config", "check", str(path)]).stderr.splitlines()
    done = CliRunner().invoke(main, ["serve", "--config", str(path)])
    assert done.exit_code == 78
    assert f"({len(named)} faults: flarelog config check {path} names them)" in done.stderr
    assert len(named) == 4


def test_a_file_may_begin_with_a_byte_order_mark(path: Path) -> None:
    assert said(path, "\ufeffkind.most = 3", "kind") == str(Kind(3))


def test_an_option_that_only_the_command_refuses_is_told_with_its_file(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text("[serve]\nstore = 'x'\nidle-timeout = 0\n")
    done = CliRunner().invoke(main, ["serve", "--config", str(path)])
    assert done.exit_code == 2
    assert f"flarelog: {path}, line 3: --idle-timeout must be a number of seconds from" in done.stderr


ADDRESS = "'foo' is not an address"
ZONE = "'Mars' is not a time zone"


@pytest.mark.parametrize(
    ("command", "variable", "value", "sentence"),
    [
        *((name, "RECEIVER", "foo", ADDRESS) for name in ("logs", "follow", "status", "findings", "runs", "streams")),
        *((name, "RECEIVER", "foo", ADDRESS) for name in ("web", "doctor", "run-end r", "rm r --yes", "run true")),
        ("sidecar --run r --site s --root .", "RECEIVER", "foo", ADDRESS),
        ("report r -o a.md", "RECEIVER", "foo:0", "'foo:0' has no usable port"),
        ("serve --store x", "LISTEN", "foo", ADDRESS),
        *((f"{name} r --store logs", "TZ", "Mars", ZONE) for name in ("logs", "follow")),
        ("view a.toml", "TZ", "Mars", ZONE),
        ("status", "STORE", "missing", "there is no store at missing"),
        ("run true", "RUN", "..", "the run's name has the part '..'"),
        (
            "sidecar --receiver a:1 --run r --site s --root /",
            "DRAIN_TIMEOUT",
            "0",
            "--drain-timeout must be a positive number",
        ),
        ("sidecar --receiver a:1 --site s --root .", "RUN", "a:b", "the run's name is 'a:b'"),  # it quotes '.', too
        ("agent --receiver a:1 --root . --run-from path:{run}/**", "SITE", "a:b", "the site's name is 'a:b'"),
        ("serve --store x", "KEEP_DAYS", "-1", "--keep-days must be a positive number of days"),
        ("serve --store x", "WORKERS", "-1", "--workers must be a number from 1"),
        ("serve --store x", "TLS_CERT", "y", "TLS needs --tls-ca, --tls-cert and --tls-key; missing"),
        ("sidecar --receiver a:1 --run r --site s --root /", "TLS_KEY", "y", "TLS needs --tls-ca, --tls-cert and"),
        ("sidecar --receiver a:1 --run r --site s --root .", "SITE_POLICY", "none.toml", "none.toml cannot be read"),
        ("poc", "FAULT", "3", "there is no fault '3'"),  # as many sites as by default
    ],
)
@pytest.mark.parametrize("filed", [False, True], ids=["variable", "file"])
def test_a_wrong_value_is_told_with_the_variable_or_the_line_that_told_it(
    tmp_path: Path, command: str, variable: str, value: str, sentence: str, filed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asyncio.run(made("logs"))
    key, name = variable.lower().replace("_", "-"), command.split()[0]
    (tmp_path / "a.toml").write_text(f"[{name}]\n{key} = '{value}'\n" if filed else "")
    words = [*command.split()[:1], "--config", "a.toml", *command.split()[1:]]
    done = CliRunner().invoke(main, words, env={} if filed else {f"FLARELOG_{variable}": value})
    said = done.stdout if name == "doctor" and not filed else done.stderr
    where = "a.toml, line 2: " if filed else f"FLARELOG_{variable}={value}: "
    assert done.exit_code, done.output
    assert where in said
    assert sentence in said


async def made(store: str) -> None:
    async with LocalStore(store, "memory"):
        pass


@pytest.mark.parametrize(
    ("text", "command", "said"),
    [
        ("[logs]\nlatest = true", "logs r --store logs", "a.toml, line 2: --latest chooses the run"),
        ("[sidecar]\nrun = ''", "sidecar --receiver a:1 --site s --root .", "a.toml, line 2: the run's name is empty"),
        ("[findings]\nrules = ''", "findings r --store logs", "a.toml, line 2: the rules  cannot be read"),
        ("[rm]\nsite = 'a b'", "rm r --receiver a:1 --yes", "a.toml, line 2: the site's name is 'a b'"),
    ],
)
def test_what_a_file_says_beside_the_command_line_is_told_with_its_line(
    tmp_path: Path, text: str, command: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asyncio.run(made("logs"))
    (tmp_path / "a.toml").write_text(text)
    name, *words = command.split()
    done = CliRunner().invoke(main, [name, "--config", "a.toml", *words])
    assert done.exit_code in (2, 78)
    assert said in done.stderr


def test_of_a_wrong_value_that_the_line_tells_no_variable_is_named() -> None:
    done = CliRunner().invoke(main, ["run", "--receiver", "foo", "true"], env={"FLARELOG_RECEIVER": "foo"})
    assert done.stderr == f"flarelog: {ADDRESS}: write HOST:PORT, as in foo:4721\n"


def test_a_file_that_everybody_can_change_is_refused(path: Path) -> None:
    path.write_text("")
    path.chmod(0o666)
    done = CliRunner().invoke(root, ["kind", "--config", str(path)])
    assert (done.exit_code, "is writable for every user" in done.output) == (5, True)


def test_a_commands_own_file_counts_where_none_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flarelog.cli.config_file.DIRECTORY", str(tmp_path))
    (tmp_path / "serve.toml").write_text("")
    own = str(tmp_path / "serve.toml")
    found = [chosen(path, name) for path, name in ((None, "serve"), ("b", "serve"), (None, "logs"))]
    assert found == [own, "b", None]


def test_help_comes_whatever_the_file_says(path: Path) -> None:
    path.write_text("[kind]\nx = 1")
    done = CliRunner().invoke(root, ["kind", "--help"], env={"FLARELOG_CONFIG": str(path)})
    assert done.exit_code == 0


@together(
    ("text", "table", "key", "line"),
    [
        ("a = 1\n[t]\na = 2", ("t",), "a", 3),
        ("a = 1\n[t]\na = 2", (), "a", 1),
        ("[t.u]\n'a' = 2", ("t", "u"), "a", 2),
        ("t.a = 2", ("t",), "a", 1),
        ("t = { a = 2 }", ("t",), "a", 0),
        ("[ t ]", (), "t", 1),
    ],
)
def test_the_line_of_a_key(text: str, table: tuple[str, ...], key: str, line: int) -> None:
    assert Document("", text, {}).line(table, key) == line


# --- flarelog config check


def checked(path: Path, text: str) -> tuple[int, str, str]:
    path.write_text(text)
    done = CliRunner().invoke(main, ["config", "check", str(path)])
    return done.exit_code, done.stdout, done.stderr


def test_a_file_in_which_nothing_is_wrong(path: Path) -> None:
    text = "[logs]\nfixed-strings = true\ninclude = 'a('\ntz = '+02:00'\nzone = 'a=Asia/Tokyo'\n"
    assert checked(path, text) == (0, f"{path}: 4 options, no faults\n", "")
    text = "log-level = 'debug'\n[serve]\nstore = 's'\n[certs.site]\ndays = 3\n[sidecar]\ninclude = ['a', 'b']\n"
    assert checked(path, text) == (0, f"{path}: 4 options, no faults\n", "")


@pytest.mark.parametrize(
    ("text", "line", "sentence"),
    [
        ("[sidecar]\ndrain-timeout = 0\n", 2, "drain-timeout must be a positive number of seconds, not 0"),
        ("[sidecar]\nrun = 'r'\nredact = ['all', 'nonsense']\n", 3, "nonsense"),
        ("[agent]\nidle = -1\n", 2, "idle must be a number of seconds from 0.1"),
        ("[agent]\nrun-from = 'x'\n", 2, "run-from: --run-from 'x' names no kind of pattern"),
        ("[sidecar]\ninclude = ['[']\n", 2, "["),
        ("[logs]\nsince = 'nonsense'\n", 2, "'nonsense' is not a time"),
        ("[logs]\n\nsite = 'x]'\n", 3, "without its '['"),
        ("[logs]\nsite = ''\n", 2, "an empty pattern matches nothing"),
        ("[sidecar]\nreceiver = ['a:1', 'foo']\n", 2, "'foo' is not an address"),
        ("[status]\nreceiver = 'foo:0'\n", 2, "'foo:0' has no usable port"),
        ("[view]\ncolor = 'auto'\ntz = 'Mars'\n", 3, "tz: 'Mars' is not a time zone"),
        (
            "[follow]\nzone = ['a=UTC', 'b=Mars']\n",
            2,
            "zone: 'Mars' is not a time zone that this machine knows: give b=Europe/Berlin or",
        ),
        ("[view]\nzone = 'a=UTC'\n", 2, "zone: 'a=UTC' names a site"),
        ("[findings]\nzone = 'a=+25:00'\n", 2, "zone: '+25:00' is not a time zone"),
        ("[logs]\ninclude = ['ok', 'a(']\n", 2, "include: 'a(' is not a regular expression"),
        ("[logs]\nfrom = 'a'\n", 2, "from: 'a' is not a position in a log"),
        ("[view]\nencoding = 'nosuch'\n", 2, "encoding: Python has no encoding 'nosuch'"),
        ("[logs]\nformat = '{bla}'\n", 2, "format: '{bla}' has the field 'bla'"),
        ("[logs]\nranks = 'all'\n", 2, "ranks: --ranks takes first and last"),
        ("[logs]\nrank-map = 'x'\n", 2, "rank-map: 'x' is not an entry of a rank map"),
        ("[findings]\nrules = 'missing.toml'\n", 2, "rules: the rules missing.toml cannot be read"),
        ("[sidecar]\nzone = 'Mars'\n", 2, "zone 'Mars' is unknown on this machine"),
        ("[sidecar]\nrun = 'a b'\n", 2, "run: the run's name is 'a b'"),
        ("[sidecar]\nrun = '{X}'\n", 2, "run: the run's name is '{X}'"),
        ("[agent]\nroot = '.'\nsite = ''\n", 3, "site: the site's name is empty"),
        ("[doctor]\nsite = '..'\n", 2, "site: the site's name has the part '..'"),
        ("[run]\nrun = ''\n", 2, "run: the run's name is empty"),
        ("[run]\nlog = 'a{b'\n", 2, "log: the log's name is 'a{b'"),
        ("[run]\nredact = 'foo'\n", 2, "redact: the redaction 'foo' is unknown"),
        ("[run]\nredact = ['all', '']\n", 2, "redact: the redaction '' is unknown"),
        ("[run]\nreceiver = ''\n", 2, "receiver: '' is not an address"),
        ("[sidecar]\nreceiver = ['a:1', '']\n", 2, "receiver: '' is not an address"),
        ("[status]\nreceiver = ''\n", 2, "receiver: '' is not an address"),
        ("[status]\nproxy = 'socks5://p:1'\n", 2, "proxy: proxy must be off or http://HOST:PORT"),
        ("[serve]\nweb = ''\n", 2, "web: '' is not an address"),
        ("[serve]\ntls-crl = ''\n", 2, "tls-crl:  cannot be read"),
        ("[token.create]\nruns = ['a', 'b c']\n", 2, "runs: the token's runs: no run can have the name 'b c'"),
        ("[run]\nlog = '{RANK}/../x'\n", 2, "log: the log's name has the part '..'"),
        ("[sidecar]\ntls-ca = 'missing.crt'\n", 2, "tls-ca: missing.crt cannot be read: No such file"),
        ("[serve]\ntls-cert = 'missing.crt'\n", 2, "tls-cert: missing.crt cannot be read: No such file"),
        ("[serve]\ntls-crl = 'missing.crl'\n", 2, "tls-crl: missing.crl cannot be read: No such file"),
        ("[logs]\ntls-key = 'missing.key'\n", 2, "tls-key: missing.key cannot be read: No such file"),
        ("[status]\nstore = 5\n", 2, "store: 5 is a number, not a path: write the path in quotes"),
        ("[follow]\ntls-ca = 5\n", 2, "tls-ca: 5 is a number, not a path"),
        ("[view]\nbars = false\n", 2, "bars: false is not one of 'live', 'steps', 'off'"),
        ("[certs.site]\ndays = 0\n", 2, "days: a certificate cannot be valid for 0 days: give from 1 to 3650"),
        ("[certs.server]\ndays = 3651\n", 2, "days: a certificate cannot be valid for 3651 days"),
        ("[token.create]\nexpires = 'never'\n", 2, "expires: 'never' is not a length of time"),
        ("[serve]\nworkers = 0\n", 2, "workers: --workers must be a number from 1"),
        ("[serve]\npolicy = 'missing.toml'\n", 2, "policy: the policy missing.toml cannot be read"),
        ("[sidecar]\nsite-policy = 'missing.toml'\n", 2, "site-policy: "),
        ("[poc]\nfault = ['rotate', 'nonsense']\n", 2, "fault: there is no fault 'nonsense'; known are late-receiver"),
        (
            "[serve]\nready-file = 'missing/ready'\n",
            2,
            "ready-file: the ready file missing/ready cannot be written: No",
        ),
        ("[web]\nready-file = '/dev/null'\n", 2, "ready-file: the ready file /dev/null is no regular file"),
        ("[web]\nready-file = ''\n", 2, "ready-file: it is empty: name a file"),
        ("[serve]\npolicy = ''\n", 2, "policy: it is empty: name a file"),
        ("[web]\nreceiver = 'a:1'\n\nstore = 's'\n", 4, "two places are given, store and receiver: give one of them"),
        ("[logs]\n\noutput = 'raw'\nsince = '5m'\n", 1, "-o raw writes the exact bytes of whole logs"),
        ("[view]\noutput = 'raw'\ntail = 3\n", 1, "-o raw writes the exact bytes of whole logs"),
        ("[follow]\noutput = 'json'\nformat = '{text}'\n", 1, "--format applies only to text"),
        ("[logs]\nfirst-error = true\ntail = 5\n", 1, "--first-error reads whole logs: leave out --tail"),
    ],
)
def test_a_value_that_the_command_itself_would_refuse(path: Path, text: str, line: int, sentence: str) -> None:
    code, out, err = checked(path, text)
    assert (code, out) == (78, "")
    (said,) = err.splitlines()
    assert f"line {line}: " in said
    assert sentence in said


def test_two_places_are_a_fault_of_each_command_that_refuses_them(path: Path) -> None:
    found = set[str]()
    for name in main.list_commands(click.Context(main)):
        own = main.get_command(click.Context(main), name)
        if own is None or not {"store", "receiver"} <= options(own).keys():
            continue
        if checked(path, f"[{name}]\nstore = 's'\nreceiver = 'localhost:1'\n")[0]:
            found.add(name)
            args = () if name == "web" else ("r",)
            done = CliRunner().invoke(main, [name, "--config", str(path), *args])
            assert (done.exit_code, "two places were given" in done.stderr) == (2, True), name
    assert found == {"status", "follow", "logs", "web", "findings", "report", "streams", "runs", "rm"}  # not doctor


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param("[serve]\ntls-ca = '{d}/ca.crt'\ntls-cert = '{d}/a.crt'\ntls-key = '{d}/a.key'", "", id="good"),
        pytest.param("[serve]\ntls-ca = '{d}/ca.crt'\ntls-cert = '{d}/a.crt'", "", id="a-flag-may-give-the-key"),
        pytest.param("[logs]\ntls-ca = '{d}/ca.crt'", "", id="a-ca-alone"),
        pytest.param(
            "[serve]\ntls-ca = '{d}/ca.crt'\ntls-cert = '{d}/a.crt'\ntls-key = '{d}/b.key'",
            "line 3: tls-cert: the key {d}/b.key does not belong to the certificate {d}/a.crt",
            id="of-two-pairs",
        ),
        pytest.param(
            "[sidecar]\ntls-ca = '{d}/empty'\ntls-cert = '{d}/a.crt'\ntls-key = '{d}/a.key'",
            "line 3: tls-cert: {d}/empty holds no CA certificate in PEM",
            id="no-ca",
        ),
    ],
)
def test_certificates_are_tried_as_the_command_tries_them(tmp_path: Path, text: str, sentence: str) -> None:
    authority = Authority.new(tmp_path)
    for name in ("a", "b"):
        Path(authority.issue(name).key).chmod(0o600)
    (tmp_path / "empty").touch()
    code, _, err = checked(tmp_path / "flarelog.toml", text.replace("{d}", str(tmp_path)))
    assert code == (78 if sentence else 0), err
    assert sentence.replace("{d}", str(tmp_path)) in err


def test_the_check_leaves_a_ready_file_alone_and_a_fault_of_tls_is_one(path: Path) -> None:
    ready = path.with_name("ready")
    ready.write_text("127.0.0.1:1\n")
    text = f"[serve]\nready-file = '{ready}'\n[poc]\nfault = ['all', 'intruders']\n"
    assert checked(path, text) == (0, f"{path}: 2 options, no faults\n", "")
    assert ready.read_text() == "127.0.0.1:1\n"


def test_an_empty_file_that_the_command_takes_for_none_is_no_fault(path: Path) -> None:
    text = "[serve]\nreader-listen = ''\ntls-ca = ''\ntls-cert = ''\ntls-key = ''\n[logs]\ntoken-file = ''\n"
    assert checked(path, text) == (0, f"{path}: 5 options, no faults\n", "")


def test_a_number_in_quotes_is_a_number_for_the_command_as_well(path: Path) -> None:
    text = "[view]\ntail = '1'\n"
    assert checked(path, text) == (0, f"{path}: 1 option, no faults\n", "")
    lines = path.with_name("a.log")
    lines.write_text("one\ntwo\n")
    assert CliRunner().invoke(main, ["view", "--config", str(path), str(lines)]).stdout == "two\n"


def test_names_that_variables_fill_are_no_faults(path: Path) -> None:
    text = "[run]\nrun = 'job-{SLURM_JOB_ID}'\nsite = '{HOST}'\nlog = 'rank-{RANK}/'\n[doctor]\nsite = 'a'\n"
    assert checked(path, text) == (0, f"{path}: 4 options, no faults\n", "")


@pytest.mark.parametrize(
    ("proxy", "mode", "code"),
    [
        ("http://u:p@h:1", 0o644, 78),
        ("u:p@h:1", 0o604, 78),
        ("http://u:p@h:1", 0o600, 0),
        ("http://u@h:1", 0o644, 0),
        ("http://h:1", 0o644, 0),
        ("off", 0o644, 0),
    ],
)
@pytest.mark.parametrize("table", ["sidecar", "run", "logs"])
def test_a_password_of_a_proxy_that_others_may_read_is_reported(
    path: Path, table: str, proxy: str, mode: int, code: int
) -> None:
    path.touch()
    path.chmod(mode)
    found = checked(path, f"[{table}]\nproxy = '{proxy}'\n")
    assert found[0] == code
    where = f"{path}, line 2: proxy: its password is readable for others in {path}: chmod 600 the file\n"
    assert found[2].endswith(where) == bool(code)


def test_an_address_where_no_page_may_be_is_reported(path: Path) -> None:
    found = checked(path, "[serve]\nstore = 's'\nweb = '0.0.0.0:4780'\n")
    assert (found[0], f"{path}, line 3: web: " in found[2]) == (78, True)


def test_every_fault_of_every_table_is_told_in_the_order_of_the_lines(path: Path) -> None:
    code, out, err = checked(path, "[sidecar]\nranks = 3\n[certs.sit]\ndays = 3\n[serve]\nx = 1\n[logs]\ntail = 'y'\n")
    assert (code, out) == (78, "")
    assert [line.split(": ", 1)[1] for line in err.splitlines()] == [
        f"{path}, line 2: ranks: '3' is not one of 'on', 'off'",
        f"{path}, line 3: flarelog certs has no command 'sit': did you mean site?",
        f"{path}, line 6: flarelog serve has no option 'x'",
        f"{path}, line 8: tail: 'y' is not a valid integer",
    ]


@pytest.mark.parametrize(("mode", "code"), [(0o600, 0), (0o644, 78), (0o604, 78)])
def test_a_secret_that_others_may_read_is_told(tmp_path: Path, path: Path, mode: int, code: int) -> None:
    secret = tmp_path / "a.token"
    secret.write_text("x\n")
    secret.chmod(mode)
    found = checked(path, f"[follow]\ntoken-file = '{secret}'\n")
    assert found[0] == code
    assert ("line 2: token-file: " in found[2] and "chmod 600 it" in found[2]) == bool(code)


def test_a_token_that_stands_in_the_place_of_its_file_is_not_printed(path: Path) -> None:
    found = checked(path, "[follow]\ntoken-file = 'flarelog_abcdef'\n")
    assert "line 2: token-file: it is a token, and no file" in found[2]
    assert "abcdef" not in "".join(map(str, found))


def test_an_option_that_must_be_given_wants_a_value(path: Path) -> None:
    found = checked(path, "[sidecar]\nreceiver = []\n")
    assert "line 2: receiver: it is empty: give one value at least" in found[2]
