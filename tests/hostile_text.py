"""Every text field of the wire contract, found by reflection, with the text of a hostile peer.

The tests cover new fields of the contract without a change.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from flarelog.v1 import log_pb2 as pb

FORGED = "2026-01-01T00:00:00.000Z ERROR forged"
HOSTILE = (
    f"begin\n{FORGED}\r\n{FORGED}\x1b[2J\x1b]0;title\x07\x9b31m\x90q\x85{FORGED}\u2028{FORGED}\u2029{FORGED}\x0b{FORGED}"
    "\x00\x7f\b\u202egpj\u2066\u200f\u061c\ufeff\U000e0041end"
)
HUGE = 900_000  # characters
SERVICE = pb.DESCRIPTOR.services_by_name["LogService"]
NAMES = {
    *(("StreamId", "run"), ("StreamId", "site"), ("StreamId", "log"), ("RunInfo", "run")),
    *(("Moments", "site"), ("Moments", "log"), ("Moment", "logs")),
}
"""Fields that are validated instead: a message with a hostile one is refused."""

Path = tuple[FieldDescriptor, ...]


def messages() -> list[Descriptor]:
    """The messages that the service's methods take and return."""
    found = {each.name: each for method in SERVICE.methods for each in (method.input_type, method.output_type)}
    return list(found.values())


def texts(message: Any, above: Path = ()) -> Iterator[Path]:
    """The path of fields to each text that *message* can hold."""
    for field in message.fields:
        if field.type == FieldDescriptor.TYPE_STRING:
            yield (*above, field)
        elif field.message_type is not None and field.message_type not in {one.message_type for one in above}:
            yield from texts(field.message_type, (*above, field))


def is_name(path: Path) -> bool:
    return (message_of(path[-1:]), path[-1].name) in NAMES


def spoil(message: Message, path: Path, text: str) -> None:
    """Set the text at *path* in *message* to *text*, in each element of repeated fields; an empty one gets one element.

    A oneof that is set to another field stays as it is.
    """
    place: Any = message
    for field in path[:-1]:
        if field.containing_oneof and place.WhichOneof(field.containing_oneof.name) not in (None, field.name):
            return
        if (
            (message_of((field,)), field.name) == ("Mark", "exit")
            and place.WhichOneof("kind")
            and not place.HasField("exit")
        ):
            return  # a field beside the oneof, for older readers
        inner = getattr(place, field.name)
        if field.is_repeated:
            for one in inner or [inner.add()]:
                spoil(one, path[path.index(field) + 1 :], text)
            return
        inner.SetInParent()
        place = inner
    if path[-1].is_repeated:
        getattr(place, path[-1].name).append(text)
    else:
        setattr(place, path[-1].name, text)


def message_of(path: Path) -> str:
    """The name of the message in which *path* begins."""
    place = path[0].containing_type
    assert place is not None
    return place.name


def called(path: Path) -> str:
    return ".".join(field.name for field in path)
