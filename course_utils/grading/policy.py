"""An instructor's rules, in one small TOML file: what counts, when it was due, what lateness costs.

    attempts = "best"                     # or "last", of several that one student handed in
    count_optional = false                # optional exercises as a bonus
    [points]
    "2.4" = 6                             # in place of the course's 4
    "2.w" = 2                             # the most for this answer in words, and part of the maximum
    [weights]
    "02_requires_grad" = 2                # in the course's total; without it a lesson counts its points
    [due]
    "02_requires_grad" = 2026-05-04T23:59:00+02:00
    [late]
    free_days = 1                         # before a day costs anything
    penalty_per_day = 0.1                 # a tenth of what was earned, for each day begun
    last_day = 5                          # more late days, free days and extensions taken off: nothing counts
    [extensions]
    "02_requires_grad" = { alice = 3 }    # days
    [exempt]
    "02_requires_grad" = ["bob"]          # this lesson does not count for bob
    [names]
    "02_requires_grad" = "Lesson 2 (4711)"  # the assignment in Canvas's gradebook

All of it is optional; without a file every lesson counts its points and nothing is late.
"""

import datetime
import math
import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path

from course_utils.errors import CourseError
from course_utils.grading.lessons import Asked, Lesson
from course_utils.grading.records import Graded
from course_utils.grading.roster import Roster

DAY = datetime.timedelta(days=1)
TABLES = ("points", "weights", "due", "late", "extensions", "exempt", "names")
LATE = {"free_days": 0.0, "penalty_per_day": 0.0, "last_day": math.inf}


@dataclass(frozen=True)
class Policy:
    """The rules. By notebook ("02_requires_grad") or exercise ("2.4") where they are tables."""

    attempts: str = "best"
    count_optional: bool = False
    points: dict[str, float] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    due: dict[str, datetime.datetime] = field(default_factory=dict)
    late: dict[str, float] = field(default_factory=lambda: dict(LATE))
    extensions: dict[str, dict[str, float]] = field(default_factory=dict)
    exempt: dict[str, list[str]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def by_notebook(self) -> tuple[dict, ...]:
        """The tables whose keys are lessons."""
        return self.weights, self.due, self.extensions, self.exempt, self.names

    def is_exempt(self, student: str, notebook: str) -> bool:
        return student in self.exempt.get(notebook, ())

    def days_late(self, student: str, notebook: str, handed_in: str) -> int:
        """Days begun after the due time, extension and free days taken off; 0 where no time is known."""
        due = self.due.get(notebook)
        when = moment(handed_in)
        if due is None or when is None:
            return 0
        if (
            when.tzinfo is None
        ):  # an archive's times, or a table's: as a clock on the due date's wall
            when = when.replace(tzinfo=due.tzinfo)
        allowed = self.extensions.get(notebook, {}).get(student, 0) + self.late["free_days"]
        return max(0, math.ceil((when - due) / DAY - allowed))

    def share(self, days_late: int) -> float:
        """What lateness leaves of the points, between 0 and 1."""
        if days_late > self.late["last_day"]:
            return 0.0
        return max(0.0, 1.0 - self.late["penalty_per_day"] * days_late)

    def is_over(self, student: str, notebook: str, now: datetime.datetime) -> bool:
        """Is the time up, a student's extension included? Without a due date it always is."""
        due = self.due.get(notebook)
        return due is None or now > due + DAY * self.extensions.get(notebook, {}).get(student, 0)

    def check_names(self, people: Roster) -> None:
        """Raises CourseError for an exempt or extended student who is not on the roster, if there is one."""
        for table in ("exempt", "extensions"):
            for notebook, names in getattr(self, table).items():
                for name in names if people.students else ():
                    if name not in people.students:
                        raise CourseError(f"[{table}] {notebook}: {name!r} is not on the roster")

    def lessons(self, known: dict[str, Lesson]) -> dict[str, Lesson]:
        """The lessons, worth the policy's points in place of the course's."""
        return {
            stem: replace(lesson, exercises=self.worth(lesson)) for stem, lesson in known.items()
        }

    def worth(self, lesson: Lesson) -> dict[str, Asked]:
        exercises = lesson.exercises.items()
        return {n: replace(e, points=float(self.points.get(n, e.points))) for n, e in exercises}

    def most_in_words(self, lesson: Lesson | None) -> float:
        """What a lesson's answers in words are worth; 0 where they are a bonus without bounds."""
        return float(sum(self.points.get(name, 0.0) for name in lesson.written)) if lesson else 0.0

    def with_points(self, row: Graded) -> Graded:
        """A row with the policy's points in place of the course's."""
        results = {}
        for name, result in row.results.items():
            most = float(self.points.get(name, result.max_points))
            share = result.points / result.max_points if result.max_points else 0.0
            results[name] = replace(result, points=most * share, max_points=most)
        return replace(row, results=results)


def moment(text: str) -> datetime.datetime | None:
    """An ISO time, or what Gradescope writes (2026-05-04 21:00:00.000000000 Z); None if it is none."""
    head, _, tail = text.strip().partition(".")
    zone = tail.lstrip("0123456789").strip() if tail else ""
    head, zone = (head[:-1], "Z") if head.endswith(("Z", "z")) else (head, zone)
    zone = {"UTC": "Z", "z": "Z"}.get(zone, zone)
    try:
        return datetime.datetime.fromisoformat(head.strip().replace(" UTC", "Z") + zone)
    except ValueError:
        return None


def read_policy(path: Path | None, lessons: dict[str, Lesson]) -> Policy:
    """The rules in a file; those without one for None. Raises CourseError, naming what is wrong."""
    if path is None:
        return Policy()
    try:
        content = tomllib.loads(path.read_text("utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise CourseError(f"{path}: cannot be read: {getattr(error, 'strerror', error)}") from None
    except tomllib.TOMLDecodeError as error:
        raise CourseError(f"{path}: not TOML: {error}") from None
    for problem in problems(content, lessons):
        raise CourseError(f"{path}: {problem}")
    late = LATE | content.get("late", {})
    return Policy(**content | {"late": late})


def problems(content: dict, lessons: dict[str, Lesson]):
    """What is wrong with a policy, sentence by sentence."""
    known = ("attempts", "count_optional", *TABLES)
    exercises = {n for each in lessons.values() for n in (*each.exercises, *each.written)}
    for name in content:
        if name not in known:
            yield f"there is no rule {name!r}; there are {', '.join(known)}"
    if content.get("attempts", "best") not in ("best", "last"):
        yield 'attempts is "best" or "last"'
    if not isinstance(content.get("count_optional", False), bool):
        yield "count_optional is true or false"
    for table in TABLES:
        entries = content.get(table, {})
        if not isinstance(entries, dict):
            yield f"[{table}] is a table"
            continue
        places = {"points": exercises, "late": set(LATE)}.get(table, set(lessons))
        for key, value in entries.items():
            if key not in places:
                yield f"[{table}]: there is no {key!r}; there are {', '.join(sorted(places))}"
            elif not fits(table, value):
                yield f"[{table}] {key}: {value!r} is not {WANTED[table]}"


WANTED = {
    "points": "a number of points",
    "weights": "a number",
    "due": "a date and time with its zone, such as 2026-05-04T23:59:00+02:00",
    "late": "a number",
    "extensions": "a table of days by student, such as { alice = 3 }",
    "exempt": 'a list of students, such as ["bob"]',
    "names": "a name in quotes",
}


def fits(table: str, value: object) -> bool:
    if table == "due":
        return isinstance(value, datetime.datetime) and value.tzinfo is not None
    if table == "names":
        return isinstance(value, str)
    if table == "exempt":
        return isinstance(value, list) and all(isinstance(each, str) for each in value)
    if table == "extensions":
        return isinstance(value, dict) and all(is_number(each) for each in value.values())
    return is_number(value)


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
