"""Grades as learning platforms import them: Canvas's gradebook, Moodle's worksheet, Gradescope's results.

    import/canvas.csv                        one column a lesson, named as the assignment in Canvas
    import/moodle/<NN_topic>.csv             one offline grading worksheet a lesson
    import/moodle/<NN_topic>_feedback.zip    the pages, as Moodle takes feedback files back
    import/gradescope/<student>/<NN_topic>/results.json   what an autograder's container leaves behind

A cell without a figure stays empty, and in Canvas's file a student without any figure has no row: no
platform then overwrites what it has with a zero. A platform's number goes into that platform's file alone, and
whom a roster does not know is in neither file. Columns and rules are those of Canvas's and Moodle's own
importers (gradebook_importer.rb; mod/assign/feedback/offline and file) and of Gradescope's specification.
"""

import io
import json
import re
import zipfile
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

from course_utils.authoring.files import write_whole
from course_utils.grading import dependence, platforms
from course_utils.grading.dependence import failed_below
from course_utils.grading.feedback import what_to_do
from course_utils.grading.finals import Final
from course_utils.grading.lessons import lessons
from course_utils.grading.masking import fit_to_show
from course_utils.grading.pages import safe_name
from course_utils.grading.policy import Policy
from course_utils.grading.records import ExerciseResult, Graded, RowStatus
from course_utils.grading.roster import Roster
from course_utils.grading.rows import number, write_table
from course_utils.grading.wording import without_nesting

CANVAS = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]
# Moodle refuses a worksheet without the last one. Comments are left out: an empty one would erase what is there
MOODLE = [
    "Identifier",
    "Full name",
    "Email address",
    "Grade",
    "Maximum Grade",
    "Last modified (grade)",
]
Named = Mapping[tuple[str, str], platforms.Named]  # by student and notebook
MOMENT = (1980, 1, 1, 0, 0, 0)  # of the files in a ZIP: the same pages, the same bytes


def write_exports(
    folder: Path,
    found: list[Final],
    rows: list[Graded],
    roster: Roster,
    policy: Policy,
    pages: Mapping[tuple[str, str], Path] | None = None,
) -> None:
    """Write them all. `pages`: of feedback, by student and notebook. Raises CourseError."""
    named = named_by(rows, roster)
    write_canvas(folder / "canvas.csv", found, roster, policy, named)
    notebooks, made = {final.notebook for final in found}, set()
    for notebook in sorted(notebooks):
        mine = [final for final in found if final.notebook == notebook]
        write_moodle(folder / "moodle" / f"{notebook}.csv", mine, roster, named)
        write_moodle_pages(
            folder / "moodle" / f"{notebook}_feedback.zip", notebook, rows, pages or {}
        )
    points = {(final.student, final.notebook): final for final in found}
    for row in rows:
        final = points.get((row.student, row.notebook))
        if final is not None and row.status is not RowStatus.MISSING:
            place = folder / "gradescope" / safe_name(row.student) / row.notebook / "results.json"
            text = json.dumps(gradescope_results(row, final), indent=1)
            write_whole({place: text.encode()})
            made.add(place)
    remove_old(folder, made, notebooks)


def remove_old(
    folder: Path, made: Collection[Path] = (), notebooks: Collection[str] | None = None
) -> None:
    """Take away an earlier run's files: other students' results, other lessons' sheets; by default all."""
    kept = notebooks or ()
    sheets = [
        path
        for name in lessons()
        for path in folder.glob(f"moodle/{name}*")
        if path.name in (f"{name}.csv", f"{name}_feedback.zip") and name not in kept
    ]
    old = [path for path in folder.glob("gradescope/*/*/results.json") if path not in made]
    for path in sheets + old + [folder / "canvas.csv"] * (notebooks is None):
        with suppress(OSError):
            path.unlink()
            path.parent.rmdir()  # only if it is empty now
            path.parent.parent.rmdir()


def named_by(rows: list[Graded], roster: Roster) -> dict[tuple[str, str], platforms.Named]:
    """By student and notebook, what platform named the submission; none where a file only looks so."""
    found = {}
    for row in rows:
        named = platforms.named(row.origin)
        if named and row.student in (named.student, roster.student(named.student, named.platform)):
            found[row.student, row.notebook] = named
    return found


def number_of(student: str, platform: str, named: Named, roster: Roster) -> str | None:
    """A student's number on this platform, by the names of all their submissions; "" where none tells.

    None where they do not belong into the platform's file: not on the roster, or only known to another one.
    """
    mine = [each for (who, _), each in named.items() if who == student]
    ours = [each.number for each in mine if each.platform == platform]
    if student not in roster.students and (roster.students or (mine and not ours)):
        return None
    return ours[-1] if ours else ""


def write_canvas(
    path: Path,
    found: list[Final],
    roster: Roster,
    policy: Policy,
    named: Named | None = None,
) -> None:
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
        own = number_of(student, "canvas", named or {}, roster)
        ids = [entry["canvas_id"] or own, entry["sis_id"], entry["sis_login"]]
        if any(cells) and own is not None:
            lines.append([entry["name"] or student, *ids, entry["section"], *cells])
    write_table(path, [*CANVAS, *(policy.names.get(n, n) for n in notebooks)], lines)


def write_moodle(
    path: Path, found: list[Final], roster: Roster, named: Named | None = None
) -> None:
    """An offline grading worksheet: Moodle finds a row by `Participant` and the number.

    named: Moodle gives a student another number in each assignment, and the submission's name has it.
    """
    lines = []
    for final in found:
        entry, key = roster.entry(final.student), (final.student, final.notebook)
        mine = {key: named[key]} if named and key in named else {}
        own = number_of(final.student, "moodle", mine, roster)
        if own is None:
            continue
        identifier = own or entry["moodle_id"]
        name = entry["name"] or final.student.rpartition("_")[0] or final.student
        lines.append(
            [f"Participant {identifier}" if identifier else "", name, entry["email"]]
            + [points(final), number(final.max_points), ""]
        )
    write_table(path, MOODLE, lines)


def write_moodle_pages(
    path: Path, notebook: str, rows: list[Graded], pages: Mapping[tuple[str, str], Path]
) -> None:
    """The pages of whoever handed in by Moodle, in folders named as Moodle named theirs; no file for none."""
    packed, found = io.BytesIO(), False
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for row in rows:
            match, page = moodle_folder(row.origin), pages.get((row.student, row.notebook))
            if match and page and row.notebook == notebook:
                name = (
                    f"{match['name']}_{match['number']}_assignsubmission_file/feedback_{page.name}"
                )
                archive.writestr(zipfile.ZipInfo(name, MOMENT), page.read_bytes())
                found = True
    if found:
        write_whole({path: packed.getvalue()})
    else:
        path.unlink(missing_ok=True)


def moodle_folder(origin: str) -> re.Match | None:
    """The part of a submission's path that Moodle's export has named after its student."""
    matches = [platforms.MOODLE.match(part) for part in re.split("[/!]", origin)]
    return next(filter(None, matches), None)  # the first: what follows it was named by a student


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
            "output": output(result, row.sources.get(result.exercise, "")),
        }
        for result in row.results.values()
        if not result.optional or result.points
    ]
    why = "" if final.why == str(row.status) else final.why
    note = what_to_do(row.note)
    told = [f"{row.notebook}: {row.status}", why, note.rstrip(".")]
    uses = failed_below(row).items()
    told += [dependence.told(name, below).removesuffix(".") for name, below in uses]
    if row.status is RowStatus.GRADER_ERROR:
        told = [f"{row.notebook}: the grader failed; your instructor has been told"]
    results = {"output": ". ".join(filter(None, told)), "output_format": "text", "tests": tests}
    return results if final.points is None else {"score": round(final.points, 4)} | results


def output(result: ExerciseResult, source: str) -> str:
    """What a student may read of one exercise, as in the feedback."""
    return f"{result.status}. {without_nesting(fit_to_show(result, source))}".strip()


def points(final: Final | None) -> str:
    return "" if final is None else number(final.points)
