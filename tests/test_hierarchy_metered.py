"""A run under both meters: what the two-level memory says, and what Python really took."""

import tracemalloc

import numpy as np
import pytest

from course_utils.hierarchy import (
    HBM,
    SRAM,
    UNSEEN_TOLERANCE_BYTES,
    Released,
    SRAMOverflow,
    run_metered,
)
from course_utils.tracing import PEAK_TOLERANCE_BYTES

PLAIN = np.ones((16, 16))


@pytest.fixture
def hbm():
    return HBM()


@pytest.fixture
def Q(hbm):
    return hbm.array(PLAIN, "Q")


def test_a_run_counts_its_own_traffic_and_peak(hbm, Q):
    SRAM(10_000, hbm).load(Q)
    O = hbm.empty((16, 16))

    def program(sram):
        q = sram.load(Q[:8])
        sram.store(O[:8], 2 * q)
        return "done"

    run = run_metered(SRAM(10_000, hbm), program)
    assert (run.value, run.bytes_read, run.bytes_written, run.peak_bytes) == (
        "done",
        1024,
        1024,
        2048,
    )
    assert run.unseen_bytes <= PEAK_TOLERANCE_BYTES


def test_arrays_made_in_hbm_are_accounted_for(hbm):
    run = run_metered(SRAM(10_000, hbm), lambda sram: hbm.zeros((400, 400)).shape)
    assert run.hbm_peak_bytes == 400 * 400 * 8 and run.unseen_bytes <= PEAK_TOLERANCE_BYTES


def test_numbers_kept_off_the_chip_are_seen_by_the_second_meter(hbm):
    S = hbm.array(np.random.default_rng(0).random((200, 200)))

    def hoard(sram):
        rows = []
        for i in range(200):
            rows.append([float(number) for number in sram.load(S[i])])
        return len(rows)

    run = run_metered(SRAM(4000, hbm), hoard)
    assert run.peak_bytes <= 4000 and run.unseen_bytes > 10 * PEAK_TOLERANCE_BYTES


def test_plain_arrays_of_the_programs_own_are_seen(hbm):
    run = run_metered(SRAM(4000, hbm), lambda sram: np.zeros((512, 512)).shape)
    assert run.unseen_bytes > 2_000_000


def test_a_chip_that_was_full_once_hides_no_array_later(hbm):
    def fill_then_hide(sram):
        x = sram.zeros(200_000)
        del x
        hidden = np.zeros(200_000)
        return sram.zeros(10).size + hidden.size

    run = run_metered(SRAM(2_000_000, hbm), fill_then_hide)
    assert run.peak_bytes == 1_600_000 and run.unseen_bytes > 1_500_000


def test_an_error_passes_through_and_closes_both_meters(hbm, Q):
    sram = SRAM(100, hbm)
    with pytest.raises(SRAMOverflow):
        run_metered(sram, lambda sram: sram.load(Q))
    assert sram.live_bytes == 0 and np.array_equal(Q.numpy(), PLAIN)


def test_a_program_cannot_swap_its_chip_for_a_larger_one(hbm, Q):
    def swap(sram):
        sram.close()
        larger = SRAM(10**9, hbm)
        larger.store(Q, larger.load(Q) * 2)

    with pytest.raises(Released):
        run_metered(SRAM(100, hbm), swap)


def test_asking_for_an_arrays_place_costs_no_memory_however_often(Q):
    """Python rebuilt its table of names, a megabyte, every 32,000 times."""
    tracemalloc.start()
    try:
        for _ in range(40_000):
            assert Q.window
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < UNSEEN_TOLERANCE_BYTES
