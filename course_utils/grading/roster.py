"""Who is in the course: a CSV file, by which a folder's or a platform's name becomes one student.

    student,name,email,canvas_id,sis_id,sis_login,section,moodle_id,gradescope_id

Only `student` is needed: the name that grades go by. A submission belongs to whoever has its name, or
its number, in any column: `Ada Lovelace_4711` is found by 4711, or by the name. Where a platform has named
it, its number counts in that platform's column alone: Moodle's 4711 is not Canvas's.
"""

import csv
import io
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from course_utils.errors import CourseError

COLUMNS = (
    "student", "name", "email", "canvas_id", "sis_id", "sis_login", "section", "moodle_id",
    "gradescope_id",
)  # fmt: skip
IDENTIFIES = tuple(name for name in COLUMNS if name != "section")
OTHERS = ("canvas_id", "moodle_id")  # what Gradescope's number is not
NUMBERED = {
    "moodle": ("moodle_id",),
    "canvas": ("canvas_id",),
    "gradescope": tuple(name for name in IDENTIFIES if name not in OTHERS),
}


@dataclass(frozen=True)
class Roster:
    """Students by the name that grades go by, each with all columns; empty without a file."""

    students: dict[str, dict[str, str]] = field(default_factory=dict)
    known_as: dict[str, str] = field(default_factory=dict)  # any of their names or ids -> student

    def student(self, found: str, platform: str = "") -> str:
        """The student that a submission's owner is; the owner as found, where nobody has that name.

        platform: who has named the owner so. Moodle numbers anew in each assignment: there a name comes first.
        """
        name, _, number = found.rpartition("_")
        if not (number.isdigit() or "@" in number):
            number = ""
        by_number = self.numbered(plain(number), platform)
        by_name = self.known_as.get(plain(name)) if name else None
        ways = (by_name, by_number) if platform == "moodle" else (by_number, by_name)
        return next(filter(None, (self.known_as.get(plain(found)), *ways)), found)

    def numbered(self, number: str, platform: str) -> str | None:
        """Who has this number where the platform's stand; in `student`, if the roster has none of them."""
        if platform not in NUMBERED or not number:
            return self.known_as.get(number) if number else None
        entries = self.students.items()
        columns = NUMBERED[platform]
        if not any(entry[column] for _, entry in entries for column in columns):
            columns = ("student",)
        mine = {s for s, entry in entries if number in {plain(entry[c]) for c in columns}}
        return mine.pop() if len(mine) == 1 else None

    def knows(self, found: str, platform: str = "") -> bool:
        """Is this somebody on the roster?"""
        return self.student(found, platform) in self.students

    def entry(self, student: str) -> dict[str, str]:
        """All columns of a student; empty ones for somebody who is not on the roster."""
        return self.students.get(student) or dict.fromkeys(COLUMNS, "") | {"student": student}


def plain(name: str) -> str:
    return " ".join(name.casefold().split())


def read_roster(path: Path | None) -> Roster:
    """The roster in a file; an empty one for None. Raises CourseError, naming what is wrong."""
    if path is None:
        return Roster()
    try:
        text = path.read_bytes().decode("utf-8-sig")
        head = text.partition("\n")[0]
        delimiter = max(",;\t", key=head.count)  # as some spreadsheets write it
        table = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
        names = table.fieldnames or []
        lines = list(table)
    except UnicodeDecodeError:
        raise CourseError(f"{path}: no UTF-8 text; in a spreadsheet save it as CSV UTF-8") from None
    except (OSError, csv.Error) as error:
        raise CourseError(f"{path}: cannot be read: {getattr(error, 'strerror', error)}") from None
    if "student" not in names:
        raise CourseError(f"{path}: its first line must name the columns, `student` among them")
    unknown = [name for name in names if name not in COLUMNS]
    if unknown:
        raise CourseError(f"{path}: no column {unknown[0]!r}; there are {', '.join(COLUMNS)}")
    students = {}
    for number, line in enumerate(lines, start=2):
        entry = {name: (line.get(name) or "").strip() for name in COLUMNS}
        if not any(entry.values()):
            continue
        if not entry["student"]:
            raise CourseError(f"{path}: line {number} names no student")
        if entry["student"] in students:
            raise CourseError(f"{path}: line {number}: {entry['student']} stands there twice")
        students[entry["student"]] = entry
    return Roster(students, by_any_name(students))


def by_any_name(students: dict[str, dict[str, str]]) -> dict[str, str]:
    """Every name or id that one student alone has, to that student; `student` itself comes first."""
    owners = [
        (key, student)
        for student, entry in students.items()
        for key in {plain(entry[column]) for column in IDENTIFIES} - {""}
    ]
    times = Counter(key for key, _ in owners)
    known = {key: student for key, student in owners if times[key] == 1}
    return known | {plain(student): student for student in students}
