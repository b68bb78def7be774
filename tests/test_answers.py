"""Every exercise against honest answers, realistic mistakes, its own solution and its own stub."""

import ast
import importlib
from collections import Counter
from pathlib import Path

import pytest

from course_utils.checks import LESSONS, all_exercises, find_exercise
from course_utils.checks.core import NOTEBOOK_SEED, Status, judge_answer
from tests.answers import ANSWERS, Answer

ROOT = Path(__file__).parents[1]
for lesson in LESSONS:
    importlib.import_module(f"tests.answers.lesson_{int(lesson):02}")
all_exercises()


OTHER_SEED = 1


def under_their_seeds() -> list:
    """Every answer with the notebook's inputs; with others the first of every third cause, too.

    (With a grader's own seeds test_grading_judging tries a right answer to each exercise, and other causes.)
    """
    kinds = {(each.exercise, each.cause): each for each in reversed(ANSWERS)}
    some = [kinds[kind] for kind in sorted(kinds)][::3]
    pairs = [*((each, NOTEBOOK_SEED) for each in ANSWERS), *((each, OTHER_SEED) for each in some)]
    return [pytest.param(answer, seed, id=f"{seed}-{answer}") for answer, seed in pairs]


@pytest.mark.parametrize("answer, seed", under_their_seeds())
def test_answer_gets_its_verdict(answer: Answer, seed: int) -> None:
    exercise = find_exercise(answer.exercise)
    verdict = judge_answer(exercise, answer.function, seed)
    if exercise.gpu_only and verdict.status is Status.NOT_VERIFIABLE:
        pytest.skip(verdict.diagnosis)
    expected = (Status.FAILED, answer.cause) if answer.cause else (Status.PASSED, "")
    assert (verdict.status, verdict.cause) == expected, str(verdict)


@pytest.mark.parametrize("exercise", all_exercises(), ids=lambda exercise: exercise.id)
def test_exercise_has_enough_answers(exercise) -> None:
    mine = [answer for answer in ANSWERS if answer.exercise == exercise.id]
    causes = Counter(answer.cause for answer in mine)
    assert causes.pop("", 0) >= 2, "two right answers in other styles"
    assert sum(causes.values()) >= 3, "three realistic wrong answers"
    assert len(causes) >= 3, "each with a diagnosis of its own"


@pytest.mark.parametrize("exercise", all_exercises(), ids=lambda exercise: exercise.id)
def test_stub_is_not_attempted(exercise) -> None:
    def stub(*args, **kwargs):
        raise NotImplementedError

    assert judge_answer(exercise, stub, NOTEBOOK_SEED).status is Status.NOT_ATTEMPTED


@pytest.mark.parametrize("exercise", all_exercises(), ids=lambda exercise: exercise.id)
def test_type_and_arity_mistakes_are_told(exercise) -> None:
    """What a student's slip may return or raise, never what the check itself stumbles over."""
    for slip in (
        lambda *args: "text",
        lambda *args: object(),
        lambda *args: [],
        lambda: 0,
        lambda *args: float("nan"),
    ):
        verdict = judge_answer(exercise, slip, NOTEBOOK_SEED)
        if exercise.gpu_only and verdict.status is Status.NOT_VERIFIABLE:
            continue
        assert verdict.status is Status.FAILED and verdict.diagnosis and verdict.cause
    assert judge_answer(exercise, 42, NOTEBOOK_SEED).cause == "not a function"


def test_every_wrong_answer_says_where_it_stands() -> None:
    """No two functions of one exercise share a name, or a later one would hide the first."""
    for lesson in LESSONS:
        source = (ROOT / f"tests/answers/lesson_{int(lesson):02}.py").read_text(encoding="utf-8")
        names = [node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
        assert len(names) == len(set(names))
