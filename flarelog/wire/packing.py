"""Compress and decompress chunks: the frames, the checks on them, and the thread for large ones.

Laws: a chunk is sent compressed if that makes it much shorter; after one that does not shrink, the next 16 MiB are sent
as they are. On loopback compression is off by default. A frame's header is checked against its chunk before it is
decompressed, and no frame decompresses to more bytes than its chunk states, which is at most a chunk's limit. Large
chunks are processed in one thread, so that they take at most one core and do not block the loop; small ones at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, TypeVar

from flarelog.delivery.receiver import Refused
from flarelog.errors import InvalidOption
from flarelog.model import MAX_CHUNK, Buffer, Chunk, Code, Codec, Packed, Reply
from flarelog.names import is_loopback, parse_address, receiver_ends
from flarelog.zstd import zstd

T = TypeVar("T")

AVAILABLE = zstd is not None
"""Whether this installation can compress."""
Compression = Literal["auto", "on", "off"]
"""When chunks are compressed; *auto*: not on loopback."""
COMPRESSIONS: tuple[Compression, ...] = ("auto", "on", "off")
LEAST = 512
"""Bytes of the smallest chunk that is compressed: a smaller one gains little."""
PAYS = 1.3
"""The least compression ratio with which a chunk is sent compressed."""
REST = 16 << 20
"""Bytes sent uncompressed after a chunk with a lower ratio."""
LARGE = 64 << 10
"""Bytes of the smallest chunk that is processed in the thread: a tenth of a millisecond's work."""
_MAX_WINDOW_LOG = MAX_CHUNK.bit_length() - 1
"""A frame with a window longer than a chunk is refused."""
if AVAILABLE:
    # Repetitions in logs are near: the half MiB of level 1 would make training logs 6 % longer, in 15 % more time.
    _HOW: dict[int, int] = {zstd.CompressionParameter.compression_level: 1, zstd.CompressionParameter.window_log: 17}


def check(mode: str) -> None:
    """Raises InvalidOption for an unknown *mode*, and for ``on`` if this installation cannot compress."""
    if mode not in COMPRESSIONS:
        raise InvalidOption(f"compression is {mode!r}; write {', '.join(COMPRESSIONS[:-1])} or {COMPRESSIONS[-1]}")
    if mode == "on" and not AVAILABLE:
        raise InvalidOption("compression needs Zstandard, which is not installed: pip install backports.zstd")


def compress(data: Buffer) -> bytes:
    """Compress *data* into one frame."""
    return zstd.compress(data, options=_HOW)


def decompress(data: Buffer, length: int, cap: int = MAX_CHUNK) -> bytes:
    """Decompress the frame *data* to *length* bytes.

    Raises:
        Refused: CORRUPT for a frame that is damaged, REJECTED for one that no honest producer makes.
    """
    if not 0 < length <= cap:
        raise _never(f"is said to unpack to {length} bytes; from 1 to {cap} are taken")
    if len(data) >= length:
        raise _never(f"has {len(data)} bytes and unpacks to {length}; send it uncompressed")
    try:
        frame = zstd.get_frame_info(data)
    except zstd.ZstdError:
        raise Refused(Code.CORRUPT, "a compressed chunk does not begin with a frame of Zstandard") from None
    if frame.dictionary_id:
        raise _never("needs a dictionary, which this receiver does not have; compress without one")
    if frame.decompressed_size != length:
        says = "does not state the length of its content" if frame.decompressed_size is None else "says"
        size = "" if frame.decompressed_size is None else f" {frame.decompressed_size} bytes"
        raise _never(f"is said to unpack to {length} bytes, but its frame {says}{size}")
    unpacking = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _MAX_WINDOW_LOG})
    try:
        # One byte more than expected, so that the decompressor reaches the end of the frame.
        raw = unpacking.decompress(data, length + 1)
    except zstd.ZstdError as error:
        if "too much memory" in str(error):
            raise _never(f"needs a window of more than {1 << _MAX_WINDOW_LOG} bytes; use a smaller one") from None
        raise Refused(Code.CORRUPT, f"a compressed chunk of {len(data)} bytes is damaged") from None
    if not unpacking.eof or len(raw) != length:
        raise Refused(
            Code.CORRUPT, (f"a compressed chunk of {len(data)} bytes ends before its {length} bytes are complete")
        )
    if unpacking.unused_data:
        raise _never("has bytes behind its frame; send one frame a chunk")
    return raw


def _never(what: str) -> Refused:
    return Refused(Code.REJECTED, f"a compressed chunk {what}")


class Crew:
    """One worker thread, started for the first large piece of work and kept until ``close``."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: ThreadPoolExecutor | None = None

    async def do(self, size: int, work: Callable[[], T]) -> T:
        """Run *work*, which processes *size* bytes, and return its result."""
        if size < LARGE:
            return work()
        try:
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, self._name)
            doing = asyncio.get_running_loop().run_in_executor(self._thread, work)
        except RuntimeError:  # the interpreter is shutting down and starts no threads
            return work()
        return await doing

    def close(self) -> None:
        """Let the thread end after its current work; queued work is cancelled."""
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)


class Compressing:
    """Shared by the streams of one sidecar: whether chunks for *receiver* are compressed, and the thread for it.

    *name*: the name in the receiver's certificate if it differs from its address, as at the end of a tunnel.
    """

    def __init__(self, mode: Compression, receiver: str, name: str = "") -> None:
        hosts = [name] if name else [parse_address(end)[0] for end in receiver_ends(receiver)]
        near = all(map(is_loopback, hosts))
        self.wanted = AVAILABLE and mode != "off" and not (mode == "auto" and near)
        self.crew = Crew("flarelog-compress")

    def close(self) -> None:
        self.crew.close()


class Packing:
    """Compress one stream's chunks."""

    def __init__(self, compressing: Compressing) -> None:
        self._compressing = compressing
        self._rest = 0  # bytes still to send uncompressed after a chunk with a low ratio
        self._taken = False  # the receiver accepts compressed chunks
        self.busy = False  # a chunk is being compressed: later chunks must wait

    def heard(self, reply: Reply) -> None:
        self._taken = self._compressing.wanted and Codec.ZSTD in reply.codecs

    def at_once(self, chunk: Chunk) -> Chunk | Packed | None:
        """*chunk* as it is to be sent, compressed if that pays; None: it is large, and ``packed`` must compress it: the
        stream is busy from now on.
        """
        size = len(chunk.data)
        if not self._taken or size < LEAST:
            return chunk
        if self._rest > 0:
            self._rest -= size
            return chunk
        if size < LARGE:
            return self._as(chunk, compress(chunk.data))
        self.busy = True  # before ``packed`` begins: the call may ask for the next chunk first
        return None

    async def packed(self, chunk: Chunk) -> Chunk | Packed:
        """*chunk*, for which ``at_once`` returned None, as it is to be sent; it is compressed in the thread."""
        try:
            return self._as(chunk, await self._compressing.crew.do(len(chunk.data), lambda: compress(chunk.data)))
        finally:
            self.busy = False

    def _as(self, chunk: Chunk, data: bytes) -> Chunk | Packed:
        if len(data) * PAYS > len(chunk.data):
            self._rest = REST
            return chunk
        return Packed(chunk.offset, data, chunk.digest, Codec.ZSTD, len(chunk.data))


class Unpacking:
    """Shared by the calls of one receiver: whether it accepts compressed chunks, and the thread for them."""

    def __init__(self, *, taken: bool) -> None:
        self._taken = taken and AVAILABLE
        self.codecs: tuple[Codec, ...] = (Codec.ZSTD,) if self._taken else ()
        self.crew = Crew("flarelog-unpack")

    def demand(self, packed: Packed) -> None:
        """Raises Refused if this receiver accepts no compressed chunks."""
        if not self._taken:
            raise Refused(
                Code.REJECTED,
                f"the chunk at offset {packed.offset} is compressed, but this receiver takes"
                " only uncompressed chunks, as its replies say (--compression off, or"
                " Zstandard is missing there): send it uncompressed",
            )

    async def unpacked(self, packed: Packed, cap: int) -> Chunk:
        """Decompress *packed*. Raises Refused."""
        size = packed.raw_length
        data = await self.crew.do(size, lambda: decompress(packed.data, size, cap))
        return Chunk(packed.offset, data, packed.digest)

    def close(self) -> None:
        self.crew.close()
