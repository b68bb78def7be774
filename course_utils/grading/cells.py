"""The cells of a notebook, from whatever bytes a student handed in.

nbformat refuses what it finds invalid, and much that is handed in is: saved by an old Jupyter, by
Colab, cut by hand. Only four facts of a cell matter here, so they are fetched one by one, and
whatever else is wrong with the file costs nothing.
"""

import json
from dataclasses import dataclass, field
from typing import Any

from course_utils.authoring import ids

MAX_FILE_BYTES = 30 * 10**6  # outputs with many figures come to 10 MB
MAX_BRACKETS = 2 * 10**6  # an empty list of two characters takes 64 bytes: 30 MB of them a gigabyte
MAX_CODE_CHARACTERS = 300_000  # a lesson has some 20,000
BYTE_ORDER_MARKS = (
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
    (b"\xef\xbb\xbf", "utf-8-sig"),
)


class Unreadable(Exception):
    """These bytes hold no notebook; the message says why, in a few words."""


@dataclass(frozen=True)
class PlainCell:
    """A cell: its kind ("code", "markdown", "raw"), text, id ("" where it has none), metadata."""

    kind: str
    text: str
    id: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)

    def part(self, name: str) -> dict:
        """A part of the metadata; {} where there is none, or something else."""
        found = self.metadata.get(name)
        return found if isinstance(found, dict) else {}


def read_cells(content: bytes) -> tuple[list[PlainCell], dict, list[str]]:
    """(cells, the notebook's metadata, notes about the file). Raises Unreadable."""
    if len(content) > MAX_FILE_BYTES:
        raise Unreadable(f"larger than {MAX_FILE_BYTES // 10**6} MB")
    if not content.strip():
        raise Unreadable("an empty file")
    if content.count(b"[") + content.count(b"{") > MAX_BRACKETS:
        raise Unreadable(f"not a notebook: more than {MAX_BRACKETS:,} lists and tables in it")
    text, notes = decoded(content)
    try:
        notebook = json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = getattr(error, "msg", "") or type(error).__name__
        raise Unreadable(f"not a notebook: its JSON ends or breaks ({reason})") from None
    cells = [cell for each in listed(notebook) if (cell := plain(each)) is not None]
    if sum(len(cell.text) for cell in cells if cell.kind == "code") > MAX_CODE_CHARACTERS:
        raise Unreadable(f"more than {MAX_CODE_CHARACTERS:,} characters of code")
    metadata = notebook.get("metadata")
    return cells, metadata if isinstance(metadata, dict) else {}, notes


def decoded(content: bytes) -> tuple[str, list[str]]:
    """The text of a file, and a note where it is not UTF-8."""
    encoding = next((name for mark, name in BYTE_ORDER_MARKS if content.startswith(mark)), "utf-8")
    try:
        return content.decode(encoding), []
    except UnicodeDecodeError:
        return content.decode("cp1252", "replace"), ["not UTF-8: read as Windows-1252"]


def listed(notebook: object) -> list:
    """The raw cells: of formats 4 and 5, or of format 3, which keeps them in worksheets."""
    if not isinstance(notebook, dict):
        raise Unreadable("not a notebook: JSON of another kind")
    cells = notebook.get("cells")
    if not isinstance(cells, list):
        sheets = notebook.get("worksheets")
        sheets = sheets if isinstance(sheets, list) else []
        lists = [sheet.get("cells") for sheet in sheets if isinstance(sheet, dict)]
        cells = [cell for each in lists if isinstance(each, list) for cell in each]
    if not cells:
        raise Unreadable("not a notebook: no cells in it")
    return cells


def plain(cell: object) -> PlainCell | None:
    if not isinstance(cell, dict):
        return None
    kind = cell.get("cell_type")
    text = joined(cell.get("source", cell.get("input")))  # `input` in format 3
    if text is None or kind not in ("code", "markdown", "raw", "heading"):
        return None
    metadata, name = cell.get("metadata"), cell.get("id")
    return PlainCell(
        "markdown" if kind == "heading" else kind,
        text,
        name if isinstance(name, str) else "",
        metadata if isinstance(metadata, dict) else {},
    )


def joined(source: object) -> str | None:
    """A source, one string or a list of lines; half characters (lone surrogates) replaced."""
    lines = source if isinstance(source, list) else [source]
    if not all(isinstance(line, str) for line in lines):
        return None
    text = "".join(lines).replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
    return text.encode("utf-8", "replace").decode()


def role_of(cell: PlainCell) -> tuple[str, str, str] | None:
    """(role, exercise, "metadata" or "cell id") of a cell that still says what it is for.

    The ids are the builder's, `answer-2-1`; Colab moves them into the metadata.
    """
    course = cell.part("course")
    if isinstance(course.get("role"), str) and isinstance(course.get("exercise"), str):
        return *(joined(course[name])[:40] for name in ("role", "exercise")), "metadata"
    grade_id = cell.part("nbgrader").get("grade_id")
    for name, found_by in (
        (grade_id, "metadata"),
        (cell.id, "cell id"),
        (cell.metadata.get("id"), "cell id"),
    ):
        parts = name.split("-") if isinstance(name, str) else []
        if len(parts) >= 3 and parts[0] in (*ids.ROLES, "written"):
            return parts[0], joined(f"{parts[1]}.{parts[2]}")[:40], found_by
    return None
