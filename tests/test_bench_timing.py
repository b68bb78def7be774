"""Timings by a clock that is told the time: turns, medians, ratios, and what is refused."""

import math
import time

import pytest
import torch

from course_utils import gpu_timing
from course_utils.gpu_timing import (
    Ceilings,
    CpuClock,
    ImpossibleSpeed,
    Job,
    Timing,
    compare,
    interleaved,
    machine_ceilings,
    median_seconds,
    reference_attention,
    refuse_impossible,
    relative_error,
    time_attention,
)
from tests.bench_fakes import FakeClock

ENDLESS = Ceilings(copy_bytes_per_second=1e30, matmul_flops_per_second=1e30)


def test_the_cpu_clock_counts_the_call_and_nothing_before():
    clock = CpuClock()
    measured = clock.measure(lambda seconds: (time.sleep(seconds), "done")[1], 0.02)
    time.sleep(0.3)
    assert measured.result == "done"
    assert 0.02 <= measured.wait() < 0.3  # however busy this machine is


def test_the_median_forgets_the_warm_up_and_one_interruption():
    times = iter([0.001, 0.002, 5.0, 0.003, 0.002])
    calls = []
    clock = FakeClock(lambda function: next(times))
    assert median_seconds(lambda: calls.append(1), repeat=5, warm_up=4, clock=clock) == 0.002
    assert len(calls) == 9 and len(clock.calls) == 5


def test_a_timing_keeps_the_middle_four_fifths():
    timing = Timing.of([float(i) for i in range(1, 21)])
    assert (timing.seconds, timing.low, timing.high, timing.repeats) == (10.5, 3.0, 18.0, 20)


def test_comparing_alternates_and_gives_the_ratio_in_pairs():
    def ours(): ...
    def theirs(): ...

    clock = FakeClock(lambda function: {ours: 0.002, theirs: 0.003}[function])
    result = compare(ours, theirs, rounds=4, clock=clock)
    assert clock.calls == [ours, theirs, theirs, ours] * 2
    assert result.ratio == pytest.approx(1.5) and result.low == pytest.approx(result.high)
    assert result.ours.seconds == 0.002 and result.theirs.repeats == 4


def test_a_clock_that_slows_down_does_not_change_the_ratio():
    """Why rounds are compared in pairs: both slow down together."""
    slowdown = iter([1, 1, 2, 2, 4, 4, 8, 8])

    def seconds(function):
        return (0.01 if function is slow else 0.005) * next(slowdown)

    def slow(): ...
    def fast(): ...

    result = compare(fast, slow, rounds=4, warm_up=0, clock=FakeClock(seconds))
    assert (result.ratio, result.low, result.high) == (2.0, 2.0, 2.0)


def test_a_program_compared_with_itself_is_as_fast():
    def one(): ...

    assert compare(one, one, rounds=3, clock=FakeClock()).ratio == 1.0


def test_jobs_take_turns_in_an_order_that_rotates():
    def a(): ...
    def b(): ...

    clock = FakeClock(lambda function: 0.1)
    times = interleaved({"a": Job(a), "b": Job(b)}, seconds_each=0.4, least=2, most=9, clock=clock)
    assert times == {"a": [0.1] * 4, "b": [0.1] * 4}
    assert clock.calls[4:] == [a, b, b, a] * 2  # the first four warm up


def test_a_slow_job_takes_part_in_some_rounds_spread_over_all():
    def slow(): ...
    def quick(): ...

    clock = FakeClock(lambda function: 0.1 if function is slow else 0.01)
    jobs = {"slow": Job(slow), "quick": Job(quick)}
    times = interleaved(jobs, seconds_each=0.2, least=1, most=50, clock=clock)
    assert {name: len(each) for name, each in times.items()} == {"slow": 2, "quick": 20}
    where = [i for i, function in enumerate(clock.calls[4:]) if function is slow]
    assert where[0] >= 8 and where[1] - where[0] >= 8


@pytest.mark.parametrize(("seconds", "repeats"), [(0.0, 30), (0.001, 30), (0.1, 5), (0.5, 3), (9, 3)])  # fmt: skip
def test_how_often_a_job_runs(seconds, repeats):
    clock = FakeClock(lambda function: seconds)
    times = interleaved({"job": Job(lambda: None)}, seconds_each=0.3, most=30, clock=clock)
    assert len(times["job"]) == repeats


def test_what_is_prepared_is_not_timed():
    timed = []
    job = Job(timed.append, lambda: "prepared")
    clock = FakeClock()
    interleaved({"job": job}, least=3, most=3, clock=clock)
    assert timed == ["prepared"] * 5
    assert all(call == timed.append for call in clock.calls)


@pytest.mark.parametrize("fails_at", [1, 2, 4])
def test_a_job_that_raises_is_dropped_and_the_others_go_on(fails_at):
    calls = []

    def breaks():
        calls.append(1)
        if len(calls) >= fails_at:
            raise RuntimeError("out of luck")

    failures = {}
    jobs = {"breaks": Job(breaks), "works": Job(lambda: None)}
    times = interleaved(jobs, least=5, most=5, clock=FakeClock(), failures=failures)
    assert list(times) == ["works"] and len(times["works"]) == 5
    assert str(failures["breaks"]) == "out of luck"


def test_without_a_place_for_failures_they_are_raised():
    with pytest.raises(ZeroDivisionError):
        interleaved({"job": Job(lambda: 1 / 0)}, clock=FakeClock())


# ---------------------------------------------------------------- ceilings


def test_ceilings_count_bytes_both_ways_and_two_operations_a_pair():
    clock = FakeClock(lambda function: 0.5)
    found = machine_ceilings(
        size=16, copy_bytes=1000, device="cpu", dtype=torch.float32, clock=clock
    )
    assert found == Ceilings(4000.0, 2 * 16**3 * 2)


@pytest.mark.parametrize(
    ("seconds", "flops", "moved_bytes", "word"),
    [
        (1.0, 130.0, 1.0, "operations"),
        (1.0, 1.0, 13.0, "bytes"),
        (0.0, 1.0, 1.0, "infinitely"),
        (math.nan, 1.0, 1.0, "operations"),
    ],
)
def test_faster_than_the_hardware_is_refused(seconds, flops, moved_bytes, word):
    with pytest.raises(ImpossibleSpeed, match=word):
        refuse_impossible(seconds, flops, moved_bytes, Ceilings(10.0, 100.0))


def test_what_the_hardware_allows_is_not_refused():
    refuse_impossible(1.0, 120.0, 12.0, Ceilings(10.0, 100.0))


# ---------------------------------------------------------------- memory


def test_extra_bytes_leave_out_what_was_there_and_the_result(monkeypatch):
    state = {"requested_bytes.all.current": 1000, "requested_bytes.all.peak": 0}
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: None)
    monkeypatch.setattr(torch.cuda, "memory_stats", lambda: state)

    def function(n):
        state["requested_bytes.all.peak"] = 1000 + 4 * n + 77
        x = torch.zeros(n)
        return x, x[1:]  # one buffer

    extra, result = gpu_timing.extra_peak_bytes(function, 50)
    assert extra == 77 and len(result) == 2


# ---------------------------------------------------------------- attention


@pytest.mark.parametrize("causal", [False, True])
def test_the_reference_is_attention_with_its_gradients(causal):
    q, k, v, do = (torch.randn(2, 3, 70, 8, dtype=torch.double) for _ in range(4))
    found = reference_attention(q, k, v, do, causal=causal, chunk=32)
    inputs = [x.clone().requires_grad_() for x in (q, k, v)]
    o = torch.nn.functional.scaled_dot_product_attention(*inputs, is_causal=causal)
    right = (o, *torch.autograd.grad(o, inputs, do))
    assert max(relative_error(mine, exact) for mine, exact in zip(found, right)) < 1e-14
    assert not any(x.requires_grad for x in (q, k, v))


def test_the_reference_aligns_at_the_bottom_right():
    q, k, v = (torch.randn(n, 4) for n in (2, 5, 5))
    whole = torch.cat([torch.randn(3, 4), q])
    last = reference_attention(whole, k, v, causal=True)[0][3:]
    assert relative_error(reference_attention(q, k, v, causal=True)[0], last) < 1e-15


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_an_error_of_what_is_no_number_passes_no_limit(bad):
    assert not relative_error(torch.tensor([1.0, bad]), torch.ones(2)) < 1e9


SIZES = {"n": 32, "d": 16, "tokens": 64, "width": 32, "rounds": 3, "dtype": torch.float32}


def right(q, k, v, causal):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)


def timed(candidate, *, seconds=0.004, ceilings=ENDLESS, causal=True):
    """On the CPU, with PyTorch's taking 4 ms by the clock."""
    clock = FakeClock(lambda function: seconds if function is candidate else 0.004)
    return time_attention(
        candidate, causal=causal, device="cpu", baseline="math", ceilings=ceilings, clock=clock, **SIZES
    )  # fmt: skip


@pytest.fixture
def quiet(monkeypatch):
    """The clock on the wall agrees, however busy this machine is."""
    monkeypatch.setattr(gpu_timing.attention, "_wall_seconds", lambda *a: 0.0)


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("causal", [False, True])
def test_a_right_attention_gets_its_ratio(causal):
    result = timed(right, seconds=0.002, causal=causal)
    assert result.cause == "" and result.detail == ""
    assert result.ratio.ratio == 2.0 and result.ratio.ours.repeats == 3
    assert result.flops_per_second == 4 * 32 * 32 * 16 * 4 / (2 if causal else 1) / 0.002
    assert 0 < result.error < 1e-6 and result.baseline == "math"


def raises(q, k, v, causal):
    raise IndexError("too far")


def changes_an_input(q, k, v, causal):
    o = right(q, k, v, causal)
    q += 1
    return o


def remembers():
    """Computes once, then gives the same again."""
    kept = []

    def attention(q, k, v, causal):
        if not kept:
            kept.append(right(q, k, v, causal))
        return kept[0]

    return attention


def later(what):
    """Right until the last of the timed calls, then `what` in the calls by the clock on the wall."""
    calls = []

    def attention(q, k, v, causal):
        calls.append(1)
        if len(calls) > 6:
            raise what
        return right(q, k, v, causal)

    return attention


def gives_up():
    """Works until it is no longer looked at, as it hopes."""
    calls = []

    def attention(q, k, v, causal):
        calls.append(1)
        return right(q, k, v, causal) if len(calls) < 5 else torch.empty_like(q)

    return attention


@pytest.mark.parametrize(
    ("candidate", "cause"),
    [
        (raises, "error"),
        (later(RuntimeError("late")), "error"),
        (later(SystemExit(0)), "error"),
        (lambda q, k, v, causal: right(q, k, v, causal).to_sparse(), "wrong layout"),
        (lambda q, k, v, causal: None, "not a tensor"),
        (lambda q, k, v, causal: right(q, k, v, causal)[0], "wrong shape"),
        (lambda q, k, v, causal: right(q, k, v, causal).double(), "wrong dtype"),
        (lambda q, k, v, causal: right(q, k, v, False), "wrong values"),
        (lambda q, k, v, causal: right(q, k, v, causal) * math.nan, "wrong values"),
        (changes_an_input, "inputs changed"),
        (remembers(), "wrong values"),
        (gives_up(), "wrong values"),
        (lambda q, k, v, causal: right(q, k, v, causal) * (1 + 5e-6), "not precise enough"),
    ],
)
def test_what_is_wrong_has_a_cause_and_no_exception(candidate, cause):
    result = timed(candidate)
    assert result.cause == cause and result.detail


@pytest.mark.usefixtures("quiet")
def test_impossible_speed_is_refused_after_the_values_were_right():
    ceilings = Ceilings(copy_bytes_per_second=1e9, matmul_flops_per_second=1e12)
    result = timed(right, seconds=1e-7, ceilings=ceilings)
    assert result.cause == "impossible speed" and "this work was not done" in result.detail
    assert timed(right, seconds=1e-4, ceilings=ceilings).cause == ""
    assert timed(right, seconds=0.0, ceilings=ceilings).cause == "impossible speed"


def test_work_beside_the_clock_is_noticed():
    def lazy(q, k, v, causal):
        time.sleep(0.004)
        return right(q, k, v, causal)

    result = timed(lazy, seconds=0.0001)
    assert result.cause == "work beside the clock"


def test_flops_are_counted_by_the_convention():
    flops = gpu_timing.attention_flops(1024, 64, 16, causal=False)
    assert flops == 4 * 1024**2 * 64 * 16
    assert gpu_timing.attention_flops(1024, 64, 16, causal=True) == flops / 2
    assert gpu_timing.attention_flops(1024, 64, 16, causal=False, backward=True) == 2.5 * flops
    assert gpu_timing.attention_bytes(1024, 64, 16) == 4 * 1024 * 64 * 16 * 2


@pytest.mark.parametrize(
    ("capability", "name"), [((7, 5), "efficient"), ((8, 0), "flash"), ((9, 0), "flash")]
)
def test_an_older_gpu_is_compared_with_what_it_has(monkeypatch, capability, name):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *a: capability)
    assert gpu_timing.baseline_backend() == name
