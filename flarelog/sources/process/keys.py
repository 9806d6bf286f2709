"""The passing on of keys, from flarelog's own terminal to the command's.

The command's terminal echoes the keys and makes signals of some, so flarelog's own does neither meanwhile. Its settings
are restored whenever flarelog stops or ends. In the background no key is read, and the terminal is left alone.
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
TICK = 0.25  # seconds between two looks in the background, because no signal tells of a return to the foreground
_SET_UP = 64  # bytes, at least the size of the kernel's termios
_TYPED = (
    termios.BRKINT | termios.ICRNL | termios.IGNCR | termios.INLCR | termios.INPCK | termios.ISTRIP | termios.IXON
    | termios.PARMRK
)  # fmt: skip
_OF_LINES = termios.ECHO | termios.ECHONL | termios.ICANON | termios.IEXTEN | termios.ISIG


def can_be_typed() -> bool:
    """Whether stdin is the terminal of this session: another session reads the keys of its own terminal."""
    with contextlib.suppress(OSError):
        os.tcgetpgrp(0)
        return True
    return False


def in_front() -> bool:
    """Whether this process is in the terminal's foreground."""
    with contextlib.suppress(OSError):
        return os.tcgetpgrp(0) == os.getpgrp()
    return False


class Keys:
    """The keys, and the saved settings of the terminal. The settings are in shared memory, because the process that
    passes the keys on may be killed.
    """

    def __init__(self) -> None:
        self._before = mmap.mmap(-1, mmap.PAGESIZE)  # 1 where the settings are changed, and the saved settings

    def give_on(self, leash: int, master: int) -> None:
        """Pass the keys on to the terminal with the other end *master*, until *leash* closes."""
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTIN, signal.SIGTTOU})  # a read fails with EIO instead
        taken_over, typed = False, b""
        while True:
            if not in_front():
                self._before[0] = taken_over = False  # the process in the foreground owns the settings
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
            if not typed and _ended(leash, TICK):  # this process is in the background, or the terminal is gone
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
        """Restore the terminal's settings, if this process is in the foreground: otherwise another owns them."""
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
    """Write *typed* to *master*; returns the bytes that the terminal does not take yet."""
    try:
        return typed[os.write(master, typed) :]
    except BlockingIOError:
        return typed
    except OSError:  # no process has the terminal open
        return b""
