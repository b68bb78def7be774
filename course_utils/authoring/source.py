"""Reads a lesson's source, and remembers where every cell stood.

jupytext turns the percent format into cells but forgets their lines, and a message without a line
is hard to act on. So it reads the text twice: once as it is, once with each line that may open a
cell carrying its own number as cell metadata. What stands inside a string or a fence opens no
cell, and jupytext itself is the judge of that.

jupytext would comments that look like shell commands (`# ls`, `# cat ...`) into code. Here only
the magics named below come alive; any other comment stays one.
"""

import ast
import io
import re
import tokenize
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from course_utils.authoring import syntax
from course_utils.errors import CourseError

MAGIC = re.compile(r"#\s?(%{1,2}(?:matplotlib|timeit|time|config|env|load_ext|reload_ext|pip)\b.*)")
OPENS_CELL = re.compile(r"^\s*#\s*%%(\s|$)")
NO_NOTEBOOK_METADATA = {"cell_marker", "lines_to_next_cell", "lines_to_end_of_cell_marker", "title"}
STRING_QUOTES = {'"""', "'''", 'r"""', "r'''"}
JUPYTEXT_FORMAT = {"extension": ".py", "format_name": "percent", "comment_magics": False}


@dataclass
class Cell:
    """One cell: `line` is the source line (from 1) of the first line of its text."""

    kind: str  # "code", "markdown" or "raw"
    text: str
    line: int
    metadata: dict = field(default_factory=dict)

    @cached_property
    def tree(self) -> ast.Module | None:
        """The syntax tree of a code cell; None for text, and for code that does not parse."""
        if self.kind != "code":
            return None
        try:
            return syntax.parse(self.text)
        except SyntaxError:
            return None


@dataclass
class Lesson:
    """A lesson's cells, and the problems met while reading them: (line, message)."""

    path: Path
    cells: list[Cell]
    problems: list[tuple[int, str]]

    @property
    def stem(self) -> str:
        return self.path.stem

    @property
    def number(self) -> str:
        return self.stem[:2]


def read_lesson(path: Path) -> Lesson:
    """Read a source in percent format. Raises CourseError where it cannot be read at all."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise CourseError(f"{path.name}: no such source") from None
    except (OSError, UnicodeDecodeError) as error:
        raise CourseError(f"{path.name}: cannot be read as UTF-8 text: {error}") from None
    return parse_lesson(path, text.replace("\r\n", "\n").replace("\r", "\n"))


def parse_lesson(path: Path, text: str) -> Lesson:
    import jupytext  # takes a second and more: only when a source is read

    lines = text.split("\n")
    numbered = [
        f'{line} course_line="{number}"' if OPENS_CELL.match(line) else line
        for number, line in enumerate(lines, start=1)
    ]
    notebook = jupytext.reads(text, fmt=JUPYTEXT_FORMAT)
    with_lines = jupytext.reads("\n".join(numbered), fmt=JUPYTEXT_FORMAT)
    if len(notebook.cells) != len(with_lines.cells):
        raise CourseError(f"{path.name}: cells cannot be told apart; is a string left open?")
    cells, problems, last_line = [], [], 1
    for cell, twin in zip(notebook.cells, with_lines.cells, strict=True):
        marker = int(twin.metadata.get("course_line", 0))
        if not marker:
            problems.append((last_line, "after this line a cell is not opened by a plain `# %%`"))
        last_line = marker or last_line
        body = "".join(lines[last_line : last_line + 1]).strip()
        quoted = cell.cell_type != "code" and body in STRING_QUOTES
        metadata = {k: v for k, v in cell.metadata.items() if k not in NO_NOTEBOOK_METADATA}
        cells.append(Cell(cell.cell_type, cell.source, last_line + 1 + quoted, metadata))
    return Lesson(path, cells, problems)


def with_magics(text: str) -> str:
    """The text of a code cell as a notebook shows it: `# %matplotlib inline` becomes the magic."""
    lines = text.split("\n")
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return text
    for token in tokens:
        row, column = token.start
        magic = MAGIC.match(token.string) if token.type == tokenize.COMMENT else None
        if magic and not token.line[:column].strip():
            lines[row - 1] = lines[row - 1][:column] + magic.group(1)
    return "\n".join(lines)
