"""Every mark of a lecture that a lesson uses is listed, and all of L12 is covered."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
MARK = re.compile(r"\b(?:L12|AD1|GN|E5)-\d\d\b")


def listed() -> dict[str, str]:
    """{mark: its row} of docs/figures.md; "L12-08 to L12-11" stands for four."""
    rows = {}
    for line in (ROOT / "docs/figures.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) < 5 or not MARK.match(cells[1]):
            continue
        marks = MARK.findall(cells[1])
        if " to " in cells[1]:
            first, last = (int(mark[-2:]) for mark in marks)
            marks = [f"{marks[0][:-2]}{number:02}" for number in range(first, last + 1)]
        rows |= dict.fromkeys(marks, line)
    return rows


def test_every_figure_of_the_first_lecture_is_there():
    assert {f"L12-{number:02}" for number in range(1, 54)} <= set(listed())


def test_lessons_use_listed_marks_and_the_rows_name_the_lesson():
    rows = listed()
    for source in sorted((ROOT / "solutions").glob("[0-9]*.py")):
        for mark in set(MARK.findall(source.read_text(encoding="utf-8"))):
            assert mark in rows, f"{source.name} uses {mark}"
            assert source.name[:2] in rows[mark].split("|")[3], f"{mark} is used in {source.name}"
