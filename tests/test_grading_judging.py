"""Judgement outside says what the notebook's check says, of every answer, and survives whatever is observed."""

import gc
import importlib

import numpy as np
import pytest

from course_utils.checks import LESSONS, find_exercise, lesson_exercises
from course_utils.checks.core import Error, Observation, judge_observation
from course_utils.grading.codec import observation_as_text
from course_utils.grading.decoding import observation_from_text
from course_utils.grading.jobs import case_seed, make_job
from course_utils.grading.judging import judge_runs
from course_utils.grading.records import Answer, Ending, Job, Reading, Run
from course_utils.grading.tampering import source_flags
from tests.answers import ANSWERS

LEARNT = [
    lesson for lesson in LESSONS if int(lesson) <= 7
]  # kernels take their time: see test_answers
for lesson in LEARNT:
    importlib.import_module(f"tests.answers.lesson_{int(lesson):02}")
    lesson_exercises(lesson)
gc.freeze()


def sample() -> list:
    """Of every exercise a right answer, and of its wrong ones every third cause: all take a minute."""
    known = {name for lesson in LEARNT for name in lesson_exercises(lesson)}
    first = {
        (each.exercise, each.cause): each for each in reversed(ANSWERS) if each.exercise in known
    }
    right = [answer for answer in first.values() if not answer.cause]
    wrong = sorted((a for a in first.values() if a.cause), key=lambda a: (a.exercise, a.cause))
    return sorted(right + wrong[::3], key=lambda answer: (answer.exercise, answer.cause))


@pytest.mark.parametrize("answer", sample(), ids=str)
def test_the_verdict_outside_is_that_of_the_notebook(answer) -> None:
    exercise = find_exercise(answer.exercise)
    cases = exercise.cases(case_seed(1, exercise.id))
    run = Run(exercise.id, Ending.COMPLETE)
    direct = None
    for case in cases:
        seen = exercise.run(answer.function, case)
        run.observations.append(observation_from_text(observation_as_text(seen)))
        direct = judge_observation(exercise, case, seen)
        if not direct.passed:
            break
    else:
        again = exercise.run(answer.function, cases[0])
        run.observations.append(observation_from_text(observation_as_text(again)))
        if answer.cause == "right only once":
            direct = judge_observation(exercise, cases[0], again)
    job = Job("test", (Answer(exercise.id, "answer", "", "name"),), {exercise.id: cases})
    (result,) = judge_runs(job, [run]).values()
    if answer.cause == "right only once":
        assert (result.status, result.cause, direct.passed) == ("failed", answer.cause, False)
        return
    assert (result.status, result.cause) == (direct.status, direct.cause)
    assert direct.passed or result.diagnosis == direct.diagnosis
    assert result.points == (exercise.points if direct.passed else 0) and not result.flags


CASES = {"2.4": find_exercise("2.4").cases(1)}
JOB = Job("test", (Answer("2.4", "train_step", "def train_step(): pass", "name"),), CASES)


def judged(run: Run):
    return judge_runs(JOB, [run])["2.4"]


@pytest.mark.parametrize(
    "value",
    [
        *(
            0,
            "text",
            b"",
            [],
            [None] * 3,
            [[[[]]]] * 3,
            {"a": 1},
            [np.zeros(0)] * 3,
            [np.array("x")] * 3,
        ),
        *([np.array([None, {}], dtype=object)] * 3, [np.full((2, 2), np.nan)] * 3, [2**600] * 3),
        [np.zeros((2**30, 0))] * 3,
    ],
    ids=lambda value: repr(value)[:30],
)
def test_no_value_stops_the_judge(value):
    run = Run("2.4", Ending.COMPLETE, [Observation(value)] * (len(CASES["2.4"]) + 1))
    result = judged(run)
    assert (result.status, result.points) == ("failed", 0.0) and result.cause and result.diagnosis


@pytest.mark.parametrize("ending", Ending)
def test_every_ending_without_observations_is_told(ending):
    result = judged(Run("2.4", ending))
    assert result.points == 0.0 and result.diagnosis
    assert result.status == ("could not be read" if ending is Ending.COMPLETE else str(ending))


def test_a_wrong_case_before_a_crash_is_what_is_told():
    run = Run("2.4", Ending.CRASHED, [Observation(error=Error("ValueError", "no"))])
    assert judged(run).cause == "raised an error"
    stub = Run("2.4", Ending.COMPLETE, [Observation(error=Error("NotImplementedError", ""))])
    assert judged(stub).status == "not attempted"


def right_run(**more) -> Run:
    from tests.grading_helpers import answer_cell, solved, text

    namespace = {"np": np}
    exec(text(answer_cell(solved(), "2.4")), namespace)
    cases = CASES["2.4"]
    seen = [find_exercise("2.4").run(namespace["train_step"], case) for case in [*cases, cases[0]]]
    return Run("2.4", Ending.COMPLETE, seen, **more)


def test_fewer_cases_than_asked_is_no_pass():
    run = right_run()
    assert judged(run).points == 4.0
    run.observations.pop()
    assert judged(run).points == 0.0


def test_a_pass_with_exchanged_meters_is_none():
    result = judged(right_run(flags=("patched: tracemalloc.get_traced_memory",)))
    assert (result.status, result.cause, result.points) == ("failed", "meters exchanged", 0.0)
    assert result.flags


def test_better_than_possible_is_refused_and_meters_that_disagree_are_flagged():
    run = right_run(peak_bytes=300 * 10**6)
    assert judged(run).points == 4.0 and "meters disagree" in judged(run).flags[0]
    for seen in run.observations:
        seen.peak_bytes = seen.peak_bytes and 1
    assert judged(run).cause == "better than possible"


def test_case_seeds_differ_and_the_private_seed_is_not_in_a_job():
    reading = Reading(
        "02_requires_grad", (Answer("2.1", "f", "", "name"), Answer("9.9", "g", "", "name"))
    )
    one, other = make_job("x", reading, 123456789), make_job("x", reading, 1)
    assert [answer.exercise for answer in one.answers] == ["2.1"]
    assert set(one.cases) == {"2.1", "2.2", "2.3", "2.4"}
    assert "123456789" not in repr(one) and one.cases != other.cases
    assert len({case_seed(1, name) for name in one.cases}) == 4


@pytest.mark.parametrize(
    "source, hint",
    [
        ("import tracemalloc", "meters"),
        ("from course_utils.tracing import Trace", "meters"),
        ("from course_utils import tracing", "meters"),
        ("from course_utils.checks.core import passed", "grader"),
        ("from course_utils.attention import dense_attention", "exercise asks for"),
        ("import sys\nsys.modules['numpy']", "interpreter"),
        ("import numpy as np\nnp.matmul = print", "writes into a module"),
        (
            "import numpy as np\nsetattr(np.linalg, 'x', 1)\nsetattr(np, 'x', 1)",
            "writes into a module",
        ),
        ("f.__globals__", "interpreter"),
        ("import os\nos.fork()", "processes"),
        ("import socket", "network"),
        ("open('x')", "not its own"),
    ],
)
def test_hints_in_a_source(source, hint):
    assert any(hint in flag for flag in source_flags([source]))


def test_honest_sources_and_broken_ones_raise_no_hint():
    honest = "import re, sys\nimport numpy as np\nx = np.ones(3)\nx.shape = (3, 1)\nre.compile('a')\nsys.getsizeof(x)"
    assert source_flags([honest, "def broken(:", "\0", "(" * 10**5]) == []


def test_what_the_sandbox_saw_is_kept_and_far_more_than_counted_is_no_pass():
    run = right_run(peak_bytes=30 * 10**6, seconds=2.5)
    assert (judged(run).seconds, judged(run).sandbox_peak_bytes) == (2.5, 30 * 10**6)
    result = judged(right_run(peak_bytes=1500 * 10**6))
    assert (result.points, result.cause) == (0.0, "memory out of sight") and result.flags
