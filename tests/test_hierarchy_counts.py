"""Bytes across, bytes alive, and when memory is freed."""

import contextlib
import gc

import numpy as np
import pytest

from course_utils.hierarchy import HBM, SRAM, SRAMOverflow


@pytest.fixture
def hbm():
    return HBM()


@pytest.fixture
def sram(hbm):
    return SRAM(10_000, hbm)


@pytest.fixture
def Q(hbm):
    return hbm.array(np.arange(80.0).reshape(20, 4), "Q")


def test_load_and_store_count_exactly(hbm, sram, Q):
    O = hbm.empty((20, 4), np.float32, "O")
    q = sram.load(Q[3:8, 1:3])
    assert (hbm.bytes_read, hbm.bytes_written, sram.live_bytes) == (80, 0, 80)
    sram.store(O[3:8, 1:3], q.astype(np.float32))
    assert (hbm.bytes_read, hbm.bytes_written, hbm.bytes_moved) == (80, 40, 120)
    assert (Q.bytes_read, Q.bytes_written, O.bytes_read, O.bytes_written) == (80, 0, 0, 40)
    np.testing.assert_array_equal(O.numpy()[3:8, 1:3], Q.numpy()[3:8, 1:3])
    assert np.isnan(O.numpy()).sum() == 70


def test_a_load_is_a_copy_and_an_array_is_one(hbm, sram):
    plain = np.zeros(4)
    A = hbm.array(plain)
    plain[:] = 1
    a = sram.load(A)
    a += 5
    assert A.numpy().tolist() == [0, 0, 0, 0]
    sram.store(A, a)
    assert A.numpy().tolist() == [5, 5, 5, 5] and plain.tolist() == [1, 1, 1, 1]


def test_slices_of_hbm_are_free_and_know_where_they_are(hbm, Q):
    part = Q[2:12][1:5, ::-1]
    assert (part.shape, part.ndim, part.size, part.nbytes, len(part)) == ((4, 4), 2, 16, 128, 4)
    assert part.dtype == np.float64 and part.name == "Q" and part.hbm is hbm
    assert part.box == ((3, 7), (0, 4)) and str(part) == "Q[3:7, 0:4]"
    assert Q[5].box == ((5, 6), (0, 4)) and Q[5, 2].box == ((5, 6), (2, 3)) and Q[5, 2].shape == ()
    assert Q.T[1:3].box == ((0, 20), (1, 3)) and Q[4:4].box == ((0, 0), (0, 0))
    assert Q[None, -1, ...].shape == (1, 4) and [row.shape for row in Q[:2]] == [(4,), (4,)]
    assert hbm.bytes_moved == 0 and "off chip" in repr(part)
    with pytest.raises(IndexError):
        Q[20]


def test_a_transposed_slice_loads_transposed(sram, Q):
    q = sram.load(Q[2:5].T)
    assert q.shape == (4, 3) and float(q[1, 0]) == 9.0


def test_hbm_counts_what_its_arrays_take(hbm, Q):
    S = hbm.zeros((100, 10))
    assert hbm.live_bytes == 640 + 8000
    del S
    assert hbm.live_bytes == 640 and hbm.peak_bytes == 8640
    kept = hbm.full(8, 2, np.int64)[:2]
    assert hbm.live_bytes == 704 and kept.numpy().tolist() == [2, 2]


def test_a_single_number_can_be_stored_to_a_single_element(hbm, sram, Q):
    O = hbm.empty(3)
    sram.store(O[1], sram.load(Q[2]).sum())
    assert O.numpy()[1] == 38 and hbm.bytes_written == 8


def test_memory_made_on_chip_counts(sram):
    made = [sram.zeros((2, 3)), sram.full(4, 2.5, np.float32), sram.empty(5), sram.arange(10)]
    assert sram.live_bytes == 48 + 16 + 40 + 80
    assert float(made[1].sum()) == 10.0 and np.isnan(made[2]).all()
    assert sram.arange(2, 9, 3).shape == (3,) and sram.arange(3, dtype=np.int8).nbytes == 3
    assert sram.arange(5, 2).size == 0 and made[3].dtype == np.int64
    assert sram.arange(0, 1, 0.3).shape == np.arange(0, 1, 0.3).shape


def test_memory_goes_with_the_last_reference_and_views_are_references(sram, Q):
    q = sram.load(Q)
    row = q[3]
    del q
    assert sram.live_bytes == 640
    del row
    assert sram.live_bytes == 0 and sram.peak_bytes == 640


def test_rebinding_a_name_frees_the_old_value_after_the_new_one_is_there(sram, Q):
    for _ in range(3):
        q = sram.load(Q)
    assert sram.live_bytes == 640 and sram.peak_bytes == 1280 and q.size == 80


def test_a_ring_of_references_is_garbage_not_an_overflow(hbm):
    sram = SRAM(1000, hbm)
    gc.disable()
    try:
        ring = [sram.zeros(100)]
        ring.append(ring)
        del ring
        assert sram.live_bytes == 800
        assert sram.zeros(100).nbytes == 800
    finally:
        gc.enable()


def test_an_overflow_names_who_asks_and_what_is_there(sram, Q):
    queries = sram.load(Q[2:12])
    scores = queries @ queries.T  # noqa: F841
    running = [sram.zeros(30)]
    with pytest.raises(SRAMOverflow) as caught:
        sram.zeros((100, 12))
    assert str(caught.value) == (
        "zeros needs 9,600 bytes for (100, 12), and of 10,000 only 8,640 are free. On chip: "
        "scores = matmul (10, 10) 800; queries = Q[2:12, 0:4] (10, 4) 320; zeros (30,) 240."
    )
    assert isinstance(caught.value, MemoryError) and len(running) == 1
    with pytest.raises(SRAMOverflow, match=r"^loading Q\[0:20, 0:4\] needs 640 bytes"):
        SRAM(600, sram.hbm).load(Q)


def test_an_overflow_tells_the_largest_of_many_in_few_words(sram):
    kept = [sram.zeros(10 + i) for i in range(30)]
    with pytest.raises(SRAMOverflow) as caught:
        sram.zeros(1000)
    assert "(39,) 312; zeros (38,) 304" in str(caught.value)
    assert "; 25 more, " in str(caught.value) and len(str(caught.value)) < 500 and kept


def test_a_caught_overflow_keeps_nothing_alive(sram):
    tile = sram.zeros(500)
    with contextlib.suppress(SRAMOverflow):
        sram.zeros(5000)
    del tile
    assert sram.live_bytes == 0


def test_an_overflow_in_a_namespace_of_its_own_leaves_its_names(sram):
    names = {}
    program = (
        "tile = sram.zeros(500)\ntry:\n    sram.zeros(5000)\nexcept MemoryError as e: told = str(e)"
    )
    exec(program, {"sram": sram}, names)
    assert names["tile"].size == 500 and "tile = zeros (500,)" in names["told"]


def test_what_fits_exactly_fits(hbm):
    sram = SRAM(800, hbm)
    tile = sram.zeros(100)
    with pytest.raises(SRAMOverflow):
        sram.zeros(1, np.int8)
    assert sram.live_bytes == sram.capacity_bytes == tile.nbytes


def test_a_failed_load_counts_nothing(hbm, Q):
    sram = SRAM(100, hbm)
    with pytest.raises(SRAMOverflow):
        sram.load(Q)
    assert hbm.bytes_read == 0 and sram.live_bytes == 0 and sram.peak_bytes == 0


def test_leaving_the_with_releases_everything(hbm, Q):
    with SRAM(10_000, hbm) as sram:
        q = sram.load(Q)
    assert sram.live_bytes == 0 and sram.peak_bytes == 640
    del q
    assert sram.live_bytes == 0


def test_an_error_in_the_middle_releases_everything_too(hbm, Q):
    with pytest.raises(ZeroDivisionError), SRAM(10_000, hbm) as sram:
        q = sram.load(Q)
        q[0] = 1 / 0
    assert sram.live_bytes == 0 and Q.numpy()[0, 0] == 0


# --- accumulate -----------------------------------------------------------------------------------


@pytest.mark.parametrize("m, n, k", [(5, 4, 3), (1, 1, 1), (300, 50, 7), (3, 5000, 2), (4, 4, 0)])
def test_accumulate_is_a_product_without_a_temporary(m, n, k, hbm):
    rng = np.random.default_rng(0)
    a, b, c = rng.random((m, k)), rng.random((n, k)), rng.random((m, n))
    sram = SRAM(8 * (m * k + k * n + m * n), hbm)
    C = hbm.array(c)
    on_chip_a, on_chip_b, on_chip_c = (
        sram.load(array) for array in (hbm.array(a), hbm.array(b), C)
    )
    assert sram.accumulate(on_chip_c, on_chip_a, on_chip_b.T) is on_chip_c
    sram.store(C, on_chip_c)
    np.testing.assert_allclose(C.numpy(), c + a @ b.T, rtol=1e-13)
    assert sram.peak_bytes == sram.capacity_bytes


def test_accumulate_takes_views_and_vectors(hbm, sram, Q):
    q, out = sram.load(Q), sram.zeros((4, 6))
    sram.accumulate(out.T[2:6, 1:], q[:4, :2], q[5:7, 1:])
    row, column = sram.zeros(4), sram.zeros(20)
    sram.accumulate(row, q[:, 0], q)
    sram.accumulate(column, q, q[0])
    plain = Q.numpy()
    wanted = np.zeros((4, 6))
    wanted.T[2:6, 1:] += plain[:4, :2] @ plain[5:7, 1:]
    for value, right in ((out, wanted), (row, plain[:, 0] @ plain), (column, plain @ plain[0])):
        target = hbm.empty(value.shape)
        sram.store(target, value)
        np.testing.assert_allclose(target.numpy(), right, rtol=1e-14)


def test_accumulate_sums_in_the_accumulators_precision(sram):
    ones = sram.full((1, 3000), 1, np.float16)
    total = sram.zeros((1, 1), np.float32)
    assert float(sram.accumulate(total, ones, ones.T)[0, 0]) == 3000  # float16 can't count so far


def test_accumulate_refuses_shapes_and_overlaps(sram):
    a, c = sram.zeros((3, 3)), sram.zeros((3, 3))
    for total, left, right in ((c[:2], a, a), (c, a[:, :2], a), (c[0], a[0], a[0]), (c, a, a[0])):
        with pytest.raises(ValueError, match="does not give"):
            sram.accumulate(total, left, right)
    with pytest.raises(ValueError, match="overlap"):
        sram.accumulate(a, a.T, c)


# --- events ---------------------------------------------------------------------------------------


def test_events_tell_which_tile_is_where_and_when(hbm, Q):
    O = hbm.empty((20, 4), name="O")
    with SRAM(10_000, hbm, record=True) as sram:
        q = sram.load(Q[4:8])
        q2 = q * 2
        sram.store(O[4:8], q2)
        del q
    told = [(e.kind, e.block, e.name, e.box, e.nbytes, e.live_bytes) for e in sram.events]
    tile = ((4, 8), (0, 4))
    assert told == [
        ("load", 0, "Q", tile, 128, 128),
        ("allocate", 1, "multiply", (), 128, 256),
        ("store", 1, "O", tile, 128, 256),
        ("free", 0, "Q", tile, 128, 128),
        ("free", 1, "multiply", (), 128, 0),
    ]
    assert all(event.shape == (4, 4) for event in sram.events) and q2.shape == (4, 4)


def test_nothing_is_recorded_unless_asked(sram, Q):
    sram.load(Q)
    assert sram.events == ()


def test_a_tile_on_chip_does_not_keep_its_array_in_hbm():
    hbm = HBM()
    S = hbm.zeros(1000, name="S")
    with SRAM(1000, hbm, record=True) as sram:
        tile = sram.load(S[0:10])
        del S
        assert hbm.live_bytes == 0 and sram.live_bytes == 80
        del tile
        assert [(e.kind, e.name, e.box) for e in sram.events][-1] == ("free", "S", ((0, 10),))
