"""Kinds of secrets from data/secrets.txt: each line gives any number of examples, which are random and never real."""

from __future__ import annotations

import random
import re
import string
from dataclasses import dataclass
from pathlib import Path

_ALPHABETS = {
    "a": string.ascii_letters + string.digits,
    "b": string.ascii_letters + string.digits + "+/",
    "c": "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
    "d": string.digits,
    "h": "0123456789abcdef",
    "H": "0123456789ABCDEF",
    "l": string.ascii_lowercase + string.digits,
    "L": string.ascii_letters,
    "p": "qpzry9x8gf2tvdw0s3jn54khce6mua7l",
    "q": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
    "U": string.ascii_uppercase + string.digits,
    "w": string.ascii_letters + string.digits + "-_",
    "3": string.ascii_uppercase + "234567",
}
_RANDOM = re.compile(r"\{(?:(e)|(uuid)|([a-zA-Z3]):(\d+))\}")


@dataclass(frozen=True, slots=True)
class Shape:
    name: str
    template: str
    known: bool  # whether it is known to get through

    def example(self, seed: int) -> tuple[bytes, list[tuple[int, int]]]:
        """A line, and the spans of the secrets in it."""
        chance = random.Random(f"{self.name} {seed}")

        def filled(found: re.Match[str]) -> str:
            if found[1]:
                return "\x1b"
            if found[2]:
                return "-".join("".join(chance.choices(_ALPHABETS["h"], k=n)) for n in (8, 4, 4, 4, 12))
            return "".join(chance.choices(_ALPHABETS[found[3]], k=int(found[4])))

        line, spans = b"", []
        for n, piece in enumerate(re.split("[«»]", _RANDOM.sub(filled, self.template))):
            if n % 2:
                spans.append((len(line), len(line) + len(piece.encode())))
            line += piece.encode()
        return line, spans


def _read() -> list[Shape]:
    text = (Path(__file__).parents[2] / "data" / "secrets.txt").read_text()
    rows = [line.split("|", 1) for line in text.splitlines() if not line.startswith("#")]
    return [Shape(name.removeprefix("!"), template, name.startswith("!")) for name, template in rows]


SHAPES = _read()
