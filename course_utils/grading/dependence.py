"""Which answers call earlier ones: an answer that does has their mistakes, too, and should say where to look."""

import ast
from contextlib import suppress

from course_utils.authoring import syntax
from course_utils.checks.core import Status
from course_utils.grading.lessons import lessons
from course_utils.grading.records import Graded


def failed_below(row: Graded) -> dict[str, list[tuple[str, str]]]:
    """{exercise without a pass: [(exercise without a pass that it calls, that answer's name), ...]}."""
    lesson = lessons().get(row.notebook)
    asked = lesson.exercises if lesson else {}
    failed = [n for n, result in row.results.items() if result.status != Status.PASSED]
    found = {}
    for exercise in failed:
        used = names_in(row.sources.get(exercise, ""))
        below = [(n, asked[n].name) for n in failed if n != exercise and n in asked]
        if mine := [(n, name) for n, name in below if name in used]:
            found[exercise] = mine
    return found


def told(exercise: str, below: list[tuple[str, str]]) -> str:
    """For a page: what the exercise uses that has no pass."""
    uses = " and ".join(f"`{name}` ({number})" for number, name in below)
    return (
        f"{exercise} uses {uses}, which did not pass: look there first. An answer that calls an earlier one "
        "depends on it."
    )


def names_in(source: str) -> set[str]:
    """The names that a program reads; none where it is no Python."""
    with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        tree = syntax.parse(source)
        return {
            n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
        }
    return set()
