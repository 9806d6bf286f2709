"""The connection to JetStream, and the few calls of its API that the store makes.

A call that gets no answer raises ``Away``: whoever calls decides whether to ask again. ``patiently`` does so for
PATIENCE seconds, in which a cluster elects leaders; nobody is told of a shorter absence.
"""

from __future__ import annotations

import asyncio
import asyncio.base_events
import asyncio.selector_events
import asyncio.sslproto
import contextlib
import importlib
import json
import random
import re
import ssl
from base64 import b64decode
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from flarelog.errors import CannotConnect, FlarelogError, Full, InvalidFile, NotAllowed, Unavailable
from flarelog.stores.nats.head import NAME
from flarelog.stores.nats.url import Url

T = TypeVar("T")

PATIENCE = 20.0  # seconds for which calls are repeated before somebody is told
ANSWER = 2.0  # seconds in which an answer comes, unless a server has just died
READ = 1.0  # the same for a read, which a stream without a leader drops
PAUSES = (0.05, 0.1, 0.2, 0.4)  # seconds between two calls; the last one is repeated
ALIVE = 2.0  # seconds between two questions whether the server still answers
RECONNECT: Any = 0.25  # seconds between two attempts; nats-py calls it an integer
ELSEWHERE = 3 * ANSWER  # seconds without an acknowledgement after which another server is asked
WINDOW = 4 << 20  # bytes of messages in one batch
NO_LEADER = "no leader: most of its servers are down"
_WRONG_LAST = (10071, 10164)  # the second one while a message of the subject is under way, and after a purge
_FULL = (10077, 10023, 10047, 10122)
_NONE, _NO_STREAM = 10037, 10059
_MAY_NOT = re.compile(r'ermissions violation for publish to "([^"]+)"', re.IGNORECASE)
_FIRST = 5 * ANSWER  # seconds for the first connection


class Away(FlarelogError):
    """No answer: the outcome of the call is unknown."""

    retry_safe = True


class WrongLast(FlarelogError):
    """Another message than the expected one is the subject's last. *last*: its sequence; None: not said."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        number = sentence.rpartition(": ")[2]
        self.last = int(number) if number.isdecimal() else None


class Message(NamedTuple):
    subject: str
    sequence: int
    at: int  # when the leader stored it: milliseconds since 1970
    head: str
    data: bytes


class Engine:
    """A connection to the servers of *url*."""

    def __init__(self, url: Url) -> None:
        self._url = url
        self._client = Client()
        self._inbox, self._number = "", 0
        self._waiting: dict[str, tuple[str, asyncio.Future[Msg]]] = {}  # subjects and answers
        self._told = ""  # the client's latest error
        self._alive: asyncio.Task[None] | None = None
        self._vain: float | None = None  # when a call was first in vain since the last acknowledgement

    @property
    def where(self) -> str:
        return ",".join(self._url.hosts)

    @property
    def version(self) -> tuple[int, ...]:
        """The version of the server at the other end of the connection."""
        version = self._client.connected_server_version
        return version.major, version.minor, version.patch

    async def open(self) -> None:
        """Connect. Raises CannotConnect, NotAllowed, InvalidFile."""
        url = self._url
        scheme = "tls" if url.tls or url.ca else "nats"
        options: dict[str, Any] = {}
        if url.user:
            options["user"], _, options["password"] = url.user.partition(":")
        if url.creds:
            options["user_credentials"] = url.creds
        if scheme == "tls":
            _let_asyncio_know_tls()
            try:
                options["tls"] = ssl.create_default_context(cafile=url.ca or None)
            except (OSError, ssl.SSLError) as error:
                raise InvalidFile(f"the CA in {url.ca} cannot be used: {error}") from error
        try:
            async with asyncio.timeout(_FIRST):
                await self._client.connect(
                    [f"{scheme}://{host}" for host in random.sample(url.hosts, len(url.hosts))],
                    error_cb=self._wrong, disconnected_cb=self._lost, max_reconnect_attempts=-1, dont_randomize=True,
                    reconnect_time_wait=RECONNECT, connect_timeout=2, ping_interval=600, name="flarelog",
                    skip_subject_validation=True, inbox_prefix=b"_INBOX", **options,
                )  # fmt: skip
                self._inbox = self._client.new_inbox()
                await self._client.subscribe(
                    f"{self._inbox}.*", cb=self._answered, pending_msgs_limit=0, pending_bytes_limit=0
                )
                await self._client.flush(2)
        except (TimeoutError, OSError, NatsError, ValueError) as error:
            with contextlib.suppress(Exception):
                await self._client.close()
            why = self._told or str(error) or "no answer"
            if "uthorization" in why or "redentials" in why:
                raise NotAllowed(
                    f"{self.where} refuses this client: {why}; check --nats-creds or the URL's user"
                ) from error
            raise CannotConnect(f"no NATS server answers at {self.where}: {why}") from error
        self._alive = asyncio.create_task(self._watch())

    async def close(self) -> None:
        if self._alive is not None:
            self._alive.cancel()
        with contextlib.suppress(Exception):
            async with asyncio.timeout(ANSWER):
                await self._client.close()
        await self._lost()

    async def _lost(self) -> None:
        """Whoever waits for an answer of the lost server asks the next one now, and not when the time is over."""
        for _, waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(Away("the connection was lost"))

    async def _wrong(self, error: Exception) -> None:
        """Keep what the client tells; whoever asks what its account may not gets an answer."""
        self._told = str(error)
        if (found := _MAY_NOT.search(self._told)) is None:
            return
        for subject, waiting in self._waiting.values():
            if subject.lower() == found[1].lower() and not waiting.done():
                waiting.set_exception(NotAllowed(f"this account of the NATS servers at {self.where} may not {subject}"))

    async def _watch(self) -> None:
        """End the connection to a server that is stopped, which the client would notice minutes later."""
        while True:
            await asyncio.sleep(ALIVE)
            if not self._client.is_connected:
                continue
            try:
                async with asyncio.timeout(2 * ALIVE):
                    await self._client.flush(int(2 * ALIVE))
            except (TimeoutError, NatsError, OSError):
                self._leave()

    def _leave(self) -> None:
        """End the connection, after which the client connects to the next server, never to the same one."""
        transport = getattr(self._client._transport, "_io_writer", None)  # the client itself would wait
        if transport is not None:  # until its buffer is written
            transport.transport.abort()

    def _in_vain(self) -> None:
        """Leave a server after ELSEWHERE: it may be cut off from the others, and would still answer reads and pings."""
        now = asyncio.get_running_loop().time()
        if self._vain is None:
            self._vain = now
        elif now - self._vain > ELSEWHERE:
            self._vain = None
            self._leave()

    # --- one question, one answer

    async def _answered(self, message: Msg) -> None:
        _, waiting = self._waiting.get(message.subject.rpartition(".")[2], ("", None))
        if waiting is not None and not waiting.done():
            waiting.set_result(message)

    async def ask(
        self, subject: str, data: bytes = b"", headers: dict[str, str] | None = None, within: float = ANSWER
    ) -> Msg:
        """The answer to *data*. Raises Away."""
        if not self._client.is_connected:
            await asyncio.sleep(0)
            raise Away("no NATS server answers")
        self._number += 1
        token = str(self._number)
        waiting = asyncio.get_running_loop().create_future()
        self._waiting[token] = subject, waiting
        try:
            async with asyncio.timeout(within):
                await self._client.publish(subject, data, reply=f"{self._inbox}.{token}", headers=headers)
                answer: Msg = await waiting
        except TimeoutError:
            self._in_vain()
            raise Away("it takes nothing: its disk may be full, and nats-server must be restarted after making room"
                       if self._client.is_connected else "no NATS server answers") from None  # fmt: skip
        except (NatsError, OSError) as error:
            raise Away(str(error)) from error
        finally:
            del self._waiting[token]
        if (answer.headers or {}).get("Status") == "503":
            self._in_vain()
            raise Away(NO_LEADER)
        return answer

    async def api(self, call: str, data: Mapping[str, Any] | None = None, within: float = 5 * ANSWER) -> dict[str, Any]:
        """The answer of JetStream's *call*. Raises Away, and ``Refused`` for an error."""
        answer = await self.ask(
            f"$JS.API.{call}", json.dumps(data).encode() if data is not None else b"", within=within
        )
        return _checked(json.loads(answer.data))

    async def patiently(self, call: Callable[[], Awaitable[T]]) -> T:
        """The result of *call*, repeated while there is no answer. Raises Unavailable after PATIENCE seconds."""
        pauses = Pauses()
        while True:
            try:
                return await call()
            except Away as error:
                await pauses.rest(error, self.where)

    # --- messages

    async def publish(
        self, subject: str, data: bytes, head: str = "", after: int | None = None, *, rollup: bool = False
    ) -> int:
        """Store a message and return its sequence. *after*: only if this is the subject's last sequence (0: none);
        *rollup*: in place of all earlier ones. Raises Away, WrongLast, Full.
        """
        headers = {NAME: head} if head else {}
        if after is not None:
            headers["Nats-Expected-Last-Subject-Sequence"] = str(after)
        if rollup:
            headers["Nats-Rollup"] = "sub"
        answer = await self.ask(subject, data, headers or None)
        sequence = int(_checked(json.loads(answer.data))["seq"])
        self._vain = None  # an error is no acknowledgement: a leader that was cut off answers with some
        return sequence

    async def last(self, stream: str, subject: str) -> Message | None:
        """The last message of *subject*, by the leader. Raises Away."""
        return await self._by_leader(stream, {"last_by_subj": subject})

    async def at(self, stream: str, sequence: int) -> Message | None:
        """The message with *sequence*, by the leader. Raises Away."""
        return await self._by_leader(stream, {"seq": sequence})

    async def _by_leader(self, stream: str, query: Mapping[str, Any]) -> Message | None:
        try:
            found = (await self.api(f"STREAM.MSG.GET.{stream}", query, READ))["message"]
        except Refused as error:
            if error.code == _NONE:
                return None
            raise
        headers = b64decode(found.get("hdrs", "")).decode(errors="replace")
        head = next(
            (line.partition(":")[2].strip() for line in headers.split("\r\n") if line.startswith(f"{NAME}:")), ""
        )
        return Message(found["subject"], int(found["seq"]), _ms(found["time"]), head, b64decode(found.get("data", "")))

    async def get(self, stream: str, **query: Any) -> Message | None:
        """One message, by any replica: ``last_by_subj``, ``seq``, or ``seq`` and ``next_by_subj``. Raises Away."""
        answer = await self.ask(f"$JS.API.DIRECT.GET.{stream}", json.dumps(query).encode())
        headers = answer.headers or {}
        if headers.get("Status") == "404":
            return None
        return _direct(answer)

    async def batch(
        self, stream: str, subject: str, sequence: int, count: int = 1000, size: int = WINDOW
    ) -> list[Message]:
        """The next messages of *subject* from *sequence* on, by any replica: about *size* bytes. Raises Away."""
        query = {"seq": sequence, "next_by_subj": subject, "batch": count, "max_bytes": size}
        return [one async for one in self._replies(f"$JS.API.DIRECT.GET.{stream}", query)]

    async def _replies(self, subject: str, query: Mapping[str, Any]) -> AsyncGenerator[Message, None]:
        async with self._inbox_of() as (inbox, replies):
            await self._client.publish(subject, json.dumps(query).encode(), reply=inbox)
            while True:
                answer = await _next(replies)
                status = (answer.headers or {}).get("Status")
                if status == "503":
                    raise Away(NO_LEADER)
                if status is not None:  # 204: the end; 404: there are none
                    return
                yield _direct(answer)

    @asynccontextmanager
    async def _inbox_of(self) -> AsyncGenerator[tuple[str, asyncio.Queue[Msg]], None]:
        """A subject for the answers to one call, and these. Raises Away for the client's errors."""
        inbox, replies = self._client.new_inbox(), asyncio.Queue[Msg]()

        async def came(answer: Msg) -> None:  # next_msg of the client takes five times as long
            replies.put_nowait(answer)

        subscription = None
        try:
            subscription = await self._client.subscribe(inbox, cb=came, pending_msgs_limit=0, pending_bytes_limit=0)
            yield inbox, replies
        except (NatsError, OSError, TimeoutError) as error:
            raise Away(str(error) or "no answer") from error
        finally:
            if subscription is not None:
                with contextlib.suppress(NatsError, OSError):
                    await subscription.unsubscribe()

    async def counts(self, stream: str, subjects: str) -> tuple[dict[str, int], int]:
        """How many messages each of *subjects* has; and how many of the stream were removed. Raises Away."""
        found: dict[str, int] = {}
        while True:
            said = {"subjects_filter": subjects, "offset": len(found)}
            answer = await self.api(f"STREAM.INFO.{stream}", said, 2 * ANSWER)  # a leader that dies answers nothing
            state = answer["state"]
            page = state.get("subjects") or {}
            found |= page
            if not page or len(found) >= answer.get("total", 0):
                return found, int(state["last_seq"]) - int(state["messages"])

    async def each(
        self, stream: str, subjects: Sequence[str], *, last: bool, heads: bool
    ) -> AsyncGenerator[Message, None]:
        """All messages of *subjects*, or the *last* one of each; *heads*: without their bytes. Raises Away."""
        name = ""
        async with self._inbox_of() as (inbox, replies):
            config = {
                "deliver_subject": inbox, "deliver_policy": "last_per_subject" if last else "all", "ack_policy": "none",
                "filter_subjects": list(subjects), "headers_only": heads, "mem_storage": True, "num_replicas": 1,
                "inactive_threshold": 10_000_000_000, "max_deliver": 1,
            }  # fmt: skip
            try:
                made = await self.api(f"CONSUMER.CREATE.{stream}", {"stream_name": stream, "config": config})
                name, left = made["name"], int(made["num_pending"]) + int(made["delivered"]["consumer_seq"])
                while left:
                    answer = await _next(replies)
                    if answer.reply.startswith("$JS.ACK."):
                        yield _delivered(answer)
                        left = int(_said(answer)[4])
            finally:
                if name:
                    await self.say(f"$JS.API.CONSUMER.DELETE.{stream}.{name}")

    async def purge(self, stream: str, subjects: str) -> None:
        """Remove all messages of *subjects*. Raises Away."""
        await self.api(f"STREAM.PURGE.{stream}", {"filter": subjects})

    # --- without a record

    async def hear(self, subject: str, heard: Callable[[Msg], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        """Call *heard* for each message of *subject* from now on; returns what ends that."""
        subscription = await self._client.subscribe(subject, cb=heard)
        return subscription.unsubscribe

    async def answers(self, subject: str, data: bytes) -> AsyncGenerator[bytes, None]:
        """The answers of all who hear *subject*, as they come, without an end. Raises Away."""
        async with self._inbox_of() as (inbox, replies):
            if not self._client.is_connected:
                raise Away("no NATS server answers")
            await self._client.publish(subject, data, reply=inbox)
            while True:
                answer = await replies.get()
                if answer.data:  # the rest are notices of the server
                    yield answer.data

    async def say(self, subject: str, data: bytes = b"") -> None:
        """Send *data* to whoever hears *subject*; lost while the engine is away."""
        with contextlib.suppress(NatsError, OSError, TimeoutError):
            if self._client.is_connected:
                await self._client.publish(subject, data)


def _let_asyncio_know_tls() -> None:
    """Give asyncio the module ssl, without which the command line imports it: a reader of a receiver needs none."""
    modules: list[Any] = [asyncio.sslproto, asyncio.base_events, asyncio.selector_events]
    if modules[0].ssl is None:
        importlib.reload(modules[0])
        for module in modules[1:]:
            module.ssl = ssl


class Pauses:
    """The pauses between calls that are repeated for PATIENCE seconds."""

    def __init__(self) -> None:
        self._count, self._clock = 0, asyncio.get_running_loop().time
        self._until = self._clock() + PATIENCE

    async def rest(self, error: FlarelogError, where: str, committed: int = 0) -> None:
        """Raises Unavailable when the time is over."""
        if self._clock() >= self._until:
            raise Unavailable(f"the store at {where} does not answer: {error}", committed=committed) from error
        pause = PAUSES[min(self._count, len(PAUSES) - 1)]
        self._count += 1
        await asyncio.sleep(pause)


class Refused(Unavailable):
    """JetStream refuses a call. *code*: its number for the reason."""

    def __init__(self, sentence: str, code: int) -> None:
        super().__init__(sentence)
        self.code = code


def _checked(answer: dict[str, Any]) -> dict[str, Any]:
    """*answer*, unless it is an error. Raises Away, WrongLast, Full, Refused."""
    error = answer.get("error")
    if error is None:
        return answer
    code, said = int(error.get("err_code", 0)), str(error.get("description", "unknown error"))
    if code in _WRONG_LAST:
        raise WrongLast(said)
    if code in _FULL:
        raise Full(f"the store is full: {said}; remove runs, or give it more with flarelog store init --max-bytes")
    if error.get("code") == 503:
        raise Away(said)
    if code == _NO_STREAM:
        raise Refused(f"the store's stream is missing: {said}; flarelog store init makes it", code)
    raise Refused(f"JetStream refuses: {said}", code)


def _direct(answer: Msg) -> Message:
    headers = answer.headers or {}
    return Message(
        *(headers["Nats-Subject"], int(headers["Nats-Sequence"]), _ms(headers["Nats-Time-Stamp"])),
        *(headers.get(NAME, ""), answer.data),
    )


async def _next(replies: asyncio.Queue[Msg]) -> Msg:
    if not replies.empty():
        return replies.get_nowait()
    async with asyncio.timeout(ANSWER):
        return await replies.get()


def _said(answer: Msg) -> list[str]:
    """How often, as which message of the stream and of the consumer, and when a consumer delivered, and how many are
    left. Servers with a domain put it, and a hash of the account, before the name of the stream.
    """
    parts = answer.reply.split(".")
    return parts[4:9] if len(parts) == 9 else parts[6:11]


def _delivered(answer: Msg) -> Message:
    _, sequence, _, at, _ = map(int, _said(answer))
    return Message(answer.subject, sequence, at // 1_000_000, (answer.headers or {}).get(NAME, ""), answer.data)


def _ms(time: str) -> int:
    """Milliseconds since 1970 of *time*, as Go writes it: up to nine digits after the second."""
    whole, _, rest = time.rstrip("Z").partition(".")
    return int(datetime.fromisoformat(f"{whole}+00:00").timestamp()) * 1000 + int(rest[:3].ljust(3, "0") or 0)
