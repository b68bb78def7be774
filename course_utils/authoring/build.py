"""The command that makes notebooks: python course.py build [--check] [--force] [NOTEBOOK ...].

A lesson is executed only where its source, or a module of course_utils that it uses, changed
since its outputs were made; a notebook that was edited or lost is made again too. Both notebooks
of a lesson are written when all of it has succeeded. `--check` writes and executes nothing.
"""

import argparse
import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from course_utils.authoring import files
from course_utils.authoring.drift import solution_drift, student_drift
from course_utils.authoring.execute import CellFailed, execute
from course_utils.authoring.fingerprint import fingerprint
from course_utils.authoring.outline import Outline, outline
from course_utils.authoring.pictures import pictures
from course_utils.authoring.rules import validate
from course_utils.authoring.source import Lesson, read_lesson
from course_utils.authoring.student import notebooks
from course_utils.errors import CourseError

FAILED, REFUSED = 1, 2


@dataclass
class Work:
    """One lesson on its way to its two notebooks."""

    lesson: Lesson
    plan: Outline
    root: Path
    find_exercise: Callable

    @property
    def student_path(self) -> Path:
        return self.root / "notebooks" / f"{self.lesson.stem}.ipynb"

    @property
    def solution_path(self) -> Path:
        return self.lesson.path.with_suffix(".ipynb")

    @cached_property
    def notebooks(self) -> tuple[dict, dict]:
        return notebooks(self.lesson, self.plan)

    @cached_property
    def fingerprint(self) -> dict[str, str]:
        return fingerprint(self.lesson, self.root, self.find_exercise, every_exercise)


def main(argv: list[str], root: Path = files.ROOT, find_exercise: Callable | None = None) -> int:
    """Make the notebooks of lessons. Exit status: 1 for drift or a failed cell, 2 for bad input.

    Raises CourseError for a name that means no lesson, and where a file cannot be read or written.
    """
    parser = argparse.ArgumentParser(
        "course.py build", description="Make the notebooks of lessons."
    )
    parser.add_argument("--check", action="store_true", help="change nothing; fail on any drift")
    parser.add_argument("--force", action="store_true", help="execute every lesson named")
    parser.add_argument("lessons", nargs="*", metavar="NOTEBOOK", help="as 01; all by default")
    options = parser.parse_args(argv)
    find_exercise = find_exercise or registry()
    sources = files.lesson_stems(root / "solutions", ".py")
    if not sources:
        print("nothing to build: this copy of the course has no sources in solutions/")
        return 0
    works, problems = read(files.choose(options.lessons, sources), root, find_exercise)
    if options.check:
        status = check(works, [] if options.lessons else orphans(root, sources))
    else:
        status = build(works, options.force)
    for problem in problems:
        print(problem)
    return REFUSED if problems else status


def registry() -> Callable:
    """course_utils.checks.find_exercise. Raises CourseError where the checks cannot be imported."""
    try:
        from course_utils.checks import find_exercise
    except ImportError as error:
        raise CourseError(f"course_utils.checks cannot be imported: {error}") from None
    return find_exercise


def every_exercise() -> list:
    """course_utils.checks.all_exercises(), imported when a lesson shows them."""
    from course_utils.checks import all_exercises

    return all_exercises()


def read(stems: list[str], root: Path, find_exercise: Callable) -> tuple[list[Work], list[str]]:
    """The lessons whose sources are sound, and the problems of the others."""
    works, problems = [], []
    for stem in stems:
        try:
            lesson = read_lesson(root / "solutions" / f"{stem}.py")
        except CourseError as error:
            problems.append(f"solutions/{error}")
            continue
        plan = outline(lesson)
        found = validate(lesson, plan, find_exercise)
        problems += found
        if not found:
            works.append(Work(lesson, plan, root, find_exercise))
    return works, problems


def build(works: list[Work], force: bool) -> int:
    """Bring both notebooks of each lesson up to date; one that fails is left as it was."""
    status = 0
    for work in works:
        try:
            print(f"{work.lesson.stem}: {build_one(work, force)}", flush=True)
        except CellFailed as error:
            print(error, flush=True)
            status = FAILED
    return status


def build_one(work: Work, force: bool) -> str:
    """Make what is not as it should be, and say what was made. Raises CellFailed."""
    given, solved = work.notebooks
    contents, made = {}, "up to date"
    if student_drift(work.student_path, given):
        contents[work.student_path] = files.notebook_bytes(given)
        made = "the student's notebook written"
    if force or solution_drift(work.solution_path, solved, work.fingerprint):
        print(f"{work.lesson.stem}: executing ...", flush=True)
        executed = copy.deepcopy(solved)
        before = work.fingerprint
        seconds = execute(executed, work.lesson, work.root)
        executed["metadata"]["course"]["executed_from"] = before
        contents[work.solution_path] = files.notebook_bytes(executed)
        contents |= pictures(executed, work.root)
        made = f"executed in {seconds:.1f} s" + warned(executed)
    files.write_whole(contents)
    return made


def warned(notebook: dict) -> str:
    """A note on cells that wrote to stderr: every reader of the solution will see it."""
    outputs = [(c["id"], o) for c in notebook["cells"] for o in c.get("outputs", ())]
    names = sorted({name for name, output in outputs if output.get("name") == "stderr"})
    return f" (on stderr, kept: cell {', '.join(names)})" if names else ""


def check(works: list[Work], found: list[str]) -> int:
    """Print each difference between the stored notebooks and their sources; 1 if there is any."""
    for work in works:
        given, solved = work.notebooks
        drift = [student_drift(work.student_path, given)]
        found += [f"notebooks/{work.student_path.name}: {line}" for line in drift if line]
        drift = solution_drift(work.solution_path, solved, work.fingerprint)
        found += [f"solutions/{work.solution_path.name}: {line}" for line in drift]
    for line in found:
        print(line)
    if works and not found:
        many = len(works) > 1
        agree = "lessons agree with their sources" if many else "lesson agrees with its source"
        print(f"{len(works)} {agree}")
    return FAILED if found else 0


def orphans(root: Path, sources: list[str]) -> list[str]:
    """Notebooks that no source gives."""
    return [
        f"{folder}/{path.name}: no source gives it: solutions/{path.stem}.py is missing"
        for folder in ("notebooks", "solutions")
        for path in sorted((root / folder).glob("*.ipynb"))
        if path.stem not in sources
    ]
