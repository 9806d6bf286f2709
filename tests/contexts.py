"""A call context that only names its caller: the base of the tests' own contexts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from flarelog.errors import FlarelogError
from flarelog.security.context import Metadata

if TYPE_CHECKING:
    import grpc


class Bare:
    """A context without TLS, metadata and messages."""

    def peer(self) -> str:
        return "ipv4:192.0.2.1:1"

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        return {}

    def invocation_metadata(self) -> Metadata | None:
        return ()

    def set_trailing_metadata(self, trailing_metadata: tuple[tuple[str, str | bytes], ...]) -> None:
        pass

    async def abort(self, code: grpc.StatusCode, details: str = "") -> NoReturn:
        raise FlarelogError(details)

    async def read(self) -> Any:
        raise EOFError

    async def write(self, message: Any) -> None:
        pass
