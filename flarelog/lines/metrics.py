"""The values that a program prints while it trains: ``loss 0.52``, ``loss=0.52``, ``{"val_loss": 0.5}``. Pure.

A log may have any number of names and of values. A curve keeps a value for each of BUCKETS parts of its log, and each
value that is no number; the least, the greatest and the last one are those of all values that were read.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import NamedTuple

from flarelog.late import late

BUCKETS = 64  # parts of a log: at least half of them are in use once there are as many values
NAMES = 12  # of one log
ENOUGH = 3  # values of a name that is not known: a curve of fewer is a setting that was printed

_KNOWN = frozenset(
    (
        *(
            "loss",
            "losses",
            "acc",
            "accuracy",
            "auc",
            "auroc",
            "f1",
            "dice",
            "iou",
            "miou",
            "map",
            "mse",
            "mae",
            "rmse",
        ),
        *("r2", "perplexity", "ppl", "bleu", "rouge", "reward", "return", "score", "precision", "recall", "norm", "lr"),
        *("acc1", "acc5", "top1", "top5", "nll", "kl", "elbo", "psnr", "ssim", "fid", "wer", "cer"),
    )
)
_OTHERS = frozenset(("time", "ts", "timestamp", "created", "elapsed", "eta", "version", "msecs", "relativecreated"))
_FIRST = ("loss", "accuracy", "acc")  # names that are shown before others
_VALUE = late(
    rb"(?<![\w./-])([A-Za-z_][\w./-]{0,39}+)"
    rb"(\\?[\"']?[ \t]{0,2}[=:][ \t]{0,2}|[ \t]{1,3})(?:tensor)?[\"'\[(]?"
    rb"([+-]?(?:\d{1,20}(?:\.\d{0,20})?|\.\d{1,20})(?:[eE][+-]?\d{1,3})?|[+-]?(?i:nan|inf(?:inity)?))"
    rb"(?!\.?\w|[:/-]\d)"
)
_WHICH = late(
    rb"(?<![\w./-])(?:train|training|val|valid|validation|test|eval|mean|avg|average|best)[ ]\Z", re.IGNORECASE
)
_COLOUR = late(rb"\x1b\[[0-9;]{0,30}m")
_PARTS = re.compile(r"[\W_]+")


class Curve(NamedTuple):
    """*values*: those in the parts of a log from the first one with a value to the last, None where a part has none.
    *least* and *most* of the numbers; *total*: how many values there are, *odd* of those that are no numbers.
    """

    values: tuple[float | None, ...]
    least: float
    most: float
    last: float
    total: int
    odd: int = 0


class Values:
    """The values of one name, by their offsets in the log."""

    def __init__(self) -> None:
        self.least, self.most, self.last = math.inf, -math.inf, math.nan
        self.total = self.odd = 0
        self._width, self._buckets = 1, list[float | None]([None]) * BUCKETS

    def add(self, offset: int, value: float) -> None:
        """Take in *value*, which stands behind those before."""
        self.total, self.last = self.total + 1, value
        if math.isfinite(value):
            self.least, self.most = min(self.least, value), max(self.most, value)
        else:
            self.odd += 1
        while offset // self._width >= BUCKETS:
            self._width *= 2
            halved, self._buckets = self._buckets, list[float | None]([None]) * BUCKETS
            for key, one in enumerate(halved):
                if one is not None:
                    self._put(key // 2, one)
        self._put(offset // self._width, value)

    def _put(self, key: int, value: float) -> None:
        if math.isfinite(self._buckets[key] or 0.0):  # what is no number stays: people look for it
            self._buckets[key] = value

    @property
    def curve(self) -> Curve:
        used = [key for key, one in enumerate(self._buckets) if one is not None]
        return Curve(
            tuple(self._buckets[used[0] : used[-1] + 1]), self.least, self.most, self.last, self.total, self.odd
        )


class Metrics:
    """The curves of one log, by name, in small letters."""

    def __init__(self) -> None:
        self._values: dict[str, Values] = {}

    def feed(self, begin: int, data: bytes) -> None:
        """Take in whole lines, which begin at *begin*."""
        if b"\x1b" in data:
            data = _COLOUR.sub(b"", data)  # the places are those of the rest, which are near enough
        for found in _VALUE.finditer(data):
            name, known = _named(found[1])
            if not known and (not name or found[3].isdigit() or found[2].isspace()):
                continue
            if known and (which := _WHICH.search(data, max(0, found.start() - 12), found.start())) is not None:
                name = f"{which[0].decode().lower()}{name}"
            values = self._values.get(name) or self._begun(name, known=known)
            if values is not None:
                values.add(begin + found.start(), float(found[3]))

    def _begun(self, name: str, *, known: bool) -> Values | None:
        """The place for the values of *name*; None where there is no room. A known name takes the room of another."""
        if len(self._values) >= NAMES:
            other = next((one for one in self._values if not is_known(one)), None) if known else None
            if other is None:
                return None
            del self._values[other]
        values = self._values[name] = Values()
        return values

    @property
    def curves(self) -> dict[str, Curve]:
        """The curves that are worth a look."""
        return {name: one.curve for name, one in self._values.items() if one.total >= ENOUGH or is_known(name)}


def by_rank(name: str) -> tuple[int, bool, str]:
    """A key that sorts names: ``loss`` and other names with it first, then accuracy, known names, and the rest."""
    parts = _PARTS.split(name)
    at = next((number for number, one in enumerate(_FIRST) if one in parts), len(_FIRST))
    return (at if at < len(_FIRST) or is_known(name) else at + 1), len(parts) > 1, name


def is_known(name: str) -> bool:
    return not _KNOWN.isdisjoint(_PARTS.split(name))


@lru_cache(maxsize=1024)
def _named(raw: bytes) -> tuple[str, bool]:
    """The name in *raw*, empty where its values are no curve, and whether it is known to be a metric's."""
    name = raw.decode("ascii", "replace").lower().strip("._/-")
    if name in _OTHERS or not name:
        return "", False
    return name, is_known(name)
