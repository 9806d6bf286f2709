"""Every exception that flarelog raises on purpose.

An error is one sentence: what is wrong, where (which stream, which byte), what to do. ``retry_safe`` says whether the
same call may be made again without harm; ``exit_code`` is what a command ends with when nobody caught the error.
"""

from __future__ import annotations

from flarelog.text import legible

OK, FAILED, USAGE, NOT_FOUND, CANNOT_CONNECT, NOT_ALLOWED, GAPS, TIMEOUT, CONFIGURATION = 0, 1, 2, 3, 4, 5, 6, 7, 78


class FlarelogError(Exception):
    """The base of all of them. A *sentence* may name files, whatever they are called: it is sent and printed."""

    retry_safe = False
    exit_code = FAILED

    def __init__(self, sentence: str = "") -> None:
        super().__init__(legible(sentence))


class InvalidName(FlarelogError, ValueError):
    """A run, a site or a log whose name could not be mapped one to one to a path."""

    exit_code = USAGE


class InvalidOption(FlarelogError, ValueError):
    """An option whose value makes no sense, alone or beside another."""

    exit_code = USAGE


class InvalidFile(InvalidOption):
    """A file that an option names and that cannot be used: a certificate, a policy, a token. The command line is right,
    and another start would not mend the file.
    """

    exit_code = CONFIGURATION


class InvalidGlob(InvalidOption):
    """A pattern that cannot be read, on a command line or in a file."""

    exit_code = CONFIGURATION


class NotFound(FlarelogError):
    """A run, a stream or a directory that is not there."""

    exit_code = NOT_FOUND


class NothingToSend(NotFound):
    """No log was found: nothing is there, or the patterns leave out all that is."""


class NotAllowed(FlarelogError):
    """The other end, or the file system, refuses this."""

    exit_code = NOT_ALLOWED


class NotAuthenticated(NotAllowed):
    """The caller is unknown: its token is missing, unknown, revoked or expired."""


class InUse(FlarelogError):
    """A run, or a site of one, of which streams are open: it is not removed under those who send it."""

    exit_code = NOT_ALLOWED


class NoConsent(NotAllowed):
    """The site's administrator does not let its logs go."""


class ConsentChanged(FlarelogError):
    """What the site's administrator lets go is not what it was when the sidecar began."""

    retry_safe = True


class CannotConnect(FlarelogError):
    """Nobody answers at the receiver's address."""

    retry_safe = True
    exit_code = CANNOT_CONNECT


class NotAReceiver(CannotConnect):
    """A program answers at the receiver's address that is none: to ask it again is no use."""

    retry_safe = False


class ConnectionAged(CannotConnect):
    """The receiver ended a connection that had come of age, as it does with each: another one goes on where it was."""


class NotInstalled(FlarelogError):
    """A package of an extra that this needs is missing."""

    exit_code = CONFIGURATION


class CannotListen(FlarelogError):
    """The receiver's own address cannot be had."""


class TimedOut(FlarelogError):
    """A bounded wait came to its end."""

    retry_safe = True
    exit_code = TIMEOUT


# --- the end of a stream, as its producer sees it


class StreamEnded(FlarelogError):
    """A stream ended before its receipt, at an offset from which it can be resumed."""

    def __init__(self, sentence: str, *, offset: int) -> None:
        super().__init__(sentence)
        self.offset = offset


class ReceiverNotReady(StreamEnded):
    """More misses than are allowed before the first OK: the run was never registered at the receiver."""

    retry_safe = True
    exit_code = TIMEOUT


class StreamRejected(StreamEnded):
    """A reply that the present state does not allow, or one that refuses the stream for good."""


class StreamRefused(StreamRejected):
    """The receiver refuses the stream for good, and says why: its run was removed, say. Started again by itself, its
    producer would only be refused again, or bring back what somebody removed.
    """

    exit_code = NOT_ALLOWED


class StreamFenced(StreamEnded):
    """A newer producer has taken the stream over. To be started again would only fence that one in its turn."""

    exit_code = NOT_ALLOWED


# --- the store contract


class StoreError(FlarelogError):
    """The store could not do it; ``committed`` is what it holds of the stream."""

    def __init__(self, sentence: str, *, committed: int = 0) -> None:
        super().__init__(sentence)
        self.committed = committed


class Hole(StoreError):
    """Bytes or a mark beyond the end of what the store holds."""

    retry_safe = True


class Fenced(StoreError):
    """A newer appender has the stream."""


class Full(StoreError):
    """No space, inode, descriptor or quota is left; what is held stays held."""

    retry_safe = True


class Unavailable(StoreError):
    """The outcome is unknown: ask ``last_offset`` before going on."""

    retry_safe = True


class Unreadable(Unavailable):
    """What is held of a stream can no longer be read, and another try does not mend that: its file is gone, or ends
    before what its journal vouches for.
    """

    retry_safe = False


class StoreLocked(StoreError):
    """Another receiver has this store; *holder* is its process, 0 if that is not known."""

    def __init__(self, sentence: str, *, holder: int = 0) -> None:
        super().__init__(sentence)
        self.holder = holder
