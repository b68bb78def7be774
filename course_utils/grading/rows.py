"""grades.csv: a row a student and notebook, that a person and a spreadsheet can both read.

    student,notebook,status,<exercise ids>,total,max_total,seed,checks_version

An exercise's column holds points; why they are what they are stands in grades.jsonl and in the
feedback. A student's name can be made to look like a formula: such a cell gets an apostrophe in front.
"""

import csv
import io
from pathlib import Path

from course_utils.authoring.files import write_whole
from course_utils.grading.lessons import Lesson
from course_utils.grading.records import Graded, RowStatus
from course_utils.grading.written import defused

FILE = "grades.csv"
HEAD, TAIL = ("student", "notebook", "status"), ("total", "max_total", "seed", "checks_version")


def number(value: float | None) -> str:
    """Points as text: 3, 2.5, and nothing where there is no figure."""
    return "" if value is None else f"{round(value, 4):g}"


def has_points(row: Graded) -> bool:
    """Has this row points, be they zero? Not where the grader itself failed."""
    return row.status is not RowStatus.GRADER_ERROR


def core_points(row: Graded, count_optional: bool = False) -> float:
    """The points of a row's core exercises; optional ones are a bonus where the policy says so."""
    counted = (r for r in row.results.values() if count_optional or not r.optional)
    return sum(result.points for result in counted)


def core_max(row: Graded, lessons: dict[str, Lesson]) -> float | None:
    """What the core of a row's notebook is worth; None where it is no notebook of ours."""
    if row.results:
        return sum(r.max_points for r in row.results.values() if not r.optional)
    return lessons[row.notebook].max_total if row.notebook in lessons else None


def write_csv(
    path: Path,
    rows: list[Graded],
    lessons: dict[str, Lesson],
    written: dict[tuple[str, str], float] | None = None,
    count_optional: bool = False,
    in_words: dict[str, float] | None = None,
) -> None:
    """Write grades.csv, whole or not at all. `written`: points given by hand, by student and notebook.

    in_words: the most that a notebook's answers in words are worth, where they are part of its maximum.

    Raises CourseError where the file cannot be written.
    """
    names = exercise_names(rows, lessons)
    lines = []
    for row in rows:
        has = has_points(row)
        cells = [number(row.results[n].points) if n in row.results else "" for n in names]
        if has and not row.results and row.notebook in lessons:
            cells = ["0" if name in lessons[row.notebook].exercises else "" for name in names]
        by_hand = (written or {}).get((row.student, row.notebook), 0.0)
        total = core_points(row, count_optional) + by_hand if has else None
        most = core_max(row, lessons)
        most = None if most is None else most + (in_words or {}).get(row.notebook, 0.0)
        lines.append(
            [row.student, row.notebook, str(row.status), *cells, number(total)]
            + [number(most), str(row.seed), row.checks_version]
        )
    write_table(path, [*HEAD, *names, *TAIL], lines)


def exercise_names(rows: list[Graded], lessons: dict[str, Lesson]) -> list[str]:
    """The exercises of all notebooks that have a row, in the course's order."""
    present = {row.notebook for row in rows}
    names = [name for stem in lessons if stem in present for name in lessons[stem].exercises]
    more = sorted({name for row in rows for name in row.results} - set(names))
    return names + more


def write_table(path: Path, head: list[str], lines: list[list[str]]) -> None:
    """A CSV file in UTF-8, every cell harmless to a spreadsheet. Raises CourseError."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([defused(str(cell)) for cell in line] for line in lines)
    write_whole({path: text.getvalue().encode("utf-8", "replace")})


def in_order(exercise: str) -> tuple:
    """For sorting exercises: "2.10" after "2.9"."""
    return tuple(int(part) if part.isdigit() else 0 for part in exercise.split(".")), exercise
