"""What flarelog asks of the context of a call: gRPC's own, and those that stand for one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

if TYPE_CHECKING:  # who answers has gRPC loaded
    import grpc

Metadata = Iterable[tuple[str, str | bytes]]


class Context(Protocol):
    """One call, at the end that answers; as ``grpc.aio.ServicerContext`` has it."""

    def peer(self) -> str:
        """The caller's address, ``ipv4:127.0.0.1:40112``."""

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        """What the handshake of TLS told; empty without TLS."""

    def invocation_metadata(self) -> Metadata | None:
        """What was sent before the first message."""

    def set_trailing_metadata(self, trailing_metadata: tuple[tuple[str, str | bytes], ...]) -> None:
        """What is sent behind the last message."""

    async def abort(self, code: grpc.StatusCode, details: str = "") -> NoReturn:
        """End the call with *code*. Raises what ends its handler."""

    async def read(self) -> Any:
        """The next message as bytes; ``grpc.aio.EOF`` behind the last one."""

    async def write(self, message: Any) -> None:
        """Send *message*, of a kind that the call's serializer takes, and return when the peer may take another."""
