"""Ways round the memory: refused, each with an error that says what to do."""

import array
import copy
import io
import pickle

import numpy as np
import pytest

from course_utils.hierarchy import HBM, SRAM, Released, SRAMOverflow, WrongMemory

PLAIN = np.ones((16, 16))


@pytest.fixture
def hbm():
    return HBM()


@pytest.fixture
def Q(hbm):
    return hbm.array(PLAIN, "Q")


@pytest.fixture
def sram(hbm):
    return SRAM(100_000, hbm)


@pytest.fixture
def q(sram, Q):
    return sram.load(Q)


def assign(target, key, value):
    target[key] = value


def add_in_place(target, value):
    target += value


OFF_CHIP = {
    "operator": lambda Q: Q + 1,
    "operator, plain first": lambda Q: PLAIN @ Q,
    "in place": lambda Q: add_in_place(Q, 1),
    "in place into plain": lambda Q: add_in_place(PLAIN.copy(), Q),
    "comparison": lambda Q: Q > 0,
    "minus": lambda Q: -Q,
    "ufunc": np.exp,
    "ufunc out": lambda Q: np.exp(PLAIN, out=Q),
    "ufunc at": lambda Q: np.add.at(Q, 0, 1),
    "reduce": lambda Q: np.add.reduce(Q),
    "function": np.sum,
    "where": lambda Q: np.where(Q, 1, 2),
    "concatenate": lambda Q: np.concatenate([Q, Q]),
    "copyto": lambda Q: np.copyto(PLAIN.copy(), Q),
    "save": lambda Q: np.save(io.BytesIO(), Q),
    "asarray": np.asarray,
    "array": np.array,
    "array of a list": lambda Q: np.array([Q, Q]),
    "ascontiguousarray": np.ascontiguousarray,
    "assignment into plain": lambda Q: assign(PLAIN.copy(), slice(0, 16), Q),
    "assignment of rows": lambda Q: assign(PLAIN.copy(), slice(0, 2), [Q[0], Q[1]]),
    "index into plain": lambda Q: PLAIN[Q],
    "float": lambda Q: float(Q[0, 0]),
    "int": lambda Q: int(Q[0, 0]),
    "complex": lambda Q: complex(Q[0, 0]),
    "truth": bool,
    "pickle": pickle.dumps,
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
    "fancy index": lambda Q: Q[[0, 1]],
    "array index": lambda Q: Q[np.array([0, 1])],
    "mask": lambda Q: Q[PLAIN > 0],
    "true": lambda Q: Q[True],
    "assignment": lambda Q: assign(Q, slice(0, 16), PLAIN),
}


@pytest.mark.parametrize("name", OFF_CHIP)
def test_nothing_is_computed_off_chip(name, Q, hbm):
    with pytest.raises(WrongMemory, match="Q lies off chip"):
        OFF_CHIP[name](Q)
    assert hbm.bytes_moved == 0 and hbm.live_bytes == PLAIN.nbytes


@pytest.mark.parametrize(
    "name", ["tolist", "base", "data", "view", "sum", "tobytes", "flat", "copy"]
)
def test_off_chip_arrays_have_no_methods_of_numpys(name, Q):
    with pytest.raises(AttributeError, match=f"Q lies off chip and has no .{name}: load it first"):
        getattr(Q, name)
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        Q.colour  # noqa: B018


def test_the_buffer_protocol_shows_neither(Q, q):
    for value in (Q, q):
        for open_buffer in (memoryview, np.frombuffer, bytearray, np.nditer):
            with pytest.raises(TypeError):
                open_buffer(value)
        assert not hasattr(value, "__array_interface__") and not hasattr(value, "__dlpack__")
        assert not hasattr(value, "__dict__")


LEAVING = {
    "asarray": np.asarray,
    "array": np.array,
    "array of a list": lambda q: np.array([q, q]),
    "array of rows": lambda q: np.array([row for row in q]),
    "assignment into plain": lambda q: assign(PLAIN.copy(), slice(0, 16), q),
    "assignment of rows": lambda q: assign(PLAIN.copy(), slice(0, 2), [q[0], q[1]]),
    "assignment into small plain": lambda q: assign(np.zeros(16), slice(None), q[0]),
    "flat assignment": lambda q: assign(PLAIN.copy().flat, slice(0, 16), q[0]),
    "put": lambda q: PLAIN.copy().put([0, 1], q[0, :2]),
    "index into plain": lambda q: PLAIN[q > 0],
    "in place into plain": lambda q: add_in_place(PLAIN.copy(), q),
    "in place into small plain": lambda q: add_in_place(np.zeros(16), q[0]),
    "out=": lambda q: np.exp(q, out=PLAIN.copy()),
    "out= small": lambda q: np.exp(q[0], out=np.zeros(16)),
    "function's out=": lambda q: np.sum(q, axis=0, out=np.zeros(16)),
    "method's out=": lambda q: q.sum(axis=0, out=np.zeros(16)),
    "ufunc at": lambda q: np.add.at(np.zeros(16), slice(None), q[0]),
    "copyto": lambda q: np.copyto(np.zeros(16), q[0]),
    "copyto by name": lambda q: np.copyto(dst=np.zeros(16), src=q[0]),
    "putmask": lambda q: np.putmask(np.zeros(16), [True] * 16, q[0]),
    "pickle": pickle.dumps,
    "save": lambda q: np.save(io.BytesIO(), q),
    "savetxt": lambda q: np.savetxt(io.StringIO(), q),
    "rows handed to other code": lambda q: np.apply_along_axis(list, 1, q),
    "back to HBM uncounted": lambda q: q._block.memory.hbm.array(q),
    "objects": lambda q: np.frompyfunc(lambda number: number, 1, 1)(q),
}


@pytest.mark.parametrize("name", LEAVING)
def test_on_chip_values_leave_by_store_only(name, q, sram):
    before = sram.live_bytes
    with pytest.raises(WrongMemory):
        LEAVING[name](q)
    assert sram.live_bytes == before


@pytest.mark.parametrize(
    "name", ["tolist", "base", "data", "view", "tobytes", "flat", "ctypes", "var"]
)
def test_on_chip_values_lack_what_would_take_them_off(name, q):
    with pytest.raises(AttributeError, match=f"no attribute '{name}': the chip"):
        getattr(q, name)
    with pytest.raises(AttributeError, match="no attribute 'colour'$"):
        q.colour  # noqa: B018


BESIDE = {
    "operator": lambda q, plain: q + plain,
    "operator, plain first": lambda q, plain: plain - q,
    "matmul": lambda q, plain: q @ plain,
    "in place": lambda q, plain: add_in_place(q, plain),
    "function": lambda q, plain: np.where(plain > 0, q, 0),
    "function's list": lambda q, plain: np.concatenate([q, plain]),
    "keyword": lambda q, plain: np.exp(q, where=plain > 0, out=q),
    "mask": lambda q, plain: q[plain > 0],
    "assignment": lambda q, plain: assign(q, slice(None), plain),
    "einsum": lambda q, plain: np.einsum("ij,jk", q, plain),
    "nested": lambda q, plain: np.block([[q, plain]]),
    "list of numbers": lambda q, plain: q[:, 0] + list(range(16)) * 5,
    "array.array": lambda q, plain: q[0] + array.array("d", [1.0] * 65),
    "method": lambda q, plain: q.dot(plain),
}


@pytest.mark.parametrize("name", BESIDE)
def test_a_plain_array_of_more_than_64_elements_is_refused_beside_them(name, q):
    with pytest.raises(WrongMemory, match="stands beside on-chip values"):
        BESIDE[name](q, PLAIN)


def test_64_elements_are_let_pass_and_65_are_not(sram):
    assert (sram.zeros(64) + np.ones(64)).sum() == 64
    with pytest.raises(WrongMemory, match="ndarray of 65 elements"):
        sram.zeros(65) + np.ones(65)


def test_off_chip_beside_on_chip_is_refused_either_way_round(q, Q):
    for operation in (lambda: q + Q, lambda: Q + q, lambda: np.maximum(q, Q), lambda: q @ Q.T):
        with pytest.raises(WrongMemory, match="off chip"):
            operation()
    for operation in (lambda: np.where(q > 0, q, Q), lambda: assign(q, 0, Q[0]), lambda: q[Q]):
        with pytest.raises(WrongMemory, match="off chip"):
            operation()


def test_load_takes_slices_of_its_own_hbm_only(sram, q):
    for wrong in (PLAIN, q, 1.0, None, [1.0]):
        with pytest.raises(WrongMemory, match="load takes a slice of an HBM array, not a"):
            sram.load(wrong)
    with pytest.raises(WrongMemory, match="its own HBM; B lies in another"):
        sram.load(HBM().array(PLAIN, "B"))


def test_store_refuses_what_is_not_on_this_chip(hbm, sram, q, Q):
    for wrong in (PLAIN, Q, PLAIN.tolist(), None, 1.0, SRAM(9999, hbm).load(Q)):
        with pytest.raises(WrongMemory, match="that is on this chip"):
            sram.store(Q, wrong)
    for wrong in (PLAIN.copy(), q, HBM().array(PLAIN)):
        with pytest.raises(WrongMemory, match="store writes to"):
            sram.store(wrong, q)
    for wrong in (q[:4], q[0], q.astype(np.float32), q > 0, q[None]):
        with pytest.raises(ValueError, match="both must agree"):
            sram.store(Q, wrong)
    assert hbm.bytes_written == 0


def test_hbm_keeps_numbers_only(hbm):
    for wrong in (np.array([None]), np.array(["text"]), np.ones(2, complex)):
        with pytest.raises(WrongMemory, match="HBM keeps numbers"):
            hbm.array(wrong)


def test_accumulate_refuses_what_is_not_on_this_chip(hbm, sram, q, Q):
    for wrong in (PLAIN, Q, SRAM(9999, hbm).load(Q)):
        for factors in ((wrong, q, q), (q, wrong, q), (q, q, wrong)):
            with pytest.raises(WrongMemory, match="not on this chip"):
                sram.accumulate(*factors)


def test_two_chips_do_not_mix(hbm, q, Q):
    other = SRAM(9999, hbm).load(Q)
    with pytest.raises(WrongMemory, match="two different SRAMs"):
        q + other


def test_inside_a_with_there_is_one_chip_and_no_looking_at_results(hbm, Q):
    with SRAM(1000, hbm) as sram:
        with pytest.raises(WrongMemory, match="only SRAM is open already"):
            SRAM(10**9, hbm)
        with pytest.raises(WrongMemory, match="This SRAM is open already"):
            sram.__enter__()
        with pytest.raises(WrongMemory, match="after the experiment"):
            Q.numpy()
    assert np.array_equal(Q.numpy(), PLAIN)
    with SRAM(1000, hbm), pytest.raises(Released):
        sram.__enter__()
    first, second = SRAM(1000, hbm), SRAM(1000, hbm)
    with first, pytest.raises(WrongMemory, match="Another SRAM is in use"):
        second.__enter__()
    with second:
        pass


def test_a_chip_made_before_or_elsewhere_is_no_way_round(hbm, Q):
    other_hbm = HBM()
    large = SRAM(10**9, other_hbm)
    stored = large.load(other_hbm.array(PLAIN))
    with SRAM(10_000, hbm) as sram:
        q = sram.load(Q)
        for use in (
            lambda: SRAM(10**9, HBM()),
            lambda: large.zeros(4),
            lambda: large.load(other_hbm.array(PLAIN)),
            lambda: large.full(q.shape, q),
            lambda: sram.full(q.shape, stored),
            lambda: sram.full(q.shape, q),
            lambda: sram.store(Q, stored),
        ):
            with pytest.raises(WrongMemory):
                use()
        assert sram.full(3, q[0, 0]).sum() == 3 * PLAIN[0, 0]
    assert large.zeros(4).size == 4  # afterwards it is a toy again


def test_a_released_value_says_so(hbm, Q):
    with SRAM(10_000, hbm) as sram:
        q = sram.load(Q)
        row = q[0]
    uses = [
        lambda: q + 1, lambda: row.sum(), lambda: q[0], lambda: assign(q, 0, 1), lambda: np.exp(row),
        lambda: float(row), lambda: bool(row), lambda: q.copy(), lambda: q @ q, lambda: q.T,
    ]  # fmt: skip
    for use in uses:
        with pytest.raises(Released, match="its SRAM is closed"):
            use()
    for use in (lambda: sram.load(Q), lambda: sram.zeros(3), lambda: sram.arange(3)):
        with pytest.raises(Released, match="closed"):
            use()
    with pytest.raises(Released):
        sram.store(Q, q)
    assert repr(q) == "on_chip(released, shape=(16, 16))" and q.shape == (16, 16)
    sram.close()


def test_an_sram_needs_an_hbm_and_a_capacity(hbm):
    with pytest.raises(TypeError, match="stands beside an HBM"):
        SRAM(1000, 1000)
    for wrong in (-1, float("nan")):
        with pytest.raises(ValueError, match="number of bytes"):
            SRAM(wrong, hbm)


def test_counters_can_only_be_read(hbm, sram):
    for memory, name in ((hbm, "bytes_read"), (hbm, "bytes_written"), (sram, "peak_bytes")):
        with pytest.raises(AttributeError):
            setattr(memory, name, 0)
    with pytest.raises(AttributeError):
        sram.capacity_bytes = 10**9


def test_an_overflow_says_as_data_what_did_not_fit():
    hbm = HBM()
    A = hbm.array(np.ones((20, 10)), "A")
    with SRAM(1000, hbm) as sram:
        with pytest.raises(SRAMOverflow) as loading:
            sram.load(A[0:15])
        assert (loading.value.what, loading.value.shape, loading.value.nbytes) == (
            "loading A[0:15, 0:10]", (15, 10), 1200)  # fmt: skip
        a = sram.load(A[0:10])
        with pytest.raises(SRAMOverflow) as making:
            np.exp(a)
        assert (making.value.what, making.value.shape, making.value.nbytes) == (
            "exp",
            (10, 10),
            800,
        )


def test_no_way_off_by_a_plain_out_by_position(hbm, Q):
    plain = np.zeros((2, 16))
    with SRAM(10_000, hbm) as sram:
        q = sram.load(Q)
        for use in (
            lambda: q[0].take(range(16), 0, plain[0]),
            lambda: np.clip(q[0], 0, 1, plain[0]),
            lambda: q.sum(0, None, plain[0]),
        ):
            with pytest.raises((ValueError, WrongMemory)):
                use()
    assert not plain.any()


def test_no_way_on_by_nested_lists_strange_objects_or_dtypes(hbm, Q):
    class Disguise:
        def __array__(self, dtype=None, copy=None):
            return np.ones(1000)

    with SRAM(10**5, hbm) as sram:
        q = sram.load(Q)
        for use in (
            lambda: sram.zeros((16, 16)) + [[1.0] * 16] * 16,
            lambda: sram.full((40, 40), [[1.0] * 40] * 40),
            lambda: sram.zeros(1000) + Disguise(),
            lambda: sram.empty(1, dtype=object),
            lambda: sram.zeros(3, dtype="S100"),
        ):
            with pytest.raises(WrongMemory):
                use()
        assert (q[0, :3] + [1.0, 2.0, 3.0]).shape == (3,)
