"""The guard: the process that the user started. It starts the command, and supervises spooler, copiers and sidecar.

The guard has one thread and one loop, which waits for signals: SIGCHLD, and the signals that it passes on. Each goes to
the command once. A signal from the terminal has already reached a command of the same process group, except for SIGHUP
and SIGCONT, which the kernel sends to the session's leader when the terminal hangs up.

Due work is told by SIGALRM of a timer. ``signal.sigtimedwait`` has a timeout of its own, but a process that is stopped
meanwhile, and goes on after the timeout, gets an undefined signal from it (CPython 3.11 to 3.13).

Somebody may stop a child with SIGSTOP. The spooler is continued at once, because the command waits for it once a pipe
is full, and a copier after the command's end. A sidecar stays stopped, because its user may want nothing to be sent.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import math
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field

from flarelog.exit_marks import Exit
from flarelog.sources.process import command as commands
from flarelog.sources.process.bounding import Bounding, bounding
from flarelog.sources.process.copier import copy
from flarelog.sources.process.evidence import Evidence
from flarelog.sources.process.holders import MOST, holders
from flarelog.sources.process.keys import Keys, can_be_typed, in_front
from flarelog.sources.process.options import RunOptions
from flarelog.sources.process.segments import Segments
from flarelog.sources.process.sending import Sending
from flarelog.sources.process.shared import Shared
from flarelog.sources.process.spooler import Stream, spool
from flarelog.text import some
from flarelog.values import frozen

PIPE = 1 << 20  # bytes
PASSED_ON = (
    *(signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2),
    *(signal.SIGCONT, signal.SIGTSTP, signal.SIGWINCH, signal.SIGALRM),
)
AWAITED = {*PASSED_ON, signal.SIGCHLD}
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
STOPS = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
OF_TERMINALS = (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGHUP)  # sent to whole process groups
GRACE = 1.0  # seconds for the sidecar to end once a signal has cut the waiting short
READER_LEFT = (errno.EPIPE, errno.ECONNRESET)
AGAIN = 0.1  # seconds before a failed spooler is started again
_FAILED = 70


@frozen
class Plan:
    """The command to run, and the fate of its output."""

    command: Sequence[str]
    env: Mapping[str, str]
    options: RunOptions
    root: str | None  # of the logs; None: the command's output is not kept
    logs: Mapping[str, str] = field(default_factory=dict)  # by output (stdout, stderr or both): its log's name
    token: str = ""
    sending: Sending | None = None
    wanted: bool = True  # there is a receiver for the output
    earlier: Callable[[], Iterable[Sending]] = tuple  # of the spools that commands of the same name left


class Guard:
    """The guard of one command. ``run`` returns its wait status, or a shell's where the command cannot be started."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.kept = plan.root is not None  # everything was spooled
        self._mask: set[int] = set()
        self._streams: list[Stream] = []
        self._sending = plan.sending  # None where nothing is kept
        self._ends: dict[str, int] = {}  # by output: the command's write end
        self._written: dict[int, tuple[int, int]] = {}  # by pipe: device and inode of its write end
        self._pid = 0
        self._own_group = False
        self._status: int | None = None
        self._looks: list[Evidence | Bounding] = []  # what is looked at while the command runs
        self._exit: Exit | None = None
        self._spooler = 0
        self._failures = 0  # how often the spooler exited with an error
        self._keys: Keys | None = None  # where a user can type
        self._leash = -1
        self._giver = 0  # the process that passes the keys on
        self._copiers: dict[int, Stream] = {}
        self._hurried = False  # the command has ended, and a signal tells the guard to stop waiting
        self._alarm = math.inf  # when the alarm rings that the caller had set before it started flarelog
        self._stopping = False

    def run(self) -> int:
        _open_outputs()
        self._mask = set(signal.pthread_sigmask(signal.SIG_BLOCK, AWAITED))
        if alarm := signal.getitimer(signal.ITIMER_REAL)[0]:
            self._alarm = time.monotonic() + alarm
        self._open()
        env = dict(self.plan.env)
        out, err = (self._ends.get(name, self._ends.get("both", fd)) for name, fd in (("stdout", 1), ("stderr", 2)))
        terminal = self.plan.options.pty and self.kept
        began = commands.start(self.plan.command, env, out, err, self._mask, terminal, self._keys is not None)
        self._pid, self._own_group = began.pid, began.own_group
        self._evidence = Evidence(time.monotonic())
        if began.trouble is not None:
            why = f"{self.plan.command[0]}: {began.trouble.strerror}{commands.advice(began.trouble, env)}"
            self._not_started(why, began.code, err)
        for end in set(self._ends.values()):
            os.close(end)
        bound = bounding(env, self.plan.root, self.plan.options.spool_max, time.monotonic())
        self._looks = [self._evidence, bound] if bound is not None else [self._evidence]
        if self._streams:
            if self._pid:
                self._name_command()
                self._start_keys()
            self._start_spooler()
            for stream in self._streams if self.plan.options.copy else []:
                self._start_copier(stream)
            if self._sending is not None:
                self._sending.start(self._mask)
        try:
            while self._status is None:
                self._watch(lambda: self._status is not None)
        finally:
            self._end_keys()
        self._wind_up()
        return self._status

    def _not_started(self, why: str, code: int, err: int) -> None:
        """Record the failed start as a command that said *why* and ended with *code*, for the readers of its logs."""
        self._status = code << 8
        self._exit = self._evidence.end(self.plan.token, 0, self._status, None, time.monotonic())
        spooled = self.plan.wanted and err in self._ends.values()
        if spooled:
            os.write(err, f"flarelog: {why}\n".encode(errors="replace"))
        if not spooled or not self.plan.options.copy:
            say(why)
        if not self.plan.wanted:
            self._keep_nothing()

    # --- what is there before the command

    def _open(self) -> None:
        """Make pipes and spool; on failure the command gets the existing outputs."""
        try:
            for output, log in self.plan.logs.items() if self.plan.root is not None else ():
                self._streams.append(self._stream(output, log))
        except OSError as error:
            say(f"{error.filename or self.plan.root}: {error.strerror}; the command's output is not kept")
            self._keep_nothing()

    def _keep_nothing(self) -> None:
        for stream in self._streams:
            stream.segments.discard()
            os.close(stream.pipe)
        for end in set(self._ends.values()):
            os.close(end)
        self._streams, self._ends, self.kept, self._sending, self._keys = [], {}, False, None, None

    def _stream(self, output: str, log: str) -> Stream:
        root, options, shared = self.plan.root or "", self.plan.options, Shared()
        segments = Segments(os.path.join(root, log), options.spool_max, self.plan.token, shared)
        try:
            segments.begin()
        except OSError:
            segments.discard()
            raise
        segments.close()
        if options.pty:
            self._keys = Keys() if can_be_typed() else None
            pipe, end = commands.open_terminal(self.plan.env, alike=self._keys is not None and in_front())
        else:
            pipe, end = os.pipe2(os.O_CLOEXEC)
            for size in (PIPE, PIPE // 4):
                with contextlib.suppress(OSError):
                    fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, size)
                    break
        os.set_blocking(pipe, False)
        self._ends[output] = end
        written = os.fstat(end)
        self._written[pipe] = (written.st_dev, written.st_ino)
        shared.gone = not options.copy
        bell = os.eventfd(0, os.EFD_CLOEXEC)
        return Stream(log, pipe, segments, shared, bell, 2 if output == "stderr" else 1)

    # --- the processes

    def _start_spooler(self) -> None:
        self._spooler = self._fork(lambda: spool(self._streams, keep=self._failures <= 3), keep=())

    def _start_copier(self, stream: Stream) -> None:
        def work() -> None:
            for other in self._streams:
                os.close(other.pipe)
            if self._sending is not None:
                self._sending.let_go()
            copy(stream, self.plan.options.linger)

        self._copiers[self._fork(work, keep=(stream.out,))] = stream

    def _start_keys(self) -> None:
        """Pass the keys on in a child in this process group, because only the foreground group reads a terminal."""
        if (keys := self._keys) is None:
            return
        try:
            told, self._leash = os.pipe2(os.O_CLOEXEC)
        except OSError as error:
            say(f"typed keys do not reach the command: {error.strerror}")
            return

        def work() -> None:
            if self._sending is not None:
                self._sending.let_go()
            keys.give_on(told, self._streams[0].pipe)

        self._giver = self._fork(work, keep=(0,), beside=True)
        os.close(told)

    def _end_keys(self) -> None:
        """Restore the terminal's settings."""
        if self._keys is None:
            return
        if self._giver:
            os.kill(self._giver, signal.SIGKILL)
            os.waitpid(self._giver, 0)
            self._giver = 0
        self._let_keys_go()
        self._keys.let_be()

    def _let_keys_go(self) -> None:
        if self._leash >= 0:
            os.close(self._leash)
            self._leash = -1

    def _fork(self, work: Callable[[], None], keep: Sequence[int], *, beside: bool = False) -> int:
        """Fork a process that does *work* and keeps those of 0, 1 and 2 in *keep*. It gets a session of its own, or
        stays *beside* this one with the signals blocked.
        """
        while True:
            try:
                pid = os.fork()
                break
            except OSError:  # too many processes, or no memory; the output waits in the pipes
                time.sleep(AGAIN)
        if pid:
            return pid
        code = _FAILED
        try:
            self._let_keys_go()
            if not beside:
                self._leave()
            null = os.open(os.devnull, os.O_RDWR)
            for fd in {0, 1, 2} - set(keep):
                os.dup2(null, fd)
            work()
            code = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)

    @staticmethod
    def _leave() -> None:
        """Begin a session, and unblock signals."""
        os.setsid()
        # A pending signal of the terminal was meant for the command, or told that this program has ended; ignoring a
        # signal discards a pending one.
        for number in OF_TERMINALS:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        for number in OF_TERMINALS:
            signal.signal(number, signal.SIG_DFL)

    def _reap(self) -> None:
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if os.WIFSTOPPED(status):
                self._stopped(pid, os.WSTOPSIG(status))
            elif os.WIFCONTINUED(status):
                if self._sending is not None:
                    self._sending.continued(pid)
            elif pid == self._pid:
                self._status = status
                self._exit = self._evidence.end(self.plan.token, pid, status, used, time.monotonic())
            elif pid == self._spooler:
                self._spooler = 0
                if status and any(not stream.shared.done for stream in self._streams):
                    if os.WIFEXITED(status):
                        self._failures += 1
                        time.sleep(AGAIN)
                    self._start_spooler()
            elif pid == self._giver:
                self._giver = 0
                self._end_keys()
                if os.WIFSIGNALED(status) and self._status is None:
                    self._start_keys()
            elif pid in self._copiers:
                stream = self._copiers.pop(pid)
                if os.WIFSIGNALED(status) and not self._hurried:
                    self._start_copier(stream)
            elif self._sending is not None:
                self._sending.ended(pid, status, time.monotonic())

    def _stopped(self, pid: int, number: int) -> None:
        if pid == self._pid:
            # Stop with the command, if the stop came through this process or from the terminal of both.
            if number in STOPS and os.getpid() != 1 and (self._stopping or not self._own_group):
                self._stopping = False
                os.kill(os.getpid(), signal.SIGSTOP)
        elif pid == self._spooler or (pid in self._copiers and self._status is not None):
            os.kill(pid, signal.SIGCONT)
        elif self._sending is not None:
            self._sending.stopped(pid)

    # --- the loop

    def _watch(self, over: Callable[[], bool], until: float = math.inf) -> None:
        """Handle signals and due work until *over*, or until the time is *until*."""
        while not over():
            now = time.monotonic()
            if now >= until or self._hurried:
                return
            sending, looks = self._sending, self._looks if self._status is None else []
            dues = [until, self._alarm, *(one.due for one in looks), *([sending.due] if sending is not None else [])]
            told = _signal(min(dues) - now)
            if told is None:
                now = time.monotonic()
                if self._alarm <= now:
                    self._alarm = math.inf
                    self._give(signal.SIGALRM)
                if sending is not None and sending.due <= now:
                    sending.act(self._mask)
                for one in looks:
                    if one.due <= now:
                        one.look(now)
            elif told.si_signo == signal.SIGCHLD:
                self._reap()
            else:
                self._pass_on(told)

    def _pass_on(self, told: signal.struct_siginfo) -> None:
        number, from_terminal = told.si_signo, told.si_code > 0
        if self._status is not None:
            self._hurried = self._hurried or number in ENDING
            return
        if number == signal.SIGWINCH and self.plan.options.pty and self._streams:
            commands.resize(self._streams[0].pipe)  # the kernel sends the command SIGWINCH
            return
        if from_terminal and not self._own_group and not self._alone(number):
            return
        if number == signal.SIGCONT:  # the shell may have changed the terminal's settings
            self._end_keys()
            self._start_keys()
        self._stopping = number == signal.SIGTSTP
        self._give(number, group=self._own_group and (from_terminal or number == signal.SIGCONT))

    def _give(self, number: int, *, group: bool = False) -> None:
        """Send *number* to the command if it runs, or to its *group*."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self._status is None:
                (os.killpg if group else os.kill)(self._pid, number)

    @staticmethod
    def _alone(number: int) -> bool:
        """Whether the terminal sent *number* to this process alone, not to its group: when a terminal hangs up, the
        kernel sends SIGHUP and SIGCONT to the session's leader.
        """
        return number in (signal.SIGHUP, signal.SIGCONT) and os.getsid(0) == os.getpid()

    # --- after the command's end

    def _wind_up(self) -> None:
        """Wait for the command's remaining processes, for the copy, and for the sidecar, each within its bound."""
        linger = self.plan.options.linger
        for pid in self._copiers:
            os.kill(pid, signal.SIGCONT)  # without an effect on one that is not stopped
        self._watch(lambda: not self._spooler, time.monotonic() + linger)
        left = bool(self._spooler) and bool(self._streams)
        if left:
            self._name_holders()
            if os.getpid() == 1:  # all processes of the container end with PID 1
                for stream in self._streams:
                    stream.shared.over = 1
                os.kill(self._spooler, signal.SIGTERM)
                self._watch(lambda: not self._spooler, time.monotonic() + linger)
                left = False
        for stream in self._streams:
            with contextlib.suppress(OSError):
                if self._exit is not None:
                    stream.segments.end(self._exit)
        if not left:
            self._watch(lambda: not self._copiers)
        if (sending := self._sending) is not None:
            if not left:
                self._drain(sending)
            sending.conclude(left=left)
            if sending.stored:
                self._send_earlier()
        lost = {stream.name: stream.shared.lost for stream in self._streams if stream.shared.lost}
        for name, count in lost.items():
            say(f"{name}: {count:,} bytes could not be spooled: they are missing in the log")
        for stream in self._streams if self.plan.options.copy else []:
            self._name_missing(stream)

    def _name_missing(self, stream: Stream) -> None:
        """Say what the copy of *stream* lacks, unless its reader has left."""
        shared, count = stream.shared, stream.shared.missing
        if shared.refused or stream not in self._copiers.values():
            count += max(0, shared.taken - shared.copied)
        reason = shared.refused or shared.reason
        if count and reason not in READER_LEFT:
            why = os.strerror(reason) if reason else "its reader was too slow"
            stored = self.plan.sending is not None and self.plan.sending.stored
            where = "at the receiver" if stored else f"in {self.plan.root}"
            output = "stderr" if stream.out == 2 else "stdout"
            say(f"the copy on {output} lacks {count:,} bytes: {why}; see {stream.name} {where}")

    def _drain(self, sending: Sending) -> None:
        sending.finish()
        self._watch(lambda: sending.over)
        if self._hurried:
            self._hurried = False  # one more signal ends this wait too
            self._watch(lambda: sending.over, time.monotonic() + GRACE)
            self._hurried = True
        sending.stop()

    def _send_earlier(self) -> None:
        """Send what earlier commands left in other spools. They wait until now, because a command that was started
        again together with this one has sent its own by then, and because this receiver answers.
        """
        for sending in self.plan.earlier():
            if self._hurried:
                return
            if sending.is_alone():
                self._sending = sending
                sending.start(self._mask)
                self._drain(sending)
                sending.conclude(left=False)
                if not sending.stored:
                    return
            sending.close()

    def _name_command(self) -> None:
        """Record beside each log which process the command is, because its sidecar reports on that process."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{self._pid}/stat", "rb") as told:
                started = int(told.read(4096).rpartition(b")")[2].split()[19])
            for stream in self._streams:
                stream.segments.runs(self._pid, started)

    def _name_holders(self) -> None:
        ends = {self._written[stream.pipe] for stream in self._streams if not stream.shared.done}
        with contextlib.suppress(OSError):
            named = holders(ends)
            if named:
                say(f"the command has ended, but its output is still held open by {some(named, MOST)}")


def _signal(seconds: float) -> signal.struct_siginfo | None:
    """The next signal of AWAITED; None after *seconds*, which may be infinite, or at once for a timer set before."""
    signal.setitimer(signal.ITIMER_REAL, 0.0 if seconds == math.inf else max(seconds, 1e-6))
    told = signal.sigwaitinfo(AWAITED)
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    return None if told.si_signo == signal.SIGALRM and told.si_code > 0 else told


def _open_outputs() -> None:
    """Open 0, 1 and 2 where they were closed, so that no pipe gets such a number."""
    while (fd := os.open(os.devnull, os.O_RDWR)) < 3:
        pass
    os.close(fd)


def say(sentence: str) -> None:
    """Write *sentence* to stderr, or drop it if stderr would block."""
    waiting = select.poll()
    waiting.register(2, select.POLLOUT)
    with contextlib.suppress(OSError):
        if any(event & select.POLLOUT for _, event in waiting.poll(0)):
            os.write(2, f"flarelog: {sentence}\n".encode(errors="replace"))


def python() -> list[str]:
    """The command line that starts this program again."""
    return [sys.executable, "-P", "-m", "flarelog"]
