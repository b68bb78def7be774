"""Final points: a student's rows under the policy, lesson by lesson, and the course's total.

grades.csv says what was earned. What it comes to (late days, exemptions, weights) is here, so that a
changed rule never means grading again.
"""

import datetime
import re
from dataclasses import dataclass, replace
from pathlib import Path

from course_utils.grading.lessons import Lesson
from course_utils.grading.policy import Policy
from course_utils.grading.reading import OTHER_LESSON
from course_utils.grading.records import Graded, RowStatus
from course_utils.grading.roster import Roster
from course_utils.grading.rows import core_max, core_points, number, write_table

FILE = "final.csv"
NOT_YET = (RowStatus.MISSING, RowStatus.WRONG_NOTEBOOK)  # who has time left may still hand in
FEW = 0.25  # of all students: a lesson that fewer handed in was not asked for


@dataclass(frozen=True)
class Final:
    """One student's lesson. `points` is None where no figure may stand: exempt, or our own failure."""

    student: str
    notebook: str
    points: float | None
    max_points: float
    days_late: int = 0
    why: str = ""  # "exempt", "2 days late (after free days)", a status other than graded
    earned: float = 0.0  # before lateness
    share: float = 1.0  # what lateness leaves of it
    counts_optional: bool = False
    in_words: float = 0.0  # what answers in words are worth; 0: a bonus without bounds


def finals(
    rows: list[Graded],
    roster: Roster,
    policy: Policy,
    lessons: dict[str, Lesson],
    written: dict[tuple[str, str], float] | None = None,
    now: datetime.datetime | None = None,
) -> list[Final]:
    """Of every row, and of everybody on the roster who handed in nothing, by notebook and student.

    What is missing has no figure before it is due. `now` is the time, in any zone.
    """
    found, now = [], now or datetime.datetime.now(datetime.UTC)
    for row in rows:
        if not row.notebook:
            continue
        late = policy.days_late(row.student, row.notebook, row.handed_in)
        earned = core_points(row, policy.count_optional)
        earned += (written or {}).get((row.student, row.notebook), 0.0)
        points, share = earned, policy.share(late)
        why = [days_told(late, row, policy)] if late else []
        why += [] if row.status is RowStatus.GRADED else [str(row.status)]
        if policy.is_exempt(row.student, row.notebook):
            points, why = None, ["exempt"]
        elif row.status is RowStatus.GRADER_ERROR:
            points = None
        elif row.status in NOT_YET and not policy.is_over(row.student, row.notebook, now):
            points, why = None, ["not due yet"]
        else:
            points *= share
        in_words = policy.most_in_words(lessons.get(row.notebook))
        most, told = (core_max(row, lessons) or 0.0) + in_words, ", ".join(why)
        final = Final(row.student, row.notebook, points, most, late, told, earned, share)
        found.append(replace(final, counts_optional=policy.count_optional, in_words=in_words))
    return sorted(found, key=lambda each: (each.notebook, each.student))


def days_told(late: int, row: Graded, policy: Policy) -> str:
    """2 days late; and after what, where some days cost nothing."""
    extension = policy.extensions.get(row.notebook, {}).get(row.student, 0)
    free = ["free days"] * bool(policy.late["free_days"]) + ["extension"] * bool(extension)
    return f"{late} day{'s' * (late != 1)} late" + f" (after {' and '.join(free)})" * bool(free)


def asked_for(rows: list[Graded], policy: Policy) -> tuple[list[str], list[str]]:
    """(lessons that the class was asked for, lessons that stray notebooks are of), in order.

    Asked for is what the policy names, and what more than a few handed in. Else one wrong file would leave
    everybody else with a zero in a lesson that nobody has set.
    """
    named = {name for table in policy.by_notebook() for name in table}
    owners: dict[str, set[str]] = {}
    for row in rows:
        owners.setdefault(row.notebook, set()).add(row.student)
    owners.pop("", None)
    everybody = len(set().union(*owners.values())) if owners else 0
    asked = {n for n, mine in owners.items() if n in named or len(mine) >= FEW * everybody}
    return sorted(asked), sorted(owners.keys() - asked)


def missing_rows(
    rows: list[Graded],
    roster: Roster,
    notebooks: list[str],
    seed: int,
    everything: list[Graded] | None = None,
) -> list[Graded]:
    """A row for everybody on the roster, for each notebook that they did not hand in.

    everything: all attempts. Whoever gave another lesson's notebook this one's name has a row that says so.
    """
    there = {(row.student, row.notebook) for row in rows}
    instead = {}
    for row in everything or rows:
        if match := re.search(OTHER_LESSON, row.note):
            number = re.match(r"\d\d", match[1])[0]
            note = f"{match[1]} was handed in, but by its content it is {match[2]}"
            wrong = Graded(row.student, "", RowStatus.WRONG_NOTEBOOK, note=note, origin=row.origin)
            instead[row.student, number] = replace(wrong, seed=seed, handed_in=row.handed_in)
    found = []
    for student in {**roster.students, **{student: {} for student, _ in instead}}:
        for notebook in notebooks:
            if (student, notebook) in there:
                continue
            wrong = instead.get((student, notebook[:2]))
            if wrong is not None:
                found.append(replace(wrong, notebook=notebook))
            elif student in roster.students:
                found.append(Graded(student, notebook, RowStatus.MISSING, seed=seed))
    return found


def total_share(mine: list[Final], policy: Policy) -> float | None:
    """A student's weighted share of all that counts, between 0 and 1; None where nothing does yet."""
    counted = [final for final in mine if final.points is not None and final.max_points]
    weights = [policy.weights.get(f.notebook, f.max_points) for f in counted]
    if not sum(weights):
        return None
    earned = sum(w * f.points / f.max_points for w, f in zip(weights, counted))
    return earned / sum(weights)


def write_finals(path: Path, found: list[Final], roster: Roster, policy: Policy) -> None:
    """final.csv: a row a student, a column a lesson, the weighted total in percent. CourseError."""
    notebooks = sorted({final.notebook for final in found})
    lines = []
    for student in sorted({final.student for final in found}):
        mine = {final.notebook: final for final in found if final.student == student}
        share = total_share(list(mine.values()), policy)
        cells = [number(mine[n].points) if n in mine else "" for n in notebooks]
        why = "; ".join(f"{n}: {final.why}" for n, final in sorted(mine.items()) if final.why)
        percent = number(None if share is None else round(100 * share, 2))
        lines.append([student, roster.entry(student)["name"], *cells, percent, why])
    write_table(path, ["student", "name", *notebooks, "percent", "why"], lines)
