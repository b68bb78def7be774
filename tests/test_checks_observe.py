"""What a check sees: of work that is put off, of what is left behind to do it, and of another's stub."""

import gc
import sys
import threading
import weakref

import numpy as np
import pytest

from course_utils.checks import find_exercise
from course_utils.checks import observe as observing
from course_utils.checks.core import Observation, Status, judge_observation
from course_utils.checks.observe import LATE, LEFT_WATCHER, observe, observe_memory

N = 100_000  # 800,000 bytes


def later(then) -> None:
    """Have this called at the next garbage collection."""

    class Late:
        def __init__(self):
            self.me = self

        def __del__(self):
            then()

    Late()


def test_memory_that_a_collection_takes_counts_for_the_peak():
    def puts_off(a):
        later(lambda: [np.ones(N) for _ in range(3)])
        return a + 1

    seen = observe_memory(puts_off, np.ones(N))
    assert seen.error is None and 24 * N <= seen.peak_bytes < 34 * N
    assert observe_memory(lambda a: a + 1, np.ones(N)).peak_bytes < 9 * N


@pytest.mark.parametrize("how", ["a ring with a __del__", "a callback", "a finalizer"])
def test_a_value_that_is_filled_by_a_collection_is_none(how):
    def fills_late(a):
        out = np.zeros_like(a)

        def fill(*_):
            if fill in gc.callbacks:
                gc.callbacks.remove(fill)
            out[:] = a

        if how == "a callback":
            gc.callbacks.append(fill)
        elif how == "a finalizer":
            ring = type("Ring", (), {})()
            ring.me = ring
            weakref.finalize(ring, fill)
        else:
            later(fill)
        return [out, None]

    assert observe_memory(fills_late, np.ones(N)).error.message == LATE


def test_a_result_with_nan_and_nothing_put_off_is_as_it_was():
    def honest(a):
        ring = [a]
        ring.append(ring)
        return [np.full(3, np.nan), None, (a[:2] * 2, 1.5)]

    seen = observe_memory(honest, np.ones(N))
    assert seen.error is None and len(seen.value) == 3


@pytest.mark.parametrize(
    "place, name", [(sys, "setprofile"), (sys, "settrace"), (threading, "setprofile")]
)
def test_a_watcher_that_is_left_behind_is_told(place, name):
    leave = getattr(place, name)
    before = getattr(place, name.replace("set", "get"))()  # a coverage run has one

    def leaves(a):
        leave(lambda frame, event, arg: None)
        return a + 1

    try:
        seen = observe_memory(leaves, np.ones(N))
    finally:
        leave(before)
    assert seen.error.message == LEFT_WATCHER


def test_whoever_looks_from_outside_is_told_when_a_call_begins_and_ends(monkeypatch):
    """Also where it raises; and what it takes itself is not the answer's."""
    moments, kept = [], []

    def announce(moment):
        moments.append(moment)
        kept.append(np.ones(N))
        np.ones(4 * N)

    monkeypatch.setattr(observing, "ANNOUNCE", [announce])
    seen = observe_memory(lambda a: a[:1] + 1, np.ones(N))
    assert moments == ["begins", "ends"] and seen.peak_bytes < 9 * N
    assert observe_memory(lambda a: a + "x", np.ones(3)).error and moments[2:] == ["begins", "ends"]


def test_an_answer_that_calls_another_exercises_stub_is_not_one_itself():
    """Else who has done the later exercise, and not the earlier, is told that nothing was written."""

    def largest_tile(capacity):
        raise NotImplementedError

    def tiled(a):
        return a * largest_tile(len(a))

    own = observe(largest_tile, 3).error
    assert (own.kind, own.message) == ("NotImplementedError", "")
    called = observe(tiled, np.ones(3)).error
    assert "`largest_tile`, which it calls, is still a stub" in called.message
    verdict = judge_observation(find_exercise("6.3"), None, Observation(error=called))
    assert (verdict.status, verdict.cause) == (Status.FAILED, "raised an error")
    assert "`largest_tile`, which it calls, is still a stub" in verdict.diagnosis
