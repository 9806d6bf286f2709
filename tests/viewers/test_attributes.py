"""Logs are chosen by what wrote them: an attribute, a label, or the kind and name of an object."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flarelog.errors import InvalidOption
from flarelog.lifecycle import RunState
from flarelog.model import Attributes, Generation, Mark, RunInfo, StreamId, StreamInfo
from flarelog.viewers import every_run
from flarelog.viewers.attributes import Wanted, attributes, have, is_object, labels, may_have, names_of, of_object
from flarelog.viewers.every_run import EveryRun
from flarelog.viewers.flow import View
from flarelog.viewers.missing import missing, unmatched_parts
from flarelog.viewers.reading import Reading
from flarelog.viewers.selection import Selection
from tests.rows import together
from tests.viewers.held import Held

POD = "k8s.namespace.name:ns,k8s.pod.name:web-0,k8s.pod.label.app:train,k8s.pod.label.example.org/a_b.c-d:x"


def told(*words: str) -> tuple[Mark, ...]:
    return (Generation(0, 0, "0.log", 0, "f-1"), *(Attributes(0, 0, each) for each in words))


@together(
    "wanted, chosen",
    [
        (attributes(["k8s.pod.name=web-0"]), True),
        (attributes(["k8s.pod.name=web-*"]), True),
        (attributes(["k8s.pod.name=web"]), False),
        (attributes(["k8s.pod.name=a", "k8s.pod.name=web-0"]), True),
        (attributes(["k8s.pod.name=web-0", "k8s.namespace.name=other"]), False),
        (attributes(["absent=*"]), False),
        (labels(["app=train"]), True),
        (labels(["app==train"]), True),
        (labels(["app"]), True),
        (labels(["app in (serve, train)"]), True),
        (labels(["app=train,example.org/a_b.c-d=x"]), True),
        (labels(["app=train", "tier=x"]), False),
        (labels(["app=tr*"]), True),
        (of_object("pod/web-0"), True),
        (of_object("po/web-*"), True),
        (of_object("Pods/web-1"), False),
        (of_object("job/web-0"), False),
        (of_object("pod/ns/web-0"), True),
        (of_object("pod/other/web-0"), False),
        (names_of(["a", "web-*"], ["n?"]), True),
        (names_of([], ["other"]), False),
        ((), True),
    ],
)
def test_a_log_is_chosen_if_one_generation_has_all_of_it(wanted: tuple[Wanted, ...], chosen: bool) -> None:
    assert have(told(POD), wanted) is chosen


def test_what_holds_for_the_whole_log_is_part_of_each_generation_and_two_generations_are_not_one() -> None:
    marks = told("zone:UTC", "job:a%2Cb%25", "container.id:1,rank:0", "container.id:2,rank:1")
    assert have(marks, attributes(["job=a,b%", "rank=1"]))
    assert not have(marks, attributes(["container.id=1", "rank=1"]))
    assert not have(told("container.id:1,rank:0", "container.id:2"), attributes(["container.id=2", "rank=0"]))


def test_an_empty_value_is_a_value() -> None:
    marks = told("k8s.pod.label.worker:,k8s.pod.label.app:train")
    for chosen in (labels(["worker"]), labels(["worker="]), attributes(["k8s.pod.label.worker="])):
        assert have(marks, chosen)
    assert not have(marks, labels(["app="]))
    assert not have(marks, labels(["other="]))


@together(
    "text, error",
    [
        ("app!=x", "not all labels of a pod are passed on"),
        ("!app", "not all labels of a pod are passed on"),
        ("app notin (a,b)", "not all labels of a pod are passed on"),
        ("=x", "is not a label"),
        ("", "is not a label"),
        ("a b", "is not a label"),
        ("app in ()", "is not a label"),
    ],
)
def test_what_is_no_label_is_refused(text: str, error: str) -> None:
    with pytest.raises(InvalidOption, match=error):
        labels([text])


@pytest.mark.parametrize("text", ["app", "=x", ""])
def test_what_is_no_attribute_is_refused(text: str) -> None:
    with pytest.raises(InvalidOption, match="is not an attribute: write KEY=VALUE"):
        attributes([text])


def test_no_run_has_a_slash_in_its_name() -> None:
    named = {"pod/web": True, "a/b/c": True, "pod/": True, "/pod": True, "run-1": False, "": False, "a%2Fb": False}
    assert {text: is_object(text) for text in named} == named


@together(
    "text, key",
    [
        ("sts/db", "k8s.statefulset.name"),
        ("trainjob/t", "k8s.jobset.name"),
        ("job.batch/t", "k8s.job.name"),
        ("jobs.v1.batch/t", "k8s.job.name"),
        ("Deployments.apps/t", "k8s.deployment.name"),
        ("pods.v1./t", "k8s.pod.name"),
        ("jobset.v1alpha2.jobset.x-k8s.io/t", "k8s.jobset.name"),
        ("trainjob.trainer.kubeflow.org/t", "k8s.jobset.name"),
        ("pytorchjob.kubeflow.org/t", "k8s.pytorchjob.name"),
    ],
)
def test_a_kind_may_be_spelled_as_for_kubectl(text: str, key: str) -> None:
    assert [one.key for one in of_object(text)] == [key]


@together(
    "text, error",
    [
        ("jop/x", r"of no kind of pod, job, .*: did you mean job/x\?"),
        ("cronjob/x", r": did you mean 'job/x-\*'\?"),
        ("job.batch.volcano.sh/x", r"of no kind of pod, .* or pods by a label, as in -l app=x"),
        ("svc/web", r": choose a run's logs with --site and --log, or pods by a label"),
        ("web-0/main", r": choose a run's logs with --site and --log"),
        ("pod/", "'pod/' is no run, and names nothing: write pod/NAME"),
        ("pod/ns/", "'pod/ns/' is no run, and names nothing: write pod/NAME"),
        ("/web", "of no kind"),
        ("pod/a/b/c", "'pod/a/b/c' has too many parts: write pod/NAMESPACE/NAME"),
        ("pod//b", "'pod//b' is no run, and names nothing: write pod/NAMESPACE/NAME"),
    ],
)
def test_what_names_no_object_is_refused_in_one_sentence(text: str, error: str) -> None:
    with pytest.raises(InvalidOption, match=error):
        of_object(text)


@together(
    "log, wanted, may",
    [
        ("ns/web.12345678/main.log", of_object("pod/web"), True),
        ("ns/we.b.12345678/main.log", of_object("pod/we.b"), True),
        ("ns/other.12345678/main.log", of_object("pod/web"), False),
        ("ns/other.12345678/main.log", labels(["app=x"]), True),
        ("ns/other.12345678/main.log", attributes(["k8s.namespace.name=other"]), False),
        ("log.txt", of_object("pod/web"), True),
        ("log.txt", (), True),
    ],
)
def test_a_log_that_is_not_stored_may_be_one_of_those(log: str, wanted: tuple[Wanted, ...], may: bool) -> None:
    assert may_have(log, wanted) is may


def pods(*names: str, **more: str) -> Held:
    """The logs of pods, each ``RUN/POD``, and the labels of all in *more*."""
    streams = {StreamId(name.partition("/")[0], "node", f"{name}.12345678/main.log"): name for name in names}
    words = "".join(f",k8s.pod.label.{key}:{value}" for key, value in more.items())
    marks = {one: told(f"k8s.pod.name:{name.partition('/')[2]}{words}") for one, name in streams.items()}
    return Held(dict.fromkeys(streams, b"x\n"), marks=marks)


def every(origin: Held, *wanted: Wanted) -> EveryRun:
    return EveryRun(origin, Selection("", attributes=wanted))


def test_all_runs_that_have_one_are_read_as_one_and_pods_of_one_name_are_told_apart() -> None:
    origin = every(pods("a/web", "b/web", "c/db"), *of_object("pod/web"))
    selection = Selection("", attributes=of_object("pod/web"))
    reading = Reading(origin, selection, View(), lambda text: None)
    found = asyncio.run(reading.listed())
    assert [str(info.stream) for info in found] == [
        *("a/node/a/web.12345678/main.log", "b/node/b/web.12345678/main.log")
    ]
    assert sorted(origin.chosen) == ["a", "b"]
    assert asyncio.run(origin.state("")) is RunState.ENDED
    assert asyncio.run(every(pods("a/web")).state("")) is RunState.RUNNING


@pytest.mark.parametrize("count", [3, every_run.TOGETHER], ids=["few", "many"])
def test_many_runs_are_listed_together(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    origin, asked = pods(*(f"r{number}/web" for number in range(count)), "x/db"), list[str]()

    async def streams(run: str, *args: Any, **how: Any) -> list[StreamInfo]:
        asked.append(run)
        runs = [run] if run else await origin.runs()
        return [info for one in runs for info in await Held.streams(origin, one, *args, **how)]

    monkeypatch.setattr(origin, "streams", streams)
    found = asyncio.run(every(origin, *of_object("pod/web")).streams(""))
    assert len({info.stream.run for info in found}) == len(found) == count
    assert ("" in asked, len(asked)) == ((False, 4) if count == 3 else (True, 1))


def test_what_grew_is_listed_without_its_attributes_and_stays_chosen() -> None:
    origin = every(pods("a/web"), *of_object("pod/web"))
    reading = Reading(origin, Selection("", attributes=of_object("pod/web")), View(), lambda text: None)

    async def look() -> tuple[int, int]:
        (info,) = await reading.listed()
        bare = type(info)(info.stream, 0, 9, 0, False)
        other = type(info)(StreamId("a", "node", "a/x.12345678/main.log"), 0, 9, 0, False)
        return len(reading._picked([bare], waits=False)), len(reading._picked([other], waits=False))

    assert asyncio.run(look()) == (1, 0)


@together(
    "origin, wanted, found",
    [
        (pods("a/web", "b/db"), of_object("pod/wep"), ("here has no pod wep (it has db, web)", "web")),
        (pods("a/web"), of_object("job/x"), ("here has no job x: no log has the attribute k8s.job.name", "")),
        (pods("a/web", app="t"), labels(["app=s"]), ("here has no label app=s (it has t)", "")),
        (
            pods("a/web"),
            labels(["app=s"]),
            ("here has no label app=s: no log has the label app; agents pass on those of --pod-label", ""),
        ),
        (pods(), of_object("pod/x"), ("here has no logs", "")),
        (pods("a/web"), of_object("pod/web"), ("", "")),
        (pods("a/web", app="\x1b[31mt"), labels(["app=s"]), (r"here has no label app=s (it has \x1b[31mt)", "")),
    ],
)
def test_what_no_log_has_is_said_in_one_sentence(
    origin: Held, wanted: tuple[Wanted, ...], found: tuple[str, str]
) -> None:
    assert asyncio.run(missing(every(origin, *wanted), Selection("", attributes=wanted))) == found


def test_a_pod_without_its_kind_may_have_been_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    async def unknown(self: Held, run: str) -> RunState:
        return RunState.UNKNOWN

    monkeypatch.setattr(Held, "state", unknown)
    assert asyncio.run(missing(pods("a/web", "b/db"), Selection("db"))) == ("here has no run db", "pod/db")


def test_a_run_that_did_not_change_is_listed_again_only_while_it_has_a_producer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(every_run, "RUNS_EVERY", 0.0)
    monkeypatch.setattr(every_run, "RUNS_SHARE", 0)
    origin = pods("a/web", "b/db", "c/x")
    listed: list[str] = []

    async def infos(run: str = "") -> list[RunInfo]:
        return [RunInfo("a"), RunInfo("b", open=1), RunInfo("c", size=3)]

    async def streams(run: str, *args: Any, **how: Any) -> list[StreamInfo]:
        listed.append(run)
        return await Held.streams(origin, run, *args, **how)

    monkeypatch.setattr(origin, "infos", infos)
    monkeypatch.setattr(origin, "streams", streams)
    reader = every(origin, *of_object("pod/web"))
    looks = []
    for _ in range(3):
        listed.clear()
        asyncio.run(reader.streams(""))
        looks.append([*listed])
    assert looks == [["a", "b", "c"], ["a", "b"], ["a", "b"]]


def test_each_attribute_that_no_log_has_is_a_part() -> None:
    origin = pods("a/web", app="t")
    infos = asyncio.run(origin.streams("a"))
    wanted = (*labels(["app=t,tier=x"]), *of_object("pod/db"))
    parts = unmatched_parts(Selection("a", attributes=wanted), infos)
    assert [each.attributes[0].said for each in parts] == ["label tier=x", "pod db"]
