"""What holds for every exercise: the four statuses, strict mode, errors told, nothing raised."""

import tracemalloc

import numpy as np
import pytest

from course_utils import check
from course_utils.checks import UnknownExercise, core, find_exercise, record
from course_utils.checks.core import (
    Case,
    Exercise,
    Observation,
    Status,
    Verdict,
    failed,
    judge_answer,
    passed,
)
from course_utils.checks.observe import find_out_of_sight, observe, observe_memory
from course_utils.hierarchy import HBM, SRAM

DOUBLE = Exercise(
    id="1.1",
    title="double",
    points=2,
    cases=lambda seed: [Case("small", {"n": 3}), Case("large", {"n": 5})],
    run=lambda answer, case: observe(answer, np.arange(case.given["n"])),
    judge=lambda case, seen: (
        passed()
        if np.array_equal(seen.value, 2 * np.arange(case.given["n"]))
        else failed("not doubled", "Expected twice the input.")
    ),
)


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_STATE", str(tmp_path))
    monkeypatch.setattr(record, "_memory", {})
    monkeypatch.delenv("COURSE_STRICT", raising=False)
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    monkeypatch.setattr(core, "find_exercise", lambda exercise_id: DOUBLE)


def verdict_of(answer) -> Verdict:
    return judge_answer(DOUBLE, answer, seed=0)


def test_right_wrong_and_untouched():
    assert verdict_of(lambda x: x + x).status is Status.PASSED
    wrong = verdict_of(lambda x: x)
    assert (wrong.status, wrong.cause, wrong.case) == (Status.FAILED, "not doubled", "small")

    def stub(x):
        raise NotImplementedError

    assert verdict_of(stub).status is Status.NOT_ATTEMPTED


def test_the_first_case_that_fails_is_named():
    assert verdict_of(lambda x: 2 * x if len(x) == 3 else x).case == "large"


def test_right_only_once_is_told():
    calls = []

    def remembers(x):
        calls.append(1)
        return 2 * x if len(calls) <= 2 else x

    assert verdict_of(remembers).cause == "right only once"


@pytest.mark.parametrize("value", [42, None, "text", np.ones(3)])
def test_what_is_not_a_function_is_told(value):
    verdict = verdict_of(value)
    assert verdict.cause == "not a function" and 'check("1.1", name)' in verdict.diagnosis


def recurse(x):
    return recurse(x)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (lambda x: 1 / 0, "ZeroDivisionError"),
        (lambda: None, "TypeError"),
        (lambda x: exit(3), "SystemExit"),
        (recurse, "RecursionError"),
        (lambda x: np.empty(10**18), "MemoryError"),
    ],
)
def test_errors_of_the_answer_become_verdicts(answer, told):
    verdict = verdict_of(answer)
    assert verdict.cause == "raised an error" and told in verdict.diagnosis


def test_an_error_names_the_students_line():
    def divides(x):
        y = x + 1
        return y @ np.ones((7, 7))

    assert "`return y @ np.ones((7, 7))`" in verdict_of(divides).diagnosis


def test_interrupting_is_not_swallowed():
    def interrupted(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        verdict_of(interrupted)


def test_returning_nothing_and_changing_inputs_are_told():
    assert verdict_of(lambda x: None).cause == "returned nothing"

    def in_place(x):
        x *= 2
        return x

    assert verdict_of(in_place).cause == "changed its input"


def test_check_shows_records_and_returns_once(capsys):
    verdict = check("1.1", lambda x: 2 * x)
    assert verdict.passed and capsys.readouterr().out.count("Exercise 1.1: passed") == 1
    assert record.load()["exercises"] == {"1.1": "passed"}


def test_check_never_raises_for_students(capsys):
    for answer in (lambda x: 1 / 0, None, lambda x: x):
        assert check("1.1", answer).status is Status.FAILED
    assert "ZeroDivisionError" in capsys.readouterr().out


@pytest.mark.parametrize("variable", ["COURSE_STRICT", "NBGRADER_EXECUTION"])
def test_strict_mode_raises_for_anything_but_passed(variable, monkeypatch, capsys):
    monkeypatch.setenv(variable, "1")
    check("1.1", lambda x: 2 * x)

    def stub(x):
        raise NotImplementedError

    for answer in (stub, lambda x: x, None):
        with pytest.raises(AssertionError, match=r"Exercise 1\.1"):
            check("1.1", answer)


def test_an_unknown_exercise_is_one_clear_line(monkeypatch, capsys):
    monkeypatch.setattr(core, "find_exercise", find_exercise)
    for wrong_id in ("1.99", "nonsense", "99.1", 1.1, None):
        verdict = check(wrong_id, lambda: None)
        assert verdict.cause == "unknown exercise" and verdict.diagnosis.startswith(
            ("there is no exercise", "an exercise id is text")
        )
    assert record.load()["exercises"] == {}
    with pytest.raises(UnknownExercise):
        find_exercise("2.99")


def test_memory_is_measured_beyond_the_inputs():
    x = np.ones(100_000)
    seen = observe_memory(lambda a: np.sqrt(a) + 1, x)
    assert seen.held_bytes == x.nbytes
    assert x.nbytes <= seen.peak_bytes <= x.nbytes + 65536
    quadratic = observe_memory(lambda a: (a[:500, None] * a[None, :500]).sum(), x)
    assert quadratic.held_bytes < 100 and quadratic.peak_bytes >= 500 * 500 * 8


def test_memory_of_an_answer_that_raises_is_an_error():
    assert observe_memory(lambda a: a.nope, np.ones(3)).error.kind == "AttributeError"


def test_an_error_keeps_no_array_alive():
    import gc
    import weakref

    refs = []

    def fails(a):
        big = a + 1
        refs.append(weakref.ref(big))
        raise ValueError("no")

    observe(fails, np.ones(10))
    gc.collect()
    assert refs[0]() is None


def test_libraries_out_of_sight_are_found():
    pytest.importorskip("torch")

    def by_import(a):
        import torch

        return torch.from_numpy(a) * 2

    def by_memmap(a):
        import tempfile

        with tempfile.TemporaryFile() as file:
            return np.memmap(file, shape=10, dtype="f8", mode="w+").sum()

    assert find_out_of_sight(by_import, np.ones(3)) == "torch"
    assert find_out_of_sight(lambda a: tracemalloc.reset_peak(), np.ones(3)) == "tracemalloc"
    assert find_out_of_sight(by_memmap, np.ones(3)) == "np.memmap"
    assert find_out_of_sight(lambda a: np.einsum("i,i->", a, a), np.ones(3)) == ""
    assert find_out_of_sight(lambda a: np.linalg.norm(a[:, None] - a, axis=0), np.ones(3)) == ""


def test_a_hidden_library_fails_the_check():
    verdict = core.judge_observation(
        DOUBLE, Case("x", {"n": 3}), Observation(value=1, out_of_sight="torch")
    )
    assert verdict.cause == "memory out of sight" and "torch" in verdict.diagnosis


def test_held_is_what_outlives_the_call_for_good():
    def with_a_ring(a):
        big = a + 1

        def inner(n):
            return inner(n - 1) + big[0] if n else 0.0

        return inner(2)

    seen = observe_memory(with_a_ring, np.ones(100_000))
    assert seen.held_bytes < 100 and seen.peak_bytes >= 800_000


def test_whoever_stops_the_counter_is_told():
    import tracemalloc

    def stops(a):
        tracemalloc.stop()
        return a

    seen = observe_memory(stops, np.ones(3))
    assert "tracemalloc was stopped" in seen.error.message
    assert not tracemalloc.is_tracing()


def test_a_list_that_was_emptied_or_refilled_is_a_changed_input():
    arrays = [np.ones(3), np.ones(2)]
    assert observe(lambda items: items.pop(), list(arrays)).changed_input
    assert observe(lambda items: items.__setitem__(0, None), list(arrays)).changed_input
    assert observe(lambda flags: flags.reverse(), [True, False]).changed_input
    assert not observe(lambda items: len(items), list(arrays)).changed_input


def test_a_profiler_in_c_is_left_alone():
    import cProfile

    profile = cProfile.Profile()
    profile.enable()
    try:
        assert find_out_of_sight(lambda a: a + 1, np.ones(3)) == ""
    finally:
        profile.disable()


def test_a_name_that_is_only_an_attribute_is_no_module():
    names = {"T": np.lib, "np": np}
    exec("import torch as T\ndef transposes(a):\n    return a.T", names)
    assert find_out_of_sight(names["transposes"], np.ones((2, 2))) == ""


def test_the_works_of_the_memory_are_out_of_bounds_where_there_is_one():
    def reach_in(sram, A):
        return A._values.sum()

    hbm = HBM()
    A = hbm.array(np.ones(3))
    assert "_values" in find_out_of_sight(reach_in, SRAM(1000, hbm), A)
    assert find_out_of_sight(lambda sram, A: sram.load(A).sum(), SRAM(1000, hbm), A) == ""
    assert find_out_of_sight(reach_in, np.ones(3)) == ""  # an attribute of the student's own
