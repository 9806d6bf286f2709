"""Every exception that flarelog raises on purpose.

An error is one sentence: what is wrong, where (which stream, which byte), what to do. ``retry_safe`` says whether the
same call may be repeated without harm; ``exit_code`` is the exit code of a command that fails with the error.
"""

from __future__ import annotations

from flarelog.text import legible

OK, FAILED, USAGE, NOT_FOUND, CANNOT_CONNECT, NOT_ALLOWED, GAPS, TIMEOUT, CONFIGURATION = 0, 1, 2, 3, 4, 5, 6, 7, 78


class FlarelogError(Exception):
    """The base class. A *sentence* may contain any file name: it is escaped, because it is sent and printed."""

    retry_safe = False
    exit_code = FAILED

    def __init__(self, sentence: str = "") -> None:
        super().__init__(legible(sentence))


class InvalidName(FlarelogError, ValueError):
    """A run, a site or a log whose name does not map one to one to a path."""

    exit_code = USAGE


class NameTaken(InvalidName):
    """A log whose name the store cannot hold beside those of other logs; see ``names.beside``."""


class InvalidOption(FlarelogError, ValueError):
    """An option whose value is invalid, alone or beside another."""

    exit_code = USAGE


class InvalidFile(InvalidOption):
    """An option's file that is unusable: a certificate, a policy, a token. The command line is right, and
    restarting does not help.
    """

    exit_code = CONFIGURATION


class InvalidGlob(InvalidOption):
    """An invalid pattern, on a command line or in a file."""

    exit_code = CONFIGURATION


class NotFound(FlarelogError):
    """A run, a stream or a directory that does not exist. *instead*: the run that the user certainly meant."""

    exit_code = NOT_FOUND
    instead = ""


class NothingToSend(NotFound):
    """No log was found: the directory has none, or the patterns exclude all of them."""


class NotAllowed(FlarelogError):
    """The other end, or the file system, refuses the operation."""

    exit_code = NOT_ALLOWED


class NotAuthenticated(NotAllowed):
    """The caller is unknown: its token is missing, unknown, revoked or expired."""


class InUse(FlarelogError):
    """A run or a site with open streams: it is not removed while producers send it."""

    exit_code = NOT_ALLOWED


class NoConsent(NotAllowed):
    """The site's administrator does not allow its logs to leave."""


class ConsentChanged(FlarelogError):
    """The site's consent has changed since the sidecar began."""

    retry_safe = True


class CannotConnect(FlarelogError):
    """The receiver's address does not answer."""

    retry_safe = True
    exit_code = CANNOT_CONNECT


class NotAReceiver(CannotConnect):
    """Another program answers at the receiver's address; a retry would not help."""

    retry_safe = False


class NoAnswer(CannotConnect):
    """The receiver has stopped answering, although its connection is open."""


class ConnectionAged(CannotConnect):
    """The receiver closed a connection that reached its maximum age, as it does with each: a new one resumes."""


class NotInstalled(FlarelogError):
    """A package of an extra is missing."""

    exit_code = CONFIGURATION


class CannotListen(FlarelogError):
    """The receiver cannot bind its own address."""


class TimedOut(FlarelogError):
    """A bounded wait timed out."""

    retry_safe = True
    exit_code = TIMEOUT


# --- the end of a stream, as the producer sees it


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
    """The receiver refuses the stream for good and gives the reason, such as a removed run. A producer that restarts
    itself would be refused again, or would bring the removed run back.
    """

    exit_code = NOT_ALLOWED


class StreamFenced(StreamEnded):
    """A newer producer has taken the stream over. A restart would fence that producer in its turn."""

    exit_code = NOT_ALLOWED


class SourceFailed(FlarelogError):
    """The files of a log cannot be read: this process sends no more of it."""


class SourceAway(FlarelogError):
    """The server from which a log is read did not answer: the log may have later bytes, and gets no receipt."""

    retry_safe = True
    exit_code = TIMEOUT


class GoesOn(FlarelogError):
    """This process ends before the log's writer: what was read is stored, and the next process goes on without a
    receipt in between. It is no failure.
    """

    retry_safe = True
    exit_code = OK


# --- the store contract


class StoreError(FlarelogError):
    """The store's operation failed; ``committed`` is the offset that it holds."""

    def __init__(self, sentence: str, *, committed: int = 0) -> None:
        super().__init__(sentence)
        self.committed = committed


class Hole(StoreError):
    """Bytes or a mark beyond the end of what the store holds."""

    retry_safe = True


class Fenced(StoreError):
    """A newer appender has the stream."""


class Moved(Fenced):
    """Another receiver of the same store has the stream, for the same producer or at its request: this end is left, and
    the producer opens the stream again wherever it can.
    """

    retry_safe = True


TAKEN_OVER = "a newer sidecar has this log"  # the sentence of Fenced where a user reads it


class Full(StoreError):
    """No space, inode, descriptor or quota is left; the committed bytes stay."""

    retry_safe = True


class Unavailable(StoreError):
    """The outcome is unknown: ask ``Reader.info`` before going on."""

    retry_safe = True


class Unreadable(Unavailable):
    """Committed bytes of a stream can no longer be read: its file is gone, or ends before the length that its journal
    vouches for. A retry does not mend that.
    """

    retry_safe = False


class StoreLocked(StoreError):
    """Another receiver has this store; *holder* is its process id, 0 if unknown."""

    def __init__(self, sentence: str, *, holder: int = 0) -> None:
        super().__init__(sentence)
        self.holder = holder
