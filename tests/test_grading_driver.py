"""The driver: what becomes of answers and their cells, seen through the sandbox that this machine has."""

import os
from collections.abc import Iterator

import pytest

from course_utils.checks import find_exercise
from course_utils.grading import driver
from course_utils.grading.cells_run import find_answer
from course_utils.grading.jobs import exercises_of, run_place
from course_utils.grading.judging import judge_runs
from course_utils.grading.records import Answer, Ending, Job, Run
from course_utils.grading.sandbox.choose import choose_sandbox, close_sandbox
from course_utils.grading.sandbox.limits import Limits
from course_utils.grading.sandbox.run import run_job

LIMITS = Limits(exercise_seconds=10, memory_bytes=600 * 10**6, processes=40)
NUMPY = "import numpy as np\n"
RIGHT = (
    "def matmul_backward(x, w, output):\n"
    "    x.grad += output.grad @ w.value.T\n"
    "    w.grad += x.value.T @ output.grad\n"
)


@pytest.fixture(scope="module")
def sandbox() -> Iterator:
    sandbox = choose_sandbox()
    yield sandbox
    close_sandbox(sandbox)


def run_one(sandbox, source: str, *support: str, name: str = "matmul_backward") -> Run:
    answer = Answer("2.1", name, source, "name", support)
    cases = find_exercise("2.1").cases(4)
    (run,) = run_job(Job("test", (answer,), {"2.1": cases}), LIMITS, sandbox)
    return run


def points(run: Run) -> float:
    answer = Answer("2.1", "matmul_backward", "", "name")
    cases = {"2.1": find_exercise("2.1").cases(4)}
    return judge_runs(Job("test", (answer,), cases), [run])["2.1"].points


@pytest.mark.parametrize(
    "source, support",
    [
        (RIGHT, ()),
        ("@twice_nothing\n" + RIGHT, ("def twice_nothing(f):\n    return f\n",)),
        (RIGHT + "\nprint(undefined)\n", ()),
        (RIGHT + "\nraise SystemExit\n", ()),
        (RIGHT, ("1 / 0\n", "this is no Python\n")),
        (RIGHT + "\ndisplay(1); get_ipython().run_line_magic('matplotlib', 'inline')\n", ()),
        (
            RIGHT,
            (
                "from course_utils import ag, check, measured, needs, predict, progress\n"
                "from course_utils.plots import growth, memory_timeline\n"
                "from course_utils.attention import dense_attention\n"
                "from course_utils.remat import planners\n"
                "from course_utils.timeline import Timeline\n"
                "check('2.1', print); predict('2.a', 5); growth([1], {}); progress()\n"
                "with needs('2.1'):\n    undefined\n"
                "HERE = True\n",
                "assert HERE\n",
            ),
        ),
        ("from __future__ import annotations\n" + RIGHT, ("x = 1\n",)),
        ("import dataclasses\n@dataclasses.dataclass\nclass A:\n    x: int = 1\n" + RIGHT, ()),
    ],
)
def test_right_answers_in_odd_cells_pass(sandbox, source, support):
    run = run_one(sandbox, source, *support)
    assert (run.ending, points(run)) == (Ending.COMPLETE, 2.0), run
    assert not run.flags and 0 < run.seconds < 10 and run.peak_bytes < 10**8


def test_what_fails_in_a_cell_is_told(sandbox):
    run = run_one(sandbox, RIGHT, "1 / 0\n")
    assert "ZeroDivisionError" in run.detail and "1 / 0" in run.detail
    run = run_one(sandbox, "def matmul_backward(x:\n    pass\n")
    assert run.observations[0].error.kind == "SyntaxError" and len(run.observations) == 1
    run = run_one(sandbox, "def matmul_backward(x, w, output):\n    return nowhere\n")
    error = run.observations[0].error
    assert (error.kind, error.line) == ("NameError", "return nowhere")


def test_an_answer_that_is_not_there_or_no_function(sandbox):
    assert run_one(sandbox, "def other(): pass\n").ending is Ending.NOT_FOUND
    run = run_one(sandbox, "matmul_backward = 42\n")
    assert run.ending is Ending.COMPLETE and "no function" in run.observations[0].error.message
    assert points(run) == 0.0


def test_what_is_held_back_says_so(sandbox):
    uses = (
        "    from course_utils.attention import queries_outside_traffic\n"
        "    queries_outside_traffic(1, 2, 3)\n"
    )
    run = run_one(sandbox, "def matmul_backward(x, w, output):\n" + uses)
    assert run.observations[0].error.kind == "HeldBack"
    assert "course_utils.attention.queries_outside_traffic" in run.observations[0].error.message


def test_an_answer_sees_nothing_of_another(sandbox):
    """Each exercise has a process of its own: names, modules and files of one are not the other's."""
    leave = RIGHT + "import numpy\nnumpy.left_here = leftover = 1\nopen('/tmp/left', 'w').close()\n"
    look = (
        "import numpy\n"
        "def lazy_add_backward(x, y, output):\n"
        "    assert not hasattr(numpy, 'left_here') and 'leftover' not in globals()\n"
        "    raise ValueError('alone')\n"
    )
    answers = (
        Answer("2.1", "matmul_backward", leave, "name"),
        Answer("2.3", "lazy_add_backward", look, "name"),
    )
    cases = {name: find_exercise(name).cases(1) for name in ("2.1", "2.3")}
    first, second = run_job(Job("test", answers, cases), LIMITS, sandbox)
    assert first.ending is Ending.COMPLETE and second.observations[0].error.message == "alone"


def test_a_sandbox_that_ends_early_costs_one_exercise(sandbox, monkeypatch):
    """As if memory had ended the driver itself: what had not begun gets a fresh sandbox."""
    from course_utils.grading.sandbox import run as runs

    payloads = []

    def as_payload(job, answers, limits, **more):
        payloads.append([answer.exercise for answer in answers])
        dies = len(payloads) == 1
        return honest(
            job, answers, Limits(files_bytes=1, exercise_seconds=-1) if dies else limits, **more
        )

    honest = runs.as_payload
    monkeypatch.setattr(runs, "as_payload", as_payload)
    monkeypatch.setattr(runs._Reader, "finish", finish_first(runs._Reader.finish))
    answers = tuple(
        Answer(name, "f", "def f(*args): raise NotImplementedError", "") for name in ("2.1", "2.3")
    )
    cases = {name: find_exercise(name).cases(1) for name in ("2.1", "2.3")}
    endings = [run.ending for run in run_job(Job("test", answers, cases), LIMITS, sandbox)]
    assert payloads == [["2.1", "2.3"], ["2.3"]] and endings == [Ending.TOO_SLOW, Ending.COMPLETE]


def finish_first(finish):
    """The first sandbox gives its first run alone, whatever more it has said."""

    def wrapped(reader, stopped):
        found = finish(reader, stopped)
        return found[:1]

    return wrapped


def test_every_run_function_has_a_place():
    for lesson in ("0", "2", "7"):
        for exercise in exercises_of(lesson).values():
            module, name = run_place(exercise)
            assert module.startswith("course_utils.checks.") and name


def test_answers_run_in_a_main_of_their_own():
    found = find_answer("f", "def f():\n    return __name__\n", [])
    assert found.answer() == "__main__" and not found.detail


@pytest.mark.parametrize("said", [b"[]", b"7", b'{"flags": 3}', b'{"flags": [1, "x"]}', b"{", b""])
def test_nothing_that_a_child_says_of_itself_stops_the_driver(said):
    talk = driver._Talk(os.getpid(), b"token ", -1, os.open(os.devnull, os.O_WRONLY), [])
    talk.hear(b"token said " + said)
    talk.close()
    assert talk.report.get("flags", []) == (["1", "x"] if b"x" in said else [])
