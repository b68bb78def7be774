"""What changed between two grading runs: every grade and every final figure that is another now, and why.

A figure may change because the student handed in something else, the checks changed, the seed did, the policy,
the points given by hand, or lateness. A change with none of these is the one to look at: an answer, or a check,
that is not the same every time.
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from course_utils.errors import CourseError
from course_utils.grading import ledger
from course_utils.grading.attempts import chosen
from course_utils.grading.figures import FILE as FIGURES
from course_utils.grading.figures import Figure, Key, figures, read_figures
from course_utils.grading.policy import Policy
from course_utils.grading.records import RowStatus
from course_utils.grading.rows import in_order, number, write_table

FILE = "changes.csv"
HEAD = ["student", "notebook", "exercise", "before", "now", "why", "said before", "says now"]
UNKNOWN = "nothing that is known: look at it"
TOTAL = "percent"
MISSING = str(RowStatus.MISSING)


@dataclass(frozen=True)
class Run:
    """What a run came to: its figures; percents, where they are known; whether policy and hand are in them."""

    figures: dict[Key, Figure]
    percents: dict[str, float | None]
    is_whole: bool = True


@dataclass(frozen=True)
class Change:
    """One figure that changed: an exercise's ("2.4"), with "" a lesson's, or a student's "percent"."""

    student: str
    notebook: str
    exercise: str
    before: float | None
    now: float | None
    why: str
    said_before: str = ""
    says_now: str = ""


def old_run(place: Path) -> Run:
    """An earlier run, by its folder; by its grades.jsonl alone, what the checks gave. Raises CourseError."""
    folder, path = (place, place / ledger.FILE) if place.is_dir() else (None, place)
    if not path.is_file():
        raise CourseError(f"{place}: no {ledger.FILE} there to compare with")
    rows = ledger.read_rows(path)
    if folder is not None and (found := read_figures(folder / FIGURES)):
        return Run(*found)
    return Run(figures(chosen(rows, Policy())[0]), {}, is_whole=False)


def changes(old: Run, new: Run) -> list[Change]:
    """Every figure that is not what it was; those without a known reason first."""
    found = []
    for key in sorted(old.figures.keys() | new.figures.keys()):
        was, now = old.figures.get(key), new.figures.get(key)
        if was is None or now is None:
            there = now or was
            if there.status != MISSING:
                why = "not in the new run" if now is None else "not in the old run"
                before, after = (each.points if each else None for each in (was, now))
                found.append(Change(*key, "", before, after, why))
            continue
        found += of_exercises(was, now) + of_lesson(was, now)
    changed = {change.student for change in found}
    for student in sorted((old.percents.keys() & new.percents.keys()) - changed):
        before, after = old.percents[student], new.percents[student]
        if before != after:
            found.append(Change(student, "", TOTAL, before, after, "policy"))
    return sorted(found, key=lambda change: UNKNOWN not in change.why)


def of_exercises(was: Figure, now: Figure) -> list[Change]:
    found = []
    if not was.exercises or not now.exercises:  # its lesson's line says it all
        return found
    for name in sorted(was.exercises.keys() | now.exercises.keys(), key=in_order):
        old, new = was.exercises.get(name), now.exercises.get(name)
        if old and new and old[0] == new[0]:
            continue
        said = was.said.get(name, ""), now.said.get(name, "")
        points = [each[0] if each else None for each in (old, new)]
        why = reason(was, now) if verdict(old) != verdict(new) else "policy"
        found.append(Change(now.student, now.notebook, name, *points, why, *said))
    return found


def of_lesson(was: Figure, now: Figure) -> list[Change]:
    """The lesson's figure, or its status, where it is another."""
    if was.status == now.status and was.points == now.points:
        return []
    said = [f"{each.status} {each.note} {each.why}".strip() for each in (was, now)]
    return [Change(now.student, now.notebook, "", was.points, now.points, reasons(was, now), *said)]


def reasons(was: Figure, now: Figure) -> str:
    """Why a lesson's figure is another: each part of it that is."""
    found = []
    pairs = [
        (was.exercises.get(n), now.exercises.get(n)) for n in {**was.exercises, **now.exercises}
    ]
    if was.status != now.status or any(verdict(old) != verdict(new) for old, new in pairs):
        found += reason(was, now).split(", ")
    worth = [[each[1:] if each else None for each in pair] for pair in pairs]
    exempt = "exempt" in (was.why, now.why) and was.why != now.why
    if exempt or (was.exercises and now.exercises and any(old != new for old, new in worth)):
        found.append("policy")
    if was.by_hand != now.by_hand:
        found.append("points by hand")
    if (was.days_late, was.share) != (now.days_late, now.share):
        found.append("policy" if was.handed_in == now.handed_in else "lateness")
    if "not due yet" in (was.why, now.why) and was.why != now.why:
        found.append("due since")
    return ", ".join(dict.fromkeys(found)) or "policy"  # the same parts, and others of them count


def reason(was: Figure, now: Figure) -> str:
    """What of a submission's verdicts is known to have changed; where nothing is, that is what to look at."""
    found = []
    if was.content_hash != now.content_hash:
        found.append("another submission")
    if was.checks_version != now.checks_version and was.checks_version and now.checks_version:
        found.append("other checks")
    if was.seed != now.seed:
        found.append("another seed")
    if str(RowStatus.GRADER_ERROR) in (was.status, now.status):
        found.append("the grader failed")
    return ", ".join(found) or UNKNOWN


def verdict(points: list[float] | None) -> float | None:
    """The share that an answer earned, whatever it is worth; None where there is no such exercise."""
    return None if points is None else points[0] / points[1] if points[1] else 0.0


def write_changes(path: Path, found: list[Change]) -> None:
    """changes.csv. Raises CourseError where it cannot be written."""
    lines = [
        [each.student, each.notebook, each.exercise, number(each.before), number(each.now)]
        + [each.why, each.said_before, each.says_now]
        for each in found
    ]
    write_table(path, HEAD, lines)


def told(found: list[Change], most: int = 20) -> str:
    """The changes in lines for a terminal: how many of each reason, then the first of them."""
    counts = Counter(each.why for each in found).most_common()
    lines = [f"  {times} by {why}" for why, times in counts] if len(found) > most else []
    lines += [
        f"  {one_line(each.student)} {each.exercise or each.notebook}: "
        f"{number(each.before) or '-'} -> {number(each.now) or '-'} ({each.why})"
        for each in found[:most]
    ]
    more = [f"  and {len(found) - most} more in {FILE}"] if len(found) > most else []
    head = f"{len(found)} grade{'s' * (len(found) != 1)} changed" + ":" * bool(found)
    return "\n".join([head, *lines, *more])


def one_line(name: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in name)[:60]
