"""Whether a line means the trouble that a signature finds in it. A line may only name it, quote it, or say that the
program does without.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from flarelog.detect.base import Signature, words
from flarelog.detect.endings import ended_well
from flarelog.detect.going_on import does_without, is_measure, is_put_down, item_of, serves_others, starts_shell
from flarelog.detect.speaking import denied, is_retried, is_skipped, only_speaks
from flarelog.lines.levels import Level, is_error, level_of

WARNED_OF = frozenset(
    words(
        "torch.rendezvous|net.dns|net.unreachable|net.offline|http.status|grpc.status|ray.died|k8s.volume|fs.denied"
        "|fs.missing|process.died"
    )
)
"""A program that only warns of these retries or does without. Other lines tell at a low level how a job ended."""
DISPENSABLE = frozenset(
    words(
        "checkpoint.mismatch|checkpoint.corrupt|python.module|python.library|container.gpu|cuda.none|cuda.driver"
        "|gpu.driver|gpu.resources|net.tls|storage.throttled"
    )
)
"""A program that warns of these does without: a package for speed, initial weights, a GPU."""
_OF_AN_ITEM = WARNED_OF | DISPENSABLE | {"cuda.oom", "loss.nan"}  # a program may skip an item that has such trouble
ERRORS = ("log.error", "program.exception")  # these lines call themselves errors, and are no warnings
ENDED = ("ray.died", "process.died")  # a retry may follow, or the end
AT_ANY_LEVEL = frozenset(("job.failed", "nccl.warning", "flower.failures"))  # an end is told at any level
_FEARED = ("may ", "might ", "could ")  # a stall that may come; one that is there is warned of, and may be the end
_PUT_DOWN = ("process.exit", "process.died", "process.signal", "torchrun.failed")  # such an end may be intended
_OF_SHELL = ("shell.command", "program.exception")
_BOX = ("\u2502 ", "\u2570\u2500> ")  # pip's box around its child's output
_BARE = re.compile(r"(?:\w{1,60}\.){0,8}[A-Z]\w{0,80}(?:Exception|Error)(?::|\s*$)")
_CHILD = re.compile(r"\S{0,200}: line \d{1,7}: +\d{1,9} ")  # a shell's, about a process that it had started
_QUOTED = re.compile(r'"[^"]*"|`[^`]*`|(?<!\w)\'[^\']*\'(?!\w)')
_STATUS = ("status': ", 'status": ')  # the quotes behind it hold a status, not a text


def doubted(each: Signature, text: str, last: str, before: Sequence[str]) -> Signature:
    """*each*, found in the line *text*, with the role that the lines around it leave it: a fallback, which later lines
    may make a symptom, or a symptom already. *last*: the line before in the same stream; *before*: the latest lines of
    the whole log, in their order.
    """
    warns = level_of(last) is Level.WARNING
    if each.role == "cascade" and warns and _BARE.match(text) is not None:
        each = replace(each, role="fallback")  # the line before warns of it
    if each.id == "process.stopped" and _CHILD.match(text) is not None:
        each = replace(each, role="fallback")  # a script also ends its own helpers so
    if each.id == "process.exit" and text.lstrip().startswith(_BOX):
        return replace(each, role="symptom")
    if each.id in _PUT_DOWN and is_put_down(text, before):
        return replace(each, role="symptom")
    if each.role != "fallback":
        return each
    goes_with = warns and level_of(text) is None and each.id not in ERRORS  # the line may continue the warning
    if goes_with or any(map(ended_well, before)) or _skips(text, before):
        return replace(each, role="symptom")
    return each


def _skips(text: str, before: Sequence[str]) -> bool:
    """Whether the line *text* is about an item of a loop that went on after the trouble of an item *before*."""
    item = item_of(text)
    if item is None:
        return False
    failed, items = False, [(each, item_of(each)) for each in before]
    for each, one in items:
        if one is None or one[1] != item[1] or one[0] >= item[0]:
            continue
        bad = is_error(each)
        if failed and not bad:
            return True
        failed = failed or bad
    return False


def is_meant(text: str, part: str, signature: Signature) -> bool:
    """Whether *part* of the line *text* means the trouble that *signature* finds there, and does not only name it."""
    if _quotes(text, part, signature):
        return False
    begin, end = signature.place(part)
    return not (only_speaks(part, begin, end) if signature.role in ("root", "cascade") else denied(part, end))


def is_handled(text: str, part: str, signature: Signature) -> bool:
    """Whether *part* of the line *text* says that the program goes on after the trouble of *signature* there."""
    if signature.role not in ("root", "cascade", "fallback"):
        return False
    begin, end = signature.place(part)
    stalls = signature.id == "program.waits" and not part.startswith(_FEARED, begin)
    if signature.role == "fallback" and (
        (not stalls and signature.id not in AT_ANY_LEVEL and (level_of(part) or Level.ERROR) <= Level.WARNING)
        or only_speaks(part, begin, end)
        or (not stalls and does_without(part, begin))
    ):
        return True
    level = level_of(part)
    if signature.id in WARNED_OF and level is not None and level <= Level.WARNING:
        return True
    if signature.id in DISPENSABLE and (level is Level.WARNING or (level is None and "arning: " in part[:begin])):
        return True
    of_others = signature.role == "fallback" or signature.id in WARNED_OF
    if (of_others and serves_others(text)) or ((of_others or signature.id in _OF_SHELL) and starts_shell(text)):
        return True
    if (signature.role == "fallback" or signature.id in _OF_AN_ITEM or signature.id in ERRORS) and is_skipped(part):
        return True
    if signature.id in ("log.fatal", "log.error") and is_measure(part):
        return True
    return is_retried(part, begin, end)


def _quotes(text: str, part: str, signature: Signature) -> bool:
    """Whether *signature* finds its trouble only within quotes in *part* of the line *text*, as in a prompt or a
    setting. A warning or worse, a line without a level, and JSON quote real trouble.
    """
    if text.lstrip().startswith("{") or (level := level_of(text)) is None or level >= Level.WARNING:
        return False
    said = _QUOTED.sub(lambda quoted: quoted[0] if part[: quoted.start()].endswith(_STATUS) else "", part)
    return signature.facts(said) is None
