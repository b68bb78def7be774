"""Which of NumPy's functions and methods an on-chip value knows.

A chip has a list of what it can do, and so has this one. It holds what numerical code uses whose memory
is plain to see: a value comes in, a value goes out. Left out is what makes arrays of its own on the way
(`np.var`), hands the raw numbers to other code (`np.apply_along_axis`) or takes them elsewhere
(`np.save`, `.tolist`). Every ufunc is known, from `np.exp` to `np.matmul`, and needs no list.
"""

import numpy as np

_NAMES = """
    sum prod max min amax amin mean any all argmax argmin cumsum cumprod cumulative_sum count_nonzero
    dot vdot inner outer tensordot einsum trace
    where clip round around nan_to_num select choose
    concatenate stack vstack hstack dstack column_stack block append tile repeat pad roll
    reshape ravel transpose matrix_transpose swapaxes moveaxis squeeze expand_dims atleast_1d atleast_2d atleast_3d
    flip fliplr flipud rot90 split array_split vsplit hsplit
    broadcast_to broadcast_arrays meshgrid tril triu diag diagonal diff
    take take_along_axis compress extract nonzero flatnonzero argwhere searchsorted
    sort argsort partition argpartition unique
    copy astype zeros_like ones_like empty_like full_like
    shape ndim size result_type can_cast iscomplexobj isrealobj
    isclose allclose array_equal isneginf isposinf may_share_memory shares_memory
    array_repr array_str array2string
"""
_LINALG_NAMES = "norm vector_norm matmul outer"
_WRITING_NAMES = "copyto put putmask place put_along_axis fill_diagonal"
_METHOD_NAMES = """
    sum prod max min mean any all argmax argmin cumsum cumprod dot trace
    clip round astype copy fill sort argsort partition searchsorted
    reshape ravel flatten transpose swapaxes squeeze repeat take compress nonzero diagonal
    put item
"""

# Functions that write into their first argument: that one must be on chip.
WRITING = frozenset(getattr(np, name) for name in _WRITING_NAMES.split())
FUNCTIONS = WRITING.union(
    (getattr(np, name) for name in _NAMES.split()),
    (getattr(np.linalg, name) for name in _LINALG_NAMES.split()),
)

METHODS = tuple(_METHOD_NAMES.split())
