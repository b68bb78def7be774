"""What the course handed out: of each lesson its exercises, stubs and given cells.

A submission is read against this: which notebook it is, which answers belong there, which of its
cells are still the stub. The students' notebooks themselves are the source of it.
"""

import functools
from dataclasses import dataclass
from pathlib import Path

from course_utils.authoring import files, syntax
from course_utils.authoring.ids import text_hash
from course_utils.checks import UnknownExercise, find_exercise
from course_utils.errors import CourseError
from course_utils.grading.cells import PlainCell, Unreadable, read_cells, role_of
from course_utils.grading.statements import CodeCell, code_cell


@dataclass(frozen=True)
class Asked:
    """An exercise as a notebook asks it: its answer's name and what it stands for in grades."""

    id: str
    name: str
    title: str
    points: float
    optional: bool


@dataclass(frozen=True)
class Lesson:
    """One lesson's notebook as handed out. `stubs`: hashes of answer cells as they were given."""

    notebook: str  # "02_requires_grad"
    exercises: dict[str, Asked]
    stubs: frozenset[str]
    given: frozenset[str]  # hashes of all its cells
    code: tuple[CodeCell, ...]  # the given code, to fall back on where a student's is gone
    written: tuple[str, ...] = ()  # ids of written questions

    @property
    def max_total(self) -> float:
        """The points of the core."""
        return sum(each.points for each in self.exercises.values() if not each.optional)


@functools.cache
def lessons(root: Path = files.ROOT) -> dict[str, Lesson]:
    """Every lesson by its notebook's name, in order. Raises CourseError where there is none."""
    found = {}
    for stem in files.lesson_stems(root / "notebooks", ".ipynb"):
        try:
            cells, _, _ = read_cells((root / "notebooks" / f"{stem}.ipynb").read_bytes())
        except (OSError, Unreadable) as error:
            raise CourseError(f"notebooks/{stem}.ipynb cannot be read: {error}") from None
        found[stem] = lesson_of(stem, cells)
    if not found:
        raise CourseError(f"there are no lessons in {root / 'notebooks'}; is the course complete?")
    return found


def lesson_of(stem: str, cells: list[PlainCell]) -> Lesson:
    exercises, stubs, written = {}, set(), []
    for cell in cells:
        role, exercise, _ = role_of(cell) or ("", "", "")
        if role == "check" and (asked := asked_by(cell, exercise)):
            exercises[exercise] = asked
        elif role == "answer":
            stubs.add(text_hash(cell.text))
        elif role == "written":
            written.append(exercise)
    code = tuple(code_cell(at, cell) for at, cell in enumerate(cells) if cell.kind == "code")
    given = frozenset(text_hash(cell.text) for cell in cells)
    return Lesson(stem, exercises, frozenset(stubs), given, code, tuple(written))


def asked_by(cell: PlainCell, exercise: str) -> Asked | None:
    """The exercise of a check cell; None where the registry has no such check."""
    calls = syntax.calls(syntax.parse(cell.text), "check")
    try:
        known = find_exercise(exercise)
    except UnknownExercise:
        return None
    return Asked(exercise, calls[0].args[1].id, known.title, known.points, known.optional)


def choose_lesson(name: str, root: Path = files.ROOT) -> str:
    """The notebook's full name for 02, 02_requires_grad, or a path to it. Raises CourseError."""
    return files.choose([name], list(lessons(root)))[0]
