"""The choice of logs by attributes of their writers: by any of them, by a pod's labels, or as ``KIND/NAME``, as kubectl
and stern choose pods.

A log is chosen once one of its generations has all wanted attributes. What a writer does not have cannot be asked for:
the facts about a pod may come after its first bytes, and not all labels are passed on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from flarelog.errors import InvalidOption
from flarelog.globs import any_of, check
from flarelog.late import late
from flarelog.model import Attributes, Mark
from flarelog.names import nearest
from flarelog.text import quoted
from flarelog.values import frozen

LABEL = "k8s.pod.label."
KINDS = {
    "pod": ("po", "pods"),
    "job": ("jobs",),
    "jobset": ("jobsets", "trainjob", "trainjobs"),
    "pytorchjob": ("pytorchjobs",),
    "deployment": ("deploy", "deployments"),
    "statefulset": ("sts", "statefulsets"),
    "daemonset": ("ds", "daemonsets"),
    "replicaset": ("rs", "replicasets"),
}
"""The kinds that may stand before a name, with their other spellings."""

_SPELLED = {word: kind for kind, others in KINDS.items() for word in (kind, *others)}
_GROUPS = {
    "pod": (),
    "job": ("batch",),
    "jobset": ("jobset.x-k8s.io", "trainer.kubeflow.org"),
    "pytorchjob": ("kubeflow.org",),
}
"""The groups of the API that may stand behind a kind, as in ``job.batch``; of other kinds ``apps``."""
_MADE = {"cronjob": "job", "cronjobs": "job", "cj": "job"}  # kinds whose objects make others, named NAME-NUMBER
_GROUP = late(r"(?:v\d+(?:(?:alpha|beta)\d+)?(?:\.|$))?(.*)")
_AT_COMMA = late(r",(?![^()\[\]]*[)\]])")
_EQUAL = late(r"([^=!(),\s]+)\s*==?\s*([^=!(),\s]*)")
_IN = late(r"([^=!(),\s]+)\s+in\s*\(([^()]*)\)")


@frozen
class Wanted:
    """One wanted attribute: its value, which may be empty, matches one of *globs*. *said*: as a sentence calls it."""

    key: str
    globs: tuple[str, ...]
    said: str

    def __post_init__(self) -> None:
        check(tuple(filter(None, self.globs)))

    def has(self, value: str | None) -> bool:
        return value is not None and any_of(self.globs, value)


def attributes(texts: Iterable[str]) -> tuple[Wanted, ...]:
    """The attributes of ``--attr``; one of several values of a key is enough. Raises InvalidOption."""
    found: dict[str, list[str]] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise InvalidOption(f"{quoted(text)} is not an attribute: write KEY=VALUE, as in k8s.pod.name='web-*'")
        found.setdefault(key, []).append(value)
    return tuple(Wanted(key, tuple(values), f"attribute {key}={' or '.join(values)}") for key, values in found.items())


def labels(texts: Iterable[str]) -> tuple[Wanted, ...]:
    """The labels of ``-l``, all of which a pod must have: ``KEY=VALUE``, ``KEY``, ``KEY in (A,B)``, with commas between
    them. Raises InvalidOption.
    """
    found = []
    for text in (part.strip() for each in texts for part in _AT_COMMA.split(each)):
        one, several = _EQUAL.fullmatch(text), _IN.fullmatch(text)
        if "!" in text or re.search(r"\snotin\s", text):
            raise InvalidOption(f"-l cannot choose by {quoted(text)}: not all labels of a pod are passed on")
        if several is not None:
            key, values = several[1], tuple(filter(None, (value.strip() for value in several[2].split(","))))
        elif one is not None:
            key, values = one[1], (one[2],)
        else:
            key, values = text, ("*",)
        if not values or not key or re.search(r"[=(),\s]", key):
            raise InvalidOption(f"{quoted(text)} is not a label: write -l KEY=VALUE, as in -l app=train")
        found.append(Wanted(f"{LABEL}{key}", values, f"label {text}"))
    return tuple(found)


def names_of(pods: Sequence[str], namespaces: Sequence[str]) -> tuple[Wanted, ...]:
    """The attributes of pods with a name that one of the globs *pods* matches, and a namespace of *namespaces*; empty:
    any. Raises InvalidOption.
    """
    given = (("namespace", tuple(namespaces)), ("pod", tuple(pods)))
    return tuple(Wanted(f"k8s.{what}.name", names, f"{what} {' or '.join(names)}") for what, names in given if names)


def is_object(text: str) -> bool:
    """Whether *text* is meant as ``KIND/NAME``: no run's name has a ``/``."""
    return "/" in text


def of_object(text: str) -> tuple[Wanted, ...]:
    """The attributes of what *text*, which ``is_object``, names: ``KIND/NAME``, or ``KIND/NAMESPACE/NAME``; the kind
    may have its group, as in ``job.batch``. Raises InvalidOption.
    """
    kind, *names = text.split("/")
    word, _, behind = kind.lower().partition(".")
    group, known = _GROUP.fullmatch(behind), _SPELLED.get(word)
    if known is None or group is None or (group[1] and group[1] not in _GROUPS.get(known, ("apps",))):
        made = f"'{_MADE[word]}/{names[-1]}-*'" if word in _MADE else ""
        near = made or (f"{near}/{names[-1]}" if known is None and (near := nearest(kind, _SPELLED)) else "")
        others = "choose a run's logs with --site and --log, or pods by a label, as in -l app=x"
        hint = f"did you mean {near}?" if near else others
        raise InvalidOption(f"{quoted(text)} is no run, and of no kind of {', '.join(KINDS)}: {hint}")
    if len(names) > 2:
        raise InvalidOption(f"{quoted(text)} has too many parts: write {kind}/NAMESPACE/NAME")
    if not all(names):
        form = "NAME" if not names[-1] else "NAMESPACE/NAME"
        raise InvalidOption(f"{quoted(text)} is no run, and names nothing: write {kind}/{form}")
    return (*names_of((), names[:-1]), Wanted(f"k8s.{known}.name", (names[-1],), f"{known} {names[-1]}"))


def held(marks: Iterable[Mark]) -> Iterator[Mapping[str, str]]:
    """The attributes of each generation, as the marks tell them: those of the whole log are in each."""
    whole: dict[str, str] = {}
    for mark in marks:
        if isinstance(mark, Attributes):
            values = {key: _plain(value) for key, value in mark.values.items()}
            if mark.zone or mark.job:
                whole |= values
            yield whole | values


def have(marks: Iterable[Mark], wanted: Sequence[Wanted]) -> bool:
    """Whether a generation has all *wanted* attributes."""
    return any(all(one.has(values.get(one.key)) for one in wanted) for values in held(marks))


def may_have(log: str, wanted: Iterable[Wanted]) -> bool:
    """Whether the log with the path *log*, of which nothing is stored, may have all *wanted* attributes: an agent names
    it ``NAMESPACE/POD.ID/CONTAINER.log``.
    """
    namespace, _, rest = log.partition("/")
    pod, _, container = rest.partition("/")
    if not container or "." not in pod:
        return True
    told = {"k8s.namespace.name": namespace, "k8s.pod.name": pod.rpartition(".")[0]}
    return all(one.has(told.get(one.key, one.globs[0])) for one in wanted)


def _plain(value: str) -> str:
    return value.replace("%2C", ",").replace("%25", "%")
