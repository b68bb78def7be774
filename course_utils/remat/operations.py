"""Operations on real arrays, each with its share backward, for the networks of lesson 04.

What an operation takes must be what its `Operation` says, to the byte, so every function makes its result and
the workspace it declares, and writes the rest in place. Arrays of one number per row are small change.

A `Layer` is an `Operation` with functions: `forward` makes its value from `reads`, and `shares[read]` makes
what flows back to `read` from the layer's own gradient and the values in `backward_reads[read]`. Of a layer
with weights the share writes their gradient, too; `weights_alone` does nothing else.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from course_utils.remat.training import Operation

Function = Callable[..., np.ndarray]


@dataclass(frozen=True)
class Layer:
    """An operation, and the functions that do it."""

    operation: Operation
    forward: Function
    shares: Mapping[str, Function]
    weights_alone: Callable[..., None] | None = None


def dense(x: str, name: str, rows: int, weight: np.ndarray, gradient: np.ndarray) -> Layer:
    """tanh(x W): x is (rows, n), W (n, m). Its share needs x and the output, and as much workspace."""
    nbytes = rows * weight.shape[1] * weight.itemsize

    def forward(x):
        y = x @ weight
        return np.tanh(y, out=y)

    def weights_alone(dy, x, y):
        np.matmul(x.T, _through_tanh(dy, y), out=gradient)

    def share(dy, x, y):
        d_product = _through_tanh(dy, y)
        np.matmul(x.T, d_product, out=gradient)
        return d_product @ weight.T

    operation = Operation(
        2 * rows * weight.size,
        nbytes,
        (x,),
        {x: (x, name)},
        weights=True,
        backward_workspace_bytes={x: nbytes},
    )
    return Layer(operation, forward, {x: share}, weights_alone)


def linear(x: str, rows: int, weight: np.ndarray, gradient: np.ndarray) -> Layer:
    """x W: x is (rows, n), W (n, m)."""

    def weights_alone(dy, x):
        np.matmul(x.T, dy, out=gradient)

    def share(dy, x):
        weights_alone(dy, x)
        return dy @ weight.T

    nbytes = rows * weight.shape[1] * weight.itemsize
    operation = Operation(2 * rows * weight.size, nbytes, (x,), {x: (x,)}, weights=True)
    return Layer(operation, lambda x: x @ weight, {x: share}, weights_alone)


def residual_sum(a: str, b: str, elements: int) -> Layer:
    """a + b: both shares are the sum's own gradient."""
    operation = Operation(elements, 8 * elements, (a, b), {a: (), b: ()}, is_sum=True)
    return Layer(operation, np.add, {})


def tanh(x: str, name: str, elements: int) -> Layer:
    """tanh(x), element by element; its share needs only the output. It stands for GELU, which needs x."""
    operation = Operation(5 * elements, 8 * elements, (x,), {x: (name,)})
    return Layer(operation, np.tanh, {x: _through_tanh})


def pool(x: str, rows: int, width: int) -> Layer:
    """The mean of every four rows: (rows, width) -> (rows / 4, width)."""

    def share(dy):
        out = np.repeat(dy, 4, axis=0)
        out *= 0.25
        return out

    operation = Operation(rows * width, 2 * rows * width, (x,), {x: ()})
    return Layer(operation, lambda x: x.reshape(-1, 4, width).mean(axis=1), {x: share})


def upsample(x: str, rows: int, width: int) -> Layer:
    """Every row four times: (rows, width) -> (4 rows, width)."""
    operation = Operation(4 * rows * width, 32 * rows * width, (x,), {x: ()})
    return Layer(
        operation,
        lambda x: np.repeat(x, 4, axis=0),
        {x: lambda dy: dy.reshape(-1, 4, width).sum(axis=1)},
    )


def layer_norm(x: str, rows: int, width: int) -> Layer:
    """Every row less its mean, over its standard deviation. Its share needs x, and as much workspace."""

    def normalized(x):
        out = x.copy()
        _for_each_row(np.subtract, out, x.mean(axis=1))
        scale = 1 / np.sqrt(np.vecdot(out, out) / width + 1e-5)
        _for_each_row(np.multiply, out, scale)
        return out, scale

    def share(dy, x):
        y, scale = normalized(x)
        out = dy.copy()
        _for_each_row(np.subtract, out, dy.mean(axis=1))
        _for_each_row(np.multiply, y, np.vecdot(dy, y) / width)
        out -= y
        _for_each_row(np.multiply, out, scale)
        return out

    nbytes = 8 * rows * width
    operation = Operation(
        5 * rows * width, nbytes, (x,), {x: (x,)}, backward_workspace_bytes={x: nbytes}
    )
    return Layer(operation, lambda x: normalized(x)[0], {x: share})


def attention_scores(q: str, k: str, rows: int, width: int, heads: int) -> Layer:
    """Q K^T / sqrt(width / heads) for every head: two arrays (rows, width) -> (heads, rows, rows)."""
    columns, scale = _columns(width, heads), (width // heads) ** -0.5

    def forward(q, k):
        out = np.empty((heads, rows, rows))
        for h, c in enumerate(columns):
            np.matmul(q[:, c], k[:, c].T, out=out[h])
        out *= scale
        return out

    def share_q(dy, k):
        out = np.empty_like(k)
        for h, c in enumerate(columns):
            np.matmul(dy[h], k[:, c], out=out[:, c])
        out *= scale
        return out

    def share_k(dy, q):
        out = np.empty_like(q)
        for h, c in enumerate(columns):
            np.matmul(dy[h].T, q[:, c], out=out[:, c])
        out *= scale
        return out

    nbytes = 8 * heads * rows * rows
    operation = Operation(2 * rows * rows * width, nbytes, (q, k), {q: (k,), k: (q,)})
    return Layer(operation, forward, {q: share_q, k: share_k})


def softmax(x: str, name: str, heads: int, rows: int) -> Layer:
    """Softmax of every row of (heads, rows, rows); its share needs only the output."""

    def forward(x):
        out = x.copy()
        _for_each_row(np.subtract, out, x.max(axis=-1))
        np.exp(out, out=out)
        _for_each_row(np.divide, out, out.sum(axis=-1))
        return out

    def share(dy, y):
        out = dy.copy()
        _for_each_row(np.subtract, out, np.vecdot(dy, y))
        out *= y
        return out

    elements = heads * rows * rows
    operation = Operation(5 * elements, 8 * elements, (x,), {x: (name,)})
    return Layer(operation, forward, {x: share})


def attention_output(probs: str, v: str, rows: int, width: int, heads: int) -> Layer:
    """P V for every head: (heads, rows, rows) and (rows, width) -> (rows, width)."""
    columns = _columns(width, heads)

    def forward(probs, v):
        out = np.empty_like(v)
        for h, c in enumerate(columns):
            np.matmul(probs[h], v[:, c], out=out[:, c])
        return out

    def share_probs(dy, v):
        out = np.empty((heads, rows, rows))
        for h, c in enumerate(columns):
            np.matmul(dy[:, c], v[:, c].T, out=out[h])
        return out

    def share_v(dy, probs):
        out = np.empty_like(dy)
        for h, c in enumerate(columns):
            np.matmul(probs[h].T, dy[:, c], out=out[:, c])
        return out

    operation = Operation(
        2 * rows * rows * width, 8 * rows * width, (probs, v), {probs: (v,), v: (probs,)}
    )
    return Layer(operation, forward, {probs: share_probs, v: share_v})


def _through_tanh(dy: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(1 - y^2) dy, in one new array."""
    out = y * y
    np.subtract(1, out, out=out)
    out *= dy
    return out


def _for_each_row(ufunc: np.ufunc, array: np.ndarray, numbers: np.ndarray) -> None:
    """array[row] = ufunc(array[row], numbers[row]). At once, NumPy would take a buffer of 64 KiB for it."""
    for row, number in zip(array.reshape(-1, array.shape[-1]), numbers.ravel()):
        ufunc(row, number, out=row)


def _columns(width: int, heads: int) -> list[slice]:
    size, rest = divmod(width, heads)
    if rest:
        raise ValueError(f"{heads} heads do not share {width} columns equally")
    return [slice(h * size, (h + 1) * size) for h in range(heads)]
