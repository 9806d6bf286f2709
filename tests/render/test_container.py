"""Container formats are taken off: the case collection's view cases, and samples that runtimes wrote."""

from __future__ import annotations

import base64
import codecs
import gzip
import json
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flarelog.render.container import FORMS, Renderer, parse
from flarelog.render.rows import shortened
from flarelog.render.screen import Screen
from tests.often import tried
from tests.rows import together

CASES = json.loads((Path(__file__).parents[1] / "data" / "render.json").read_text())
SHARED = next((up / "shared" for up in Path(__file__).parents if (up / "shared/samples/cri").is_dir()), None)


def of_kind(*kinds: str) -> list[Any]:
    return [pytest.param(case, id=f"{case['id']}-{case['name']}") for case in CASES if case["kind"] in kinds]


def raw(data: Any) -> bytes:
    """Bytes as the collection writes them."""
    if isinstance(data, str):
        return data.encode()
    if "b64" in data:
        return base64.b64decode(data["b64"])
    if "concat" in data:
        return b"".join(map(raw, data["concat"]))
    return "".join(islice(cycle(data["pattern"]), data["len"])).encode()


def rendered(data: bytes, *, size: int = 1 << 20, **options: Any) -> list[tuple[str | None, str]]:
    renderer = Renderer(options.pop("form", "auto"), **options)
    lines = [line for at in range(0, len(data), size) for line in renderer.feed(data[at : at + size])]
    return [(line.stream or None, line.text) for line in lines + renderer.close()]


# --- the collection


@together("case", of_kind("container_line"))
def test_a_line_is_parsed(case: dict[str, Any]) -> None:
    line, expected = raw(case["input"]["line"]), case["expected"]
    record = parse(line, case["input"]["format"])
    if "error" in expected:
        assert record is None
        shown = line.decode().removesuffix("\n")  # a line without the format is shown unchanged
        assert rendered(line, form=case["input"]["format"]) == ([(None, shown)] if line else [])
    elif case.get("strict", True):
        assert record is not None
        tags = None if record.tags is None else list(record.tags)
        found: dict[str, Any] = {"time": record.time, "stream": record.stream, "tags": tags, "partial": record.partial}
        found |= {"attrs": record.attributes} if "attrs" in expected["record"] else {}
        wanted = {key: value for key, value in expected["record"].items() if key not in ("log", "kubelet_log")}
        assert found == wanted
        assert record.log == raw(expected["record"]["log"])


@together("case", of_kind("container_merge"))
@together("size", [1 << 20, 1])
def test_parts_are_joined(case: dict[str, Any], size: int) -> None:
    data = b"".join(line.encode().removesuffix(b"\n") + b"\n" for line in case["input"]["lines"])
    assert rendered(data, form=case["input"]["format"], size=size) == list(map(tuple, case["expected"]["merged"]))


@pytest.mark.parametrize("case", of_kind("merge_limit"))
def test_a_joined_line_is_limited_in_the_view(case: dict[str, Any]) -> None:
    data = b"".join(
        b"2026-11-20T08:00:00Z stdout %b %b\n" % (b"P" if part["partial"] else b"F", part["log"].encode())
        for part in case["input"]["parts"]
    )
    action = {"truncate": "cut", "drop": "drop"}[case["input"]["action"]]
    limit = case["input"]["max_merged_bytes"]
    assert [text for _, text in rendered(data, limit=limit, overlong=action)] == case["expected"]["view"]


@together("case", of_kind("split"))
@together("size", [1 << 20, 3])
def test_lines_are_split(case: dict[str, Any], size: int) -> None:
    given, expected = case["input"], case["expected"]
    screen = Screen(limit=given.get("max_line_bytes", 1 << 16), overlong=given.get("overlong", "cut"))
    data = raw(given["data"])
    done = [line for at in range(0, len(data), size) for line in screen.feed(data[at : at + size])] + screen.settle()
    assert [line.text.encode() for line in done] == list(map(raw, expected["lines"]))
    assert "".join(screen.open()) == expected["unterminated"]


@together("case", of_kind("encoding"))
def test_other_encodings_are_read_as_utf8(case: dict[str, Any]) -> None:
    """``flarelog view --encoding`` does so, too; ``-o raw`` shows the bytes."""
    given, data = case["input"], raw(case["input"]["data"])
    assert raw(case["expected"]["raw_bytes_shipped"]) == data
    if given["encoding"] == "bytes":
        assert data.removesuffix(b"\n") == raw(case["expected"]["lines"][0])
        return
    decoder = codecs.getincrementaldecoder(given["encoding"])("replace")
    data = data if given["encoding"] == "utf-8" else decoder.decode(data, True).encode()
    assert [text for _, text in rendered(data)] == case["expected"]["lines"]


# --- samples of runtimes


def sample(name: str) -> bytes:
    if SHARED is None:
        pytest.skip("the collection of samples is not beside this project")
    return (SHARED / "samples/cri" / name).read_bytes()


@pytest.mark.parametrize("writer", ["conmon", "containerd", "dockerjson"])
def test_lines_that_a_runtime_cut_are_whole(writer: str) -> None:
    lengths = [len(text) for _, text in rendered(sample(f"{writer}_long.log"), limit=1 << 17)]
    assert lengths == [len(text) for _, text in rendered(sample("containerd_long.log"), limit=1 << 17)]
    assert max(lengths) == 70000


def test_a_glyph_that_a_runtime_tore_is_whole() -> None:
    data = sample("conmon_utf8.log")
    assert data.decode(errors="replace").count("\ufffd") > 50
    renderer = Renderer(limit=1 << 17)
    assert len(renderer.feed(data) + renderer.close()) == 7
    assert renderer.replaced == 0


def test_both_streams_come_in_the_order_in_which_their_lines_ended() -> None:
    found = rendered(sample("containerd_interleave.log"))
    assert [stream for stream, _ in found] == [
        "stdout" if record.stream == "stdout" else "stderr"
        for line in sample("containerd_interleave.log").splitlines(keepends=True)
        if (record := parse(line)) is not None
    ]


def test_a_bar_is_one_line_though_each_update_is_a_record() -> None:
    bars = [text for stream, text in rendered(sample("conmon_tqdm.log")) if stream == "stderr"]
    assert [text[:13] for text in bars] == ["epoch 0: 100%", "epoch 1: 100%"]


def test_a_line_goes_on_in_the_next_file() -> None:
    directory = "samples/cri/containerd_rotated_dir"
    if SHARED is None:
        pytest.skip("the collection of samples is not beside this project")
    renderer, lines = Renderer(), []
    for path in sorted((SHARED / directory).iterdir(), key=lambda path: path.name.ljust(60, "~")):
        data = path.read_bytes()
        lines += renderer.feed(gzip.decompress(data) if path.suffix == ".gz" else data) + renderer.next_file()
    texts = [line.text for line in lines + renderer.close()]
    numbers = [int(text.split()[1]) for text in texts if text.startswith("tick ")]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


# --- rules of our own


def test_a_log_without_records_waits_for_nothing() -> None:
    renderer = Renderer()
    assert [renderer.feed(b"loading the model ..."), renderer.open()] == [[], ["loading the model ..."]]


def test_a_record_is_recognised_behind_a_torn_one() -> None:
    data = b'ut F the end of a line\n2026-11-20T08:00:00Z stdout F next\n{"log": "x"}\n'
    assert rendered(data) == [(None, "ut F the end of a line"), ("stdout", "next"), (None, '{"log": "x"}')]


def test_lines_know_their_time_stream_and_bytes() -> None:
    data = b"2026-11-20T08:00:00.5+05:30 stderr P a\n2026-11-20T08:00:01Z stdout F b\n2026-11-20T08:00:02Z stderr F c\n"
    renderer = Renderer()
    first, second = renderer.feed(data) + renderer.close()
    assert (first.text, first.stream, first.offset, first.end) == ("b", "stdout", 39, 71)
    assert (second.text, second.stream, second.offset, second.end) == ("ac", "stderr", 0, len(data))
    assert second.time == 1795141800_500000000  # the time of its first part


def test_streams_of_more_lines_than_the_window_keep_their_order() -> None:
    streams = [b"stderr" if number % 7 == 0 else b"stdout" for number in range(500)]
    data = b"".join(b"2026-11-20T08:00:00Z %b F %d\n" % (stream, number) for number, stream in enumerate(streams))
    assert [int(text) for _, text in rendered(data)] == list(range(500))
    assert [int(text) for _, text in rendered(data, size=9)] == list(range(500))


@pytest.mark.parametrize("rest", ["", '"attrs":{"tag":"x"},'], ids=["plain", "attributes"])
@pytest.mark.parametrize("size", [1000, 1 << 16, 1 << 20])
def test_a_record_of_docker_that_holds_a_very_long_line_is_a_record(rest: str, size: int) -> None:
    """Before it cut lines at 16 KiB, Docker wrote them whole."""
    text = r"a \u00e9\t\"b\" " * 73_000  # 1.1 MB
    line = f'{{"log":"{text}\\n","stream":"stderr",{rest}"time":"2026-11-20T08:00:00.1Z"}}\n'.encode()
    assert 1_100_000 < len(line) < 1_200_000
    record = parse(line)
    assert record is not None
    assert record.log == json.loads(f'"{text}"').encode()
    found = rendered(b'{"log":"x\\n","stream":"stdout","time":"2026-11-20T08:00:00Z"}' + b"\n" + line, size=size)
    assert [stream for stream, _ in found] == ["stdout", "stderr"]
    assert found[1][1].startswith("a \u00e9")


def test_what_is_too_long_for_a_record_is_shown_as_it_is() -> None:
    data = b"2026-11-20T08:00:00Z stdout F " + b"x" * (3 << 20)  # without a bound none of its bytes would be shown
    assert [text[:30] for _, text in rendered(data + b"\nnext\n", size=1 << 16)] == [data[:30].decode(), "next"]


RECORDS = st.lists(
    st.one_of(
        st.builds(
            lambda stream, tag, log: b"2026-11-20T08:00:00.1Z %b %b %b\n" % (stream, tag, log.replace(b"\n", b"")),
            st.sampled_from([b"stdout", b"stderr"]),
            st.sampled_from([b"P", b"F"]),
            st.one_of(st.binary(max_size=5), st.sampled_from([b"\r50%|", b"\x1b[A", b"text"])),
        ),
        st.builds(
            lambda log: json.dumps({"log": log, "stream": "stdout", "time": "2026-11-20T08:00:00Z"}).encode() + b"\n",
            st.sampled_from(["a\n", "b", "\r9%\n", "two\nlines\n", "\ud800\n"]),
        ),
        st.binary(max_size=8),
    ),
    max_size=20,
).map(b"".join)


@tried(60, 300)
@given(RECORDS, st.sampled_from(FORMS), st.booleans(), st.integers(1, 40))
def test_the_pieces_make_no_difference(data: bytes, form: Any, steps: bool, size: int) -> None:
    whole = rendered(data, form=form, steps=steps)
    assert rendered(data, form=form, steps=steps, size=size) == whole
    assert rendered(data, form=form, steps=steps, size=1) == whole


def test_what_is_cut_has_a_mark_where_there_is_room_for_one() -> None:
    assert [shortened("abcdefghijklmnop", limit, "cut") for limit in (1, 7, 8, 11, 12)] == [
        *(["a"], ["abcdefg"], ["abcdefg\u2026"], ["abcdefghij\u2026"], ["a..TRUNCATED"]),
    ]


@pytest.mark.parametrize("size", [7, 1 << 20])
def test_what_docker_began_does_not_go_on_in_a_record_of_cri(size: int) -> None:
    docker = b'{"log":"docker half","stream":"stdout","time":"2026-11-20T08:00:00Z"}\n'
    cri = b"2026-11-20T08:00:01Z stdout %b %b\n"
    both = docker + cri % (b"F", b"one") + cri % (b"P", b"cri half") + docker + docker
    assert rendered(both, size=size) == [
        *(("stdout", text) for text in ("docker half", "one", "cri half", "docker halfdocker half")),
    ]


def crlf(*records: tuple[str, str]) -> bytes:
    return "".join(f"2026-11-20T08:00:00Z stdout {tag} {text}\r\n" for tag, text in records).encode()


@pytest.mark.parametrize("cut", [1, 7, 1000, 1 << 20])
def test_the_parts_of_a_long_line_are_joined_in_a_file_whose_lines_end_in_crlf(cut: int) -> None:
    parts = "a" * 16384, "b" * 16384, "c" * 5
    data = crlf(("F", "before"), ("P", parts[0]), ("P", parts[1]), ("F", parts[2]), ("F", "behind"))
    renderer = Renderer("auto")
    lines = [line for at in range(0, len(data), cut) for line in renderer.feed(data[at : at + cut])]
    assert [line.text for line in lines + renderer.close()] == ["before", "".join(parts), "behind"]


def test_what_a_container_with_a_terminal_says_is_not_joined() -> None:
    """A terminal ends each line in CRLF, so each record ends in CR; a bar comes in parts and is redrawn."""
    data = crlf(("F", "one"), ("F", "two"), ("P", " 10% of it"), ("P", " 20% of it"), ("F", " 30% of it"), ("F", "end"))
    renderer = Renderer("auto")
    shown = [line.text for line in renderer.feed(data) + renderer.close()]
    assert shown == ["one", "two", " 30% of it", "end"]
