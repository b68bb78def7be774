"""A value on chip: NumPy to the eye, and every value that is made from it is counted too.

An `OnChip` is no ndarray but a handle to one. It passes every operation on to NumPy and makes a handle
of what comes back: a view shares its operand's block and is free, anything else takes a block of its
own, or raises SRAMOverflow. Counted are the values that a program makes, whatever tricks NumPy or the
machine have to reuse memory; so a count is the same everywhere.

Why a handle? A subclass of ndarray could be counted as well, but NumPy copies it into a plain array
(`plain[0:16] = value`) without asking. From a handle NumPy must ask for the numbers, and is refused. What
still can leave uncounted is single numbers (`float(x[0])`), slowly: `run_metered` would see them pile up.
"""

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from course_utils.hierarchy.memory import Block, owner_of
from course_utils.hierarchy.numpys import FUNCTIONS, METHODS, WRITING
from course_utils.hierarchy.offchip import HBMArray
from course_utils.hierarchy.refusals import Released, WrongMemory

_SINGLE = {int, float, bool, slice, type(None), type(...), np.float64, np.float32, np.int64}
PLAIN_LIMIT = 64  # a plain array of up to this many elements may stand beside on-chip values


class OnChip(NDArrayOperatorsMixin):
    """A value in SRAM. Do with it what you would do with a NumPy array; `sram.store` takes it off."""

    __slots__ = ("_block", "_values", "__weakref__")
    __hash__ = None

    def __init__(self, values: np.ndarray, block: Block):
        self._values, self._block = values, block

    shape = property(lambda self: self._values.shape)
    dtype = property(lambda self: self._values.dtype)
    ndim = property(lambda self: self._values.ndim)
    size = property(lambda self: self._values.size)
    itemsize = property(lambda self: self._values.itemsize)
    nbytes = property(
        lambda self: self._values.nbytes, doc="A view's bytes too, though it is free."
    )
    T = property(lambda self: self.transpose())
    mT = property(lambda self: self.swapaxes(-1, -2))

    # --- operations: all of them are `compute` ---------------------------------------------------

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
        if method == "at":
            _must_be_on_chip(inputs[0], name)
        return compute(getattr(ufunc, method), inputs, kwargs, name)

    def __array_function__(self, function, types, args, kwargs):
        name = function.__name__
        if function not in FUNCTIONS:
            raise WrongMemory(
                f"np.{name} is none of the operations of this chip: they are NumPy's ufuncs, and the "
                "functions that course_utils.hierarchy.numpys lists."
            )
        if function in WRITING:
            named = [kwargs[key] for key in ("dst", "a", "arr") if key in kwargs]
            _must_be_on_chip([*args, *named, None][0], f"np.{name}")
        return compute(function, args, kwargs, name)

    def __getitem__(self, key):
        return compute(np.ndarray.__getitem__, (self, key), {}, "index")

    def __setitem__(self, key, value):
        compute(np.ndarray.__setitem__, (self, key, value), {}, "assignment")

    def __getattr__(self, name):
        hint = ": the chip does not have it, or it would take the numbers off chip uncounted"
        known = hint if hasattr(np.ndarray, name) else ""
        raise AttributeError(f"an on-chip value has no attribute {name!r}{known}")

    def __len__(self):
        return len(self._values)

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __copy__(self):
        return self.copy()

    def __deepcopy__(self, memo):
        return self.copy()

    # --- a single number, and a look at the values -----------------------------------------------

    def __bool__(self):
        return bool(raw_operand(self))

    def __float__(self):
        return float(raw_operand(self))

    def __int__(self):
        return int(raw_operand(self))

    def __index__(self):
        return raw_operand(self).__index__()

    def __format__(self, spec):
        return format(raw_operand(self), spec)

    def __repr__(self):
        if self._block.memory._is_closed:
            return f"on_chip(released, shape={self.shape})"
        return f"on_chip({np.array2string(self._values, separator=', ', prefix='on_chip(')})"

    # --- ways off the chip that would not be counted ---------------------------------------------

    def __array__(self, dtype=None, copy=None):
        raise WrongMemory(
            "An on-chip value leaves the chip by sram.store only. Making a plain array of it, or "
            "assigning it into one, would take it off uncounted: for memory on chip use sram.zeros, and "
            "np.stack or np.concatenate to join values."
        )

    def __reduce_ex__(self, protocol):
        raise WrongMemory(
            "An on-chip value can't be pickled: it leaves the chip by sram.store only."
        )


def _method(name: str):
    function = getattr(np.ndarray, name)

    def call(self, *args, **kwargs):
        return compute(function, (self, *args), kwargs, name)

    call.__name__, call.__doc__ = name, function.__doc__
    return call


for _name in METHODS:
    setattr(OnChip, _name, _method(_name))


def compute(operation, args: tuple, kwargs: dict, name: str):
    """Run one of NumPy's operations on on-chip values, and count the values that it makes."""
    blocks: list[Block] = []
    raw_args = [raw_operand(arg, blocks) for arg in args]
    raw_kwargs, outputs = kwargs, ()
    if kwargs:
        raw_kwargs = {key: raw_operand(value, blocks) for key, value in kwargs.items()}
        out = kwargs.get("out")
        outputs = out if isinstance(out, tuple) else (out,)
        for output in outputs:
            if output is not None:
                _must_be_on_chip(output, f"{name} with out=")
    return _handle(operation(*raw_args, **raw_kwargs), blocks, outputs, name)


def raw_operand(value, blocks: list[Block] | None = None):
    """What NumPy is to see of an operand; the blocks of on-chip ones are added to `blocks`."""
    if isinstance(value, OnChip):
        block = value._block
        if block.memory._is_closed:
            raise Released(
                f"This value of shape {value.shape} was on chip, and its SRAM is closed: what you "
                "want to keep, sram.store takes off chip before."
            )
        if blocks is not None:
            if blocks and blocks[0].memory is not block.memory:
                raise WrongMemory("These values lie in two different SRAMs.")
            blocks.append(block)
        return value._values
    if isinstance(value, HBMArray):
        value._refuse("computing with it")
    if type(value) in _SINGLE:
        return value
    if isinstance(value, list | tuple):
        if all(type(item) in _SINGLE for item in value) and len(value) <= PLAIN_LIMIT:
            return value  # as most indices are
        _must_be_small(_plain_numbers(value), type(value))
        items = [raw_operand(item, blocks) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    if isinstance(value, np.ndarray):
        _must_be_small(value.size, np.ndarray)
        value = value.view()
        value.flags.writeable = False  # as `out` by position it would take numbers off the chip
    elif hasattr(value, "__array__") and not isinstance(value, np.generic | type):
        raise WrongMemory(
            f"A {type(value).__name__} stands beside on-chip values, and lies in neither memory."
        )
    elif hasattr(value, "__len__") and not isinstance(value, str | type):
        _must_be_small(len(value), type(value))
    return value


def _plain_numbers(items: list | tuple) -> int:
    """How many plain numbers are in a list, lists in it included."""
    counts = (_plain_numbers(item) if isinstance(item, list | tuple) else np.size(item)
              for item in items if not isinstance(item, OnChip | HBMArray))  # fmt: skip
    return sum(counts)


def _must_be_small(size: int, kind: type) -> None:
    if size > PLAIN_LIMIT:
        raise WrongMemory(
            f"A plain {kind.__name__} of {size:,} elements stands beside on-chip values. It lies in "
            f"neither memory: make it with sram.zeros, full, empty or arange (up to {PLAIN_LIMIT} "
            "plain elements are let pass)."
        )


def _must_be_on_chip(target, name: str) -> None:
    if not isinstance(target, OnChip):
        raise WrongMemory(
            f"{name}: the result would leave the chip for a plain {type(target).__name__}, uncounted. "
            "Make what it is written to with sram.zeros or sram.empty."
        )


def _handle(result, blocks: list[Block], outputs: tuple, name: str):
    """The result as the program gets it: arrays as on-chip values, all else as it is."""
    if isinstance(result, np.ndarray):
        for output in outputs:
            if output is not None and output._values is result:
                return output
        owner = owner_of(result)
        for block in blocks:
            if block.owner is owner:
                return OnChip(result, block)  # a view
        if result.dtype.hasobject:
            raise WrongMemory(f"{name} gave Python objects, which no chip computes with.")
        return OnChip(result, blocks[0].memory._place(result, name))
    if isinstance(result, list | tuple):
        return type(result)([_handle(item, blocks, outputs, name) for item in result])
    return result  # a single number is in a register, and free
