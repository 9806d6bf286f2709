"""Words of a run's end: a good one, and one that a program which failed may tell too."""

from __future__ import annotations

from flarelog.detect.going_on import HEAD, is_of_a_part
from flarelog.late import late
from flarelog.lines.levels import is_error

STEPS = 2  # steps before words of an end that make them credible


def ended_well(text: str) -> bool:
    """Whether the line *text* says that the whole run ended well."""
    head = text[:HEAD]
    small = head.lower()
    return any(word in small for word in _ENDED_WORDS) and _ENDED.search(head) is not None


def ends_well(text: str) -> bool:
    """Whether the line *text* is a last word: the run ended well, or none of its tests failed."""
    head = text[:HEAD]
    return any(word in head for word in _CLOSING) and _CLOSED.search(head) is not None


def finishes(text: str, steps: int = STEPS) -> bool:
    """Whether the line *text*, behind *steps* steps, tells that the whole run came to its end. A program that failed
    may say so too, but takes no steps before it.
    """
    head = text[:HEAD]
    small = head.lower()
    if not any(word in small for word in _ENDED_WORDS) or is_error(head):
        return False
    found = _FINISHED.search(head) or _ENDED.search(head)
    if found is None or found[0] == _ANY_END or (steps < STEPS and _TRAINED.search(head) is None):
        return False
    return _TURN.search(head[: found.end()]) is None and not is_of_a_part(head)


_CLOSING = ("SUCC", "ucce", "alue 0", "tus=0", "pass", "PASS", "ok=", "ithout err")
# Of the whole run: the good end of one task or worker tells nothing of the others.
_CLOSED = late(
    r"\bBUILD SUCCESS(?:FUL)?\b|\(success\)|\breturn value 0\b|\bExit_status=0\b"
    r"|(?i:\b(?:run|job|training|experiment|workflow|pipeline|flow|build|simulation|federation|app(?:lication)?)\b"
    r"(?:(?!\b(?:(?:sub)?tasks?|steps?|stages?|clients?|workers?)\b)[^.;]){0,60}?"
    r"\b(?:status|state|result)\b['\"]?(?: is)?\s{0,3}[:=]?\s{0,3}['\"]?(?:success(?:ful)?|succeeded)\b)"
    r"|(?i:(?:^[\W\d]{0,40}|\b(?:run|job|training|experiment|workflow|pipeline|flow|build|simulation|federation)"
    r" (?:was |has |is )?)(?:completed|finished|ended) successfully\b)"
    r"|\b[Jj]ob (?:exited|ended|finished|completed) without (?:any )?errors?\b"
    # counts of passes, without a count of failures
    r"|^(?!.{0,399}?(?:\b[1-9]\d{0,6} (?:tests? )?(?:fail|err)|\b(?i:fail\w{0,4}|errors?|unreachable)\s?[:=]?\s?[1-9]))"
    r".{0,300}?(?:\b[1-9]\d{0,6} (?:tests? )?passed\b|\bPASS(?:ED)?[ =:]{1,3}[1-9]|\bpassed[=:] ?[1-9]"
    r"|\bsucceeded[ =:]{1,3}[1-9]"
    r"|\bok=[1-9]|\ball tests passed\b|\b100% tests passed\b)"
)
_WHOLE = (
    r"(?:training|train|run|job|experiment|simulation|federation|workflow|pipeline|flow|fit|script|program|process|main"
    r"|app(?:lication)?|command|execution|evaluation|benchmark|all(?: \w{1,20}){0,3}|everything)"
)
_PART = (
    r"\b(?:data|datasets?|loading|set-?up|submi\w{1,10}|initiali\w{1,10}|preparation|pre-?processing|checks?"
    r"|config\w{0,12}|start\w{0,4}|install\w{0,7}|download\w{0,3}|(?:sub)?tasks?|steps?|stages?|phases?|epochs?|rounds?"
    r"|clients?|workers?)\b"
)
_BETWEEN = rf"\b(?:(?!{_PART}).){{0,30}}\b"
_ALONE = r"(?:^|\b(?:INFO|NOTICE|LOG)\b\W{0,3}(?:\[[^\]]{0,80}\])?)[\W\d]{0,40}"  # nothing but a time and a level
_ENDED_WORDS = ("success", "succeed", "finish", "complete", "done", "end_run", "reached", "train_runtime")
TELLING = (*map(str.lower, _CLOSING), *_ENDED_WORDS)  # in small letters: one of them is in each line of an end
_FINISHED = late(
    rf"(?i:{_ALONE}(?:all )?done\W{{0,3}}$|\b(?:finished|done) (?:the )?training\b|\d epochs completed in \d)"
    r"|'train_runtime': |\bFinished server process\b"
)
_TRAINED = late(r"'train_runtime': |max_\w{1,10}=\d{1,12}` reached")  # no program that failed says so
_ANY_END = "END_RUN fired"  # NVFlare's, also of a job that failed
_TURN = late(r"(?i:\b(?:epoch|round|fold|stage|phase|step|task|trial)\b[ _:#=]{0,2}\d)")
# The whole run ends well: of a part, such as a check or a download, it tells nothing.
_ENDED = late(
    r"(?i:\b(?:training|train|run|job|experiment|simulation|federation|workflow|fit|all (?:epochs|rounds))"
    rf"{_BETWEEN}(?:finished|done|complete|completed|succeeded)\b(?!.{{0,20}}\b(?:with|fail|err))"
    rf"|(?:{_ALONE}|\b{_WHOLE}{_BETWEEN})(?:(?:completed|finished|ended) successfully\b"
    rf"|successfully (?:completed|finished)(?:\W{{0,9}}$|[.!,;] | (?:the )?{_WHOLE}\b)))"
    r"|FINISHED:COMPLETED|\bEND_RUN fired|max_\w{1,10}=\d{1,12}` reached|\bEnd of Federation reached"
)
