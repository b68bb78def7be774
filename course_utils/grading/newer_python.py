"""Code that the grader's Python cannot read, in a notebook that a newer Python ran.

What is a mistake here may be newer syntax there: Python 3.12 takes f"{names["a"]}", and 3.11 does not. The
grader cannot tell which it is, so it says so, and a person looks.
"""

import json
import re
import sys

from course_utils.checks.core import Status
from course_utils.grading import magics
from course_utils.grading.cells import Unreadable, read_cells
from course_utils.grading.records import ExerciseResult


def add_flags(content: bytes, results: dict[str, ExerciseResult], sources: dict[str, str]) -> None:
    """Flags what a person must look at. `sources`: of the answers, by exercise.

    That is an answer that does not parse here, and one that misses a name, if another cell does not.
    """
    lost = [each for each in results.values() if each.status == Status.FAILED]
    broken = [each for each in lost if not parses(sources.get(each.exercise, ""))]
    named = [each for each in lost if "NameError" in each.diagnosis]
    if not (broken or named) or not (newer := newer_python(content)):
        return
    if named and all(map(parses, code_of(content))):
        named = []
    here = "{}.{}".format(*sys.version_info)
    for result in {each.exercise: each for each in broken + named}.values():
        told = "does not parse" if result in broken else "a cell does not parse"
        result.flags += (
            f"{told} in the grader's Python {here}, and the notebook ran in {newer}: "
            "newer syntax, or a mistake",
        )


def newer_python(content: bytes) -> str:
    """The Python that a notebook says it ran in, "3.13", if it is newer than this one; else ""."""
    try:
        said = json.loads(content)["metadata"]["language_info"]["version"]
        version = tuple(map(int, re.match(r"(3)\.(\d{1,3})\b", said).groups()))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ""
    return "{}.{}".format(*version) if version > sys.version_info[:2] else ""


def code_of(content: bytes) -> list[str]:
    try:
        return [cell.text for cell in read_cells(content)[0] if cell.kind == "code"]
    except Unreadable:
        return []


def parses(text: str) -> bool:
    return magics.parses(magics.as_python(text)[0])
