"""What a lesson's source must obey; each breach is one line: `solutions/01_x.py:12: what is wrong`.

The rules keep three promises: a student's notebook holds no answer and runs from top to bottom
unsolved; every exercise can be checked; and the lesson reads as an essay, not as a listing.
"""

import re
from collections.abc import Callable, Iterator

from course_utils.authoring import exercise_rules, syntax
from course_utils.authoring.outline import Outline
from course_utils.authoring.source import Cell, Lesson
from course_utils.authoring.student import YOUR_CODE, student_text

CODE_LINES = 20
CODE_CELLS_IN_A_ROW = 2
ASKED = re.compile(r"^### In your own words (\S+)$", re.MULTILINE)
Problems = Iterator[tuple[int, str]]


def validate(lesson: Lesson, plan: Outline, find_exercise: Callable | None = None) -> list[str]:
    """All problems of a source, one line each, in the order of its lines.

    `find_exercise(id)` gives an object with `points`, and raises KeyError for an unknown id;
    without it the registry of checks is not asked.
    """
    problems = {*lesson.problems, *plan.problems}
    rules = (shape, code, predictions, written, exercise_rules.answers, exercise_rules.exercises)
    for rule in rules:
        problems |= set(rule(lesson, plan))
    if find_exercise:
        problems |= set(exercise_rules.registered(lesson, plan, find_exercise))
    return [f"solutions/{lesson.path.name}:{line}: {text}" for line, text in sorted(problems)]


def shape(lesson: Lesson, plan: Outline) -> Problems:
    """A title first, no empty cell, prose between code."""
    first = lesson.cells[0] if lesson.cells else Cell("markdown", "", 1)
    if first.kind != "markdown" or not re.match(r"# \S", first.text):
        yield first.line, "the first cell must be text that begins with `# ` and the title"
    row = []
    for part in plan.parts:
        cell = part.cell
        if not cell.text.strip():
            yield cell.line - 1, "an empty cell"
        if "incorrectly_encoded_metadata" in cell.metadata:
            yield cell.line - 1, 'cell metadata are written like tags=["a"] after `# %%`'
        if cell.kind != "code":
            row = []
        elif part.role not in ("check", "predict"):
            row.append(cell)
            if len(row) == CODE_CELLS_IN_A_ROW + 1:
                yield cell.line, f"{len(row)} code cells in a row without prose between them"


def code(lesson: Lesson, plan: Outline) -> Problems:
    """Code parses, holds nothing of the stub's, and is short in the student's notebook."""
    for part in plan.parts:
        cell = part.cell
        if cell.kind != "code":
            continue
        try:
            syntax.parse(cell.text)
        except SyntaxError as error:
            line = cell.line + (error.lineno or 1) - 1
            yield line, f"the code does not parse: {error.msg}"
        for offset, text in enumerate(cell.text.split("\n")):
            if YOUR_CODE.strip("# ") in text:
                yield cell.line + offset, f"`{YOUR_CODE}` is written by the builder: use markers"
        length = len(student_text(part).split("\n"))
        if length > CODE_LINES:
            yield cell.line, f"{length} lines in the student's cell: {CODE_LINES} at most"


def predictions(lesson: Lesson, plan: Outline) -> Problems:
    """A prediction is a cell of its own, made once, and measured in a later cell."""
    predicted, measured = {}, set()
    for part in plan.parts:
        cell = part.cell
        for call in syntax.calls(cell.tree, "measured") if cell.tree else ():
            name = syntax.literal_id(call)
            measured.add(name)
            if name not in predicted:
                line = cell.line + call.lineno - 1
                yield line, f"measured({name!r}) without a prediction in a cell above"
        for call in syntax.calls(cell.tree, "predict") if cell.tree else ():
            name, line = syntax.literal_id(call), cell.line + call.lineno - 1
            for fault in prediction_faults(lesson, cell, call, name):
                yield line, fault
            if name in predicted:
                yield line, f"prediction {name} again: it is made in line {predicted[name]}"
            predicted.setdefault(name, line)
    for name, line in predicted.items():
        if name and name not in measured:
            yield line, f'prediction {name} is not measured: `measured("{name}", value)` below'


def prediction_faults(lesson: Lesson, cell: Cell, call, name: str | None) -> Iterator[str]:
    if not name or not re.fullmatch(r"\d+\.[a-z]", name):
        yield 'a prediction has an id like "1.a", given literally'
    elif name.split(".")[0] != exercise_rules.prefix(lesson):
        yield f"prediction {name} is not of lesson {lesson.number}"
    number = call.args[1] if len(call.args) > 1 else None
    if number is None or getattr(number, "value", None) is ...:
        yield "a prediction's second argument is the number (the student gets `...` there)"
    if not syntax.is_single_call(cell.tree, "predict"):
        yield "a prediction is a cell of its own: nothing else in it, imports aside"


def written(lesson: Lesson, plan: Outline) -> Problems:
    """A written answer is a text cell below its question's heading, once."""
    asked, answered = set(), set()
    for part in plan.parts:
        line, name = part.cell.line, part.id
        if part.role != "written":
            asked |= set(ASKED.findall(part.cell.text) if part.cell.kind == "markdown" else ())
            continue
        if part.cell.kind != "markdown":
            yield line, f"written answer {name} stands in a text cell"
        if not re.fullmatch(rf"{exercise_rules.prefix(lesson)}\.w\d?", name):
            yield line, f"written answer {name!r}: its id is {exercise_rules.prefix(lesson)}.w"
        if name not in asked:
            yield line, f"no heading `### In your own words {name}` above its answer"
        if name in answered:
            yield line, f"written answer {name} again: a question has one"
        answered.add(name)
    for name in sorted(asked - answered):
        yield 1, f'question {name} has no cell for its answer: `# %% [markdown] written="{name}"`'
