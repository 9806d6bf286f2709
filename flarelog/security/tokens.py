"""Bearer tokens, for readers and operators without a certificate.

A secret is shown once and never stored; its SHA-256 is. A secret of 256 random bits cannot be guessed from its hash, so
the slow, salted hash that a password needs would only slow down each call. A secret is compared with every stored
digest, each in constant time. A change replaces the whole file, which is reread after a change: a revoked token is
refused at the next call.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import fcntl
import hashlib
import hmac
import json
import logging
import os
import re
import secrets
import stat
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from flarelog import globs
from flarelog.contents import contents
from flarelog.errors import InvalidFile, InvalidOption, NotAllowed, NotAuthenticated, NotFound
from flarelog.policy import Identity, Role, run_patterns
from flarelog.replace import make_directory, replace_file
from flarelog.text import legible
from flarelog.values import frozen
from flarelog.watched import Watched

log = logging.getLogger(__name__)

PAGES = "serve--web"  # the name of the token that a receiver creates for its own page, and revokes

VERSION = 1
EXPIRES = "90d"
MAX_LIFETIME = 3650 * 86400  # seconds; use a certificate for longer
MAX_TOKENS = 10_000  # all are compared at each call
MAX_FILE = 16 << 20  # bytes
MAX_SECRET = 4096  # bytes of a token file; a token of flarelog's has 52
PREFIX = "flarelog_"  # by which a redaction, or a scanner of repositories, recognizes a token

UNKNOWN = (
    "the token is missing, unknown or revoked: give --token-file, and ask the receiver's administrator for a token"
    " (flarelog token create). This port takes tokens; the receiver's other port takes certificates"
)

_NAME = re.compile(r"[A-Za-z0-9._@+-]{1,128}")
_ID = re.compile(r"[0-9a-f]{8}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_SECRET = re.compile(r"[!-~]+")  # characters that a header may hold
_LATEST = 253_402_300_799  # the last second of the year 9999


@frozen
class Token:
    """A stored token, without its secret. Times are in whole seconds since 1970, UTC."""

    id: str
    name: str
    role: Role
    runs: tuple[str, ...]
    created: int
    expires: int
    sha256: str

    def state(self, now: float) -> str:
        return "valid" if now < self.expires else "expired"

    def identity(self) -> Identity:
        return Identity(how="token", token=self.id, token_name=self.name, role=self.role, runs=self.runs)

    def record(self, now: float) -> dict[str, object]:
        """The JSON of ``flarelog token list --json``: everything but the digest."""
        return {
            "id": self.id,
            "name": self.name,
            "role": self.role.value,
            "runs": list(self.runs),
            "created": moment(self.created),
            "expires": moment(self.expires),
            "state": self.state(now),
        }


def tokens_path(store: str | os.PathLike[str]) -> Path:
    """The tokens' file of the receiver of *store*: no run can have its name."""
    return Path(store) / ".tokens.json"


class Tokens:
    """The tokens in the file at *path*; none if the file does not exist.

    The file is trusted only if it belongs to this process's user or to root. *administered*: root also trusts the
    owner of the directory, as whom the receiver runs.
    """

    def __init__(self, path: str | os.PathLike[str], *, administered: bool = False) -> None:
        self.path = Path(path)
        self._administered = administered
        self._told: tuple[Token, ...] = ()
        self._changed_by = ""
        self._believed = True
        self._lost = False  # the file was unusable since the last call of changes

    def identify(self, secret: str, now: float) -> Identity:
        """The identity of *secret* at *now* (seconds since 1970). An untrusted file invalidates all tokens, and is
        logged once.

        Raises NotAuthenticated if the secret is unknown, revoked or expired: only the owner of an expired token knows
        the secret, and so learns its end.
        """
        digest = _digest(secret)
        found = [token for token in self._file.look() if hmac.compare_digest(token.sha256, digest)]
        if not found:
            raise NotAuthenticated(UNKNOWN)
        identity, ends = found[-1].identity(), found[-1].expires
        if now >= ends:
            raise NotAuthenticated(
                f"{identity} expired on {moment(ends)}: ask the receiver's administrator for a new one"
            )
        return identity

    def holds(self, identity: Identity, now: float) -> bool:
        """Whether the token of *identity* is still valid; for long calls."""
        return any(
            token.id == identity.token and now < token.expires and token.identity() == identity
            for token in self._file.look()
        )

    def all(self) -> list[Token]:
        """Every token, the oldest first. Raises InvalidOption or NotAllowed for an untrusted or invalid file."""
        return sorted(self._read(), key=lambda token: (token.created, token.id))

    def create(
        self, name: str, role: Role = Role.READER, runs: Sequence[str] = ("*",), *, lifetime: int, now: float
    ) -> tuple[Token, str]:
        """Create a token, valid for *lifetime* seconds; returns it and its secret, which is never shown again.

        Raises InvalidOption, NotAllowed.
        """
        if not _NAME.fullmatch(name):
            raise InvalidOption(
                f"a token cannot be called {name[:80]!r}; use at most 128 of the letters a-z and"
                " A-Z, digits, '.', '_', '-', '+' and '@'"
            )
        if role is Role.SITE:
            raise InvalidOption("a token's role must be reader or operator; a site needs a certificate")
        if not runs:
            raise InvalidOption("a token needs runs: name some, or '*'")
        if not 0 < lifetime <= MAX_LIFETIME:
            raise InvalidOption(f"a token must live for one second to {MAX_LIFETIME // 86400} days")
        patterns = run_patterns(runs, "the token's runs")
        globs.check(patterns)
        secret = PREFIX + secrets.token_urlsafe(32)
        with self._changing() as tokens:
            taken = {token.id for token in tokens}
            if len(taken) >= MAX_TOKENS:
                raise InvalidOption(f"there are {len(taken)} tokens in {self.path}; revoke some first")
            while (fresh := secrets.token_hex(4)) in taken:
                pass
            token = Token(fresh, name, role, patterns, int(now), int(now) + lifetime, _digest(secret))
            tokens.append(token)
        return token, secret

    def revoke(self, id: str) -> Token:
        """Remove the token *id*. Raises NotFound, InvalidOption, NotAllowed."""
        with self._changing() as tokens:
            for token in tokens:
                if token.id == id:
                    tokens.remove(token)
                    return token
            raise NotFound(f"there is no token {id[:80]!r} in {self.path}; flarelog token list shows those that are")

    def changes(self) -> tuple[list[Token], list[Token], str]:
        """(created, revoked, author of the last change) since the previous call; the first call returns all tokens.

        A damaged or missing file revokes nothing; when it comes back, only tokens that are new count as created.
        """
        there = self._file.look()
        if not self._believed:
            self._lost = True
            return [], [], ""
        if self._lost:
            self._lost, self._changed_by = False, "an unknown user: the file was missing or unusable"
            self._told = self._told or there
        told, self._told = self._told, there
        return [t for t in there if t not in told], [t for t in told if t not in there], self._changed_by

    def reread(self) -> int:
        """Reread the file even if it seems unchanged; returns the number of tokens."""
        return len(self._file.look(anyway=True))

    # --- the file

    @cached_property
    def _file(self) -> Watched[tuple[Token, ...]]:
        return Watched((self.path,), self._load, lambda _, __: None)

    def _load(self) -> tuple[Token, ...]:
        """The tokens in the file now; an untrusted file invalidates every token, and is logged."""
        self._believed = True
        try:
            return self._kept()
        except (InvalidOption, NotAllowed) as error:
            self._believed = False
            log.error("all tokens are refused: %s", error)
            return ()

    def _kept(self) -> tuple[Token, ...]:
        if self._told and not self.path.exists():
            raise NotAllowed(f"the tokens {self.path} are missing: restore the file, or create the tokens anew")
        return self._read()

    def _read(self) -> tuple[Token, ...]:
        try:
            # O_NONBLOCK: if the path is a pipe, do not wait for a writer.
            file = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return ()
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise NotAllowed(
                    f"the tokens {self.path} are a symbolic link, which flarelog does not follow:"
                    " put the file itself in its place"
                ) from error
            raise NotAllowed(f"the tokens {self.path} cannot be read: {error.strerror}") from error
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE:
                raise NotAllowed(f"the tokens {self.path} were not written by flarelog")
            if status.st_mode & 0o022:
                raise NotAllowed(f"the tokens {self.path} are writable for others: chmod 600 it, and check for changes")
            if status.st_uid not in self._owners():
                raise NotAllowed(
                    f"the tokens {self.path} belong to user {status.st_uid}, not to the"
                    " receiver's user or root: remove the file, and check who put it there"
                )
            raw = os.read(file, MAX_FILE)
        except OSError as error:
            raise NotAllowed(f"the tokens {self.path} cannot be read: {error.strerror}") from error
        finally:
            os.close(file)
        tokens, self._changed_by = parse(raw, f"the tokens {self.path}")
        return tokens

    def _owners(self) -> set[int]:
        owners = {0, os.geteuid()}
        if self._administered and os.geteuid() == 0:
            owners.add(os.stat(self.path.parent).st_uid)  # ``_write`` gives the file to this owner
        return owners

    @contextlib.contextmanager
    def _changing(self) -> Iterator[list[Token]]:
        """The tokens as a list to change, under a lock; written if the block ends without an error."""
        directory = self.path.parent
        try:
            make_directory(directory)
            held = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise NotAllowed(f"the tokens {self.path} cannot be written: {error.strerror}") from error
        try:
            fcntl.flock(held, fcntl.LOCK_EX)
            tokens = list(self._read())
            yield tokens
            self._write(tokens, held)
        finally:
            os.close(held)

    def _write(self, tokens: Sequence[Token], directory: int) -> None:
        said = [asdict(token) | {"role": token.role.value} for token in tokens]
        who = {"version": VERSION, "changed_by": f"uid {os.getuid()}", "tokens": said}
        body = json.dumps(who, indent=1).encode() + b"\n"
        above = os.fstat(directory)
        # The receiver, which does not run as root, must be able to read a file that root writes.
        owner = (above.st_uid, above.st_gid) if os.geteuid() == 0 and above.st_uid != 0 else None
        try:
            replace_file(self.path.name, body, 0o600, durable=True, dir_fd=directory, owner=owner)
        except OSError as error:
            raise NotAllowed(f"the tokens {self.path} cannot be written: {error.strerror}") from error


def parse(raw: bytes, where: str) -> tuple[tuple[Token, ...], str]:
    """The tokens in a file, and the author of the last change; errors begin with *where*. Raises InvalidOption."""
    try:
        said = json.loads(raw)
        listed = said.get("tokens") if isinstance(said, dict) and said.get("version") == VERSION else None
        if not isinstance(listed, list):
            raise ValueError(f"it is not a token list of version {VERSION}")  # noqa: TRY004  a wrong value, not a call
        tokens = tuple(map(_token, listed))
        if len({token.id for token in tokens}) < len(tokens):
            raise ValueError("two tokens have the same id")
        by = said.get("changed_by")
    except (ValueError, RecursionError) as error:
        raise InvalidFile(
            f"{where} cannot be used: {legible(str(error), 120)}; restore the file, or remove it and create the tokens"
            " anew"
        ) from error
    return tokens, by[:80] if isinstance(by, str) else ""


def _token(said: object) -> Token:
    fields = said if isinstance(said, dict) else {}
    runs = fields.get("runs")
    if not isinstance(runs, list) or not runs or not all(isinstance(run, str) for run in runs):
        raise ValueError("a token's runs are not a list of patterns")
    if fields.get("role") not in (Role.READER.value, Role.OPERATOR.value):
        raise ValueError("a token's role is neither reader nor operator")
    return Token(
        _shaped(fields, "id", _ID),
        _shaped(fields, "name", _NAME),
        Role(fields["role"]),
        run_patterns(runs, "a token's runs"),
        _time(fields, "created"),
        _time(fields, "expires"),
        _shaped(fields, "sha256", _DIGEST),
    )


def _shaped(fields: dict[str, object], key: str, shape: re.Pattern[str]) -> str:
    value = fields.get(key)
    if not isinstance(value, str) or not shape.fullmatch(value):
        raise ValueError(f"a token's {key} is missing or wrong")
    return value


def _time(fields: dict[str, object], key: str) -> int:
    value = fields.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _LATEST:
        raise ValueError(f"a token's time {key} is missing or wrong")
    return value


def moment(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def is_secret(path: str | os.PathLike[str]) -> bool:
    """Whether *path* is a token instead of a file's name; a token must not be printed."""
    return os.fspath(path).startswith(PREFIX) and not os.path.exists(path)


def read_token(path: str | os.PathLike[str]) -> str:
    """The secret in the file at *path* of ``--token-file``, without a trailing newline.

    The file must be private to its owner; root's may be readable for a group, as a mounted secret is. Root itself can
    read another user's file, as in a container, and gets a warning with the owner. A pipe works as well.

    Raises NotAllowed, InvalidOption.
    """
    try:
        status, raw = contents(path, MAX_SECRET)
    except (OSError, ValueError) as error:
        if is_secret(path):
            raise InvalidFile(
                "the name of the token file is a token: write it into a file of mode 600, and name that"
            ) from None
        raise InvalidFile(f"the token file {path} cannot be read: {getattr(error, 'strerror', error)}") from error
    if stat.S_IMODE(status.st_mode) & (0o077 if status.st_uid else 0o037):
        raise NotAllowed(f"other users can open the token file {path}: run chmod 600 {path}")
    if stat.S_ISREG(status.st_mode) and status.st_uid not in (0, os.geteuid()):
        log.warning("the token file %s belongs to user %d, who can read and change it", path, status.st_uid)
    secret = raw.removeprefix(codecs.BOM_UTF8).removesuffix(b"\n").removesuffix(b"\r").decode("latin-1")
    if len(raw) > MAX_SECRET or not _SECRET.fullmatch(secret):
        raise InvalidFile(f"the token file {path} holds no token: write one line, as flarelog token create prints it")
    return secret


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
