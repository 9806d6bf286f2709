"""A Push call at the receiver, and the streams in it: take what arrives, acknowledge what the store has committed.

The call's own task takes, message by message; another one answers, many messages at a time. Only what may take long has
a task of its own: a stream that is being opened, and one that ends. A stream ends with the first reply that is not OK;
the call goes on for the others. So it does when the receiver itself is wrong about one stream: that is said once, with
a traceback, its producer is told to ask again, and nothing of the stream stays behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

import grpc

from flarelog.delivery.rates import Breath
from flarelog.delivery.receiver import Receiver, Refused, size_of
from flarelog.errors import Fenced, FlarelogError, Full, Hole, Unavailable
from flarelog.lifecycle import RunState
from flarelog.model import Action, Buffer, Chunk, Code, Leave, News, Open, Packed, Receipt, Reply
from flarelog.policy import NOBODY
from flarelog.receiver.peers import Turns
from flarelog.stores.base import SILENT, Appender
from flarelog.wire import codec
from flarelog.wire.uplink import ENDED

if TYPE_CHECKING:
    from flarelog.receiver.server import Server

log = logging.getLogger(__name__)

OPEN_TIMEOUT = 10.0  # seconds from the begin of a call to its first Open
WRITE_GRACE = 5.0  # seconds that replies may take to leave when the call is to end
LARGE = 64 << 10  # bytes, of which only so many are written in one turn of the loop
LOST = "its producer went without a word: its process ended, or the connection was lost"
MAX_REPLIES = 64  # last replies that may wait to leave before another stream is opened

_CODES: list[tuple[type[FlarelogError], Code]] = [
    (Fenced, Code.FENCED),
    (Hole, Code.HOLE),
    (Full, Code.PAUSE),
    # The outcome of an append is unknown: the producer opens again, and opening asks the disk.
    (Unavailable, Code.PAUSE),
]


def code_of(error: FlarelogError) -> Code:
    """What a producer is told of *error*."""
    if isinstance(error, Refused):
        return error.code
    return next((code for kind, code in _CODES if isinstance(error, kind)), Code.REJECTED)


class Call:
    """One Push call. It returns when all its streams are closed, whatever became of the connection meanwhile."""

    def __init__(self, server: Server, context: Any) -> None:
        self.server = server
        self.context = context  # gRPC's: not to be touched once the call has returned
        self.peer = server.peer_of(context)
        self.address = str(context.peer())
        self.connection = server.guard.connection_of(context)
        self.loop = asyncio.get_running_loop()
        self._sessions: dict[int, Session] = {}
        self.had: Counter[tuple[str, str]] = Counter()  # streams that it had, by run and site
        self.ended = ""  # why, if the receiver ended it
        self._last = -1  # the highest number of a stream so far
        self._last_words: list[Reply] = []
        self._dirty: dict[Session, None] = {}
        self._later: dict[Session, None] = {}  # what is committed of them is said by and by
        self._said: asyncio.Event | None = None  # there for whoever waits for it
        self._saying: asyncio.Task[None] | None = None
        self._taking: asyncio.Task[Any] | None = None
        self._heard_at = self.loop.time()
        self._reading = False
        self._over = False  # nothing more is taken
        self._deaf = False  # no reply can leave
        self.gone = False  # the producer has
        self.lost = False  # it has, without a word
        self.messages = 0  # since the server last looked
        self.breath = Breath()
        self._silence: asyncio.TimerHandle | None = None
        self._alone: asyncio.TimerHandle | None = None
        self._answering: asyncio.TimerHandle | None = None
        # Cancellations of the task that takes which are none of gRPC's: from before this call, and the call's own.
        task = asyncio.current_task()
        self._own_cancels = task.cancelling() if task is not None else 0
        self._elsewhere: tuple[int, bytes] | None = None  # the worker whose call this is, and its first message

    async def run(self) -> None:
        server = self.server
        try:
            await server.peers.begins(self.address, self.peer)
            try:
                await self._serve()
                if self._elsewhere is not None and server.workers is not None:
                    who, patience = server.who(self.context), server.options.idle_timeout
                    await server.workers.push(*self._elsewhere, self.context, who, patience)
            finally:
                server.peers.ends(self.address, self.peer)
        except FlarelogError as error:
            self.refuse(0, error)
            await self._settled(self._spoken())

    async def _serve(self) -> None:
        self._left_alone()
        self._listen_for_silence()
        self._taking = asyncio.current_task()
        try:
            await self._take()
            if self._last < 0 and not self._over and self._elsewhere is None:
                raise Refused(Code.REJECTED, "the call ended before its Open")
        except asyncio.CancelledError:
            if self._cancelled:
                self._deaf = self.gone = self.lost = True
                raise
        finally:
            self._taking = None
            for timer in (self._alone, self._silence, self._answering):
                if timer is not None:
                    timer.cancel()
            await self._settled(self._close())
            why = self.ended or (LOST if self.lost else "its producer ended it")
            for (run, site), streams in self.had.items():
                self.server.happenings.call_ended(run, site, streams, why)

    @property
    def _cancelled(self) -> bool:
        """Whether this task was cancelled by anybody else than the call itself."""
        task = asyncio.current_task()
        return task is not None and task.cancelling() > self._own_cancels

    async def _settled(self, work: Coroutine[Any, Any, None]) -> None:
        """Do *work* to its end, however often gRPC cancels its call meanwhile; then the call is cancelled."""
        task = asyncio.create_task(work)
        while not task.done():
            with contextlib.suppress(asyncio.CancelledError):  # which is raised below
                await asyncio.wait((task,))
        task.result()
        if self._cancelled:
            raise asyncio.CancelledError

    # --- what comes

    async def _take(self) -> None:
        while not self._over:
            while len(self._last_words) > MAX_REPLIES:
                self._said = asyncio.Event()
                await self._said.wait()
            self._reading = True
            raw = await self.context.read()
            self._reading = False
            if raw is grpc.aio.EOF:
                self.lost = any(session.open for session in self._sessions.values())  # gRPC tells no more than that
                return
            self._heard_at = self.loop.time()
            try:
                try:
                    number, request = codec.decode_said(raw)
                except Exception:
                    number = codec.number_of(raw)
                    raise
                session = self._sessions.get(number)
                if session is not None:
                    await session.take(request)
                elif isinstance(request, Open):
                    worker = self.server.elsewhere(self.context, request.stream.run, request.stream.site)
                    if worker is not None and self._moves(number, request):
                        continue
                    if worker is not None and not self._sessions:
                        self._elsewhere = worker, raw
                        return
                    self._open(number, request)
                elif number > self._last:
                    raise Refused(Code.REJECTED, "the first message of a Push must be an Open")
                # else the stream has ended, which its producer had not heard yet
            except Exception as error:
                session = self._sessions.get(number)
                trouble = error
                if not isinstance(trouble, FlarelogError):
                    trouble = self.server.wrong(session.stream if session is not None else self.address, trouble)
                if session is not None:
                    session.end(trouble)
                else:
                    self.refuse(number, trouble)

    def _open(self, number: int, opened: Open) -> None:
        if number <= self._last:
            raise Refused(Code.REJECTED, f"stream {number} was opened before in this call; the numbers of streams grow")
        self._last = number
        if not 8 <= len(opened.producer) <= 64:
            raise Refused(Code.REJECTED, "Open.producer must have 8 to 64 bytes")
        workers, stream = self.server.workers, opened.stream
        if workers is not None and not workers.place.mine(stream.run, stream.site):
            raise Refused(
                Code.REJECTED,
                f"a call carries one site's streams where the receiver has workers: open {stream} in another call",
            )
        self._sessions[number] = Session(self, number, opened)

    def _moves(self, number: int, opened: Open) -> bool:
        """Whether a producer whose site is another worker's goes there itself."""
        workers, moves = self.server.workers, opened.moves
        if workers is None or not workers.place.lets_move(moves):
            return False
        why = f"another worker of this receiver has site {opened.stream.site}"
        self._last = max(self._last, number)
        self.last_word(Reply(Code.GOING_AWAY, reason=why, number=number, elsewhere=True))
        self._left_alone()
        return True

    def _left_alone(self) -> None:
        """Without a stream the call waits for another one, but for a producer that numbers none: it has that one."""
        if self._sessions:
            return
        if self._last == 0:
            self._stop_taking()
        elif self._alone is None:
            self._alone = self.loop.call_later(OPEN_TIMEOUT, self._unopened)

    def _unopened(self) -> None:
        self._alone = None
        if self._last < 0:
            self.refuse(0, Refused(Code.REJECTED, f"no Open came within {OPEN_TIMEOUT:g} s"))
        elif not self._sessions:
            self._stop_taking()

    def _listen_for_silence(self) -> None:
        idle, now = self.server.options.idle_timeout, self.loop.time()
        if not self._reading:
            self._heard_at = now  # what has come is not taken yet: that is no silence of the producer's
        if now < self._heard_at + idle:
            self._silence = self.loop.call_at(self._heard_at + idle, self._listen_for_silence)
        else:
            self.leave_all(f"nothing was heard for {idle:g} s")
            since = time.time_ns() // 1_000_000 - int(1000 * (now - self._heard_at))
            for session in self._sessions.values():
                self.server.happenings.note(session.stream, SILENT, since=since)

    @property
    def has_streams(self) -> bool:
        return bool(self._sessions)

    def leave_all(self, why: str, code: Code = Code.GOING_AWAY) -> None:
        """End the call and its streams with *code*, once what has arrived is committed."""
        self.ended = why
        for session in list(self._sessions.values()):
            session.leave(code, why)
        self._stop_taking()

    def _stop_taking(self) -> None:
        self._over = True
        if self._taking is not None and self._taking is not asyncio.current_task():
            self._own_cancels += 1
            self._taking.cancel()

    # --- what is answered

    def acknowledge(self, session: Session) -> None:
        """Say what is held of *session* once it is."""
        if session.behind or self._due(session):
            self._dirty[session] = None
            self._speak()
        else:
            self._answer_later(session)

    def last_word(self, reply: Reply) -> None:
        """Say *reply*, which ends its stream."""
        if not self._deaf:
            self._last_words.append(reply)
            self._speak()

    def refuse(self, number: int, error: FlarelogError) -> None:
        """Answer what is none of the open streams', with *error*."""
        self._last = max(self._last, number)
        reply = Reply(code_of(error), reason=str(error), incarnation=self.server.incarnation, number=number)
        self.tell(self.address, reply, error)
        self.last_word(reply)
        self._left_alone()

    def tell(self, where: object, reply: Reply, error: FlarelogError) -> None:
        """Log a refusal."""
        quiet = reply.code in (Code.EXECUTION_EXCEPTION, Code.GOING_AWAY)
        # A stream that is held asks again and again, and a thousand may be refused for one reason.
        quiet = quiet or (reply.code in (Code.PAUSE, Code.REJECTED) and self.server.said(str(error)))
        level = logging.DEBUG if quiet else logging.WARNING
        log.log(level, "%s: %s at offset %d: %s", where, reply.code.name, reply.committed, error)

    def closed(self, session: Session) -> None:
        """*session* is none of the call's any more."""
        self._sessions.pop(session.number, None)
        self._dirty.pop(session, None)
        self._later.pop(session, None)
        self._left_alone()

    def _speak(self) -> None:
        if self._saying is None:
            self._saying = asyncio.create_task(self._say())

    async def _say(self) -> None:
        try:
            while self._last_words or self._dirty:
                if self._last_words:
                    await self._write(self._last_words.pop(0))
                    continue
                dirty, self._dirty = self._dirty, {}
                behind = [session for session in dirty if session.behind]
                if len(behind) == 1:
                    await behind[0].sync()
                elif behind:
                    await asyncio.gather(*(session.sync() for session in behind))
                for session in dirty:
                    if session.open and self._due(session):
                        await self._write(session.reply(Code.OK))
                    elif session.open:
                        self._answer_later(session)
        finally:
            self._saying = None

    def _due(self, session: Session) -> bool:
        """An answer costs as much as a message: while there are too many, one has to do for several."""
        return session.pressing or not self.server.pace_of(self)

    def _answer_later(self, session: Session) -> None:
        if not self._later:
            self._answering = self.loop.call_later(self.server.answer_within, self._answer_now)
        self._later[session] = None

    def _answer_now(self) -> None:
        later, self._later = self._later, {}
        for session in later:
            session.pressing = True
            self.acknowledge(session)

    async def _write(self, reply: Reply) -> None:
        timer = self.loop.call_later(self.server.options.idle_timeout, self._give_up)
        try:
            if not self._deaf:
                await self.context.write(reply)
        except (grpc.RpcError, *ENDED):
            # A producer that has gone is no trouble of the receiver's: what it sent is committed all the same.
            self._deaf = True
        finally:
            timer.cancel()
            if self._said is not None:
                self._said.set()

    def _give_up(self) -> None:
        """A producer that lets no reply leave must not have its streams for as long as it likes."""
        self._deaf = True
        self._last_words.clear()
        self.leave_all(f"no reply could leave for {self.server.options.idle_timeout:g} s")

    # --- the end

    async def _close(self) -> None:
        self._over = True
        while self._sessions:
            for session in self._sessions.values():
                session.end(None)
            await asyncio.wait([session.ending for session in self._sessions.values() if session.ending is not None])
        await self._spoken()

    async def _spoken(self) -> None:
        """Let leave what is to be said."""
        saying = self._saying
        if saying is not None:
            await asyncio.wait((saying,), timeout=WRITE_GRACE)
            saying.cancel()
            await asyncio.gather(saying, return_exceptions=True)


class Session:
    """One stream in a call."""

    appender: Appender

    def __init__(self, call: Call, number: int, opened: Open) -> None:
        self.call, self.number = call, number
        self.server = call.server
        self.stream, self.producer = opened.stream, opened.producer
        self.identity = NOBODY
        self.taken = 0  # bytes, since the server last looked
        self.busy = True  # it sends much, as far as is known
        self.told_window = self.told = 0  # bytes: the latest window, and what the latest answer acknowledged
        self._pressing = True  # it waits for its first answer, or has waited long enough
        self.closed = self.call.loop.create_future()
        self.ending: asyncio.Task[None] | None = None
        self._why: FlarelogError | Receipt | None = None  # it ends
        self._receiver: Receiver | None = None
        self._counted = False  # as open
        self._opening: asyncio.Task[None] | None = asyncio.create_task(self._open(opened))

    @property
    def address(self) -> str:
        return self.call.address

    @property
    def open(self) -> bool:
        return self._receiver is not None and self.ending is None

    @property
    def left_because(self) -> str:
        """Why nobody has the stream any more."""
        if isinstance(self._why, FlarelogError):
            return str(self._why)
        return LOST if self.call.lost else "its producer left it"

    def leave(self, code: Code, why: str) -> None:
        """End the stream in this call with *code*, once what has arrived is committed."""
        self.end(Refused(code, why))

    def acknowledge(self) -> None:
        if self.open:
            self.call.acknowledge(self)

    # --- opening

    async def _open(self, opened: Open) -> None:
        server, stream = self.server, self.stream
        try:
            await server.peers.opens(self.call.peer)
            self.identity = server.asks(self.call.context, Action.PUSH, stream.run, stream.site)
            server.states.news(stream, self.producer, opened.news or News(0, 0))
            server.quota.opens(stream)
            self._counted = True
            await server.admission.admit(opened)
            await server.admission.count(stream)
            appender = self.appender = await server.admission.open(opened, self.call.peer)
            server.quota.noted(stream, sum(map(size_of, appender.marks)))
            self._receiver = Receiver(appender.committed, appender.digest, appender.marks, max_chunk=appender.max_chunk)
            server.entered(self, self.producer)
            self.call.had[stream.run, stream.site] += 1
            self.acknowledge()
        except FlarelogError as error:
            self.end(error)
        except Exception as bug:
            self.failed(bug)
        finally:
            self._opening = None  # a task that is done would be kept as long as the stream

    async def _opened(self) -> None:
        if self._opening is not None:
            await asyncio.wait((self._opening,))

    # --- taking

    async def take(self, request: codec.Request) -> None:
        """Take what its producer says. Raises FlarelogError, which ends the stream."""
        if self._receiver is None:  # a producer that does not wait for the answer to its Open
            await self._opened()
        receiver = self._receiver
        if receiver is None or self.ending is not None:
            return
        self.server.states.heard(self.stream, self.producer)
        self.call.messages += 1
        if isinstance(request, Chunk):
            new = receiver.chunk(request)
            if len(new):
                await self.server.slow_down(self, len(new))
                if not self.open:
                    return
                self.server.take(self, len(new))
                await self._append(receiver.accepted - len(new), new)
        elif isinstance(request, Packed):
            await self._take_packed(request, receiver)
        elif isinstance(request, Receipt):
            receiver.finish(request)
            self.end(request)
            return
        elif isinstance(request, News):
            self.server.states.news(self.stream, self.producer, request)
            return
        elif isinstance(request, Leave):
            self.end(None)
            return
        elif isinstance(request, Open):
            raise Refused(Code.REJECTED, "a stream has one Open, its first message")
        elif receiver.mark(*request):
            self.server.admission.notes(self.stream, self.appender, size_of(request[1]))
            await self.appender.mark(request[1])
        self.acknowledge()

    async def _take_packed(self, packed: Packed, receiver: Receiver) -> None:
        """Take a chunk that is compressed: every limit holds before it is unpacked, and its digest afterwards."""
        server, size = self.server, packed.raw_length
        server.unpacking.demand(packed)
        receiver.admit(packed.offset, size)
        await server.slow_down(self, size)  # a repetition too: it costs as much
        server.take(self, 0)  # is there room; it counts when it has turned out to be what it says
        # In a turn until it is stored: however many calls there are, what they sent is not in memory unpacked.
        async with self._turn(size, server.unpacked):
            chunk = await server.unpacking.unpacked(packed, receiver.max_chunk)
            if self.ending is not None:
                return
            new = receiver.chunk(chunk)
            if len(new):
                server.take(self, len(new))
                await self._append(receiver.accepted - len(new), new)

    async def _append(self, offset: int, new: Buffer) -> None:
        if len(new) < LARGE:
            await self.appender.append(offset, new)
            return
        async with self._turn(len(new), self.server.writing):
            await self.appender.append(offset, new)

    def _turn(self, size: int, turns: Turns) -> contextlib.AbstractAsyncContextManager[None]:
        """To be in while *size* bytes are written: a disk that is busy holds the loop up for as long as that takes."""
        if size < LARGE:
            return contextlib.nullcontext()
        return turns.one((self.stream.run, self.stream.site))

    # --- answering

    @property
    def behind(self) -> bool:
        """Whether something that was taken is not committed."""
        receiver = self._receiver
        return (
            self.open
            and receiver is not None
            and (self.appender.committed < receiver.accepted or self.appender.mark_count < len(receiver.marks))
        )

    @property
    def pressing(self) -> bool:
        """Whether an answer must not wait: it is due, or the producer's window fills."""
        return self._pressing or self.appender.committed - self.told >= self.told_window // 8

    @pressing.setter
    def pressing(self, due: bool) -> None:
        self._pressing = due

    async def sync(self) -> None:
        try:
            await self.appender.sync()
        except FlarelogError as error:
            self.end(error)
        except Exception as bug:
            self.failed(bug)

    def reply(self, code: Code, reason: str = "") -> Reply:
        appender = self.appender
        self.told_window, self.told, self.pressing = self.server.window_of(self), appender.committed, False
        return Reply(
            code,
            appender.committed,
            appender.digest,
            appender.mark_count,
            self.server.incarnation,
            appender.holder.epoch,
            reason,
            ending=self.server.state(self.stream.run) in (RunState.ENDING, RunState.ENDED),
            idle_timeout=self.server.options.idle_timeout,
            window=self.told_window,
            codecs=self.server.unpacking.codecs,
            pace=self.server.pace_of(self.call),
            number=self.number,
        )

    # --- ending

    def end(self, why: FlarelogError | Receipt | None) -> None:
        """Commit what was taken and close, once: with a refusal, a receipt that is agreed to, or no word. The first
        refusal counts.
        """
        if self._why is None or (isinstance(why, FlarelogError) and isinstance(self._why, Receipt)):
            self._why = why
        if self.ending is None:
            self.ending = asyncio.create_task(self._end())

    def failed(self, bug: Exception) -> None:
        """The receiver is wrong about this stream: say so, and let its producer ask again."""
        self.end(self.server.wrong(self.stream, bug))

    async def _end(self) -> None:
        sealed = False
        try:
            if self._opening is not None and (self._why is not None or self.call.gone):
                self._opening.cancel()
            await self._opened()
            if self._receiver is not None:
                async with self.server.ending.one(self.call.peer):
                    pass  # thousands of streams may end in the same moment, with their connection
                sealed = await self._settle()
            if isinstance(self._why, FlarelogError) and not sealed:
                self._refuse(self._why)
        except Exception as bug:
            self.server.wrong(self.stream, bug)
        finally:
            try:
                await self._close(sealed)
            except Exception as bug:
                self.server.wrong(self.stream, bug)

    async def _close(self, sealed: bool) -> None:
        """Leave nothing of the stream behind, whatever any of this raises."""
        with contextlib.ExitStack() as stack:  # the last one first
            stack.callback(self.call.closed, self)
            stack.callback(self.closed.set_result, None)
            if self._counted:
                stack.callback(self.server.quota.closes, self.stream)
            stack.callback(self.server.left, self, sealed)
            if self._opening is not None:
                self._opening.cancel()
            if hasattr(self, "appender"):
                with contextlib.suppress(FlarelogError):
                    await self.appender.close()

    async def _settle(self) -> bool:
        """Commit what was taken, and the receipt; whether the stream is sealed."""
        try:
            await self.appender.sync()
            if isinstance(self._why, Receipt):
                await self.appender.seal(self._why)
                self.call.last_word(self.reply(Code.SEALED))
                return True
            if self._why is None:
                self.call.last_word(self.reply(Code.OK))
        except FlarelogError as late:
            self.end(late)
        except Exception as bug:
            self.failed(bug)
        return False

    def _refuse(self, error: FlarelogError) -> None:
        code = code_of(error)
        if self._receiver is not None:
            reply = self.reply(code, str(error))
        else:
            reply = Reply(code, reason=str(error), incarnation=self.server.incarnation, number=self.number)
        if code is Code.PAUSE:
            self.server.states.held(self.stream, self.producer, str(error))
            self.server.happenings.hold(self.stream, str(error))
        self.call.tell(self.stream, reply, error)
        self.call.last_word(reply)
