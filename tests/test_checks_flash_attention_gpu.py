"""What the checks of lesson 08 rest on: tolerances, twins of slips, budgets, and how far a verdict goes."""

import numpy as np
import pytest

from course_utils import check
from course_utils.checks import core, record
from course_utils.checks.core import Case, Observation, Status, Verdict, judge_answer
from course_utils.checks.flash_attention_gpu import (
    EXERCISES,
    budget,
    causal,
    fast,
    forward,
    kernel_runs,
)
from course_utils.checks.flash_attention_gpu import attention_inputs as given_by
from course_utils.checks.flash_attention_gpu import attention_wanted as wanted_by
from course_utils.checks.flash_attention_gpu.backward_mistakes import backward_mistakes
from course_utils.checks.flash_attention_gpu.forward_mistakes import forward_mistakes
from course_utils.checks.show import as_text
from course_utils.triton_stand_in import StandInKernel
from tests.answers import ANSWERS
from tests.answers import lesson_08 as answers

needs_triton = pytest.mark.skipif(not kernel_runs.HAS_TRITON, reason="there is no Triton here")
KERNELS = ("8.1", "8.2", "8.4", "8.5", "8.6", "8.7")


@pytest.fixture
def own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_STATE", str(tmp_path))
    monkeypatch.setattr(record, "_memory", {})
    for name in ("COURSE_STRICT", "NBGRADER_EXECUTION"):
        monkeypatch.delenv(name, raising=False)


def interpreted(exercise: str) -> list[Case]:
    cases = EXERCISES[exercise].cases(1)
    return [case for case in cases if case.given["rung"] == "interpreter"]


@needs_triton
def test_a_pass_says_how_far_it_was_verified():
    verdict = judge_answer(EXERCISES["8.1"], answers.softmax_in_base_2, 1)
    assert verdict.passed and "interpreter" in verdict.diagnosis and "sm_80" in verdict.diagnosis
    if not kernel_runs.gpu_is_here():
        assert "Not verified: on a GPU" in as_text(verdict)


def test_a_compiler_that_stops_is_not_held_against_the_kernel():
    made = {"error": "", "ended": "signal: SIGABRT", "sm": 80, "line": ""}
    case = next(c for c in EXERCISES["8.1"].cases(1) if c.given["rung"] == "compiler")
    verdict = EXERCISES["8.1"].judge(case, Observation(value={}, more={"compiled": [made]}))
    assert verdict.passed and "Not verified: that it compiles" in verdict.diagnosis


@pytest.mark.parametrize("exercise", KERNELS)
def test_without_triton_a_kernel_is_not_verifiable_and_a_stub_not_attempted(exercise, monkeypatch):
    monkeypatch.setattr(kernel_runs, "HAS_TRITON", False)
    right = next(a.function for a in ANSWERS if a.exercise == exercise and not a.cause)
    verdict = judge_answer(EXERCISES[exercise], StandInKernel(right.fn), 1)
    assert verdict.status is Status.NOT_VERIFIABLE and "WSL" in verdict.diagnosis

    def stub(*args):
        raise NotImplementedError

    assert judge_answer(EXERCISES[exercise], StandInKernel(stub), 1).status is Status.NOT_ATTEMPTED


@pytest.mark.parametrize("exercise", EXERCISES)
def test_what_runs_an_answer_is_a_function_of_its_module(exercise):
    """A grader's sandbox takes along whatever its names lead to: of a method, the whole task with its judge."""
    run = EXERCISES[exercise].run
    names = run.__globals__
    assert names[run.__name__] is run and not any(
        name.startswith("TASK") for name in run.__code__.co_names
    )


@needs_triton
def test_error_messages_say_what_a_kernel_has():
    told = {"softmax_by_torch": "a kernel has no torch", "softmax_sliced": "tl.load(x + positions)"}
    for answer in ANSWERS:
        if hint := told.pop(answer.function.__name__, ""):
            assert hint in judge_answer(EXERCISES["8.1"], answer.function, 1).diagnosis
    assert not told


@pytest.mark.parametrize("exercise", KERNELS)
def test_cases_hold_plain_data_and_stay_small(exercise):
    for case in EXERCISES[exercise].cases(3):
        assert all(isinstance(value, int | float | str | tuple) for value in case.given.values())
    assert all(max(case.given.get("n_keys", 0), case.given.get("n_queries", 0)) <= 256
               for case in interpreted(exercise))  # fmt: skip


def test_rounding_to_bfloat16_is_torchs():
    torch = pytest.importorskip("torch")
    values = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    exact = torch.from_numpy(values).to(torch.bfloat16).float().numpy()
    assert np.array_equal(given_by.round_to(values, "bfloat16"), exact)


@pytest.mark.parametrize("exercise", ["8.4", "8.5"])
def test_tolerances_are_rounding_and_not_more(exercise):
    """Attention in the case's own type passes with room; what no rounding explains does not."""
    for case in interpreted(exercise):
        is_causal = exercise == "8.5"
        at, wanted = wanted_by.scores(case, is_causal), wanted_by.forward_wanted(case, is_causal)
        p = given_by.round_to(at.p, case.given["dtype"]).astype(np.float64)
        rounded = given_by.round_to(p @ at.v, case.given["dtype"])
        o, tolerance = wanted["out"]
        assert np.abs(rounded - o).max() <= tolerance / 2
        assert tolerance <= 0.05 * np.abs(at.v).max()


def test_named_slips_change_what_they_name():
    """In some case at least; else their twin could never be told from the right values."""
    for exercise, mistakes in (
        ("8.4", lambda case: forward_mistakes(case)),
        ("8.5", lambda case: causal._mistakes(case)),
        ("8.6", backward_mistakes),
    ):
        seen, distinct = set(), set()
        for case in interpreted(exercise):
            wanted = wanted_by.forward_wanted(case, exercise == "8.5") | wanted_by.backward_wanted(
                case
            )
            with np.errstate(all="ignore"):
                for cause, _, twins in mistakes(case):
                    seen.add(cause)
                    for name, twin in twins.items():
                        values, tolerance = wanted[name]
                        if not np.nanmax(np.abs(twin - values)) <= 2 * tolerance:
                            distinct.add(cause)
        assert seen == distinct


def test_causal_bytes_lie_between_the_keys_seen_and_their_blocks():
    case = interpreted("8.5")[4]
    k = causal._moves(case)["k"]
    assert 0 < k.loaded[0] < k.loaded[1] < forward._moves(case)["k"].loaded[1]


def test_the_budgets_rules_are_those_of_its_text():
    text = budget.__doc__
    for number in ("228 KiB", "227 KiB", "65,536", "2,048", "255", "+ 64", "32 * warps"):
        assert number in text
    assert budget.block_budget(128, 128, 64, 8) == (81_920, 96, 1)
    assert budget.block_budget(64, 64, 128, 1)[2] == 0  # 384 accumulators a thread


# --- 8.8: judged on a GPU; here with a timer of our own --------------------------------------------


def timed(ratio=1.2, cause="", detail="", **watched) -> Verdict:
    case = EXERCISES["8.8"].cases(1)[0]
    told = {
        "ratio": ratio,
        "low": ratio - 0.1,
        "high": ratio + 0.1,
        "cause": cause,
        "detail": detail,
    }
    more = {"others": [], "operations": [], "launches": 1} | watched
    value = told | {"baseline": "flash", "device": "a GPU"}
    return EXERCISES["8.8"].judge(case, Observation(value=value, more=more))


@pytest.mark.parametrize(
    ("given", "cause"),
    [
        ({}, ""),
        ({"ratio": 1.0}, ""),
        ({"ratio": 0.97}, "too slow"),
        (
            {"cause": "impossible speed", "detail": "3 times what this GPU reaches"},
            "impossible speed",
        ),
        ({"cause": "wrong values", "detail": "off"}, "wrong values"),
        ({"cause": "error", "detail": "ValueError: no"}, "raised an error"),
        ({"others": ["flash_attn"]}, "somebody else's attention"),
        ({"operations": ["bmm"]}, "torch's attention"),
        ({"launches": 0}, "no kernel launched"),
    ],
)
def test_speed_is_judged(given, cause):
    verdict = timed(**given)
    assert verdict.cause == cause and verdict.passed == (not cause) and verdict.diagnosis


def test_a_fast_answer_is_timed_after_it_was_watched(monkeypatch):
    monkeypatch.setattr(fast, "gpu_missing", lambda: "")
    monkeypatch.setattr(
        fast, "watch", lambda *args: {"others": [], "operations": [], "launches": 2}
    )
    told = {"ratio": 1.3, "low": 1.2, "high": 1.4, "cause": "", "detail": "", "baseline": "flash"}
    monkeypatch.setattr(fast, "time_on_gpu", lambda *args: told | {"device": "a GPU"})
    verdict = judge_answer(EXERCISES["8.8"], lambda q, k, v, causal: q, 1)
    assert verdict.passed and verdict.measured["causal"].value == 1.3


def test_another_attention_is_found_out_after_the_timing_too(monkeypatch):
    own = {"others": [], "operations": [], "launches": 2}
    seen = iter([own, own | {"operations": ["scaled_dot_product_attention"]}])
    shapes = []
    monkeypatch.setattr(fast, "gpu_missing", lambda: "")
    monkeypatch.setattr(
        fast, "watch", lambda answer, case, shape: shapes.append(shape) or next(seen)
    )
    monkeypatch.setattr(fast, "time_on_gpu", lambda *args: {})
    verdict = judge_answer(EXERCISES["8.8"], lambda q, k, v, causal: q, 1)
    assert verdict.cause == "torch's attention"
    assert shapes == [(8, 32, 2048, 64)] * 2


@needs_triton
def test_watching_sees_torchs_attention_products_and_launches():
    torch = pytest.importorskip("torch")
    case, shape = Case("", {"d": 16, "causal": False}), (1, 2, 64, 16)

    def products(q, k, v, causal):
        return (q @ k.mT).softmax(-1) @ v

    def torchs(q, k, v, causal):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    def launches(q, k, v, causal):
        answers.fast_forward[(1,)]
        return torch.empty_like(q)

    assert {"bmm", "_softmax"} <= set(fast.watch(products, case, shape, "cpu")["operations"])
    assert any("attention" in name for name in fast.watch(torchs, case, shape, "cpu")["operations"])
    seen = fast.watch(launches, case, shape, "cpu")
    assert seen == {"operations": [], "others": [], "launches": 1}


@pytest.mark.skipif(kernel_runs.gpu_is_here(), reason="there is a GPU here")
def test_strict_mode_excuses_a_gpu_exercise_where_there_is_no_gpu(own_state, monkeypatch, capsys):
    answer = answers.fast_with_eight_warps
    assert check("8.8", answer).status is Status.NOT_VERIFIABLE
    monkeypatch.setenv("COURSE_STRICT", "1")
    assert check("8.8", answer).status is Status.NOT_VERIFIABLE
    with pytest.raises(AssertionError):  # a stub is no such thing
        check("8.8", _stub)
    monkeypatch.setattr(kernel_runs, "HAS_TRITON", False)
    with pytest.raises(AssertionError, match="not verifiable"):
        check("8.1", StandInKernel(answers.softmax_in_base_2.fn))
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    with pytest.raises(AssertionError, match="not verifiable"):
        check("8.8", answer)


def _stub(q, k, v, causal):
    raise NotImplementedError


def test_a_kernel_that_cannot_be_called_is_still_an_answer():
    assert judge_answer(EXERCISES["8.4"], StandInKernel(_stub), 1).status is Status.NOT_ATTEMPTED
    assert core.judge_answer(EXERCISES["8.4"], 42, 1).cause == "not a function"
