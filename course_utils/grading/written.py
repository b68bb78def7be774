"""Answers in words, and the points that a person gives them.

A lesson asks for one explanation in two sentences. No check reads it. The points live in a table,
`written.csv`, which spreadsheets open: one row an answer, its text beside it. The table belongs to
whoever fills it in. A later grading run adds rows and brings changed texts, and says so in the row; it
never touches points or comments. A row without either, whose submission is gone, goes as well.
"""

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from course_utils.authoring.files import ROOT, stored_notebook, write_whole
from course_utils.authoring.student import YOUR_WORDS
from course_utils.errors import CourseError
from course_utils.grading.records import Graded

FILE = "written.csv"
HEAD = ["student", "notebook", "question", "points", "comment", "answer", "note"]
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet would compute a cell that begins so
INSIDE = re.compile(r"(?s)(?<=.)([;\t\r\n][ \"]*)(?=[=+@]|-\S)")
LONGEST = 8000  # characters of an answer; spreadsheets stop at 32,767
CHANGED = "the answer has changed since"
STRANGER = "not in the last grading run: is the name as it was?"
Key = tuple[str, str, str]


def cells_of(path: Path) -> list[dict]:
    """A notebook's cells; none where it is not here."""
    try:
        return stored_notebook(path)["cells"]
    except (OSError, ValueError):
        return []


def questions(notebook: str, root: Path = ROOT) -> dict[str, str]:
    """{question id: its text} of a lesson as students get it; {} where it is not here."""
    cells, found = cells_of(root / "notebooks" / f"{notebook}.ipynb"), {}
    for above, cell in zip(cells, cells[1:]):
        course = cell["metadata"].get("course", {})
        if course.get("role") == "written":
            heading, _, asked = above["source"].partition("\n")
            found[course["exercise"]] = asked.strip() or heading
    return found


def answers(graded: Iterable[Graded]) -> dict[Key, str]:
    """Every answer in words that says something, by student, notebook and question."""
    found = {}
    for row in graded:
        for question, answer in sorted(row.written.items()):
            plain = answer.strip().encode("utf-8", "replace").decode("utf-8")
            if plain and plain != YOUR_WORDS:
                found[row.student, row.notebook, question] = plain[:LONGEST]
    return found


def defused(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula: an apostrophe goes before it.

    Also inside: one that splits at semicolons would begin a cell there.
    """
    cell = INSIDE.sub(r"\1'", cell)
    return f"'{cell}" if cell.startswith(FORMULA) else cell


def words(answer: str) -> str:
    """An answer without what a spreadsheet may do to it: other line ends, a lost apostrophe."""
    return " ".join(answer.split()).lstrip("'")


def update_sheet(
    path: Path, graded: Iterable[Graded], called: Callable[[str], str] | None = None
) -> int:
    """Bring the table up to date; the number of rows that still wait for points.

    Rows with points whose submission is not in `graded` stay, with a note. `called`: the name that a
    student of an earlier run goes by now. Raises CourseError where the table that is there cannot be read:
    it is left as it was.
    """
    graded = list(graded)
    rows = by_name_now(read_sheet(path), called or str)
    seen, notebooks = set(), {defused(row.notebook) for row in graded}
    for (student, notebook, question), answer in answers(graded).items():
        names = [defused(name) for name in (student, notebook, question)]
        seen.add(tuple(names))
        row = rows.setdefault(tuple(names), dict.fromkeys(HEAD, "") | dict(zip(HEAD, names)))
        row["note"] = "" if row["note"] == STRANGER else row["note"]
        if row["points"] and words(row["answer"]) != words(defused(answer)):
            row["note"] = CHANGED
        row["answer"] = defused(answer)
    for key in rows.keys() - seen:
        if rows[key]["notebook"] in notebooks:
            if not is_filled_in(rows[key]):
                del rows[key]
                continue
            rows[key]["note"] = STRANGER
    text = io.StringIO()
    writer = csv.DictWriter(text, HEAD, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows[key] for key in sorted(rows))
    if rows or path.exists():
        write_whole({path: text.getvalue().encode("utf-8-sig", "replace")})
    return sum(not row["points"] for row in rows.values())


def by_name_now(rows: list[dict[str, str]], called: Callable[[str], str]) -> dict[Key, dict]:
    """The rows, each under its student's name of today. Of two that are one now, what is filled in stays."""
    found = {key_of(row): row for row in rows}
    for row in rows:
        name = row["student"]
        plain = name[1:] if name[:1] == "'" and name[1:].startswith(FORMULA) else name
        moved = row | {"student": defused(called(plain))}
        there = found.get(key_of(moved))
        if key_of(moved) != key_of(row) and (there is None or not is_filled_in(there)):
            found[key_of(moved)] = moved
            del found[key_of(row)]
    return found


def is_filled_in(row: dict[str, str]) -> bool:
    return bool(row["points"] or row["comment"])


def key_of(row: dict[str, str]) -> Key:
    return row["student"], row["notebook"], row["question"]


def read_sheet(path: Path) -> list[dict[str, str]]:
    """The table's rows; [] where there is none. Commas or, as some spreadsheets write, semicolons.

    Raises CourseError where it is no such table, or names an answer twice.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        return []
    except UnicodeDecodeError:
        told = "cannot be read as UTF-8 text; in a spreadsheet save it as CSV UTF-8"
        raise CourseError(f"{path.name}: {told}") from None
    except OSError as error:
        raise CourseError(f"{path.name}: cannot be read: {error.strerror}") from None
    head = text.partition("\n")[0]
    delimiter = max(",;\t", key=head.count)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
    missing = [name for name in HEAD[:4] if name not in (reader.fieldnames or ())]
    if missing:
        raise CourseError(f"{path.name}: no column {', '.join(missing)} in its first line")
    try:
        rows = [{name: (row.get(name) or "") for name in HEAD} for row in reader]
    except csv.Error as error:
        raise CourseError(f"{path.name}: line {reader.line_num}: {error}") from None
    for row in rows:
        row["points"] = row["points"].strip()
    key, times = max(Counter(map(key_of, rows)).items(), key=lambda item: item[1], default=("", 1))
    if times > 1:
        raise CourseError(f"{path.name}: {' '.join(key)} stands there twice")
    return rows


def given_points(
    path: Path, most: Mapping[str, float] | None = None
) -> dict[tuple[str, str], dict[str, tuple[float, str]]]:
    """{(student, notebook): {question: (points, comment)}} as a person gave them.

    The names are defused as in the table: look them up with `points_of`. Raises CourseError for
    points that are no number from 0 on, or more than a question's `most`; a decimal comma is understood.
    """
    found: dict = {}
    for row in read_sheet(path):
        if not row["points"]:
            continue
        try:
            points = float(row["points"].replace(",", "."))
        except ValueError:
            points = -1.0
        if not 0 <= points < math.inf:
            told = f"{row['student']} {row['question']}: {row['points']!r}"
            raise CourseError(f"{path.name}: {told} is no number of points (0 or more)")
        if points > (most or {}).get(row["question"], math.inf):
            told = f"{row['student']} {row['question']}: {points:g} points"
            raise CourseError(
                f"{path.name}: {told}, and the policy gives {most[row['question']]:g}"
            )
        mine = found.setdefault((row["student"], row["notebook"]), {})
        mine[row["question"]] = (points, row["comment"])
    return found


def points_of(given: dict, student: str, notebook: str) -> dict[str, tuple[float, str]]:
    """One submission's part of `given_points`: {question: (points, comment)}."""
    return given.get((defused(student), notebook), {})
