"""grades.jsonl: everything known of every graded submission, a line each, safe from the moment it is graded.

A line is written and flushed to the disk before the next submission is counted, so a run that is
killed, or loses its power, goes on where it stopped. Half a line, which a crash can leave, is dropped.
"""

import json
import os
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from course_utils.authoring.files import write_whole
from course_utils.errors import CourseError
from course_utils.grading.records import ExerciseResult, Graded, RowStatus
from course_utils.locks import LockFile

FILE = "grades.jsonl"


def as_line(row: Graded) -> str:
    return json.dumps(asdict(row), sort_keys=True)


def from_line(line: str) -> Graded:
    """A row from its line. Raises ValueError, TypeError or KeyError when it is none."""
    fields = json.loads(line)
    fields["status"] = RowStatus(fields["status"])
    results = fields["results"].items()
    fields["results"] = {
        name: ExerciseResult(**each | {"flags": tuple(each["flags"])}) for name, each in results
    }
    return Graded(**fields)


def read_rows(path: Path) -> list[Graded]:
    """The rows of a ledger; of a submission that stands there twice, both. No file: no rows.

    Raises CourseError where the file cannot be read, or is something else.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CourseError(f"{path}: cannot be read: {error.strerror}") from None
    rows = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            rows.append(from_line(line.decode()))
        except (ValueError, TypeError, KeyError, AttributeError):
            if number == len(lines):
                continue  # half a line: whoever wrote it was cut short
            raise CourseError(f"{path}: line {number} is no row of grades; move it away") from None
    return rows


class Ledger:
    """Rows are added one by one, and at the end the whole is put in order. One run at a time."""

    def __init__(self, path: Path):
        self.path = path
        self.lock = LockFile(path.with_name(f".{path.name}.lock"))
        try:
            if not self.lock.take():
                raise CourseError(
                    f"{path.parent}: another run is grading into it: wait for its end, or choose another --out"
                )
            self.old = {row_key(row): row for row in read_rows(path)}
            self.file = open(path, "ab")  # noqa: SIM115
            self.drop_half_line()
        except OSError as error:
            self.unlock()
            raise CourseError(f"{path}: cannot be written: {error.strerror}") from None
        except CourseError:
            self.unlock()
            raise

    def unlock(self) -> None:
        with suppress(OSError):
            self.lock.release()

    def drop_half_line(self) -> None:
        content = self.path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            self.file.truncate(whole)

    def known(self, student: str, content_hash: str, seed: int) -> Graded | None:
        """What an earlier run found of this very content, with this seed."""
        return self.old.get((student, content_hash, seed))

    def add(self, row: Graded) -> None:
        """Write a row to the disk; when this returns, it is there."""
        try:
            self.file.write(as_line(row).encode() + b"\n")
            self.file.flush()
            os.fsync(self.file.fileno())
        except OSError as error:
            raise CourseError(f"{self.path}: cannot be written: {error.strerror}") from None

    def close(self, rows: list[Graded] | None = None) -> None:
        """Close it; with `rows`, put exactly these into it, whole or not at all."""
        with suppress(OSError):
            self.file.close()
        try:
            if rows is not None:
                text = "".join(as_line(row) + "\n" for row in rows)
                write_whole({self.path: text.encode()})
        finally:
            self.unlock()


def row_key(row: Graded) -> tuple[str, str, int]:
    return row.student, row.content_hash, row.seed
