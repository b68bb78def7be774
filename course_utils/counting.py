"""Counting matrix products, wherever and however they are written.

What rematerialization pays with is work done twice, and on a chain of layers the work is matrix
products. A `CountedArray` is an ordinary array that reports each product it takes part in: `@`,
np.matmul, np.dot, .dot, np.inner, np.vdot, np.einsum, np.tensordot. What is computed from a counted
array is counted as well, so it is enough to begin with counted inputs. `np.asarray` leads back to a plain
array, which reports nothing: this is a count among friends.

    x = counted(np.ones((4, 3)))
    with count_matmuls() as count:
        x @ x.T
    count.matmuls, count.flops      # 1, 96
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

_open: list["Count"] = []  # every count that is running
_PRODUCT_UFUNCS = {np.matmul, np.vecdot, np.matvec, np.vecmat}
_PRODUCT_FUNCTIONS = {np.dot, np.inner, np.vdot, np.einsum, np.tensordot}


class Count:
    """What was multiplied while the count ran.

    matmuls: calls of a product, whatever their sizes.
    flops: multiplications and additions, 2 B N M for (B, N) times (N, M).
    """

    def __init__(self):
        self.matmuls = 0
        self.flops = 0


@contextmanager
def count_matmuls() -> Iterator[Count]:
    """Count the products of counted arrays in a block. Counts may be nested."""
    count = Count()
    _open.append(count)
    try:
        yield count
    finally:
        _open.remove(count)


def counted(array) -> "CountedArray":
    """The same numbers, without a copy, as an array whose products are counted."""
    return np.asarray(array).view(CountedArray)


class CountedArray(np.ndarray):
    """An array whose matrix products are counted. Results of computing with it are counted arrays."""

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **options):
        inputs = _plain(inputs)
        if out is not None:
            options["out"] = _plain(out)
        result = getattr(ufunc, method)(*inputs, **options)
        if ufunc in _PRODUCT_UFUNCS:
            summed = np.shape(inputs[0])[-1]  # numbers for each number of the result
            _report(2 * np.size(result) * summed)
        if out is not None:
            return out[0] if len(out) == 1 else out
        return _counted(result)

    def __array_function__(self, function, types, args, options):
        if function not in _PRODUCT_FUNCTIONS:
            return super().__array_function__(function, types, args, options)
        out = options.get("out")
        plain_args, plain_options = _plain(args), {k: _plain(v) for k, v in options.items()}
        result = function(*plain_args, **plain_options)
        if flops := _function_flops(function, result, plain_args, plain_options):
            _report(flops)
        return _counted(result) if out is None else out

    def dot(self, other, out=None):
        return np.dot(self, other) if out is None else np.dot(self, other, out=out)


def _report(flops: int) -> None:
    for count in _open:
        count.matmuls += 1
        count.flops += int(flops)


def _plain(value):
    """The same without counted arrays, inside tuples and lists as well. Nothing is copied."""
    if isinstance(value, CountedArray):
        return value.view(np.ndarray)
    if type(value) in (tuple, list):
        return type(value)(map(_plain, value))
    return value


def _counted(value):
    if type(value) is np.ndarray:
        return value.view(CountedArray)
    return tuple(map(_counted, value)) if isinstance(value, tuple) else value


def _function_flops(function: Callable, result, args: tuple, options: dict) -> int:
    """2 times the multiplications. 0: nothing is summed, so it is no matrix product."""
    if function is np.einsum:
        return _einsum_flops(*args)
    a, b = np.asarray(args[0]), np.asarray(args[1])
    if function is np.tensordot:
        axes = args[2] if len(args) > 2 else options.get("axes", 2)
        ours = range(a.ndim - axes, a.ndim) if isinstance(axes, int) else np.atleast_1d(axes[0])
        return 2 * np.size(result) * int(np.prod([a.shape[axis] for axis in ours]))
    if function is np.vdot:
        return 2 * a.size
    if not a.ndim or not b.ndim:  # np.dot and np.inner with a number only scale
        return 0
    return 2 * np.size(result) * a.shape[-1]


def _einsum_flops(*args) -> int:
    """2 times the product of all indices' sizes, where there are two factors and an index is summed."""
    if isinstance(args[0], str):
        terms, arrow, output = args[0].replace(" ", "").partition("->")
        terms, operands = terms.split(","), args[1:]
    else:  # einsum(a, [0, 1], b, [1, 2], [0, 2])
        operands, lists, arrow = args[: len(args) // 2 * 2 : 2], args[1::2], len(args) % 2
        terms = ["".join(map(_letter, indices)) for indices in lists]
        output = "".join(map(_letter, args[-1])) if arrow else ""
    sizes, seen = {}, ""
    for term, operand in zip(terms, operands):
        named = term.replace("...", "")
        broadcast = "".join(map(str, range(np.ndim(operand) - len(named))[::-1]))
        for index, size in zip(term.replace("...", broadcast), np.shape(operand)):
            sizes[index] = max(size, sizes.get(index, 1))
        seen += named
    if not arrow:  # einsum's own rule: a letter that occurs once is kept
        output = "".join(index for index in sizes if seen.count(index) == 1)
    summed = [index for index in sizes if index.isalpha() and index not in output]
    return 2 * int(np.prod(list(sizes.values()))) if len(terms) > 1 and summed else 0


def _letter(index) -> str:
    return "..." if index is Ellipsis else chr(ord("a") + index)
