"""A diagnosis as a student may see it: it teaches, and tells nothing of the hidden cases.

An answer chooses much of what is said of it: an error's message, its line, the name of a type. Somebody could
put a hidden case there and read it in the feedback. So numbers of hidden cases are masked, and names are shown
only where they are known.
"""

import builtins
import re

import numpy as np

from course_utils.authoring import syntax
from course_utils.checks.core import Status
from course_utils.grading.records import Ending, ExerciseResult

LONGEST, MESSAGE_LENGTH = 1200, 160  # characters
RAISED = re.compile(r"Your code raised (\w{1,60})(?: at `([^`]{0,200})`)?(?:: (.*))?", re.DOTALL)
NUMBER = re.compile(r"\d[\d_]*(?:\.\d*)?(?:[eE][+-]?\d+)?|\b(?:nan|inf)\b")
CLAIM = re.compile(r"\b(?:[Ee]xpected|got|to be)\b.*?(?=[.;:](?:\s|$)|$)", re.DOTALL)
VALUE = re.compile(
    r"(?<![\w.,])-?(?:\d++\.\d*+(?:e[+-]?\d++)?+|\d++e[+-]?\d++|\d{5,}+|nan|inf)(?!\w| ?(?:bytes|[kMGT]i?B)\b)"
)
TYPE = re.compile(r"(\bgot (?:an? |the )?|\bof type |\bin the memory of an? )([A-Za-z_]\w*)")
KNOWN_ERRORS = {
    name for name, kind in vars(builtins).items()
    if isinstance(kind, type) and issubclass(kind, BaseException)
} | {"LinAlgError", "AxisError", "HeldBack", "WrongMemory", "SRAMOverflow", "Released", "Freed"}  # fmt: skip
KNOWN_TYPES = {
    *(name for name, kind in [*vars(builtins).items(), *vars(np).items()] if isinstance(kind, type)),
    "None", "NoneType", "function", "generator", "module", "Tensor", "Node", "RematTensor", "OnChip",
    "HBMArray", "Fraction", "Decimal",
    # words of our own that stand where a type may stand
    "items", "nothing", "no", "one", "two", "three", "more", "it", "only", "shape", "type", "a", "an", "the",
    "value", "values", "number", "numbers", "array", "arrays",
}  # fmt: skip
NO_PYTHON = ("SyntaxError", "IndentationError", "TabError")
WHAT_HAPPENED = {
    Ending.NOT_FOUND: "No answer to this exercise was found in your notebook. The grader looks for the "
    "answer's cell, and for the name that the exercise asks for.",
    Ending.TOO_SLOW: "Your answer was stopped: it ran longer than the grader waits. Does every loop end?",
    Ending.OUT_OF_MEMORY: "Your answer was stopped: it asked for more memory than the grader has.",
    Ending.CRASHED: "Python itself ended while your answer ran, so nothing was left to judge.",
    Ending.TOO_MUCH_OUTPUT: "Your answer was stopped: it wrote far more than anybody could read.",
    Ending.BROKEN: "What your answer returned could not be read as a result. Return plain NumPy arrays "
    "and Python's own numbers, lists and tuples.",
}
OTHER_NAME = (
    "The exercise's cell is there, but it does not define the name that the exercise asks for, so there was "
    "nothing to call. Give your function that name again."
)
NOT_THERE = (
    "Your answer imports a part of the course that answers may not use: where they are graded, the course's "
    "checks and what computes an exercise are not there."
)


def fit_to_show(result: ExerciseResult, source: str | None = None) -> str:
    """A diagnosis without what an answer may have copied from a hidden case into an error."""
    told = result.diagnosis[:LONGEST]
    if result.status == Status.NOT_ATTEMPTED:
        return "There was no answer yet: the stub was as the course gave it."
    if result.status == Ending.NOT_FOUND and (source or "").strip():
        return OTHER_NAME
    if result.status in set(Ending) - {Ending.COMPLETE}:
        return WHAT_HAPPENED[Ending(result.status)]
    raised = RAISED.search(told)
    if raised is None:
        return without_values(told)
    kind, line, message = raised.groups()
    if kind in ("ModuleNotFoundError", "ImportError") and "course_utils." in (message or ""):
        return NOT_THERE
    is_known = kind in KNOWN_ERRORS
    head = f"Your code raised {kind if is_known else 'an exception of your own'}"
    lines = [line] if source is None else [each.strip().rstrip(":") for each in source.splitlines()]
    is_there = line in lines
    where = f" at `{line}`" if line and is_there else ""  # an answer can have any line reported
    if kind in NO_PYTHON and source and (place := syntax_error(source)):
        return f"{told[: raised.start()]}{head} in line {place[0]} of your cell{where}: {place[1]}"
    words = NUMBER.sub("#", message or "")[:MESSAGE_LENGTH] if is_known else ""
    hidden = f": {words} (`#`: numbers of a hidden case)" if "#" in words else f": {words}"
    return told[: raised.start()] + head + where + (hidden if words else "")


def syntax_error(source: str) -> tuple[int, str] | None:
    """(line, what is wrong) where a cell is no Python: read from its text, so nothing hidden is in it."""
    try:
        syntax.parse(source)
    except SyntaxError as error:
        return error.lineno or 1, str(error.msg)[:MESSAGE_LENGTH]
    except (ValueError, RecursionError, MemoryError):
        pass
    return None


def without_values(told: str) -> str:
    """A diagnosis without the numbers of a hidden case, and with the names of known types alone.

    Shapes, bytes and ratios stay.
    """
    changed = CLAIM.sub(lambda found: VALUE.sub("#", found[0]), told)
    changes, told = changed != told, changed
    told = TYPE.sub(lambda found: found[1] + known_type(found[2]), told)
    return f"{told} (`#`: numbers of a hidden case)" if changes else told


def known_type(name: str) -> str:
    return name if name in KNOWN_TYPES else "an object of a class of your own"
