"""The interface of a call's context: gRPC's own, and its stand-ins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

if TYPE_CHECKING:  # at run time the answering end has imported gRPC
    import grpc

Metadata = Iterable[tuple[str, str | bytes]]


class Context(Protocol):
    """One call at the answering end, as in ``grpc.aio.ServicerContext``."""

    def peer(self) -> str:
        """The caller's address, ``ipv4:127.0.0.1:40112``."""

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        """The peer's TLS properties; empty without TLS."""

    def invocation_metadata(self) -> Metadata | None:
        """The metadata sent before the first message."""

    def set_trailing_metadata(self, trailing_metadata: tuple[tuple[str, str | bytes], ...]) -> None:
        """Set the metadata that is sent behind the last message."""

    async def abort(self, code: grpc.StatusCode, details: str = "") -> NoReturn:
        """End the call with *code*. Raises an exception that ends its handler."""

    async def read(self) -> Any:
        """The next message as bytes; ``grpc.aio.EOF`` behind the last one."""

    async def write(self, message: Any) -> None:
        """Send *message*, of a type that the call's serializer takes; returns when the peer may take another."""
