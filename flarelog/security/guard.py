"""Authentication at both ports, authorization by the policy, throttling of failed logins, and the audit log.

A certificate authenticates a caller at the receiver's main port, a token at the readers' port. There are two ports
because gRPC for Python either requires certificates at a port or ignores them. A secret is compared and forgotten: it
is in no log line and in no error. A refused caller waits for its answer; no other caller waits with it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast
from weakref import WeakValueDictionary

from flarelog.errors import FlarelogError, NotAllowed, NotAuthenticated
from flarelog.model import Action, Removed, StreamId
from flarelog.policy import NOBODY, Identity, Policy, name_of
from flarelog.security.access import PolicyFile
from flarelog.security.connections import Connection, Connections
from flarelog.security.context import Context, Metadata
from flarelog.security.refusals import MINUTE, Arrivals, Repetitions, Waits, address_of
from flarelog.security.tokens import UNKNOWN, Token, Tokens, moment

if TYPE_CHECKING:
    from flarelog.security.certificate import Presented, Trust
    from flarelog.security.tls import ServerCertificates

log = logging.getLogger(__name__)
audit = logging.getLogger("flarelog.audit")

ASK_AGAIN = 5.0  # seconds between two checks of a running call's permission
MAX_WAITING = 1000  # delayed answers; a refusal beyond that is answered at once
MAX_NAMED = 100  # tokens in one line
MOST_ALLOWED = 100  # lines per caller, kind of call and minute, for all runs and sites
CHANGES = frozenset((Action.START_RUN, Action.END_RUN, Action.DELETE))  # each one is logged
MAX_TOLD = 20_000  # connections that are tracked

P = TypeVar("P", bound=tuple[Any, ...])


class TokenCall:
    """The context of a call at the readers' port: gRPC's own, and the token's identity."""

    def __init__(self, context: Context, identity: Identity) -> None:
        self._context = context
        self.identity = identity

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


class Guard:
    """Asks the policy about every call, and writes the audit log. For one event loop."""

    def __init__(self, policy: Policy | PolicyFile, tokens: Tokens | None = None, *, tells: bool = True) -> None:
        """*tells*: log which tokens exist, are created and revoked; one of several processes is enough."""
        self._policy = policy
        self.tokens = tokens
        self._tells = tells
        self._waits = Waits()
        self._waiting = 0
        self._refusals = Repetitions(("anybody", "", "anywhere", "ANY"))  # identity, fingerprint, address, action
        self._allowed = Repetitions(("anybody", "", "anywhere", "ANY", "", ""))  # the same, run, site
        self._allowances = Repetitions(("anybody", "", "anywhere", "ANY"), MOST_ALLOWED)
        self._arrivals = Arrivals()
        self.certificates: ServerCertificates | None = None  # decides who is trusted at the main port
        self._turns = WeakValueDictionary[str, asyncio.Lock]()  # by fingerprint, while a search runs or waits
        self.connections = Connections(MAX_TOLD)
        self.unwelcome: set[str] = set()  # peers whose connections must end

    @property
    def policy(self) -> Policy:
        """The present policy; the same object until it changes."""
        return self._policy.current if isinstance(self._policy, PolicyFile) else self._policy

    # --- authentication

    async def meet(self, context: Context, action: Action | None) -> Context:
        """Authenticate a call at the main port; *action* None: a call that needs no permission, such as a health check.

        Raises NotAllowed or Unavailable if its certificate is no longer trusted, even if it was at the handshake.
        """
        peer = context.peer()
        self._arrivals.called(peer)
        properties = context.auth_context() if self.certificates is not None else {}
        if not properties or self.certificates is None:
            return context
        from flarelog.security.certificate import Presented

        presented = Presented.of(properties)
        if presented is not None:
            trust = self.certificates.trust
            try:
                if not trust.knows(presented):
                    await self._search(trust, presented)
                trust.check(presented, time.time())
            except FlarelogError as error:
                self._refused({**_what(NOBODY, action, peer), **_shown(presented)}, str(error))
                self.unwelcome.add(peer)
                raise
            self.connections.called(peer, presented, time.monotonic())
        return context

    async def _search(self, trust: Trust, presented: Presented) -> None:
        """Let *trust* search for a chain in a thread. The searches for one certificate take turns, so that no peer
        occupies the threads, however many chains it presents.
        """
        async with self._turns.setdefault(presented.fingerprint(), asyncio.Lock()):
            await asyncio.to_thread(trust.search, presented)

    def connection_of(self, context: Context) -> Connection | None:
        """The connection of a call that ``meet`` accepted; None if callers show no certificates."""
        passed = getattr(context, "connection", None)
        return passed if isinstance(passed, Connection) else self.connections.get(context.peer())

    def ended(self, presented: Presented, peer: str, why: FlarelogError) -> None:
        audit.warning("ended %s", json.dumps({**_shown(presented), "peer": peer, "why": str(why)}))

    async def meet_token(self, context: Context, action: Action | None) -> Context:
        """Authenticate a call at the readers' port.

        Raises:
            NotAuthenticated: its token is not valid; raised after a delay that grows with each failure of its address.
        """
        self._arrivals.called(context.peer())
        if action is None:
            return context
        try:
            secret = bearer(context.invocation_metadata())
            if not secret or self.tokens is None:
                raise NotAuthenticated(UNKNOWN)
            return cast(Context, TokenCall(context, self.tokens.identify(secret, time.time())))
        except NotAuthenticated as error:
            why = str(error)
        failures, wait = self._waits.failed(address_of(context.peer()), time.monotonic())
        self._refused(_what(NOBODY, action, context.peer()), why, failures=failures)
        if self._waiting < MAX_WAITING:
            self._waiting += 1
            try:
                await asyncio.sleep(wait)
            finally:
                self._waiting -= 1
        raise NotAuthenticated(why)

    # --- authorization

    def asks(self, context: Context, action: Action, run: str | None = None, site: str | None = None) -> Identity:
        """The caller's identity, if it may do *action*. Writes an audit line, unless the policy is unguarded.

        Raises:
            NotAllowed: the policy refuses.
        """
        policy = self.policy
        if policy.unguarded:
            return NOBODY
        identity = identity_of(context)
        what = _what(identity, action, context.peer(), run, site)
        try:
            policy.allows(identity, action, run=run, site=site)
        except NotAllowed as error:
            self._refused(what, str(error))
            raise
        if action in CHANGES or self._is_news(what, time.monotonic()):
            audit.info("allowed %s", json.dumps(what))
        return identity

    def _is_news(self, what: dict[str, object], now: float) -> bool:
        """Whether to log the allowed call *what*: a caller's first call of a kind is logged, others are counted."""
        caller = _caller(what)
        run, site = str(what["run"] or ""), str(what["site"] or "")
        return self._allowed.says((*caller, run, site), now) and self._allowances.says(caller, now)

    def still(self, identity: Identity, action: Action, peer: str, run: str, site: str) -> None:
        """Check the permission of a running call again.

        Raises:
            NotAllowed: the policy now refuses; NotAuthenticated if the token is no longer valid.
        """
        policy = self.policy
        if policy.unguarded:
            return
        try:
            if identity.how == "token" and (self.tokens is None or not self.tokens.holds(identity, time.time())):
                raise NotAuthenticated(f"{identity} was revoked or changed, or has expired")
            policy.allows(identity, action, run=run, site=site)
        except NotAllowed as error:
            audit.warning("ended %s", json.dumps({**_what(identity, action, peer, run, site), "why": str(error)}))
            raise

    async def reads(
        self,
        identity: Identity,
        peer: str,
        stream: StreamId,
        start: int,
        read: Callable[[int], AsyncGenerator[P, None]],
    ) -> AsyncGenerator[P, None]:
        """Yield the pieces that *read* gives of *stream* from *start*, while *identity* is allowed: an offset, bytes,
        and more. Raises NotAllowed.

        *read* is restarted, at the next offset, after ASK_AGAIN seconds without a piece.
        """
        clock = asyncio.get_running_loop().time
        pieces, due = read(start), clock() + ASK_AGAIN
        try:
            while True:
                piece = None
                try:
                    # The timeout cancels only a wait for bytes, never a send.
                    async with asyncio.timeout_at(due):
                        piece = await anext(pieces)
                except StopAsyncIteration:
                    return
                except TimeoutError:
                    pieces = read(start)
                if clock() >= due:
                    self.still(identity, Action.READ, peer, stream.run, stream.site)
                    due = clock() + ASK_AGAIN
                if piece is not None:
                    start = piece[0] + len(piece[1])
                    yield piece
        finally:
            await pieces.aclose()

    def removed(self, who: Identity | str, peer: str, run: str, site: str, found: Removed) -> None:
        """Log that *who* removed *run*, or *site* in it, even under an unguarded policy."""
        what = _what(who if isinstance(who, Identity) else NOBODY, Action.DELETE, peer, run, site or None)
        if isinstance(who, str):
            what["identity"] = who
        audit.info("removed %s", json.dumps({**what, "streams": found.streams, "bytes": found.size}))

    # --- the log

    def _refused(self, what: dict[str, object], why: str, **more: object) -> None:
        if self._refusals.says(_caller(what), time.monotonic()):
            audit.warning("refused %s", json.dumps({**what, "why": why, **more}))

    def look(self, connections: int, at_once: bool = False) -> None:
        """Write the lines that are due; called once a second, and with *at_once* when the receiver stops.

        *connections*: the number of TLS connections since the start.
        """
        now = time.monotonic()
        for refused, more in self._refusals.over(now, at_once):
            audit.warning("refused %s", json.dumps(_more(*refused, more)))
        for (*caller, run, site), more in self._allowed.over(now, at_once):
            identity, fingerprint, address, action = caller
            said = _more(identity, fingerprint, address, action, more)
            audit.info("allowed %s", json.dumps({**said, "run": run or None, "site": site or None}))
        for allowed, more in self._allowances.over(now, at_once):
            audit.info("allowed %s", json.dumps(_more(*allowed, more)))
        lost = self._arrivals.lost(connections, now)
        if lost:
            log.warning(
                "%d connections closed without a call: the peer has no certificate of the CA"
                " or an expired one, does not trust the receiver's certificate, or only"
                " probes the port; the peer's own message tells why, and GRPC_VERBOSITY=info"
                " logs gRPC's reasons here",
                lost,
            )
        if self.tokens is not None and self._tells:
            made, gone, by = self.tokens.changes()
            for event, tokens in (("made", made), ("revoked", gone)):
                for token in tokens:
                    audit.info("token %s %s", event, json.dumps({**_token(token), "by": by}))

    def begins(self) -> None:
        """Log the existing tokens; later changes are logged as they happen."""
        if self.tokens is not None and self._tells:
            there = self.tokens.changes()[0]
            names = [token.id for token in there[:MAX_NAMED]]
            audit.info("tokens %s", json.dumps({"count": len(there), "tokens": names}))

    def reread(self) -> bool:
        """Reread the policy and the tokens even if they seem unchanged, and log the result; False: no files."""
        if isinstance(self._policy, PolicyFile):
            self._policy.reread()
        if self.tokens is not None:
            log.info("the tokens %s were read again: %d", self.tokens.path, self.tokens.reread())
        return isinstance(self._policy, PolicyFile) or self.tokens is not None


def identity_of(context: Context) -> Identity:
    """The caller's identity: its token's, or its certificate's."""
    if isinstance(context, TokenCall):
        return context.identity
    properties = context.auth_context()
    if not properties:
        return NOBODY
    from flarelog.security.certificate import Presented  # needs a package that only receivers with TLS have

    presented = Presented.of(properties)
    return presented.identity() if presented is not None else NOBODY


def bearer(metadata: Metadata | None) -> str:
    """The secret in the one ``authorization: Bearer SECRET`` of a call's *metadata*; empty if there is none."""
    said = [value for key, value in metadata or () if key.lower() == "authorization"]
    if len(said) != 1 or not isinstance(said[0], str):
        return ""
    scheme, _, secret = said[0].partition(" ")
    return secret.strip(" ") if scheme.lower() == "bearer" else ""


def _who(identity: Identity) -> dict[str, str]:
    """The fields of an audit line for *identity*."""
    said = {"identity": name_of(identity)}
    return {**said, "fingerprint": identity.fingerprint} if identity.fingerprint else said


def _shown(presented: Presented) -> dict[str, str]:
    """The fields of an audit line for any certificate, even an unreadable one."""
    try:
        return _who(presented.identity())
    except NotAllowed:
        return {"identity": "a certificate without a name", "fingerprint": presented.fingerprint()}


def _what(
    identity: Identity, action: Action | None, peer: str, run: str | None = None, site: str | None = None
) -> dict[str, object]:
    named = action.name if action is not None else "HEALTH"
    return {"action": named, "run": run, "site": site, **_who(identity), "peer": peer}


def _caller(what: dict[str, object]) -> tuple[str, str, str, str]:
    """The caller and the action of an audit line: the key by which calls are counted together."""
    address = address_of(str(what["peer"]))
    return str(what["identity"]), str(what.get("fingerprint", "")), address, str(what["action"])


def _more(identity: str, fingerprint: str, address: str, action: str, more: int) -> dict[str, object]:
    who = {"identity": identity, **({"fingerprint": fingerprint} if fingerprint else {})}
    return {"action": action, **who, "address": address, "more": more, "seconds": MINUTE}


def _token(token: Token) -> dict[str, object]:
    return {
        "token": token.id,
        "name": token.name,
        "role": token.role.value,
        "runs": list(token.runs),
        "expires": moment(token.expires),
    }
