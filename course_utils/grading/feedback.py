"""The page that a student reads after grading: verdict, diagnosis, what was measured, what was allowed.

It is as kind as a check and says as much, except for what would give hidden cases away. Their data and
their seed are not shown, and of an error's message, which an answer could fill with its input, only the
words. What is for a person to look at (flags) stands in the class report, not here.
"""

import builtins
import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from course_utils.checks.core import Status
from course_utils.checks.show import MARKS
from course_utils.grading import pages, written
from course_utils.grading.records import Ending, ExerciseResult, Graded, RowStatus

DIAGNOSIS_LENGTH, MESSAGE_LENGTH = 1200, 160
RAISED = re.compile(r"Your code raised (\w{1,60})(?: at `([^`]{0,200})`)?(?:: (.*))?", re.DOTALL)
NUMBER = re.compile(r"\d[\d_]*(?:\.\d*)?(?:[eE][+-]?\d+)?|\b(?:nan|inf)\b")
CLAIM = re.compile(r"\b(?:[Ee]xpected|got|to be)\b.*?(?=[.;:](?:\s|$)|$)", re.DOTALL)
VALUE = re.compile(
    r"(?<![\w.,])-?(?:\d++\.\d*+(?:e[+-]?\d++)?+|\d++e[+-]?\d++|\d{5,}+|nan|inf)(?!\w| ?(?:bytes|[kMGT]i?B)\b)"
)
TYPE = re.compile(r"(\bgot (?:an? |the )?|\bof type |\bin the memory of an? )([A-Za-z_]\w*)")
KNOWN_ERRORS = {
    name for name, kind in vars(builtins).items()
    if isinstance(kind, type) and issubclass(kind, BaseException)
} | {"LinAlgError", "AxisError", "HeldBack", "WrongMemory", "SRAMOverflow", "Released", "Freed"}  # fmt: skip
KNOWN_TYPES = {
    *(
        name
        for name, kind in [*vars(builtins).items(), *vars(np).items()]
        if isinstance(kind, type)
    ),
    *(
        "None",
        "NoneType",
        "function",
        "generator",
        "module",
        "Tensor",
        "Node",
        "RematTensor",
        "OnChip",
    ),
    *(
        "HBMArray",
        "Fraction",
        "Decimal",
        "items",
        "nothing",
        "no",
        "one",
        "two",
        "three",
        "more",
        "it",
    ),
    *(
        "only",
        "shape",
        "type",
        "a",
        "an",
        "the",
        "value",
        "values",
        "number",
        "numbers",
        "array",
        "arrays",
    ),
}
CROSS = "\N{MULTIPLICATION X}"

LEGEND = "In a bar, the solid line is the most that was allowed, the dashed line the least that is possible."
WHAT_HAPPENED = {
    Ending.NOT_FOUND: "No answer to this exercise was found in your notebook. The grader looks for the "
    "answer's cell, and for the name that the exercise asks for.",
    Ending.TOO_SLOW: "Your answer was stopped: it ran longer than the grader waits. Does every loop end?",
    Ending.OUT_OF_MEMORY: "Your answer was stopped: it asked for more memory than the grader has.",
    Ending.CRASHED: "Python itself ended while your answer ran, so nothing was left to judge.",
    Ending.TOO_MUCH_OUTPUT: "Your answer was stopped: it wrote far more than anybody could read.",
    Ending.BROKEN: "What your answer returned could not be read as a result. Return plain NumPy arrays "
    "and Python's own numbers, lists and tuples.",
}
OF_THE_WHOLE = {
    RowStatus.GRADED: "",
    RowStatus.PARTLY: "Some answers were stopped before they ended. The others count as they are.",
    RowStatus.UNREADABLE: "Your file could not be read as a notebook, so nothing in it was graded.",
    RowStatus.WRONG_NOTEBOOK: "The notebook that you handed in is not the one that was asked for.",
    RowStatus.MISSING: "Nothing was handed in under your name.",
    RowStatus.GRADER_ERROR: "The grader failed on your submission. That is not your fault, and no "
    "grade: your instructor has been told.",
}


def write_feedback(graded: Iterable[Graded], folder: Path, sheet: Path | None = None) -> list[Path]:
    """FOLDER/<student>/<NN_topic>.html for each row; the paths. `sheet` has points for words.

    Raises CourseError where a page, or the sheet, cannot be written or read.
    """
    given = written.given_points(sheet) if sheet else {}
    made = []
    for row in graded:
        points = written.points_of(given, row.student, row.notebook)
        path = folder / pages.safe_name(row.student) / f"{pages.safe_name(row.notebook)}.html"
        made.append(pages.write_page(path, feedback_page(row, points)))
    return made


def feedback_page(row: Graded, words: dict[str, tuple[float, str]] | None = None) -> str:
    """One submission's page. `words`: {question: (points, comment)}, given by a person."""
    core = [result for result in row.results.values() if not result.optional]
    extra = [result for result in row.results.values() if result.optional]
    body = [f'<p><span class="name">{pages.text(row.student)}</span></p>']
    if told := OF_THE_WHOLE.get(row.status, ""):
        body.append(f'<p class="doubt">{told}</p>')
    if row.note and row.status is not RowStatus.GRADER_ERROR:
        body.append(f'<p class="soft">{pages.prose(row.note[:DIAGNOSIS_LENGTH])}</p>')
    if core:
        by_hand = sum(points for points, _ in (words or {}).values())
        more = f", and {by_hand:g} for answers in words" if words else ""
        body.append(f"<p><strong>{points_told(core)}</strong>{optional_told(extra)}{more}</p>")
    for result in row.results.values():
        body += exercise_part(result, row.sources.get(result.exercise, ""))
    if any("<svg" in part for part in body):
        body.append(f'<p class="soft">{LEGEND}</p>')
    body += words_part(row, words or {})
    if row.checks_version:
        body.append(
            '<p class="soft">Graded with other inputs than the notebook\'s, by the same checks '
            f"(version {pages.text(row.checks_version)}).</p>"
        )
    return pages.page(f"Feedback on {row.notebook}", body)


def points_told(results: list[ExerciseResult]) -> str:
    got, most = (sum(getattr(r, name) for r in results) for name in ("points", "max_points"))
    return f"{got:g} of {most:g} points"


def optional_told(results: list[ExerciseResult]) -> str:
    return f", and {points_told(results)} of optional exercises" if results else ""


def exercise_part(result: ExerciseResult, source: str) -> list[str]:
    """One exercise: the verdict as word and mark, why, and bars of measured against allowed."""
    kind = {Status.PASSED: "passed", Status.NOT_ATTEMPTED: "open"}.get(result.status, "failed")
    mark = MARKS.get(result.status, CROSS)
    optional = ", optional" if result.optional else ""
    parts = [
        f'<section class="exercise {kind}"><h3>{mark} Exercise {pages.text(result.exercise)}'
        f" - {pages.text(result.title)}: {pages.text(result.status)}</h3>",
        f'<p class="soft">{result.points:g} of {result.max_points:g} points{optional}</p>',
    ]
    if diagnosis := fit_to_show(result, source):
        parts.append(f"<p>{pages.prose(diagnosis)}</p>")
    for name, measure in list(result.measured.items())[:12]:
        limits = pages.allowed(measure)
        figure = pages.quantity(measure.get("value"), measure.get("unit", ""))
        parts.append(
            f"<div>{pages.text(name)}: {pages.text(figure)}"
            + (f'; <span class="soft">allowed: {pages.text(limits)}</span>' if limits else "")
            + f"{pages.measure_bar(name, measure)}</div>"
        )
    if source.strip() and result.status != Status.NOT_ATTEMPTED:
        parts.append(
            f"<details><summary>The answer that was graded</summary><pre>{pages.text(source)}"
            "</pre></details>"
        )
    return [*parts, "</section>"]


def fit_to_show(result: ExerciseResult, source: str | None = None) -> str:
    """A diagnosis without what an answer may have copied from a hidden case into an error."""
    told = result.diagnosis[:DIAGNOSIS_LENGTH]
    if result.status == Status.NOT_ATTEMPTED:
        return "There was no answer yet: the stub was as the course gave it."
    if result.status in set(Ending) - {Ending.COMPLETE}:
        return WHAT_HAPPENED[Ending(result.status)]
    raised = RAISED.search(told)
    if raised is None:
        return without_values(told)
    kind, line, message = raised.groups()
    is_known = kind in KNOWN_ERRORS
    head = f"Your code raised {kind if is_known else 'an exception of your own'}"
    lines = [line] if source is None else [each.strip().rstrip(":") for each in source.splitlines()]
    is_there = line in lines
    where = f" at `{line}`" if line and is_there else ""  # an answer can have any line reported
    words = NUMBER.sub("#", message or "")[:MESSAGE_LENGTH] if is_known else ""
    hidden = f": {words} (`#`: numbers of a hidden case)" if "#" in words else f": {words}"
    return told[: raised.start()] + head + where + (hidden if words else "")


def without_values(told: str) -> str:
    """A diagnosis without the numbers of a hidden case, and with the names of known types alone.

    Shapes, bytes and ratios stay.
    """
    changed = CLAIM.sub(lambda found: VALUE.sub("#", found[0]), told)
    changes, told = changed != told, changed
    told = TYPE.sub(lambda found: found[1] + known_type(found[2]), told)
    return f"{told} (`#`: numbers of a hidden case)" if changes else told


def known_type(name: str) -> str:
    return name if name in KNOWN_TYPES else "an object of a class of your own"


def words_part(row: Graded, words: dict[str, tuple[float, str]]) -> list[str]:
    """Answers in words, with the points and the comment of whoever read them."""
    parts = []
    for (_, _, question), answer in written.answers([row]).items():
        points, comment = words.get(question, (None, ""))
        told = "not read yet" if points is None else f"{points:g} points"
        parts += [
            f'<section class="exercise"><h3>Question {pages.text(question)}: {told}</h3>',
            *(f"<p>{pages.prose(part)}</p>" for part in answer.split("\n\n")),
            f"<p><strong>{pages.prose(comment)}</strong></p>" if comment else "",
            "</section>",
        ]
    return parts
