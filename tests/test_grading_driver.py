"""The driver: what becomes of answers and their cells, seen through the sandbox that this machine has."""

import os
import shutil
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from course_utils.checks import find_exercise
from course_utils.grading import driver
from course_utils.grading.cells_run import find_answer
from course_utils.grading.jobs import exercises_of, run_place
from course_utils.grading.judging import judge_runs
from course_utils.grading.records import Answer, Ending, Job, Run
from course_utils.grading.sandbox.choose import choose_sandbox
from course_utils.grading.sandbox.limits import Limits
from course_utils.grading.sandbox.run import run_job
from course_utils.grading.tampering import PATCHED, Snapshot
from tests.grading_helpers import answer_cell, solved, text

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
    shutil.rmtree(sandbox.course, ignore_errors=True)


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
        "import numpy, os, sys\n"
        "def lazy_add_backward(x, y, output):\n"
        "    assert not hasattr(numpy, 'left_here') and 'leftover' not in globals()\n"
        "    assert 'left' not in os.listdir('/tmp') and not {'', '.', '/tmp'} & set(sys.path)\n"
        "    raise ValueError('alone')\n"
    )
    answers = (
        Answer("2.1", "matmul_backward", leave, "name"),
        Answer("2.3", "lazy_add_backward", look, "name"),
    )
    cases = {name: find_exercise(name).cases(1) for name in ("2.1", "2.3")}
    first, second = run_job(Job("test", answers, cases), LIMITS, sandbox)
    assert first.ending is Ending.COMPLETE and second.observations[0].error.message == "alone"


def test_threads_are_no_memory_out_of_sight_unless_they_go_on(sandbox):
    """A pool of threads makes a semaphore, which is a file, and ends its threads a moment later."""
    honest = text(answer_cell(solved("01"), "1.3")).replace("def normalize_rows", "def honest")
    in_a_pool = (
        f"{NUMPY}import threading, time\nfrom multiprocessing.pool import ThreadPool\n{honest}\n"
        "def normalize_rows(x):\n    with ThreadPool(2) as pool:\n        return pool.apply(honest, (x,))\n"
    )
    goes_on = in_a_pool.replace(
        "    with", "    threading.Thread(target=time.sleep, args=(5,)).start()\n    with"
    )
    for source, flag in ((in_a_pool, ""), (goes_on, "left a thread running")):
        answer = Answer("1.3", "normalize_rows", source, "name")
        job = Job("test", (answer,), {"1.3": find_exercise("1.3").cases(4)})
        result = judge_runs(job, run_job(job, LIMITS, sandbox))["1.3"]
        assert result.points == 3.0 and "".join(result.flags).startswith(flag), result
        assert bool(result.flags) is bool(flag)


KERNELS = {
    "8.1": ("k = 42\n", "failed", "it is no function, but: int"),
    "8.2": ("def k(*args): pass\n", "failed", "a plain function, without @triton.jit"),
    "8.4": ("import os\nos._exit(3)\n", "crashed", "it ended itself with status 3"),
    "8.5": (
        "class K:\n    fn = property(lambda self: 1 / 0)\nk = K()\n",
        "failed",
        "ZeroDivisionError",
    ),
    "8.6": (
        "import os, time\nif os.fork() == 0: time.sleep(99)\ndef k(*args): raise NotImplementedError\n",
        "not attempted",
        "The stub",
    ),
    "8.7": ("raise ValueError('no')\n", "failed", "ValueError at `raise ValueError('no')`"),
}


def test_the_cells_of_a_kernel_run_apart(sandbox):
    """What there is to tell without a kernel comes out of the other process; a pipe left open stops nothing."""
    answers = tuple(Answer(name, "k", source, "name") for name, (source, *_) in KERNELS.items())
    cases = {name: find_exercise(name).cases(1)[:1] for name in KERNELS}
    job = Job("test", answers, cases)
    results = judge_runs(job, run_job(job, LIMITS, sandbox))
    for name, (_, status, told) in KERNELS.items():
        assert results[name].status == status and told in results[name].diagnosis, results[name]
    assert "left" in results["8.6"].flags[0]


def test_a_module_under_the_courses_name_from_elsewhere_is_told(monkeypatch):
    snapshot, stranger = Snapshot(), ModuleType("course_utils.plots_of_mine")
    assert snapshot.changed() == []
    stranger.__file__ = "/tmp/course_utils/plots_of_mine.py"
    monkeypatch.setitem(sys.modules, stranger.__name__, stranger)
    assert snapshot.changed() == [f"{PATCHED}{stranger.__name__}, which is not the course's"]


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
