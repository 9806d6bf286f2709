"""Values of metrics in lines: which are found under which name, and what a curve keeps of them."""

from __future__ import annotations

import math
import time

import pytest

from flarelog.lines.metrics import BUCKETS, NAMES, Metrics, Values, by_rank
from tests.rows import rows, together


def found(*lines: str, times: int = 3) -> dict[str, float]:
    """The names in *lines*, which are repeated, each with its last value."""
    metrics = Metrics()
    metrics.feed(0, "".join(f"{line}\n" for line in lines * times).encode())
    return {name: one.last for name, one in metrics.curves.items()}


@together(
    ("line", "values"),
    [
        ("step 599 loss 0.52", {"loss": 0.52}),
        ("loss=0.52 accuracy=0.9", {"loss": 0.52, "accuracy": 0.9}),
        ("Epoch 3: loss: 5e-1, acc: 87%", {"loss": 0.5, "acc": 87.0}),
        ('{"step": 12, "loss": 0.5, "val/loss": 0.75}', {"loss": 0.5, "val/loss": 0.75}),
        (r'{"log":"{\"loss\": 0.5}\n","stream":"stdout"}', {"loss": 0.5}),
        ("{'loss': 2.5, 'learning_rate': 1e-05}", {"loss": 2.5, "learning_rate": 1e-05}),
        ("train loss: 0.25 val loss: 0.5", {"train loss": 0.25, "val loss": 0.5}),
        ("Validation Loss 0.5.", {"validation loss": 0.5}),
        ("\x1b[32mloss\x1b[0m: \x1b[1m0.5\x1b[0m", {"loss": 0.5}),
        ("100%|####| 5/5 [00:01<00:00, 3.1it/s, loss=.5]", {"loss": 0.5}),
        ("loss: tensor(0.5, device='cuda:0')", {"loss": 0.5}),
        ("loss (0.5)", {"loss": 0.5}),
        ("temperature=0.7", {"temperature": 0.7}),
        ("workers=8 port: 8080 retries 3 loss", {}),
        ("at 12:30:01 from 10.0.0.1:80, host: 10.0.0.2 day=2026-11-28 v: 1.2.3", {}),
        ("time: 0.5 elapsed=1.5 eta: 3.5", {}),
        ("loss_fn: cross_entropy, loss info", {}),
        ("aloss 0.5 loss0.5", {}),
    ],
)
def test_values_are_found_by_their_names(line: str, values: dict[str, float]) -> None:
    assert found(line) == values


@rows(["nan", "NaN", "inf", "-inf", "Infinity", "-Infinity"])
def test_what_is_no_number_is_a_value(text: str) -> None:
    for line in (f"loss {text}", f"loss={text},", f'{{"loss": {text}}}'):
        assert not math.isfinite(found(line)["loss"]), line


def test_a_setting_that_is_printed_once_is_no_curve() -> None:
    assert found("dropout=0.1", "loss=0.5", times=1) == {"loss": 0.5}


def test_a_curve_keeps_the_shape_the_ends_and_what_is_no_number() -> None:
    kept = Values()
    for step in range(10_000):
        kept.add(100 * step, math.nan if step == 5000 else 1.0 / (step + 1))
    curve = kept.curve
    values = curve.values
    assert BUCKETS // 2 <= len(values) <= BUCKETS
    assert (curve.total, curve.odd, curve.least, curve.most, curve.last) == (10_000, 1, 1e-4, 1.0, 1e-4)
    numbers = [one for one in values if one is not None and math.isfinite(one)]
    assert len(numbers) == len(values) - 1
    assert numbers == sorted(numbers, reverse=True)
    assert values[-1] == 1e-4


def test_a_curve_that_begins_far_in_its_log_begins_with_its_first_value() -> None:
    kept = Values()
    for offset in (10**12, 10**12 + 10**10, 10**12 + 3 * 10**10):
        kept.add(offset, 1.0)
    values = kept.curve.values
    assert values[0] == values[-1] == 1.0
    assert len(values) <= BUCKETS


def test_the_names_are_few_and_known_ones_have_room() -> None:
    metrics = Metrics()
    metrics.feed(0, b"".join(b"name%d=0.5\n" % n for n in range(1000)) * 3)
    metrics.feed(10**6, b"loss=0.5\n")
    assert len(metrics._values) == NAMES
    assert "loss" in metrics.curves


def test_loss_is_named_first() -> None:
    names = ["zeta", "accuracy", "train_loss", "lr", "loss", "alpha"]
    assert sorted(names, key=by_rank) == ["loss", "train_loss", "accuracy", "lr", "alpha", "zeta"]


@pytest.mark.parametrize(
    "piece",
    [b"a", b"a ", b"a.", b"loss ", b"loss=", b"1", b"loss 1", b"train ", b"\x1b[", b"\xff", b'"', b"a=1.", b"loss:  "],
)
def test_no_line_takes_long(piece: bytes) -> None:
    data = piece * (2_000_000 // len(piece))
    began = time.process_time()
    Metrics().feed(0, data)
    assert time.process_time() - began < 5
