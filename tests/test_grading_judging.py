"""Judgement outside says what the notebook's check says, of every answer, and survives whatever is observed."""

import importlib
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from course_utils.checks import LESSONS, find_exercise, lesson_exercises
from course_utils.checks.core import Error, Observation, judge_observation
from course_utils.grading.codec import observation_as_text
from course_utils.grading.decoding import observation_from_text
from course_utils.grading.jobs import case_seed, make_job
from course_utils.grading.judging import judge_runs
from course_utils.grading.records import Answer, Ending, Job, Reading, Run
from tests.answers import ANSWERS

LEARNT = [
    lesson for lesson in LESSONS if int(lesson) <= 7
]  # kernels take their time: see test_answers
for lesson in LEARNT:
    importlib.import_module(f"tests.answers.lesson_{int(lesson):02}")
    lesson_exercises(lesson)


def sample() -> list:
    """Of every exercise the last right answer, and of its wrong ones every fifth cause: all would take a minute."""
    known = {name for lesson in LEARNT for name in lesson_exercises(lesson)}
    last = {(each.exercise, each.cause): each for each in ANSWERS if each.exercise in known}
    right = [last[kind] for kind in sorted(last) if not kind[1]]
    wrong = [last[kind] for kind in sorted(last) if kind[1]]
    return right + wrong[::5]


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


@cache
def right_observations() -> list[Observation]:
    from tests.grading_helpers import answer_cell, solved, text

    namespace = {"np": np}
    exec(text(answer_cell(solved(), "2.4")), namespace)
    cases = CASES["2.4"]
    return [find_exercise("2.4").run(namespace["train_step"], case) for case in [*cases, cases[0]]]


def right_run(**more) -> Run:
    seen = [replace(each) for each in right_observations()]
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


def test_what_the_sandbox_saw_is_kept_and_far_more_than_counted_is_no_pass():
    run = right_run(peak_bytes=30 * 10**6, seconds=2.5)
    assert (judged(run).seconds, judged(run).sandbox_peak_bytes) == (2.5, 30 * 10**6)
    result = judged(right_run(peak_bytes=1500 * 10**6))
    assert (result.points, result.cause) == (0.0, "memory out of sight") and result.flags


SEEN_OUTSIDE = {
    "excess_bytes": 10**6,
    "before_bytes": 10**6,
    "processes": 0,
    "threads": 0,
    "calls": 1,
}


@pytest.mark.parametrize(
    "more, cause, flag",
    [
        ({}, "", ""),
        ({"threads": 1}, "", "left a thread running"),
        ({"before_bytes": 200 * 10**6}, "", "before the call"),
        ({"processes": 1}, "memory out of sight", "started a process"),
        ({"excess_bytes": 60 * 10**6}, "meters disagree", "60,000,000 of its process"),
        (None, "meters disagree", "nobody outside saw"),
    ],
)
def test_what_the_driver_saw_of_a_call_is_held_against_the_count(more, cause, flag):
    run = right_run()
    outside = {} if more is None else SEEN_OUTSIDE | more
    run.outside = [outside if seen.peak_bytes is not None else None for seen in run.observations]
    result = judged(run)
    assert (result.cause, result.points) == (cause, 0.0 if cause else 4.0)
    assert flag in result.flags[0] if flag else not result.flags


def test_a_large_library_takes_its_memory_without_a_flag():
    run = right_run()
    run.outside = [SEEN_OUTSIDE | {"before_bytes": 250 * 10**6}] * len(run.observations)
    answer = replace(JOB.answers[0], support=("import torch",))
    assert not judge_runs(replace(JOB, answers=(answer,)), [run])["2.4"].flags
    assert judged(run).flags


@pytest.mark.parametrize("message", ["[Errno 27] File too large", "3072 requested and 0 written"])
def test_a_file_where_memory_is_counted_is_told_in_words(message):
    cases = find_exercise("2.4").cases(1)
    seen = Observation(error=Error("OSError", message))
    job = Job("x", (Answer("2.4", "train_step", "", "name"),), {"2.4": cases})
    result = judge_runs(job, [Run("2.4", Ending.COMPLETE, [seen])])["2.4"]
    assert "an answer cannot write files" in result.diagnosis and message not in result.diagnosis
