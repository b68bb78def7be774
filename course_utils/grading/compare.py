"""What changed between two grading runs: every grade that is another now, and why.

A grade may change because the student handed in something else, the checks changed, the seed did, or
points were given by hand. A change with none of these is the one to look at: an answer, or a check, that
is not the same every time.
"""

from dataclasses import dataclass
from pathlib import Path

from course_utils.errors import CourseError
from course_utils.grading import ledger
from course_utils.grading.records import Graded, RowStatus
from course_utils.grading.rows import best_rows, core_points, has_points, number, write_table

FILE = "changes.csv"
HEAD = ["student", "notebook", "exercise", "before", "now", "why", "said before", "says now"]


@dataclass(frozen=True)
class Change:
    """One grade that changed: an exercise's ("2.4"), or with "" a whole submission's."""

    student: str
    notebook: str
    exercise: str
    before: float | None
    now: float | None
    why: str
    said_before: str = ""
    says_now: str = ""


def old_rows(place: Path, attempts: str = "best") -> list[Graded]:
    """The rows of an earlier run, by its folder or its grades.jsonl. Raises CourseError."""
    path = place / ledger.FILE if place.is_dir() else place
    if not path.is_file():
        raise CourseError(f"{place}: no {ledger.FILE} there to compare with")
    return best_rows(ledger.read_rows(path), attempts)


def changes(old: list[Graded], new: list[Graded]) -> list[Change]:
    """Every grade that is not what it was, by student and exercise; rows that came or went, too."""
    before = {(row.student, row.notebook): row for row in old}
    now = {(row.student, row.notebook): row for row in new}
    found = []
    for student, notebook in sorted(before.keys() | now.keys()):
        was, is_now = before.get((student, notebook)), now.get((student, notebook))
        if was is None or is_now is None:
            why = "not in the new run" if is_now is None else "not in the old run"
            found.append(Change(student, notebook, "", total(was), total(is_now), why))
            continue
        found += in_row(was, is_now)
    return found


def in_row(was: Graded, now: Graded) -> list[Change]:
    found, why = [], reason(was, now)
    whose = (now.student, now.notebook)
    for name in sorted(was.results.keys() | now.results.keys(), key=ledger_order):
        old, new = was.results.get(name), now.results.get(name)
        figures = [None if each is None else each.points for each in (old, new)]
        if figures[0] != figures[1]:
            said = [f"{each.status} {each.cause}".strip() if each else "" for each in (old, new)]
            found.append(Change(*whose, name, *figures, why, *said))
    if was.status is not now.status:
        said = [f"{row.status} {row.note}".strip() for row in (was, now)]
        found.append(Change(*whose, "", total(was), total(now), why, *said))
    return found


def reason(was: Graded, now: Graded) -> str:
    """What is known to have changed; where nothing is, that is what to look at."""
    reasons = []
    if was.content_hash != now.content_hash:
        reasons.append("another submission")
    if was.checks_version != now.checks_version and was.checks_version and now.checks_version:
        reasons.append("other checks")
    if was.seed != now.seed:
        reasons.append("another seed")
    if RowStatus.GRADER_ERROR in (was.status, now.status):
        reasons.append("the grader failed")
    return ", ".join(reasons) or "nothing that is known: look at it"


def total(row: Graded | None) -> float | None:
    return core_points(row) if row is not None and has_points(row) else None


def ledger_order(exercise: str) -> tuple:
    return tuple(int(part) if part.isdigit() else 0 for part in exercise.split(".")), exercise


def write_changes(path: Path, found: list[Change]) -> None:
    """changes.csv. Raises CourseError where it cannot be written."""
    lines = [
        [each.student, each.notebook, each.exercise, number(each.before), number(each.now)]
        + [each.why, each.said_before, each.says_now]
        for each in found
    ]
    write_table(path, HEAD, lines)


def told(found: list[Change], most: int = 20) -> str:
    """The changes in lines for a terminal."""
    lines = [
        f"  {one_line(each.student)} {each.exercise or each.notebook}: "
        f"{number(each.before) or '-'} -> {number(each.now) or '-'} ({each.why})"
        for each in found[:most]
    ]
    more = [f"  and {len(found) - most} more in {FILE}"] if len(found) > most else []
    head = f"{len(found)} grade{'s' * (len(found) != 1)} changed" + ":" * bool(found)
    return "\n".join([head, *lines, *more])


def one_line(name: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in name)[:60]
