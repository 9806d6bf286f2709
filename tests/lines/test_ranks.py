"""Ranks are known or waited for: the most reliable source of a rank wins, and no rank is guessed."""

from __future__ import annotations

import pytest

from flarelog.errors import InvalidOption
from flarelog.lines.line import Line
from flarelog.lines.ranks import RankChoice, RankChooser, RankedLines, Verdict, known, named, rank_map, rank_of
from flarelog.model import Attributes, Ended, Generation, Mark, StreamId, StreamInfo
from tests.annotated import annotated
from tests.rows import together

RUN = "run-1"
NODE = "ranks:0=8+1=9,group-rank:1,world-size:16"


def generation(offset: int, identity: str = "f-1") -> Generation:
    return Generation(offset, 0, "log", 0, identity)


def info(log: str = "log.txt", *marks: Mark, site: str = "site-1", sealed: bool = False) -> StreamInfo:
    return StreamInfo(StreamId(RUN, site, log), 0, 1000, 0, sealed, marks or (generation(0),))


def written(words: str, log: str = "log.txt", site: str = "site-1") -> StreamInfo:
    return info(log, generation(0), Attributes(5, 0, words), site=site)


def chooser(*infos: StreamInfo, ranks: str = "", globs: tuple[str, ...] = (), mapping: tuple[str, ...] = (),
            over: bool = False) -> RankChooser:  # fmt: skip
    made = RankChooser(RankChoice.of(globs, ranks, mapping))
    made.learn(infos, over=over)
    return made


@together(
    ("log", "rank", "local"),
    [
        ("rank-3.log", 3, None), ("rank_3.log", 3, None), ("rank3", 3, None), ("rank-0/stderr.log", 0, None),
        ("worker_3.log", 3, None), ("worker-12/log.txt", 12, None), ("train_rank3.log", 3, None),
        ("global_rank_3.txt", 3, None), ("worker-1/rank-9.log", 9, None),
        ("local_rank-3.log", None, 3), ("a/local_rank3/x.log", None, 3), ("x_y/attempt_0/3/stdout.log", None, 3),
        ("rank-1/rank-2.log", None, None), ("frank3.log", None, None), ("rank-3-of-8.log", None, None),
        ("log.txt", None, None), ("3.log", None, None), ("gpu3.log", None, None), ("attempt_0/3/other.log", None, None),
        ("rank.log", None, None), ("rank-12345678.log", None, None),
    ],
)  # fmt: skip
def test_names_that_tell_a_rank_and_names_that_do_not(log: str, rank: int | None, local: int | None) -> None:
    assert named(log) == (rank, local)


def test_the_best_word_wins() -> None:
    (by_name,) = known(info("rank-3.log"))
    assert (by_name.rank, by_name.how) == (3, "name")
    (by_environment,) = known(written("rank:5,world-size:8", "rank-3.log"))
    assert (by_environment.rank, by_environment.how, by_environment.world_size) == (5, "environment", 8)
    (by_map,) = known(written("rank:5,world-size:8", "rank-3.log"), rank_map(["site-1/*=7"]))
    assert (by_map.rank, by_map.how) == (7, "rank map")
    (by_label,) = known(written("rank:5,rank-from:job-index,k8s.pod.name:web", "rank-3.log"))
    assert (by_label.rank, by_label.how) == (5, "label")
    assert [rank_of(by_label, text) for text in ("[rank4]: Traceback", "[default2]:x", "plain")] == [4, None, 5]
    assert rank_of(by_name, "[rank4]: Traceback") == 4
    assert rank_of(by_name, "2026-11-29T05:00:00.123456789Z [rank4]: Traceback") == 4
    assert rank_of(by_environment, "[rank4]: Traceback") == 5
    assert rank_of(by_name, "plain") == 3


def test_a_local_rank_tells_a_rank_only_where_it_is_known_which() -> None:
    (alone,) = known(info())
    assert rank_of(alone, "[default1]:step 3") is None
    assert rank_of(alone, "[default1]:[rank9]: Traceback") == 9
    (gang,) = known(written(NODE))
    assert [rank_of(gang, text) for text in ("[default1]:step 3", "[default0]:x", "[default7]:x", "launcher")] == [
        *(9, 8, None, None)
    ]
    (mapped,) = known(info(), rank_map(["site-1/log.txt:1=3", "site-2/*:1=4"]))
    assert rank_of(mapped, "[default1]:step 3") == 3
    (directory,) = known(written(NODE, "x/attempt_0/1/stdout.log"))
    assert (directory.rank, directory.how) == (9, "environment")
    (unknown,) = known(info("x/attempt_0/1/stdout.log"))
    assert (unknown.rank, unknown.locals) == (None, {})


def test_what_is_known_belongs_to_a_generation_from_its_beginning_on() -> None:
    marks = (
        generation(0, "f-1"), Attributes(50, 0, "rank:1"), Ended(100, 0, "rotated"),
        generation(100, "f-2"), Ended(110, 0, "rotated"),  # too short to be asked for: between two that agree
        generation(110, "f-3"), Attributes(120, 0, "rank:1"),
        Attributes(200, 0, "rank:0"),  # the restarted gang appends to the same file
        generation(300, "f-1"), generation(310, "f-3"),  # a late writer of the rotated file
        Ended(400, 0, "truncated"), generation(400, "f-3"),
    )  # fmt: skip
    found = [(stretch.start, stretch.rank) for stretch in known(info("log.txt", *marks))]
    assert found == [(0, 1), (200, 0), (300, 1), (310, 0), (400, None)]


def test_what_the_processes_tell_replaces_the_label_of_their_pod_from_the_beginning_on() -> None:
    job = "k8s.namespace.name:ns,k8s.job.name:train"
    words = {5: "rank:9,rank-from:job-index", 70: "rank:15,world-size:16", 90: "rank:3,world-size:16"}
    marks: list[Mark] = [generation(0), *(Attributes(at, 0, f"{each},{job}") for at, each in words.items())]
    found = [(stretch.start, stretch.rank, stretch.how) for stretch in known(info("log.txt", *marks))]
    assert found == [(0, 15, "environment"), (90, 3, "environment")]
    late = (generation(0), Attributes(5, 0, "k8s.pod.name:web"), Attributes(70, 0, f"rank:9,rank-from:x,{job}"))
    assert [(stretch.start, stretch.rank) for stretch in known(info("log.txt", *late))] == [(0, 9)]


def test_the_last_of_the_labels_of_a_job_is_that_of_all_nodes() -> None:
    words = "rank:{},rank-from:job-index,k8s.namespace.name:ns,k8s.job.name:{}"
    logs = [written(words.format(*each), f"{at}.log", f"node-{at}") for at, each in enumerate([
        (0, "a"), (1, "a"), (2, "a"), (0, "b"), (1, "b")])]  # fmt: skip
    found = chooser(*logs, ranks="last")
    assert {found.verdict(str(log.stream), 0) for log in logs} == {Verdict.WAIT}
    found.learn(logs, over=True)
    assert [found.line(str(log.stream), 0, "x") for log in logs] == [
        *(Verdict.ERRORS, Verdict.ERRORS, Verdict.SHOW, Verdict.ERRORS, Verdict.SHOW)
    ]


def test_first_and_last_are_shown_and_of_others_their_errors() -> None:
    logs = {rank: written(f"rank:{rank},world-size:4", f"{rank}.log") for rank in range(4)}
    found = chooser(*logs.values(), ranks="first,last")
    assert [found.verdict(str(log.stream), 0) for log in logs.values()] == [
        *(Verdict.SHOW, Verdict.ERRORS, Verdict.ERRORS, Verdict.SHOW)
    ]
    only = chooser(*logs.values(), globs=("[12]",))
    assert [only.verdict(str(log.stream), 0) for log in logs.values()] == [
        *(Verdict.HIDE, Verdict.SHOW, Verdict.SHOW, Verdict.HIDE)
    ]


def test_the_last_rank_of_those_that_are_there_is_not_taken_for_the_last_one() -> None:
    logs = [written(f"rank:{rank},world-size:16", f"{rank}.log") for rank in (0, 7)]
    assert chooser(*logs, ranks="first,last").verdict(str(logs[1].stream), 0) is Verdict.ERRORS
    names = [info(f"rank-{rank}.log") for rank in (0, 7)]
    found = chooser(*names, ranks="first,last")
    assert [found.verdict(str(log.stream), 0) for log in names] == [Verdict.BY_LINE, Verdict.WAIT]
    found.learn(names, over=True)
    assert found.line(str(names[1].stream), 0, "x") is Verdict.SHOW
    mapped = chooser(*names, ranks="last", mapping=("*/rank-7.log=7", "*/rank-0.log=0"))
    assert mapped.verdict(str(names[1].stream), 0) is Verdict.SHOW


def test_it_waits_until_a_rank_is_known_and_then_decides_from_the_beginning() -> None:
    log = info("out.log")
    found = chooser(log, ranks="first,last")
    assert found.verdict(str(log.stream), 0) is Verdict.WAIT
    found.learn([written("rank:0,world-size:8", "out.log")])
    assert found.verdict(str(log.stream), 0) is Verdict.SHOW
    found.learn([info("out.log", generation(0), Attributes(5, 0, "rank:0,world-size:8"), Ended(90, 0, "rotated"),
                      generation(90, "f-2"), Attributes(95, 0, "rank:3,world-size:8"))])  # fmt: skip
    assert [found.verdict(str(log.stream), at) for at in (0, 89, 90)] == [Verdict.SHOW, Verdict.SHOW, Verdict.ERRORS]


def test_at_the_run_s_end_what_nobody_knows_shows_its_errors() -> None:
    log = info("out.log")
    found = chooser(log, ranks="first,last", over=True)
    assert found.verdict(str(log.stream), 0) is Verdict.BY_LINE
    assert found.line(str(log.stream), 0, "Traceback") is Verdict.ERRORS
    assert found.line(str(log.stream), 0, "[rank0]: Traceback") is Verdict.SHOW


def test_a_file_that_a_whole_machine_writes_is_chosen_line_by_line() -> None:
    log = written(NODE)
    found = chooser(log, ranks="first,last")
    stream = str(log.stream)
    assert found.verdict(stream, 0) is Verdict.BY_LINE
    assert [found.line(stream, 0, text) for text in ("[default0]:a", "[default1]:b", "launcher")] == [
        Verdict.ERRORS
    ] * 3
    last = chooser(written("ranks:0=14+1=15,world-size:16"), ranks="first,last")
    assert [last.line(stream, 0, text) for text in ("[default0]:a", "[default1]:b", "launcher")] == [
        *(Verdict.ERRORS, Verdict.SHOW, Verdict.SHOW)
    ]
    assert last.rank(stream, 0, "[default1]:b") == 15
    only = chooser(written("ranks:0=14+1=15,world-size:16"), globs=("15",))
    assert only.line(stream, 0, "launcher") is Verdict.HIDE


def test_each_site_may_have_a_gang_of_its_own() -> None:
    logs = [written("rank:1,world-size:2", "a.log", "site-1"), written("rank:1,world-size:4", "a.log", "site-2")]
    found = chooser(*logs, ranks="last")
    assert [found.verdict(str(log.stream), 0) for log in logs] == [Verdict.SHOW, Verdict.ERRORS]


UNKNOWN = "the ranks of these logs are not known: --rank-map tells them, as in --rank-map 'site-1/**=0'"


@together(
    ("logs", "lines", "globs", "ranks", "why"),
    [
        (["log.txt"], ["step 1"], ("0",), "", UNKNOWN),
        (["log.txt"], ["[default0]:step 1"], ("0",), "", UNKNOWN),
        (["log.txt"], ["step 1"], (), "first", UNKNOWN),
        (["log.txt"], [], ("0",), "", ""),
        (["log.txt"], ["[rank3]: x"], ("3",), "", ""),
        (["log.txt"], ["[rank3]: x", "y"], ("0",), "", "no log has rank 0: known are 3"),
        (["rank-0.log", "rank-1.log", "rank-7.log"], ["x"], ("9", "8?"), "",
         "no log has rank 9 or 8?: known are 0 to 1, 7"),
        (["rank-0.log"], [], ("0",), "", ""),
        (["rank-1.log"], ["x"], (), "first", "no log has rank 0: known are 1"),
        (["rank-1.log"], ["x"], (), "last", ""),  # another log may come
        (["log.txt"], ["x"], (), "", ""),
        ([f"rank-{n}.log" for n in range(1, 40, 2)], ["x"], ("0",), "",
         "no log has rank 0: known are 1, 3, 5, 7, 9, 11, 13, 15, ..."),
    ],
)  # fmt: skip
def test_why_no_line_is_of_a_rank_that_is_wanted(
    logs: list[str], lines: list[str], globs: tuple[str, ...], ranks: str, why: str
) -> None:
    infos = [info(log) for log in logs]
    found = chooser(*infos, globs=globs, ranks=ranks)
    for one in infos:
        shown = RankedLines(found, str(one.stream))
        shown.feed(Line(n, n + 1, text) for n, text in enumerate(lines))
    assert found.unmatched() == why


@together(
    ("text", "ranks", "hides"),
    [
        pytest.param("step 2", "first,last", True, id="a-line"),
        pytest.param("ValueError: no", "first,last", False, id="an-error-that-is-shown"),
        pytest.param("[rank1]: step 2", "first,last", False, id="a-prefix-tells-the-rank"),
        pytest.param("step 2", "", False, id="everything-is-shown"),
    ],
)
def test_lines_of_an_attempt_without_a_known_rank_are_not_hidden_in_silence(text: str, ranks: str, hides: bool) -> None:
    log = info("out.log", generation(0), Attributes(0, 0, "rank:0,world-size:8"), Ended(5, 0, "rotated"),
               generation(5, "f-2"))  # fmt: skip
    found = chooser(log, ranks=ranks)
    found.learn([log], over=True)
    RankedLines(found, log.stream.key).feed(annotated([Line(0, 5, "step 1"), Line(5, 9, text)]))
    said = "lines of site-1/out.log are not shown, because their rank is not known: --rank-map tells it"
    assert found.unranked() == said * hides
    assert not (ranks and found.unmatched())


def test_without_a_choice_everything_is_shown() -> None:
    log = info()
    assert chooser(log).verdict(str(log.stream), 0) is Verdict.SHOW
    assert chooser(log).line(str(log.stream), 0, "x") is Verdict.SHOW


def test_a_stream_is_read_up_to_what_must_be_waited_for() -> None:
    log = info("out.log", generation(0), Attributes(5, 0, "rank:0,world-size:8"), Ended(90, 0, "rotated"),
               generation(90, "f-2"))  # fmt: skip
    found = chooser(log, ranks="first")
    stream = str(log.stream)
    assert [found.readable(stream, at) for at in (0, 50, 90, 200)] == [90, 90, 90, 200]
    assert found.readable("run-1/site-1/another", 7) == 7
    found.learn([log], over=True)
    assert found.readable(stream, 0) is None
    assert chooser(log).readable(stream, 0) is None


def test_of_other_ranks_whole_tracebacks_are_shown() -> None:
    log = written("rank:1,world-size:4", "1.log")
    lines = RankedLines(chooser(log, ranks="first,last"), str(log.stream))
    texts = ["step 1", "Traceback (most recent call last):", '  File "a.py", line 1, in f', "    f()", "ValueError: no",
             "step 2", "ERROR", "an Error in one line"]  # fmt: skip
    found = lines.feed(annotated(Line(n, 0, text) for n, text in enumerate(texts)))
    assert [line.text for line in found] == [*texts[1:5], texts[6]]
    shown = RankedLines(chooser(log, globs=("1",)), str(log.stream))
    assert [line.text for line in shown.feed(Line(n, 0, text) for n, text in enumerate(texts))] == texts
    hidden = RankedLines(chooser(log, globs=("2",)), str(log.stream))
    assert hidden.feed(Line(n, 0, text) for n, text in enumerate(texts)) == []


def test_of_other_ranks_the_whole_abort_of_a_c_program_is_shown() -> None:
    log = written("rank:1,world-size:4", "1.log")
    lines = RankedLines(chooser(log, ranks="first,last"), str(log.stream))
    texts = ["step 1", "terminate called after throwing an instance of 'std::runtime_error'", "  what():  x",
             "Exception raised from check at a.cpp:43 (most recent call first):", "frame #0: f()", "step 2", "[E] y",
             "2026-11-20 08:00:00 error it failed", "free(): invalid pointer"]  # fmt: skip
    found = lines.feed(annotated(Line(n, 0, text) for n, text in enumerate(texts)))
    assert [line.text for line in found] == [*texts[1:5], *texts[6:]]


def test_of_other_ranks_no_line_of_a_containers_other_stream_is_shown_with_a_traceback() -> None:
    log = written("rank:1,world-size:4", "1.log")
    lines = RankedLines(chooser(log, ranks="first,last"), str(log.stream))
    texts = ["Traceback (most recent call last):", "loss: 0.5", '  File "a.py", line 1, in f', "  x", "Died", "step"]
    given = [Line(n, 0, text, ("stderr", "stdout")[n % 2]) for n, text in enumerate(texts)]
    assert [line.text for line in lines.feed(annotated(given))] == texts[::2]


@pytest.mark.parametrize("prefix", ["[rank{}]: ", "[default{}]:"])
def test_tracebacks_of_other_ranks_are_whole_where_they_are_mixed(prefix: str) -> None:
    log = written("ranks:0=0+1=1+2=2+3=3,world-size:4")
    lines = RankedLines(chooser(log, ranks="first,last"), str(log.stream))
    said = {
        0: ["step 1", "step 2", "step 3", "step 4", "step 5"],
        1: ["Traceback (most recent call last):", '  File "a.py", line 1, in f', "    f()", "", "ValueError: zero"],
        2: ["Traceback (most recent call last):", '  File "b.py", line 2, in g', "    g()", "", "Died"],
    }
    texts = [f"{prefix.format(rank)}{own[n]}" for n in range(5) for rank, own in said.items()]
    hidden = [f"{prefix.format(rank)}step 9" for rank in (1, 2)]
    found = lines.feed(annotated(Line(n, 0, text) for n, text in enumerate([*texts, *hidden])))
    assert [line.text for line in found] == texts


@together("words", ["rank:x", "rank:-1", "rank:99999999", "ranks:0=+=1", "rank", "", ":,:", "rank:1+2"])
def test_attributes_that_make_no_sense_tell_nothing(words: str) -> None:
    assert (known(written(words))[0].rank, known(written(words))[0].locals) == (None, {})


@pytest.mark.parametrize(
    ("globs", "ranks", "mapping", "sentence"),
    [
        ((), "first,middle", (), "takes first and last"),
        (("one",), "", (), "can match no rank"),
        ((), "", ("site-1",), "not an entry of a rank map"),
        ((), "", ("site-1/*=x",), "not an entry of a rank map"),
    ],
)
def test_what_makes_no_sense_is_said(
    globs: tuple[str, ...], ranks: str, mapping: tuple[str, ...], sentence: str
) -> None:
    with pytest.raises(InvalidOption, match=sentence):
        RankChoice.of(globs, ranks, mapping)
