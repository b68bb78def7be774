"""When something was handed in, where the files themselves do not tell: a table among the submissions.

    student,notebook,file,handed_in

`notebook` may be empty (all of theirs), and so may `file`, the name of one attempt: a file, or the export that
it is in. A time without a file belongs to the one attempt that there is. Of several nobody can say which
it is of, so it counts for none of them, and a person is told.
"""

import csv
import io
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from course_utils.errors import CourseError
from course_utils.grading.policy import moment
from course_utils.grading.records import Graded

FILE = "handed_in.csv"
COLUMNS = ("student", "notebook", "file", "handed_in")


@dataclass(frozen=True)
class Time:
    """A row of the table."""

    student: str
    notebook: str  # "02", "02_requires_grad", or "" for all
    file: str
    handed_in: str

    def fits(self, row: Graded) -> bool:
        return self.notebook in (row.notebook, row.notebook[:2], "")

    def is_of(self, row: Graded) -> bool:
        """Does `file` name this row's file, or the export that it is in?"""
        origin = row.origin.replace("\\", "/")
        return self.file in re.split("[/!]", origin) or origin.endswith(f"/{self.file}")


def read_times(place: Path, called: Callable[[str], str] = str) -> list[Time]:
    """PLACE/handed_in.csv, with times only; [] without it. `called`: a student's name in the roster.

    Raises CourseError where it is no such table, a time is none, or one attempt has two of them.
    """
    path = place / FILE
    if not path.is_file() or path.is_symlink():
        return []
    try:
        text = path.read_bytes().decode("utf-8-sig")
        delimiter = max(",;\t", key=text.partition("\n")[0].count)  # as some spreadsheets write it
        table = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
        if not {"student", "handed_in"} <= set(table.fieldnames or ()):
            raise KeyError
        rows = [{name: (row.get(name) or "").strip() for name in COLUMNS} for row in table]
    except (OSError, KeyError, UnicodeDecodeError, csv.Error):
        told = "a CSV file in UTF-8 with student, handed_in and, if you like, notebook and file is needed"
        raise CourseError(f"{path}: {told}") from None
    found: dict[tuple[str, str, str], Time] = {}
    for row in rows:
        if not row["handed_in"]:
            continue
        if moment(row["handed_in"]) is None:
            told = f"{row['student']}: {row['handed_in']!r} is no time, such as 2026-05-04T21:00"
            raise CourseError(f"{path}: {told}")
        notebook = row["notebook"].removesuffix(".ipynb")
        time = Time(called(row["student"]), notebook, row["file"], row["handed_in"])
        key = time.student, notebook[:2], time.file
        if key in found and found[key].handed_in != time.handed_in:
            told = (
                f"{row['student']} has two times for {notebook or 'all'}: name each attempt's file"
            )
            raise CourseError(f"{path}: {told} in a column `file`")
        found[key] = time
    return list(found.values())


def with_times(rows: list[Graded], times: list[Time]) -> tuple[list[Graded], list[Graded]]:
    """(the rows, with the table's times; rows of attempts that a time may or may not be of, with that time)."""
    found, doubtful = [], []
    for row in rows:
        mine = [time for time in times if time.student == row.student and time.fits(row)]
        mine.sort(key=lambda time: -len(time.notebook))  # one lesson's before that of all
        named = [time for time in mine if time.file and time.is_of(row)]
        loose = [time for time in mine if not time.file]
        others = {
            each.content_hash
            for each in rows
            if (each.student, each.notebook) == (row.student, row.notebook)
            and each.content_hash != row.content_hash
            and not any(time.file and time.is_of(each) for time in mine)
        }
        if named:
            row = replace(row, handed_in=named[0].handed_in)
        elif loose and not others:
            row = replace(row, handed_in=loose[0].handed_in)
        elif loose:
            doubtful.append(replace(row, handed_in=loose[0].handed_in))
        found.append(row)
    return found, doubtful


def without_row(rows: list[Graded], times: list[Time]) -> list[str]:
    """The table's students, or files, that nothing here belongs to."""
    there = {row.student for row in rows if row.origin}
    idle = {time.student for time in times if time.student not in there}
    files = {
        f"{time.student}'s {time.file}"
        for time in times
        if time.student in there
        and time.file
        and not any(time.is_of(row) for row in rows if row.student == time.student)
    }
    return sorted(idle | files)
