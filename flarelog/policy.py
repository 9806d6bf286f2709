"""Authorization: which identity may do which action, by its roles.

An action is refused unless a grant allows it, and grants add up. A decision depends on names alone, never on the
store's contents, so that a refusal does not reveal whether a stream exists. The CA vouches for a certificate's names;
the names in a payload are only a request.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from flarelog.errors import InvalidName, InvalidOption, NotAllowed
from flarelog.globs import check, whole
from flarelog.model import Action
from flarelog.names import site_name
from flarelog.text import legible, quoted
from flarelog.values import frozen

MAX_PATTERN = 256  # characters
NVFLARE_ADMINS = ("project_admin", "org_admin", "lead", "member")
"""The unstructuredName values that NVFlare writes into the certificates of its admin kits and no other (NVFlare 2.9.0,
lighter/impl/cert.py).
"""

ADMIN_KIT = "this NVFlare admin kit reads the jobs that its admin sees in NVFlare, at NVFlare's own server"

_RUN_PATTERN = re.compile(r"[A-Za-z0-9._\-*?!\[\]]+")


class Role(enum.Enum):
    SITE = "site"  # pushes the streams of its own site, and asks where they end
    READER = "reader"
    OPERATOR = "operator"


_MAY = {
    Role.SITE: {Action.PUSH, Action.LIST, Action.LIST_RUNS, Action.GET_RUN, Action.TIMELINE},
    Role.READER: {
        *(Action.READ, Action.FINDINGS, Action.LIST, Action.LIST_RUNS, Action.GET_RUN, Action.TIMELINE),
    },
    # An operator who removes runs must see their names, sizes and ages; no log bytes come with those.
    Role.OPERATOR: {Action.START_RUN, Action.END_RUN, Action.DELETE, Action.LIST_RUNS, Action.GET_RUN},
}
READS = frozenset(_MAY[Role.READER])
_NEEDED = {
    Action.PUSH: Role.SITE,
    Action.START_RUN: Role.OPERATOR,
    Action.END_RUN: Role.OPERATOR,
    Action.DELETE: Role.OPERATOR,
}  # the role that a refusal names; reader for all other actions


@frozen
class Identity:
    """The caller's identity, from its certificate, its token or neither."""

    how: Literal["certificate", "token", "none"] = "none"
    common_name: str = ""  # also empty if a certificate has several
    sans: tuple[str, ...] = ()  # DNS names, e-mail addresses and URIs; an IP address is a place, not a name
    organizational_units: tuple[str, ...] = ()
    nvflare_role: str = ""  # the subject's unstructuredName
    token: str = ""  # the token's id
    token_name: str = ""
    role: Role | None = None  # a token's own; the policy gives a certificate its roles
    runs: tuple[str, ...] = ("*",)  # a token's own
    dns_names: tuple[str, ...] = ()  # the SANs that can name a site
    fingerprint: str = ""  # SHA-256 of the certificate, hexadecimal

    def __str__(self) -> str:
        if self.how == "token":
            return f"token {self.token} ({self.token_name})"
        if self.how == "certificate":
            return f"certificate {quoted(self.common_name or ', '.join(self.sans))}"
        return "nobody"


NOBODY = Identity()


@frozen
class Grant:
    """A role for identities that match every selector given; one pattern of a selector is enough."""

    role: Role
    runs: tuple[str, ...] = ("*",)
    identity: tuple[str, ...] = ()  # the common name or a SAN
    cn: tuple[str, ...] = ()
    san: tuple[str, ...] = ()
    ou: tuple[str, ...] = ()
    nvflare_role: tuple[str, ...] = ()

    def matches(self, identity: Identity) -> bool:
        said = (
            (self.identity, (identity.common_name, *identity.sans)),
            (self.cn, (identity.common_name,)),
            (self.san, identity.sans),
            (self.ou, identity.organizational_units),
            (self.nvflare_role, (identity.nvflare_role,)),
        )
        asked = [_any_of(patterns, filter(None, names)) for patterns, names in said if patterns]
        return bool(asked) and all(asked)


@dataclass(frozen=True, slots=True)
class Policy:
    """Which identities have which roles.

    *defaults*: the rules without a policy file: a certificate pushes as the site of its own name and reads nothing; one
    with OU=reader reads all runs, one with OU=operator begins, ends and removes them, and neither pushes; one of an
    NVFlare admin kit does none of this, because only NVFlare's server knows the jobs that the admin may see. Tokens
    bring their role.
    """

    grants: tuple[Grant, ...] = ()
    defaults: bool = True
    unguarded: bool = False  # callers are not authenticated: loopback, the POC, --insecure

    def allows(self, identity: Identity, action: Action, *, run: str | None = None, site: str | None = None) -> None:
        """Return if *identity* may do *action*; to be called before the store is read.

        A list without a run, or without a site, is allowed if *identity* may see any of it; the caller then checks each
        entry with ``permits``, with run and site.

        Raises:
            NotAllowed: the policy refuses. The sentence is the same whether or not there is such a run or stream.
            ValueError: the caller left out the run, or the site of a push or a read.
        """
        if action in (Action.LIST, Action.LIST_RUNS):
            run, site = run or None, site or None  # on the wire an empty name stands for all
        elif run is None:
            raise ValueError(f"{action} needs the run")
        if action in (Action.TIMELINE, Action.FINDINGS):
            site = site or None
        if action in (Action.PUSH, Action.READ) and site is None:
            raise ValueError(f"{action} needs the site")
        if self.unguarded:
            return
        if identity.how == "none":
            raise NotAllowed(
                "the receiver cannot identify the caller: give a certificate (--tls-cert and"
                " --tls-key) or a token (--token-file)"
            )
        if action is Action.PUSH and (own := site_of(identity)) != site:
            other = f"give the certificate of {quoted(site or '')}"
            if all(role is not Role.SITE for role, _ in self._roles(identity)):
                raise NotAllowed(f"{identity} belongs to no site and may not push as {quoted(site or '')}: {other}")
            raise NotAllowed(
                f"{identity} is of site {own} and may not push as {quoted(site or '')}: name the site {own}, or {other}"
            )
        for role, runs in self._roles(identity):
            if action not in _MAY[role] or (run is not None and not _any_of(runs, [run])):
                continue
            if role is not Role.SITE or _is_site(identity, site):
                return
        raise NotAllowed(self._why_not(identity, action, run, site))

    def _why_not(self, identity: Identity, action: Action, run: str | None, site: str | None) -> str:
        asked = f"{action.value} {f'run {quoted(run)}' if run else 'runs'}"
        needed = _NEEDED.get(action, Role.READER).value
        of_others = [runs for role, runs in self._roles(identity) if action in _MAY[role] and role is not Role.SITE]
        if of_others and run is not None:
            runs = ", ".join(pattern for patterns in of_others for pattern in patterns)
            return f"{identity} may not {asked}: its role {needed} covers the runs {runs}; ask for one of those"
        if action in (Action.LIST, Action.TIMELINE) and site is not None and self._is_other_site(identity, site):
            own = site_of(identity)
            return (
                f"{identity} is of site {own}, but the call asks for site {quoted(site)}:"
                f" name the site {own}, or give the certificate of {quoted(site)}"
            )
        if action in READS and is_nvflare_admin(identity):
            return (
                f"{identity} may not {asked}: {ADMIN_KIT}; ask the receiver's administrator for"
                f" a grant of the role {needed} in its policy"
            )
        what = f"{identity} may not {asked}: the role {needed} is required"
        if needed == Role.SITE.value:
            return f"{what}, which a grant in serve --policy gives"
        return (
            f"{what}; at the receiver, flarelog token create NAME --role {needed} makes a token that has it,"
            f" flarelog certs {needed} NAME a certificate, and serve --policy grants it"
        )

    def _is_other_site(self, identity: Identity, site: str) -> bool:
        return any(role is Role.SITE for role, _ in self._roles(identity)) and not _is_site(identity, site)

    def permits(self, identity: Identity, action: Action, *, run: str | None = None, site: str | None = None) -> bool:
        """Whether ``allows`` would return: a filter for lists."""
        try:
            self.allows(identity, action, run=run, site=site)
        except NotAllowed:
            return False
        return True

    def _roles(self, identity: Identity) -> Iterator[tuple[Role, tuple[str, ...]]]:
        if identity.how == "token" and identity.role is not None:
            yield identity.role, identity.runs  # nobody vouches for a token's name: grants do not apply
        if identity.how == "certificate":
            yield from ((grant.role, grant.runs) for grant in self.grants if grant.matches(identity))
            if self.defaults and not is_nvflare_admin(identity):
                of_people = [
                    role for role in (Role.READER, Role.OPERATOR) if role.value in identity.organizational_units
                ]
                yield from ((role, ("*",)) for role in of_people or [Role.SITE])


OPEN = Policy(unguarded=True)


def is_nvflare_admin(identity: Identity) -> bool:
    return identity.how == "certificate" and identity.nvflare_role in NVFLARE_ADMINS


def site_of(identity: Identity) -> str:
    """The site that a certificate names: its DNS SAN, else its common name. Raises NotAllowed.

    Among several DNS SANs, the one that equals the common name. E-mail addresses and URIs name no site.
    """
    if identity.how != "certificate":
        raise NotAllowed(f"{identity} is not a site: a site needs a certificate (--tls-cert and --tls-key)")
    names = identity.dns_names
    if len(names) > 1 and identity.common_name not in names:
        raise NotAllowed(
            f"{identity} has {len(names)} SANs, and none equals its common name: its site cannot be determined"
        )
    name = identity.common_name if identity.common_name in names or not names else names[0]
    try:
        return site_name(name)
    except InvalidName as error:
        raise NotAllowed(f"{identity} is not a site: {error}") from error


def name_of(identity: Identity) -> str:
    """The policy's name for *identity*: the site of its certificate, or else all names in it, never truncated."""
    if identity.how != "certificate":
        return str(identity)
    try:
        return f"certificate {site_of(identity)!r}"
    except NotAllowed:
        names = dict.fromkeys(filter(None, (identity.common_name, *identity.sans)))
        return f"certificate {', '.join(map(repr, names))}"


def key_of(identity: Identity) -> str:
    """A key that differs for any two callers, and fits into a sentence. Two certificates may have one name."""
    return f"{name_of(identity)} (SHA-256 {identity.fingerprint})" if identity.fingerprint else name_of(identity)


def _is_site(identity: Identity, site: str | None) -> bool:
    """Whether *identity* is *site*, or any site at all."""
    try:
        return site_of(identity) == site or site is None
    except NotAllowed:
        return False


# --- the policy file


def parse(text: str, where: str = "the policy") -> Policy:
    """The policy in *text*, a TOML document; each error begins with *where* it is from.

        defaults = true             # keep what holds without a policy; without this line only the grants hold

        [[grant]]
        identity = "admin@*"        # the common name or a SAN; or cn, san, ou, nvflare_role; all given must match
        role = "reader"             # site, reader or operator
        runs = ["job-*"]            # without: all runs

    Raises InvalidOption.
    """
    said = table(text, where, "is no policy", ("defaults", "grant"))
    defaults, grants = said.get("defaults", False), said.get("grant", [])
    if not isinstance(defaults, bool):
        raise InvalidOption(f"{where}: defaults must be true or false")
    if not isinstance(grants, list) or not all(isinstance(grant, dict) for grant in grants):
        raise InvalidOption(f"{where}: each grant must begin with a line [[grant]]")
    return Policy(tuple(_grant(f"{where}, grant {number}", grant) for number, grant in enumerate(grants, 1)), defaults)


_SELECTORS = ("identity", "cn", "san", "ou", "nvflare_role")


def _grant(where: str, said: dict[str, object]) -> Grant:
    _known(where, said, (*_SELECTORS, "role", "runs"))
    roles = [role for role in Role if role.value == said.get("role")]
    if not roles:
        got = f", not {quoted(str(said['role']))}" if "role" in said else ""
        raise InvalidOption(f"{where}: role must be {', '.join(role.value for role in Role)}{got}")
    if not said.keys() & set(_SELECTORS):
        raise InvalidOption(
            f'{where} grants to no caller; add one of {", ".join(_SELECTORS)}, which may be a pattern like "*"'
        )
    named = {key: strings(where, key, said[key]) for key in (*_SELECTORS, "runs") if key in said}
    try:
        check(pattern for patterns in named.values() for pattern in patterns)
    except InvalidOption as error:
        raise InvalidOption(f"{where}: {error}") from error
    run_patterns(named.get("runs", ()), where)
    return Grant(roles[0], **named)


def run_patterns(patterns: Sequence[str], where: str) -> tuple[str, ...]:
    """*patterns*, if they can match the names of runs: ``*``, ``?`` and ``[...]``. Raises InvalidOption."""
    for pattern in patterns:
        if len(pattern) > MAX_PATTERN or not _RUN_PATTERN.fullmatch(pattern):
            raise InvalidOption(
                f"{where}: no run can have the name {quoted(pattern)}; a pattern has letters,"
                " digits, '.', '_', '-' and the wildcards *, ? and [...]"
            )
    return tuple(patterns)


def table(text: str, where: str, wrong: str, keys: Sequence[str]) -> dict[str, object]:
    """Parse *text* as a TOML table with *keys* alone; errors begin with *where*, and *wrong* describes deep nesting.

    Raises InvalidOption.
    """
    import tomllib  # the import takes 5 ms, and only callers with such a file pay for it

    try:
        said = tomllib.loads(text)
    except ValueError as error:  # also for numbers that are too long for int()
        raise InvalidOption(f"{where} is not valid TOML: {legible(str(error), 200)}") from error
    except RecursionError as error:
        raise InvalidOption(f"{where} {wrong}: it is nested too deeply") from error
    _known(where, said, keys)
    return said


def _known(where: str, said: Mapping[str, object], keys: Sequence[str]) -> None:
    for key in said:
        if key not in keys:
            raise InvalidOption(f"{where}: the key {quoted(key)} is unknown; known are {', '.join(keys)}")


def strings(where: str, key: str, value: object) -> tuple[str, ...]:
    values = value if isinstance(value, list) else [value]
    for each in values:
        if not isinstance(each, str) or not each or len(each) > MAX_PATTERN:
            raise InvalidOption(
                f"{where}: {key} must be a name or a pattern of at most {MAX_PATTERN} characters, or a list of them"
            )
    if not values:
        raise InvalidOption(f"{where}: {key} is an empty list, which matches nothing; leave it out, or add a name")
    return tuple(values)


def _any_of(patterns: Iterable[str], names: Iterable[str]) -> bool:
    patterns = list(patterns)
    return any(whole(patterns, name) for name in names)
