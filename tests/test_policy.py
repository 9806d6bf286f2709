"""The permissions of callers: identities, roles, the policy file, and the text of refusals."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flarelog.errors import InvalidOption, NotAllowed
from flarelog.model import Action
from flarelog.policy import NOBODY, OPEN, Identity, Policy, Role, parse, site_of
from tests.rows import together


def certificate(cn: str = "", *sans: str, ou: tuple[str, ...] = (), nvflare_role: str = "") -> Identity:
    names = tuple(san for san in sans if "@" not in san and ":" not in san)
    return Identity("certificate", cn, sans, ou, nvflare_role, dns_names=names)


SITE, OTHER = certificate("site-1", "site-1"), certificate("site-2")
OWN_SITE, OWN_READER = certificate("site-1", ou=("site",)), certificate("site-1", ou=("reader",))
ADMIN = certificate("admin@nvidia.com", "admin@nvidia.com", nvflare_role="project_admin")
READER = Identity("token", token="1a2b", token_name="wall", role=Role.READER, runs=("job-*",))
OPERATOR = Identity("token", token="3c4d", token_name="ci", role=Role.OPERATOR)
FORGED = Identity("token", "site-1", ("site-1",), ("reader",), "project_admin", "5e6f", "site-1")

P, R, L, U, G, S, E, D, T, F = (
    *(Action.PUSH, Action.READ, Action.LIST, Action.LIST_RUNS, Action.GET_RUN),
    *(Action.START_RUN, Action.END_RUN, Action.DELETE, Action.TIMELINE, Action.FINDINGS),
)

# Without a policy: a caller, and the actions that it may take on run job-1 and site site-1. All others are refused.
DEFAULTS = [
    pytest.param(SITE, {P, L, U, G, T}, id="a-site-pushes-its-own-streams-and-asks-where-they-end"),
    pytest.param(OWN_SITE, {P, L, U, G, T}, id="so-does-one-of-our-own-ca"),
    pytest.param(OTHER, set(), id="another-site-learns-nothing"),
    pytest.param(OWN_READER, {R, F, L, U, G, T}, id="a-reader-pushes-nothing-not-even-under-its-own-name"),
    pytest.param(certificate("ops", ou=("operator",)), {U, G, S, E, D}, id="an-operator-reads-no-log"),
    pytest.param(certificate("x", ou=("operator", "reader")), {R, F, L, U, G, T, S, E, D}, id="who-is-both-may-both"),
    pytest.param(ADMIN, set(), id="an-nvflare-admin-kit-reads-at-nvflares-server-alone"),
    pytest.param(certificate("site-1", nvflare_role="member"), set(), id="nor-does-an-admin-called-like-a-site-push"),
    pytest.param(certificate("x", ou=("reader",), nvflare_role="lead"), set(), id="nor-read-with-a-readers-unit"),
    pytest.param(certificate("site-1", nvflare_role="client"), {P, L, U, G, T}, id="another-role-of-nvflare-is-a-site"),
    pytest.param(certificate("Dr Who", ou=("Readers",)), set(), id="a-name-that-is-no-site-has-no-role"),
    pytest.param(READER, {R, F, L, U, G, T}, id="a-reader-token"),
    pytest.param(OPERATOR, {U, G, S, E, D}, id="an-operator-token-does-not-read-and-sees-which-runs-there-are"),
    pytest.param(FORGED, set(), id="what-a-token-is-called-is-nobodys-word"),
    pytest.param(NOBODY, set(), id="nobody"),
]


@together(("identity", "allowed"), DEFAULTS)
def test_without_a_policy(identity: Identity, allowed: set[Action]) -> None:
    policy = Policy()
    assert {action for action in Action if policy.permits(identity, action, run="job-1", site="site-1")} == allowed


@pytest.mark.parametrize("identity", [NOBODY, SITE, READER])
def test_an_open_receiver_asks_nobody_who_he_is(identity: Identity) -> None:
    for action in Action:
        OPEN.allows(identity, action, run="job-1", site="any")


GRANTS = """
[[grant]]
identity = "site-*"
role = "site"

[[grant]]
identity = "admin@*"
role = "reader"
runs = ["job-*", "night-[0-9]"]

[[grant]]
cn = ["boss", "deputy"]
ou = "ops"
role = "operator"

[[grant]]
san = "*.example.org"
role = "reader"
runs = "open"

[[grant]]
nvflare_role = "auditor"
role = "reader"
"""

# Under these grants: caller, action, run, site, and whether it is allowed.
TABLE = [
    pytest.param(SITE, P, "any", "site-1", True, id="a-granted-site-pushes"),
    pytest.param(SITE, P, "any", "site-2", False, id="never-as-another-site"),
    pytest.param(SITE, P, "any", "SITE-1", False, id="nor-in-other-letters"),
    pytest.param(SITE, P, "any", "", False, id="nor-as-nobody"),
    pytest.param(SITE, L, None, None, True, id="a-site-lists-what-there-is-of-it"),
    pytest.param(SITE, L, "", "", True, id="nothing-on-the-wire-is-all"),
    pytest.param(SITE, L, "any", "site-2", False, id="a-site-does-not-list-another"),
    pytest.param(SITE, U, "", None, True, id="a-site-asks-which-runs-it-is-in"),
    pytest.param(SITE, U, "any", "site-2", False, id="and-sees-none-that-another-is-in"),
    pytest.param(SITE, U, "any", ".", False, id="nor-one-that-no-site-is-in"),
    pytest.param(certificate("boss", ou=("ops",)), U, "any", ".", True, id="who-removes-runs-sees-them-all"),
    pytest.param(ADMIN, U, "secret", None, False, id="a-reader-sees-its-own-runs"),
    pytest.param(SITE, R, "any", "site-1", False, id="a-site-reads-nothing"),
    pytest.param(certificate("clinic"), P, "any", "clinic", False, id="who-is-not-granted-does-not-push"),
    pytest.param(OWN_READER, R, "any", "x", False, id="a-policy-replaces-the-defaults"),
    pytest.param(ADMIN, R, "job-7", "x", True, id="a-reader-of-a-run-by-pattern"),
    pytest.param(ADMIN, R, "night-7", "x", True, id="of-several-patterns"),
    pytest.param(ADMIN, R, "night-77", "x", False, id="of-no-other-run"),
    pytest.param(ADMIN, R, "a-job-7", "x", False, id="a-pattern-is-the-whole-name"),
    pytest.param(ADMIN, R, "", "x", False, id="an-empty-name-matches-no-pattern"),
    pytest.param(ADMIN, L, None, None, True, id="lists-are-asked-for-and-then-shown-one-by-one"),
    pytest.param(ADMIN, L, "secret", None, False, id="a-list-of-a-run-that-is-not-its-own"),
    pytest.param(ADMIN, D, "job-7", None, False, id="a-reader-deletes-nothing"),
    pytest.param(certificate("boss", ou=("ops",)), D, "any", None, True, id="all-selectors-match"),
    pytest.param(certificate("deputy", ou=("x", "ops")), E, "any", None, True, id="one-of-the-values-of-a-selector"),
    pytest.param(certificate("boss", ou=("dev",)), D, "any", None, False, id="one-selector-does-not"),
    pytest.param(certificate("x", "boss", ou=("ops",)), D, "any", None, False, id="a-san-is-no-common-name"),
    pytest.param(certificate("x", "a.example.org"), R, "open", "x", True, id="by-san"),
    pytest.param(certificate("a.example.org"), R, "open", "x", False, id="a-common-name-is-no-san"),
    pytest.param(certificate("x", nvflare_role="auditor"), R, "any", "x", True, id="by-the-role-in-an-nvflare-kit"),
    pytest.param(READER, R, "job-1", "x", True, id="tokens-bring-their-role"),
    pytest.param(READER, R, "lab-1", "x", False, id="and-their-runs"),
    pytest.param(FORGED, P, "any", "site-1", False, id="no-grant-is-for-a-token"),
    pytest.param(NOBODY, L, None, None, False, id="nobody-lists-nothing"),
]


@together(("identity", "action", "run", "site", "allowed"), TABLE)
def test_under_a_policy(identity: Identity, action: Action, run: str | None, site: str | None, allowed: bool) -> None:
    assert parse(GRANTS).permits(identity, action, run=run, site=site) is allowed


def test_a_policy_may_keep_the_defaults() -> None:
    policy = parse('defaults = true\n[[grant]]\nidentity = "site-1"\nrole = "operator"')
    assert policy.permits(SITE, Action.PUSH, run="job-1", site="site-1")
    assert policy.permits(SITE, Action.END_RUN, run="job-1")


def test_an_empty_policy_lets_nobody_in() -> None:
    who = (SITE, OWN_READER, ADMIN, NOBODY)
    assert not [i for i, a in product(who, Action) if parse("").permits(i, a, run="job-1", site="site-1")]


@together(
    ("identity", "action", "sentence"),
    [
        pytest.param(
            SITE,
            P,
            "certificate 'site-1' is of site site-1 and may not push as 'site-2': name the site site-1, or give the"
            " certificate of 'site-2'",
            id="another-site",
        ),
        pytest.param(
            OWN_READER,
            P,
            f"{OWN_READER} belongs to no site and may not push as 'site-2': give the certificate of 'site-2'",
            id="a-reader-pushes",
        ),
        pytest.param(
            SITE,
            L,
            "certificate 'site-1' is of site site-1, but the call asks for site 'site-2': name the site site-1, or give"
            " the certificate of 'site-2'",
            id="another-site-lists",
        ),
        pytest.param(
            SITE,
            R,
            "certificate 'site-1' may not read run 'job-1': the role reader is required; at the receiver, flarelog"
            " token create NAME --role reader makes a token that has it, flarelog certs reader NAME a certificate, and"
            " serve --policy grants it",
            id="a-role-is-missing",
        ),
        pytest.param(
            READER,
            D,
            "token 1a2b (wall) may not delete run 'job-1': the role operator is required; at the receiver, flarelog"
            " token create NAME --role operator makes a token that has it, flarelog certs operator NAME a certificate,"
            " and serve --policy grants it",
            id="a-tokens-role",
        ),
        pytest.param(
            READER,
            P,
            "token 1a2b (wall) is not a site: a site needs a certificate (--tls-cert and --tls-key)",
            id="a-token-pushes-nothing",
        ),
        pytest.param(
            replace(READER, runs=("lab-*", "x")),
            R,
            "token 1a2b (wall) may not read run 'job-1': its role reader covers the runs lab-*, x; ask for one of"
            " those",
            id="a-run-that-a-token-is-not-for",
        ),
        pytest.param(
            NOBODY,
            L,
            "the receiver cannot identify the caller: give a certificate (--tls-cert and --tls-key) or a token"
            " (--token-file)",
            id="nobody",
        ),
    ],
)
def test_what_a_refusal_says(identity: Identity, action: Action, sentence: str) -> None:
    with pytest.raises(NotAllowed, match=f"^{re.escape(sentence)}$"):
        Policy().allows(identity, action, run="job-1", site="site-2")


def test_a_caller_that_leaves_out_what_is_asked_for_is_wrong() -> None:
    for action in set(Action) - {Action.LIST, Action.LIST_RUNS}:
        with pytest.raises(ValueError, match="run"):
            OPEN.allows(SITE, action)
    for action in (Action.PUSH, Action.READ):
        with pytest.raises(ValueError, match="site"):
            OPEN.allows(SITE, action, run="job-1")


# --- the site of a certificate

SITES = [
    pytest.param(certificate("site-1"), "site-1", id="the-common-name-of-one-without-san"),
    pytest.param(certificate("other", "site-1"), "site-1", id="the-san-before-the-common-name"),
    pytest.param(certificate("site-1", "a.org", "site-1"), "site-1", id="of-several-sans-the-common-name"),
    pytest.param(certificate("site-1", "spiffe://x/y", "a@b"), "site-1", id="uri-and-mail-name-no-site"),
    pytest.param(certificate("site-1", "a.org", "b.org"), None, id="several-sans-and-none-is-the-common-name"),
    pytest.param(certificate("site-1", "*.org"), None, id="a-wildcard-and-not-its-common-name"),
    pytest.param(certificate("../site-2"), None, id="a-path"),
    pytest.param(certificate("site-1\n"), None, id="a-line-end"),
    pytest.param(certificate("site-1\0.evil"), None, id="a-nul"),
    pytest.param(certificate("a" * 129), None, id="too-long"),
    pytest.param(certificate(".lock"), None, id="the-stores-own"),
    pytest.param(certificate(""), None, id="no-name"),
    pytest.param(ADMIN, None, id="an-admin"),
    pytest.param(OPERATOR, None, id="a-token"),
    pytest.param(FORGED, None, id="a-token-called-like-a-site"),
    pytest.param(NOBODY, None, id="nobody"),
]


@together(("identity", "site"), SITES)
def test_the_site_of_a_certificate(identity: Identity, site: str | None) -> None:
    if site is not None:
        assert site_of(identity) == site
    else:
        with pytest.raises(NotAllowed) as refused:
            site_of(identity)
        assert len(str(refused.value)) < 300
        assert str(refused.value).isprintable()


# --- the file

BAD = [
    pytest.param("a = 1\n= [\n", "line 2", id="no-toml"),
    pytest.param('[[grant]]\nrole = "site\n', "line 2", id="a-string-without-end"),
    pytest.param("x = 1\n", "'x' is unknown; known are defaults, grant", id="an-unknown-key"),
    pytest.param('[[grants]]\nrole = "site"', "'grants'", id="a-key-with-a-slip"),
    pytest.param('[[grant]]\nidentity = "a"\nrol = "site"', "grant 1: the key 'rol' is unknown", id="in-a-grant"),
    pytest.param('[grant]\nrole = "site"', "[[grant]]", id="a-table-that-is-no-list"),
    pytest.param("grant = [1]", "[[grant]]", id="a-list-of-something-else"),
    pytest.param('defaults = "yes"', "defaults must be true or false", id="defaults-as-a-word"),
    pytest.param('[[grant]]\nidentity = "a"', "grant 1: role must be site, reader, operator", id="no-role"),
    pytest.param('[[grant]]\nidentity = "a"\nrole = "root"', "not 'root'", id="an-unknown-role"),
    pytest.param('[[grant]]\nidentity = "a"\nrole = ["site"]', "role must be", id="several-roles"),
    pytest.param('[[grant]]\nrole = "site"', "grants to no caller", id="for-nobody"),
    pytest.param('[[grant]]\nrole = "site"\nou = ""', "ou must be a name", id="an-empty-name"),
    pytest.param('[[grant]]\nrole = "site"\nou = 3', "ou must be a name", id="a-number-for-a-name"),
    pytest.param('[[grant]]\nrole = "site"\nou = [["a"]]', "ou must be a name", id="a-list-in-a-list"),
    pytest.param('[[grant]]\nrole = "site"\nou = []', "empty list", id="an-empty-list"),
    pytest.param('[[grant]]\nrole = "reader"\nou = "a"\nruns = []', "empty list", id="no-runs"),
    pytest.param('[[grant]]\nrole = "reader"\nou = "a"\nruns = "a/*"', "'a/*'", id="runs-that-cannot-be"),
    pytest.param('[[grant]]\nrole = "reader"\nou = "' + "a" * 257 + '"', "256", id="an-over-long-pattern"),
    pytest.param("a = " + "[" * 100_000, "policy", id="nested-too-deeply"),
    pytest.param("a = " + "1" * 5000, "policy", id="a-number-that-is-too-long"),
]


@together(("text", "says"), BAD)
def test_a_policy_that_is_wrong_says_where_in_one_sentence(text: str, says: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        parse(text, "the policy p.toml")
    sentence = str(refused.value)
    assert sentence.startswith("the policy p.toml")
    assert says in sentence
    assert sentence.isprintable()
    assert len(sentence) < 400


VALUES: Any = st.recursive(
    st.text(max_size=8).map(repr)
    | st.sampled_from(['"site"', '"*"', "1", "true", "1979-05-27", '"["', '"[z-a]"', "inf"]),
    lambda inner: st.lists(inner, max_size=3).map(lambda some: f"[{', '.join(some)}]"),
    max_leaves=4,
)
LINES = st.sampled_from(
    ["[[grant]]", "[grant]", "defaults = true", 'role = "site"', 'identity = "*"', "#"]
) | st.builds("{} = {}".format, st.sampled_from(["role", "runs", "identity", "ou", "x", "defaults", "grant"]), VALUES)


@given(st.lists(LINES, max_size=8))
def test_any_file_is_a_policy_or_a_sentence(lines: list[str]) -> None:
    try:
        policy = parse("\n".join(lines))
    except InvalidOption:
        return
    policy.permits(SITE, Action.READ, run="job-1", site="site-1")
    policy.permits(ADMIN, Action.LIST)


NAMES = st.text("ab-1.", min_size=1, max_size=6)


@given(NAMES, NAMES)
def test_a_pattern_without_wildcards_matches_itself_alone(pattern: str, run: str) -> None:
    policy = parse(f'[[grant]]\nidentity = "a"\nrole = "reader"\nruns = "{pattern}"')
    assert policy.permits(certificate("a"), Action.READ, run=run, site="x") == (pattern == run)


@given(NAMES, NAMES, NAMES)
def test_a_star_stands_for_anything_between(begin: str, middle: str, end: str) -> None:
    policy = parse(f'[[grant]]\nidentity = "{begin}*{end}"\nrole = "operator"')
    assert policy.permits(certificate(begin + middle + end), Action.DELETE, run="x")
    assert not policy.permits(certificate("x" + begin + middle + end), Action.DELETE, run="x")


@pytest.mark.parametrize("key", ["cn", "identity", "runs"])
def test_a_pattern_that_cannot_be_read_is_refused(key: str) -> None:
    said = {"cn": "a", "role": "reader", key: "a["}
    text = "[[grant]]\n" + "".join(f'{name} = "{value}"\n' for name, value in said.items())
    with pytest.raises(InvalidOption, match=r"^the policy, grant 1: the pattern 'a\[' has a '\[' without its '\]'"):
        parse(text)
