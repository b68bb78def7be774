"""Tiles of a matrix in a GPU's memory: where they lie, and how they are loaded and stored.

A Triton program handles whole tiles of (rows, columns), their sizes powers of two. What lies in memory is
a matrix (N, D) of one head, with strides of its own. These helpers take the one to the other; they are
all that the three kernels share, so that a kernel itself shows the algorithm only.

A tile that hangs over the matrix needs a mask, and a mask costs time. So each is a constant at compile
time, and a kernel whose sizes fit is compiled without it.
"""

from course_utils.triton_here import tl, triton

__all__ = ["head_of", "load_tile", "store_tile"]


@triton.jit
def head_of(pointer, strides, head, heads):
    """Where the matrix (N, D) of a head begins, the heads counted through all batch elements.

    In 64 bits: a tensor may have more than 2**31 numbers.
    """
    in_batch, in_heads = (head // heads).to(tl.int64), (head % heads).to(tl.int64)
    return pointer + in_batch * strides[0] + in_heads * strides[1]


@triton.jit
def _tile(pointer, strides, first_row, rows: tl.constexpr, columns: tl.constexpr):
    """Where a tile's numbers lie.

    Its first row is found in 64 bits. Within the tile 32 bits do, or as many as a stride itself takes: rows of one
    head lie less than 2**31 / rows numbers apart, so less than 2**23 is always right (columns likewise).
    """
    start = pointer + tl.cast(first_row, tl.int64) * strides[2]
    row, column = tl.arange(0, rows)[:, None], tl.arange(0, columns)[None, :]
    return start + row * strides[2] + column * strides[3]  # (rows, columns) of pointers


@triton.jit
def load_tile(
    pointer,
    strides,
    first_row,
    n_rows,
    d: tl.constexpr,
    rows: tl.constexpr,
    columns: tl.constexpr,
    mask_rows: tl.constexpr,
):
    """Rows first_row to first_row + rows, all d columns; zeros where the tile hangs over."""
    at = _tile(pointer, strides, first_row, rows, columns)
    row = first_row + tl.arange(0, rows)[:, None]
    column = tl.arange(0, columns)[None, :]
    if mask_rows and d < columns:
        tile = tl.load(at, mask=(row < n_rows) & (column < d), other=0.0)
    elif mask_rows:
        tile = tl.load(at, mask=row < n_rows, other=0.0)
    elif d < columns:
        tile = tl.load(at, mask=column < d, other=0.0)
    else:
        tile = tl.load(at)
    return tile  # (rows, columns)


@triton.jit
def store_tile(
    pointer,
    strides,
    first_row,
    n_rows,
    d: tl.constexpr,
    tile,
    rows: tl.constexpr,
    columns: tl.constexpr,
):
    """Store what of a tile (rows, columns) lies in the matrix, in the matrix's own type."""
    at = _tile(pointer, strides, first_row, rows, columns)
    row = first_row + tl.arange(0, rows)[:, None]
    column = tl.arange(0, columns)[None, :]
    tl.store(at, tile.to(pointer.dtype.element_ty), mask=(row < n_rows) & (column < d))
