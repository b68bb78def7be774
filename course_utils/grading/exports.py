"""Grades as learning platforms import them: Canvas's gradebook, Moodle's worksheet, Gradescope's results.

    import/canvas.csv                        one column a lesson, named as the assignment in Canvas
    import/moodle/<NN_topic>.csv             one offline grading worksheet a lesson
    import/gradescope/<student>/<NN_topic>/results.json   what an autograder's container leaves behind

A cell without a figure stays empty: no platform then overwrites what it has with a zero.
"""

import json
import re
from pathlib import Path

from course_utils.authoring.files import write_whole
from course_utils.grading import platforms
from course_utils.grading.finals import Final
from course_utils.grading.pages import safe_name
from course_utils.grading.policy import Policy
from course_utils.grading.records import Graded, RowStatus
from course_utils.grading.roster import Roster
from course_utils.grading.rows import number, write_table

CANVAS = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]
MOODLE = ["Identifier", "Full name", "Email address", "Status", "Grade", "Maximum Grade"]
MOODLE += ["Feedback comments"]


def write_exports(
    folder: Path, found: list[Final], rows: list[Graded], roster: Roster, policy: Policy
) -> None:
    """Write all three. Raises CourseError where a file cannot be written."""
    write_canvas(folder / "canvas.csv", found, roster, policy)
    numbers = {(row.student, row.notebook): moodle_number(row.origin) for row in rows}
    for notebook in sorted({final.notebook for final in found}):
        mine = [final for final in found if final.notebook == notebook]
        write_moodle(folder / "moodle" / f"{notebook}.csv", mine, roster, numbers)
    points = {(final.student, final.notebook): final for final in found}
    for row in rows:
        final = points.get((row.student, row.notebook))
        if final is not None and row.status is not RowStatus.MISSING:
            place = folder / "gradescope" / safe_name(row.student) / row.notebook / "results.json"
            text = json.dumps(gradescope_results(row, final), indent=1)
            write_whole({place: text.encode()})


def write_canvas(path: Path, found: list[Final], roster: Roster, policy: Policy) -> None:
    """A gradebook import: Canvas finds a student by ID, and a column by the assignment's name."""
    notebooks = sorted({final.notebook for final in found})
    most = {n: max(final.max_points for final in found if final.notebook == n) for n in notebooks}
    lines = [["    Points Possible", "", "", "", "", *(number(most[n]) for n in notebooks)]]
    for student in sorted({final.student for final in found}):
        entry = roster.entry(student)
        mine = {final.notebook: final for final in found if final.student == student}
        cells = [
            "EX" if n in mine and mine[n].why == "exempt" else points(mine.get(n))
            for n in notebooks
        ]
        ids = [entry["canvas_id"] or trailing_number(student), entry["sis_id"], entry["sis_login"]]
        lines.append([entry["name"] or student, *ids, entry["section"], *cells])
    write_table(path, [*CANVAS, *(policy.names.get(n, n) for n in notebooks)], lines)


def write_moodle(
    path: Path,
    found: list[Final],
    roster: Roster,
    numbers: dict[tuple[str, str], str] | None = None,
) -> None:
    """An offline grading worksheet: Moodle finds a row by `Participant` and the number.

    numbers: those in the submissions' names. Moodle gives a student another one in each assignment.
    """
    lines = []
    for final in found:
        entry = roster.entry(final.student)
        own = (numbers or {}).get((final.student, final.notebook))
        identifier = own or entry["moodle_id"] or trailing_number(final.student)
        name = entry["name"] or final.student.rpartition("_")[0] or final.student
        lines.append(
            [f"Participant {identifier}" if identifier else "", name, entry["email"], "Submitted"]
            + [points(final), number(final.max_points), final.why]
        )
    write_table(path, MOODLE, lines)


def moodle_number(origin: str) -> str:
    """The participant's number in a submission's path, as Moodle exports it; "" where it is no such."""
    found = [
        match["number"]
        for part in re.split("[/!]", origin)
        if (match := platforms.MOODLE.match(part))
    ]
    return found[-1] if found else ""


def gradescope_results(row: Graded, final: Final) -> dict:
    """What Gradescope reads from /autograder/results/results.json: a test an exercise.

    `score` is the policy's; without one (a failure of ours) the platform shows its own error.
    """
    tests = [
        {
            "name": f"{result.exercise} {result.title}" + (", optional" if result.optional else ""),
            "score": round(result.points, 4),
            "max_score": result.max_points,
            "status": "passed" if result.points else "failed",
            "output": f"{result.status}. {result.diagnosis}".strip(),
        }
        for result in row.results.values()
        if not result.optional or result.points
    ]
    why = "" if final.why == str(row.status) else final.why
    told = [f"{row.notebook}: {row.status}", why, row.note]
    if row.status is RowStatus.GRADER_ERROR:
        told = [f"{row.notebook}: the grader failed; your instructor has been told"]
    results = {"output": ". ".join(filter(None, told)), "output_format": "text", "tests": tests}
    return results if final.points is None else {"score": round(final.points, 4)} | results


def points(final: Final | None) -> str:
    return "" if final is None else number(final.points)


def trailing_number(student: str) -> str:
    """4711 of `Ada Lovelace_4711`, as a platform's export names a student."""
    tail = student.rpartition("_")[2]
    return tail if tail.isdigit() else ""
