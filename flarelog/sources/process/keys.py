"""What is typed at flarelog's own terminal goes to the command's, key by key.

The command's terminal echoes what is typed, and makes signals of keys, so flarelog's own does neither meanwhile. It is
as it was whenever flarelog stops or ends. In the background no key is taken, and the terminal is left alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import select
import signal
import termios

MOST = 4096  # bytes at once
TICK = 0.25  # seconds between two looks in the background, where nobody tells that it is over
_SET_UP = 64  # bytes, of the kernel's termios or more
_TYPED = (
    termios.BRKINT | termios.ICRNL | termios.IGNCR | termios.INLCR | termios.INPCK | termios.ISTRIP | termios.IXON
    | termios.PARMRK
)  # fmt: skip
_OF_LINES = termios.ECHO | termios.ECHONL | termios.ICANON | termios.IEXTEN | termios.ISIG


def can_be_typed() -> bool:
    """Whether stdin is the terminal of this session: of another one's, somebody else takes the keys."""
    with contextlib.suppress(OSError):
        os.tcgetpgrp(0)
        return True
    return False


def in_front() -> bool:
    """Whether the terminal's keys are for this process."""
    with contextlib.suppress(OSError):
        return os.tcgetpgrp(0) == os.getpgrp()
    return False


class Keys:
    """What is typed, and how the terminal was before. The process that gives the keys on may be killed: the latter is
    in memory that is shared with it.
    """

    def __init__(self) -> None:
        self._before = mmap.mmap(-1, mmap.PAGESIZE)  # 1 where the terminal is changed, and how it was

    def give_on(self, leash: int, master: int) -> None:
        """Give on what is typed to the terminal of which *master* is the other end, until *leash* ends."""
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTIN, signal.SIGTTOU})  # an error says the same
        taken_over, typed = False, b""
        while True:
            if not in_front():
                self._before[0] = taken_over = False  # whoever is in front sets it up
                if _ended(leash, TICK):
                    break
                continue
            if not taken_over:
                self._take_over()
                taken_over = True
            waiting = select.poll()
            waiting.register(leash, 0)
            if typed:
                waiting.register(master, select.POLLOUT)
            else:
                waiting.register(0, select.POLLIN)
            ready = [fd for fd, _ in waiting.poll()]
            if leash in ready:
                break
            if typed:
                typed = _type(master, typed)
                continue
            with contextlib.suppress(OSError):
                typed = os.read(0, MOST)
            if not typed and _ended(leash, TICK):  # it went to the background, or is gone
                break
        self.let_be()

    def _take_over(self) -> None:
        with contextlib.suppress(OSError, termios.error):
            now = fcntl.ioctl(0, termios.TCGETS, bytes(_SET_UP))
            if not self._before[0]:
                self._before[1 : 1 + _SET_UP] = now
                self._before[0] = 1
            raw = termios.tcgetattr(0)
            raw[0] &= ~_TYPED
            raw[3] &= ~_OF_LINES
            raw[6][termios.VMIN], raw[6][termios.VTIME] = 1, 0
            termios.tcsetattr(0, termios.TCSANOW, raw)

    def let_be(self) -> None:
        """The terminal is as it was, if it is still this process's: in the background it is somebody else's."""
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
        with contextlib.suppress(OSError):
            if self._before[0] and in_front():
                fcntl.ioctl(0, termios.TCSETS, self._before[1 : 1 + _SET_UP])
        self._before[0] = 0


def _ended(leash: int, seconds: float) -> bool:
    waiting = select.poll()
    waiting.register(leash, 0)
    return bool(waiting.poll(seconds * 1000))


def _type(master: int, typed: bytes) -> bytes:
    """Returns what the command's terminal does not take yet."""
    try:
        return typed[os.write(master, typed) :]
    except BlockingIOError:
        return typed
    except OSError:  # nobody has it open
        return b""
