"""Tracing against the arrays' own nbytes, and among other users of tracemalloc."""

import gc
import tracemalloc
import weakref

import numpy as np
import pytest

from course_utils import check, needs
from course_utils.checks import core
from course_utils.checks.core import Status, Verdict
from course_utils.tracing import (
    PEAK_TOLERANCE_BYTES,
    Trace,
    TraceStats,
    end_trace,
    many_traces,
    print_trace_stats,
    snapshot_trace,
    start_trace,
)

N = 1000
LOADED = 10_000  # there are more objects than this in all that is loaded here


@pytest.fixture(autouse=True)
def no_trace_left_over():
    yield
    end_trace()
    while tracemalloc.is_tracing():
        tracemalloc.stop()


def listing(discard: bool, squares: bool) -> tuple[TraceStats, int]:
    """The lecture's three listings (L12-12 to L12-14) and what their arrays say of themselves."""
    start_trace()
    a = 1.0 * np.zeros((N, N))
    b = c = None
    if squares:
        b = a * a
        c = np.sum(b, axis=1)
    if discard:
        b = None
    stats = snapshot_trace()
    return stats, sum(array.nbytes for array in (a, b, c) if array is not None)


@pytest.mark.parametrize(
    ("discard", "squares", "printed", "exact", "peak"),
    [
        (False, False, 8, 8_000_000, 8_000_000),
        (False, True, 16, 16_008_000, 16_008_000),
        (True, True, 8, 8_008_000, 16_008_000),
    ],
)
def test_the_lectures_listings(discard, squares, printed, exact, peak, capsys):
    stats, own_bytes = listing(discard, squares)
    assert stats.current_bytes == own_bytes == exact
    assert peak <= stats.peak_bytes <= peak + PEAK_TOLERANCE_BYTES
    print_trace_stats(stats)
    assert capsys.readouterr().out == f"memory allocated: {printed} MB\n"


def test_megabytes_are_cut_off_not_rounded(capsys):
    print_trace_stats(TraceStats(65_999_999, 0))
    print_trace_stats(TraceStats(-1, 0))
    assert capsys.readouterr().out.split() == [
        "memory",
        "allocated:",
        "65",
        "MB",
        "memory",
        "allocated:",
        "0",
        "MB",
    ]


def test_only_numpys_memory_is_current():
    start_trace()
    text, array = "x" * 5_000_000, np.zeros(1000)
    stats = snapshot_trace()
    assert stats.current_bytes == array.nbytes
    assert stats.peak_bytes >= len(text)


@pytest.mark.parametrize("count", [1, 3, 1000, 100_000])
def test_small_and_large_arrays_are_exact(count):
    start_trace()
    arrays = [np.ones(count) for _ in range(5)]
    assert snapshot_trace().current_bytes == sum(array.nbytes for array in arrays)
    del arrays[1:]
    assert snapshot_trace().current_bytes == arrays[0].nbytes


def test_a_snapshot_costs_the_peak_nothing():
    start_trace()
    keep = [str(i) for i in range(20_000)]  # many traces make a snapshot large
    before = snapshot_trace().peak_bytes
    for _ in range(5):
        snapshot_trace()
    assert snapshot_trace().peak_bytes - before < PEAK_TOLERANCE_BYTES
    assert len(keep) == 20_000


def test_snapshot_without_a_trace_says_what_to_do():
    with pytest.raises(RuntimeError, match=r"call start_trace\(\) first"):
        snapshot_trace()
    start_trace()
    end_trace()
    end_trace()
    with pytest.raises(RuntimeError, match=r"call start_trace\(\) first"):
        snapshot_trace()
    assert not tracemalloc.is_tracing()


def test_starting_again_begins_again():
    start_trace()
    first = np.ones(N)
    start_trace()
    second = np.ones(2 * N)
    assert snapshot_trace().current_bytes == second.nbytes
    end_trace()
    assert not tracemalloc.is_tracing() and first.size == N


def test_a_running_tracemalloc_goes_on_and_the_lost_peak_is_said():
    tracemalloc.start()
    old = np.ones(N * N)
    with pytest.warns(UserWarning, match="its peak of 8,0"):
        start_trace()
    new = np.ones(N)
    stats = snapshot_trace()
    end_trace()
    assert stats.current_bytes == new.nbytes and stats.peak_bytes < PEAK_TOLERANCE_BYTES
    assert tracemalloc.is_tracing() and tracemalloc.get_traced_memory()[0] >= old.nbytes


def test_nested_traces_cost_the_outer_nothing():
    with Trace() as outer:
        a = np.ones(N * N)
        with Trace() as inner:
            b = a + 1
            del b
            inside = inner.snapshot()
            inner.restart_peak()
        stats = outer.snapshot()
    assert inside.current_bytes == 0 and inside.peak_bytes >= a.nbytes
    assert stats.current_bytes == a.nbytes
    assert 2 * a.nbytes <= stats.peak_bytes <= 2 * a.nbytes + PEAK_TOLERANCE_BYTES


def test_restart_peak_forgets_what_was():
    with Trace() as trace:
        a = np.ones(N * N)
        del a
        trace.restart_peak()
        assert trace.snapshot().peak_bytes < PEAK_TOLERANCE_BYTES


def test_tracemalloc_stopped_underneath_is_told():
    start_trace()
    tracemalloc.stop()
    with pytest.raises(RuntimeError, match="start the trace again"):
        snapshot_trace()
    start_trace()
    assert snapshot_trace().current_bytes == 0


def test_an_error_inside_stops_the_trace():
    with pytest.raises(ZeroDivisionError), Trace():
        1 / 0  # noqa: B018
    assert not tracemalloc.is_tracing()


def test_torch_is_out_of_sight():
    torch = pytest.importorskip("torch")
    start_trace()
    tensor = torch.ones(N, N)
    assert snapshot_trace().current_bytes == 0 and tensor.nbytes == 4_000_000


def test_a_trace_begins_without_the_garbage_of_earlier_runs():
    import weakref

    from course_utils import ag

    loss = ag.sum(ag.Tensor(np.ones(N)))
    value = weakref.ref(loss.inputs[0].value)
    del loss  # a ring of references: it takes the collector to free it
    start_trace()
    assert value() is None


@pytest.fixture
def nothing_frozen():
    """As in a notebook: this process has set its own tests aside."""
    gc.unfreeze()
    yield
    gc.collect()
    gc.freeze()


def test_of_many_traces_one_looks_through_what_was_there(nothing_frozen):
    def frozen_in_a_trace() -> int:
        with Trace():
            return gc.get_freeze_count()

    assert frozen_in_a_trace() == 0
    with many_traces():
        assert gc.get_freeze_count() == 0  # not before a trace asks for it
        assert frozen_in_a_trace() > LOADED
        with many_traces():
            assert frozen_in_a_trace() > LOADED
        assert gc.get_freeze_count() > LOADED
    assert gc.get_freeze_count() == 0


def test_many_traces_leave_alone_what_somebody_froze(nothing_frozen):
    gc.freeze()
    before = gc.get_freeze_count()
    with many_traces(), Trace():
        assert gc.get_freeze_count() == before
    assert gc.get_freeze_count() == before


def test_in_many_traces_rings_are_collected_all_the_same(nothing_frozen):
    """Those made inside at the next trace, those from before afterwards; none counts for a trace."""

    class Ring:
        def __init__(self):
            self.array, self.me = np.ones(10**6), self

    old = Ring()
    gone = weakref.ref(old)
    with many_traces():
        with Trace():
            inner = weakref.ref(Ring())
        del old
        with Trace() as trace:
            assert inner() is None and gone() is not None
            assert trace.snapshot().current_bytes == 0
    gc.collect()
    assert gone() is None


def test_checks_and_demonstrations_are_of_many_traces(nothing_frozen, monkeypatch):
    def count(*args) -> Verdict:
        with Trace():
            seen.append(gc.get_freeze_count())
        return Verdict(Status.FAILED)

    seen: list[int] = []
    monkeypatch.setattr(core, "judge_answer", count)
    check("2.1", count)
    with needs("2.1"):
        count()
    assert len(seen) == 2 and min(seen) > LOADED and gc.get_freeze_count() == 0
