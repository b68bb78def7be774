"""Answers in words side by side, below their question and what the course would accept, for whoever reads them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from course_utils.authoring.files import ROOT
from course_utils.grading import pages
from course_utils.grading.records import Graded
from course_utils.grading.wording import lesson_title, rendered
from course_utils.grading.written import (
    answers,
    cells_of,
    given_points,
    points_of,
    questions,
    words,
)

NOT_CHECKED = "(No check reads this one: a person does.)"


def accepted(notebook: str, root: Path = ROOT) -> dict[str, str]:
    """{question id: what the course would accept}; {} where there are no solutions."""
    cells = cells_of(root / "solutions" / f"{notebook}.ipynb")
    parts = [(cell["metadata"].get("course", {}), cell["source"]) for cell in cells]
    return {c["exercise"]: source for c, source in parts if c.get("role") == "written"}


def write_written(
    path: Path,
    graded: Iterable[Graded],
    sheet: Path,
    root: Path = ROOT,
    names: Mapping[str, str] | None = None,
) -> Path:
    """A page with all answers to a question side by side, and the points given so far.

    names: people's names, by student, where they are known.
    """
    graded = list(graded)
    found, given = answers(graded), given_points(sheet)
    by_question: dict[tuple[str, str], dict[str, str]] = {}
    for (student, notebook, question), answer in sorted(found.items()):
        by_question.setdefault((notebook, question), {})[student] = answer
    known: dict[str, tuple[dict[str, str], dict[str, str]]] = {}
    body = [f"<p>Points go into <code>{pages.text(sheet.name)}</code>, one row an answer.</p>"]
    for (notebook, question), mine in sorted(by_question.items()):
        if notebook not in known:
            known[notebook] = questions(notebook, root), accepted(notebook, root)
        asked, model = (texts.get(question, "") for texts in known[notebook])
        body += [
            f"<h2>{pages.prose(lesson_title(notebook, root))}: question {pages.text(question)}</h2>",
            rendered(asked.removesuffix(NOT_CHECKED).strip()),
            f'<section class="exercise"><h3>What the course would accept</h3>{rendered(model)}</section>'
            if model
            else "",
            f'<p class="soft">{len(mine)} answer{"s" * (len(mine) != 1)}.</p><div class="cards">',
        ]
        alike = Counter(map(words, mine.values()))
        for student, answer in mine.items():
            same = alike[words(answer)] - 1
            points = points_of(given, student, notebook).get(question)
            body += [
                f"<article><h3>{pages.person(student, names)}</h3>",
                rendered(answer),
                f'<p class="soft">{f"{points[0]:g} points" if points else "no points yet"}'
                + (f"; {same} more with the same words" if same else "")
                + "</p></article>",
            ]
        body.append("</div>")
    if not found:
        body.append("<p>No answers in words were handed in.</p>")
    return pages.write_page(path, pages.page("Answers in words", body))
