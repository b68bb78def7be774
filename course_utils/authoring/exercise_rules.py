"""The rules for exercises: heading, answer, check, and nothing of the answer outside its markers.

A stub must wait inside a function: one that raised as soon as its cell ran would stop a student who
runs an unsolved notebook from top to bottom.
"""

import ast
from collections.abc import Callable, Iterator

from course_utils.authoring import syntax
from course_utils.authoring.outline import BEGIN, END, MARKER, Exercise, Outline, Part
from course_utils.authoring.source import Cell, Lesson
from course_utils.authoring.student import student_text

CORE_MINUTES = 120
Problems = Iterator[tuple[int, str]]


def prefix(lesson: Lesson) -> str:
    """What the ids of a lesson begin with: `1` in lesson 01."""
    return str(int(lesson.number)) if lesson.number.isdigit() else lesson.number


def marker_problems(cell: Cell) -> Problems:
    """Markers alone on their lines, each BEGIN with its END."""
    opened = None
    for line, text in enumerate(cell.text.split("\n"), start=cell.line):
        if not MARKER.search(text):
            continue
        if text.strip() not in (BEGIN, END):
            yield line, f"a marker stands alone on its line, as `{BEGIN}` or `{END}`"
        elif text.strip() == BEGIN:
            if opened:
                yield line, f"`{BEGIN}` inside the solution that line {opened} opens"
            opened = line
        elif not opened:
            yield line, f"`{END}` without `{BEGIN}`"
        else:
            opened = None
    if opened:
        yield opened, f"`{BEGIN}` is never closed: its cell holds no `{END}`"


def answers(lesson: Lesson, plan: Outline) -> Problems:
    """Markers are in order, stand in an exercise, and leave a stub that waits to be called."""
    for cell in (p.cell for p in plan.parts if p.cell.kind != "code"):
        for line, text in enumerate(cell.text.split("\n"), start=cell.line):
            if text.strip() in (BEGIN, END):
                yield line, "a marker in a text cell: what it encloses would reach the student"
    for part in (p for p in plan.parts if p.role == "answer"):
        line, tree = part.cell.line, part.cell.tree
        faults = list(marker_problems(part.cell))
        yield from faults
        if not part.exercise:
            yield line, "a solution outside an exercise: no exercise heading awaits its check here"
        if faults or tree is None:
            continue
        if syntax.calls(tree, "check") or syntax.calls(tree, "predict"):
            yield line, "an answer cell holds no check and no prediction: they have their own cell"
        left = stub_tree(part)
        if left is None:
            yield line, "without its solution the cell does not parse"
        elif syntax.raises_when_run(left):
            yield line, "the stub would raise when the cell runs: keep the `def` outside markers"


def exercises(lesson: Lesson, plan: Outline) -> Problems:
    """Each exercise of this lesson once, with an answer, a check, and time for all of the core."""
    first_line, core_minutes, checked = {}, 0, set()
    for exercise in plan.exercises:
        name, line = exercise.id, exercise.line
        if name in first_line:
            yield line, f"exercise {name} again: its first heading is in line {first_line[name]}"
            continue
        first_line[name] = line
        if name.split(".")[0] != prefix(lesson):
            yield line, f"exercise {name} is not of lesson {lesson.number}"
        core_minutes += 0 if exercise.optional else exercise.minutes or 0
        roles = {part.role for part in plan.parts if part.id == name}
        if "answer" not in roles:
            yield line, f"exercise {name} has no answer cell, with `{BEGIN}` and `{END}`"
        if "check" not in roles:
            yield line, f'exercise {name} has no check: a cell `check("{name}", answer)`'
    if core_minutes > CORE_MINUTES:
        yield 1, f"the core exercises take {core_minutes} min: {CORE_MINUTES} at most"
    for part in (p for p in plan.parts if p.role == "check"):
        if part.id in checked:
            yield part.cell.line, f'check("{part.id}") again: an exercise has one check'
        checked.add(part.id)
        yield from check_problems(part, plan)


def check_problems(part: Part, plan: Outline) -> Problems:
    """A check stands alone, below its exercise, and takes a name that only the answer defines."""
    line, name = part.cell.line, part.id
    if name is None:
        yield line, 'a check names its exercise literally: `check("1.1", answer)`'
        return
    if not part.exercise:
        yield line, f'check("{name}") without an exercise: no heading of {name} above it'
    if not syntax.is_single_call(part.cell.tree, "check"):
        yield line, "a check cell holds the check and nothing else, imports aside"
    taken = syntax.calls(part.cell.tree, "check")[0].args[1:]
    if len(taken) != 1 or not isinstance(taken[0], ast.Name):
        yield line, f'a check takes the name of the answer: `check("{name}", answer)`'
        return
    yield from answer_problems(name, taken[0].id, plan)


def answer_problems(exercise: str, answer: str, plan: Outline) -> Problems:
    own = [p for p in plan.parts if p.role == "answer" and p.id == exercise and p.cell.tree]
    for other in plan.parts:
        if other not in own and other.cell.tree and answer in syntax.bound_names(other.cell.tree):
            line = other.cell.line
            yield line, f"an answer outside a solution: exercise {exercise} asks for {answer}"
    sound = [p for p in own if not list(marker_problems(p.cell)) and stub_tree(p)]
    if not sound or len(sound) < len(own):
        return  # said already
    line = sound[0].cell.line
    stubs = [stub for p in sound if (stub := syntax.definition(stub_tree(p), answer))]
    if not any(syntax.definition(p.cell.tree, answer) for p in sound):
        yield line, f"no answer cell of exercise {exercise} defines {answer}, which its check takes"
    elif stubs and not any(syntax.raises_when_called(stub) for stub in stubs):
        yield line, f"an answer outside a solution: no part of {answer} is between markers"


def stub_tree(part: Part) -> ast.Module | None:
    """The syntax tree of an answer cell without its answer; None where that does not parse."""
    try:
        return syntax.parse(student_text(part))
    except SyntaxError:
        return None


def registered(lesson: Lesson, plan: Outline, find_exercise: Callable) -> Problems:
    """The registry of checks knows every exercise that is named, and says the same of it."""
    for part in plan.parts:
        tree = part.cell.tree
        for word in ("check", "needs"):
            for call in syntax.calls(tree, word) if tree else ():
                name, line = syntax.literal_id(call), part.cell.line + call.lineno - 1
                try:
                    known = find_exercise(name)
                except KeyError:
                    yield (
                        line,
                        f"{word}({name!r}): course_utils.checks knows no such exercise: give it an "
                        "Exercise in its lesson's EXERCISES",
                    )
                    continue
                except ImportError as error:
                    yield line, f"{word}({name!r}): its check cannot be imported: {error}"
                    continue
                if word == "check" and part.exercise:
                    yield from disagreements(part.exercise, known)


def disagreements(heading: Exercise, known: object) -> Problems:
    """What the heading and the check's Exercise both say, and say differently."""
    for fact in ("points", "title", "optional"):
        here, there = getattr(heading, fact), getattr(known, fact, None)
        if None not in (here, there) and here != there:
            yield (
                heading.line,
                f"exercise {heading.id}: {fact} {here!r} here, {there!r} in its check",
            )
