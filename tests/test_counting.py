"""Every way to write a matrix product is counted once, and computes what it did."""

import gc

import numpy as np
import pytest

from course_utils.counting import CountedArray, count_matmuls, counted

rng = np.random.default_rng(0)
A, B = rng.standard_normal((5, 3)), rng.standard_normal((3, 4))

WAYS = {
    "@": lambda a, b: a @ b,
    "np.matmul": np.matmul,
    "np.dot": np.dot,
    ".dot": lambda a, b: a.dot(b),
    "np.inner": lambda a, b: np.inner(a, b.T),
    "np.einsum": lambda a, b: np.einsum("ij,jk->ik", a, b),
    "np.einsum, implicit": lambda a, b: np.einsum("ij, jk", a, b),
    "np.einsum, optimized": lambda a, b: np.einsum("ij,jk->ik", a, b, optimize=True),
    "np.einsum, dots": lambda a, b: np.einsum("...j,jk->...k", a, b),
    "np.einsum, dots implicit": lambda a, b: np.einsum("...j,jk", a, b),
    "np.einsum, numbers": lambda a, b: np.einsum(a, [0, 1], b, [1, 2], [0, 2]),
    "np.einsum, numbers implicit": lambda a, b: np.einsum(a, [0, 1], b, [1, 2]),
    "np.einsum, numbers and dots": lambda a, b: np.einsum(a, [..., 1], b, [1, 2], [..., 2]),
    "np.tensordot": lambda a, b: np.tensordot(a, b, axes=1),
    "np.tensordot, axes": lambda a, b: np.tensordot(a, b, axes=([1], [0])),
    "np.linalg.matmul": np.linalg.matmul,
    "np.linalg.multi_dot": lambda a, b: np.linalg.multi_dot([a, b]),
    "out=": lambda a, b: np.matmul(a, b, out=counted(np.empty((5, 4)))),
    "dot, out=": lambda a, b: np.dot(a, b, out=counted(np.empty((5, 4)))),
    "a view": lambda a, b: a[:] @ b.T.T,
    "a stack": lambda a, b: (a[None] @ b[None])[0],
}


EACH_WAY = [
    (name, counted_ones)
    for name in WAYS
    for counted_ones in ("both", "first", "second")
    if (name, counted_ones) != (".dot", "second")  # a plain array's own method asks nobody
]


@pytest.mark.parametrize(("name", "counted_ones"), EACH_WAY)
def test_each_way_counts_once(name, counted_ones):
    way = WAYS[name]
    a = counted(A) if counted_ones != "second" else A
    b = counted(B) if counted_ones != "first" else B
    with count_matmuls() as count:
        product = way(a, b)
    assert (count.matmuls, count.flops) == (1, 2 * 5 * 3 * 4)
    assert isinstance(product, CountedArray)
    np.testing.assert_allclose(np.asarray(product), A @ B, rtol=1e-12)


@pytest.mark.parametrize(
    "product, flops",
    [
        (lambda a: np.vdot(a, a), 30),
        (lambda a: np.vecdot(a, a), 30),
        (lambda a: a @ a[0], 30),
        (lambda a: np.matvec(a, a[0]), 30),
        (lambda a: np.vecmat(a[:, 0], a), 30),
        (lambda a: np.einsum("ij,ij->", a, a), 30),
        (lambda a: np.tensordot(a, a), 30),
    ],
)
def test_vectors_count_by_their_numbers(product, flops):
    with count_matmuls() as count:
        product(counted(A))
    assert (count.matmuls, count.flops) == (1, flops)


@pytest.mark.parametrize(
    "other",
    [
        lambda a: 2.0 * a + a,
        lambda a: np.sum(a),
        lambda a: np.einsum("ij,ij->ij", a, a),
        lambda a: np.einsum("ij->i", a),
        lambda a: np.dot(a, 2.0),
        lambda a: np.zeros_like(a),
        lambda a: np.tanh(a.T).copy(),
    ],
)
def test_what_is_no_product_is_not_counted(other):
    with count_matmuls() as count:
        result = other(counted(A))
    assert (count.matmuls, count.flops) == (0, 0)
    np.testing.assert_allclose(np.asarray(result), other(A))


def test_results_stay_counted_and_in_place_too():
    x = counted(A)
    total = np.zeros_like(x)
    total += 1.0 * np.full_like(x, 3.0)
    assert all(type(array) is CountedArray for array in (total, x.T, x[1:], np.tanh(x), x.copy()))
    with count_matmuls() as count:
        total.T @ x
    assert count.matmuls == 1


def test_counts_nest_and_end():
    x = counted(A)
    with count_matmuls() as outer:
        x @ x.T
        with count_matmuls() as inner:
            x.T @ x
    x @ x.T
    assert (outer.matmuls, inner.matmuls) == (2, 1)


def test_a_count_ends_when_its_block_raises():
    with pytest.raises(ValueError), count_matmuls() as count:
        counted(A) @ counted(A)
    counted(A) @ counted(B)
    assert count.matmuls == 0


def test_counted_shares_the_numbers_and_asarray_leads_back():
    numbers = A.copy()
    x = counted(numbers)
    x[0, 0] = 7
    assert numbers[0, 0] == 7 and type(np.asarray(x)) is np.ndarray


def test_functions_that_return_several_arrays():
    fraction, whole = np.modf(counted(A))
    assert type(fraction) is type(whole) is CountedArray
    np.testing.assert_allclose(np.asarray(fraction + whole), A)


def test_nothing_is_kept():
    gc.collect()
    with count_matmuls() as count:
        product = counted(A) @ B
    assert not [x for x in gc.get_referrers(product) if isinstance(x, type(count))]
