"""What programs do with NumPy, on chip: the same values as off it, and every value counted.

Each line of the tables is run twice, on plain arrays and on chip. The bytes that it leaves behind must
be those of its result's own memory: none for a view, all of it for anything new.
"""

import copy
import math

import numpy as np
import pytest

from course_utils.hierarchy import HBM, SRAM, OnChip, SRAMOverflow
from course_utils.hierarchy.memory import owner_of
from course_utils.hierarchy.numpys import FUNCTIONS

ROWS, COLUMNS = 12, 10

VALUES = {
    "ufunc": lambda x, y, mask: np.exp(x),
    "operators": lambda x, y, mask: 2 * x - y / 3 + x**2 - (-y) % 5 + abs(x),
    "numpy number on the left": lambda x, y, mask: np.float64(2) * x,
    "comparison": lambda x, y, mask: (x > y) & ~(x == 0) | (y >= 0.5),
    "maximum": lambda x, y, mask: np.maximum(x, y),
    "broadcasting": lambda x, y, mask: x - x.max(axis=1)[:, None] + y[0],
    "matmul": lambda x, y, mask: x @ y.T,
    "matrix and vector": lambda x, y, mask: x @ y[0],
    "matmul of strided views": lambda x, y, mask: x[::2, ::3] @ y[1::2, ::3].T,
    "np.dot": lambda x, y, mask: np.dot(x, y.T),
    "method dot": lambda x, y, mask: x.dot(y.T),
    "outer": lambda x, y, mask: np.outer(x[0], y[0]),
    "ufunc outer": lambda x, y, mask: np.subtract.outer(x[0], y[0]),
    "einsum": lambda x, y, mask: np.einsum("ik,jk->ij", x, y),
    "einsum diagonal": lambda x, y, mask: np.einsum("ii->i", x[:5, :5]),
    "tensordot": lambda x, y, mask: np.tensordot(x, y, axes=([1], [1])),
    "where": lambda x, y, mask: np.where(mask, x, -np.inf),
    "exp where out": lambda x, y, mask: np.exp(x, where=mask, out=np.zeros_like(x)),
    "out=": lambda x, y, mask: np.multiply(x, y, out=np.empty_like(x)),
    "positional out": lambda x, y, mask: np.multiply(x, y, np.empty_like(x)),
    "sum": lambda x, y, mask: x.sum(axis=0),
    "sum keepdims": lambda x, y, mask: x.sum(axis=1, keepdims=True),
    "sum where": lambda x, y, mask: x.sum(axis=1, where=mask),
    "np.sum out": lambda x, y, mask: np.sum(x, axis=0, out=np.empty_like(x[0])),
    "max with initial": lambda x, y, mask: x.max(axis=1, initial=0.5),
    "mean": lambda x, y, mask: x.mean(axis=0),
    "reduce": lambda x, y, mask: np.logaddexp.reduce(x, axis=1),
    "accumulate": lambda x, y, mask: np.maximum.accumulate(x, axis=1),
    "argmax": lambda x, y, mask: x.argmax(axis=1),
    "any": lambda x, y, mask: mask.any(axis=0),
    "cumsum": lambda x, y, mask: np.cumsum(x, axis=1),
    "slice": lambda x, y, mask: x[2:7, ::2],
    "slice of a slice": lambda x, y, mask: x[2:9][1:4][:, 3:5],
    "row": lambda x, y, mask: x[3],
    "last row": lambda x, y, mask: x[-1],
    "newaxis": lambda x, y, mask: x[:, None, :],
    "ellipsis": lambda x, y, mask: x[..., 0],
    "zero dimensions": lambda x, y, mask: x[1, 1, ...],
    "fancy list": lambda x, y, mask: x[[0, 3, 3]],
    "fancy small plain": lambda x, y, mask: x[np.array([0, 3])],
    "fancy on chip": lambda x, y, mask: x[x.argmax(axis=0)],
    "boolean mask": lambda x, y, mask: x[mask],
    "take": lambda x, y, mask: np.take(x, [1, 2], axis=1),
    "take_along_axis": lambda x, y, mask: np.take_along_axis(x, x.argsort(axis=1), axis=1),
    "transposed": lambda x, y, mask: x.T,
    "np.transpose": lambda x, y, mask: np.transpose(x, (1, 0)),
    "swapaxes": lambda x, y, mask: x.swapaxes(0, 1),
    "reshape view": lambda x, y, mask: x.reshape(-1),
    "reshape copy": lambda x, y, mask: x.T.reshape(-1),
    "np.reshape": lambda x, y, mask: np.reshape(x, (2, -1)),
    "ravel": lambda x, y, mask: x.ravel(),
    "flatten": lambda x, y, mask: x.flatten(),
    "squeeze": lambda x, y, mask: x[:1].squeeze(),
    "broadcast_to": lambda x, y, mask: np.broadcast_to(x[0], (4, COLUMNS)),
    "flip": lambda x, y, mask: np.flip(x, axis=0),
    "diagonal": lambda x, y, mask: x.diagonal(),
    "concatenate": lambda x, y, mask: np.concatenate([x, y, x[:1]]),
    "concatenate tuple axis": lambda x, y, mask: np.concatenate((x, y), axis=1),
    "concatenate many": lambda x, y, mask: np.concatenate([x[i : i + 1] for i in range(12)] * 6),
    "stack": lambda x, y, mask: np.stack([x, y], axis=1),
    "hstack": lambda x, y, mask: np.hstack([x, y]),
    "block": lambda x, y, mask: np.block([[x, y], [y, x]]),
    "tril": lambda x, y, mask: np.tril(x),
    "copy": lambda x, y, mask: x.copy(),
    "np.copy": lambda x, y, mask: np.copy(x[:, 1]),
    "copy.copy": lambda x, y, mask: copy.copy(x),
    "deepcopy": lambda x, y, mask: copy.deepcopy(x),
    "astype": lambda x, y, mask: x.astype(np.float32),
    "astype no copy": lambda x, y, mask: x.astype(x.dtype, copy=False),
    "zeros_like": lambda x, y, mask: np.zeros_like(x),
    "full_like": lambda x, y, mask: np.full_like(x[0], -np.inf),
    "clip": lambda x, y, mask: np.clip(x, 0.2, 0.8),
    "method clip": lambda x, y, mask: x.clip(0.2, 0.8),
    "sort": lambda x, y, mask: np.sort(x, axis=0),
    "plain small array": lambda x, y, mask: x + np.arange(COLUMNS),
    "plain small list": lambda x, y, mask: x[:, :3] * [1, 2, 3],
    "norm": lambda x, y, mask: np.linalg.norm(x, axis=1),
    "sum of a list": lambda x, y, mask: sum([x, y, x]),
    "first of divmod": lambda x, y, mask: divmod(x, 0.3)[0],
    "frexp's second": lambda x, y, mask: np.frexp(x)[1],
    "first of split": lambda x, y, mask: np.split(x, 3)[0],
    "first of nonzero": lambda x, y, mask: np.nonzero(x > 0.5)[0],
    "first row of many": lambda x, y, mask: next(iter(x)),
    "empty slice": lambda x, y, mask: x[5:5] * 2,
}

NUMBERS = {
    "sum": lambda x, y, mask: x.sum(),
    "np.max": lambda x, y, mask: np.max(x),
    "element": lambda x, y, mask: x[2, 3],
    "item": lambda x, y, mask: x[2, 3:4].item(),
    "float": lambda x, y, mask: float(x[2, 3:4][0]),
    "int": lambda x, y, mask: int(x[0, :1].argmax()),
    "vector product": lambda x, y, mask: x[0] @ y[0],
    "einsum": lambda x, y, mask: np.einsum("ij,ij", x, y),
    "math": lambda x, y, mask: math.exp(x[0, 0]),
    "truth": lambda x, y, mask: bool((x >= 0).all()),
    "builtin max": lambda x, y, mask: max(x[0]),
    "length": lambda x, y, mask: len(x),
    "shape": lambda x, y, mask: np.shape(x) + x.shape + (x.ndim, x.size, x.nbytes, x.itemsize),
    "allclose": lambda x, y, mask: np.allclose(x, y),
    "format": lambda x, y, mask: f"{x[0, 0]:.3f}",
}


def in_place_operators(x, y, mask):
    x += y
    x *= 2
    x /= y + 1
    x -= 0.5
    x[2:4] += 1
    x[0] *= y[1]
    x[:, 1] = y[:, 2]
    return x


def assignments(x, y, mask):
    x[mask] = -1
    x[[0, 1]] = y[[1, 0]]
    x[3:5, 2:4] = [[1, 2], [3, 4]]
    x[y > 0.5] = y[y > 0.5]
    x[...] = x[::-1]
    return x


def writing_functions(x, y, mask):
    np.copyto(x, y, where=mask)
    np.add.at(x, [0, 0, 1], 1.0)
    np.putmask(x, mask, 3.0)
    np.fill_diagonal(x, 0)
    x[1].fill(7)
    x[2].sort()
    np.exp(x, out=x, where=mask)
    np.add(x[1:], x[:-1], out=x[1:])
    return x


def softmax(x, y, mask):
    x -= x.max(axis=1, keepdims=True)
    np.exp(x, out=x)
    x /= x.sum(axis=1, keepdims=True)
    return x


IN_PLACE = [in_place_operators, assignments, writing_functions, softmax]


def inputs(dtype):
    rng = np.random.default_rng(0)
    x, y = rng.random((2, ROWS, COLUMNS)).astype(dtype)
    return x, y, rng.random((ROWS, COLUMNS)) < 0.5


@pytest.fixture
def hbm():
    return HBM()


@pytest.fixture
def sram(hbm):
    return SRAM(10**6, hbm)


def on_chip(sram, *arrays):
    return [sram.load(sram.hbm.array(array)) for array in arrays]


def look_at(sram, value: OnChip) -> np.ndarray:
    target = sram.hbm.empty(value.shape, value.dtype)
    sram.store(target, value)
    return target.numpy()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", VALUES)
def test_values_are_numpys_and_their_bytes_are_counted(name, dtype, sram):
    plain = inputs(dtype)
    wanted = np.asarray(VALUES[name](*plain))
    x, y, mask = on_chip(sram, *plain)
    before = sram.live_bytes
    value = VALUES[name](x, y, mask)
    assert isinstance(value, OnChip)
    is_view = any(owner_of(wanted) is owner_of(array) for array in plain)
    assert sram.live_bytes - before == (0 if is_view else owner_of(wanted).nbytes)
    actual = look_at(sram, value)
    assert actual.shape == wanted.shape and actual.dtype == wanted.dtype
    np.testing.assert_array_equal(actual, wanted)
    del value
    assert sram.live_bytes == before
    assert [np.array_equal(look_at(sram, v), p) for v, p in zip((x, y, mask), plain)] == [True] * 3


@pytest.mark.parametrize("name", NUMBERS)
def test_a_single_number_is_in_a_register(name, sram):
    plain = inputs(np.float64)
    x, y, mask = on_chip(sram, *plain)
    before = sram.live_bytes
    assert NUMBERS[name](x, y, mask) == NUMBERS[name](*plain)
    assert sram.live_bytes == before


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("function", IN_PLACE, ids=lambda function: function.__name__)
def test_writing_in_place_takes_no_memory(function, dtype, sram):
    plain = inputs(dtype)
    x, y, mask = on_chip(sram, *plain)
    before = sram.live_bytes
    assert function(x, y, mask) is x
    assert sram.live_bytes == before
    np.testing.assert_array_equal(look_at(sram, x), function(*plain))


def test_float16_keeps_its_two_bytes(sram):
    (x,) = on_chip(sram, np.ones((8, 8), np.float16))
    twice = x * 2
    assert twice.dtype == np.float16 and sram.live_bytes == 256


def test_every_temporary_counts_also_those_that_numpy_would_reuse(sram):
    n = 256 * 256  # of 512 KiB each: NumPy elides temporaries of this size, where it can
    a, b = on_chip(sram := SRAM(10 * 8 * n, HBM()), np.ones((256, 256)), np.ones((256, 256)))
    c = a * b + a - b
    assert sram.live_bytes == 3 * 8 * n
    assert sram.peak_bytes == 4 * 8 * n  # a, b, and while one temporary is made, the one before
    del c


def test_an_operation_that_does_not_fit_raises_there_and_changes_nothing(hbm):
    sram = SRAM(3000, hbm)
    x = sram.load(hbm.array(np.ones((10, 10))))
    y = sram.load(hbm.array(np.ones((10, 10))))
    with pytest.raises(SRAMOverflow):
        x * y + 1  # the product fits, the sum does not
    assert sram.live_bytes == 1600 and sram.peak_bytes == 2400
    z = x * y
    z += 1
    with pytest.raises(MemoryError):
        np.concatenate([x, y])
    assert sram.live_bytes == 2400 and sram.peak_bytes == 2400


@pytest.mark.parametrize(
    "broken",
    [
        lambda x: x @ x,
        lambda x: x + x[:3],
        lambda x: x.reshape(7),
        lambda x: np.concatenate([x, x[0]]),
        lambda x: x[99],
        lambda x: np.exp(x, out=x[:2]),
        lambda x: x.sum(axis=5),
        lambda x: np.einsum("ij,kl->im", x, x),
        lambda x: bool(x),
    ],
)
def test_numpys_own_errors_pass_through_and_leave_the_counts_right(broken, sram):
    (x,) = on_chip(sram, np.ones((ROWS, COLUMNS)))
    before = sram.live_bytes
    with pytest.raises((ValueError, IndexError)):
        broken(x)
    assert sram.live_bytes == before


def test_listed_names_are_numpys():
    assert len(FUNCTIONS) > 90 and all(callable(function) for function in FUNCTIONS)


def test_it_prints_as_numpy_does(sram):
    x, _, _ = on_chip(sram, *inputs(np.float64))
    assert repr(sram.zeros(2)) == "on_chip([0., 0.])"
    assert str(x[:2, :2]) == repr(x[:2, :2])


def test_what_is_known_of_an_array_off_chip_without_loading_it():
    hbm = HBM()
    A = hbm.array(np.ones((3, 5), np.float32), "A")
    assert (np.shape(A), np.ndim(A), np.size(A), A.itemsize) == ((3, 5), 2, 15, 4)
    assert A.transpose().shape == A.T.shape == (5, 3)
    assert hbm.bytes_read == 0


def test_a_single_number_can_be_stored_to_any_slice_of_one_element():
    hbm = HBM()
    C = hbm.empty((3, 4))
    with SRAM(1000, hbm) as sram:
        sram.store(C[1:2, 2:3], sram.arange(4).sum())
        sram.store(C[0, 0], 1.5)
    assert (C.numpy()[1, 2], C.numpy()[0, 0], hbm.bytes_written) == (6, 1.5, 16)


def test_twins_of_known_names_are_known():
    hbm = HBM()
    A = hbm.array(np.arange(12.0).reshape(3, 4))
    with SRAM(10_000, hbm) as sram:
        a = sram.load(A)
        assert np.linalg.matmul(a, np.matrix_transpose(a)).shape == (3, 3) == (a @ a.mT).shape
        assert float(np.linalg.vector_norm(a[0])) == 14**0.5
        assert np.cumulative_sum(a[0]).shape == (4,)
        filled = sram.zeros((3, 3))
        np.fill_diagonal(a=filled, val=2)
        assert filled.sum() == 6
