"""SRAM, the small memory on the chip: the only place where anything is computed.

It is full sooner than one thinks, because everything that a program makes is in it: the tiles it loaded,
its accumulators, and each temporary of each expression until the expression is done. What does not fit
raises SRAMOverflow at the very operation.
"""

import gc
import math
import weakref
from typing import Any

import numpy as np

from course_utils.hierarchy.memory import Event, Memory
from course_utils.hierarchy.offchip import HBM, HBMArray
from course_utils.hierarchy.onchip import OnChip, raw_operand
from course_utils.hierarchy.overflow import overflow
from course_utils.hierarchy.refusals import Released, WrongMemory

SCRATCH_BYTES = 16 * 1024  # what `accumulate` really takes for a moment, in place of a tensor core


class SRAM(Memory):
    """On-chip memory of `capacity_bytes`, beside this HBM. `record=True` keeps `events` for figures.

    sram.live_bytes, sram.peak_bytes: what is on chip, and the most that was. A view is free; a copy and
    every temporary count; single numbers (registers) do not. A value is freed when its last reference
    goes, or all at once when the `with` ends:

        with SRAM(100_000, hbm) as sram:
            q = sram.load(Q[0:16])

    Inside the `with`, this is the only SRAM that there is, and results can't be looked at
    (`O.numpy()`).
    """

    _in_use: weakref.ref | None = None  # the one in whose `with` we are

    def __init__(self, capacity_bytes: int, hbm: HBM, *, record: bool = False):
        if not isinstance(hbm, HBM):
            raise TypeError("an SRAM stands beside an HBM: SRAM(capacity_bytes, hbm)")
        if not capacity_bytes >= 0:
            raise ValueError(f"a capacity is a number of bytes, not {capacity_bytes!r}")
        super().__init__(capacity_bytes)
        self.hbm = hbm
        self._events = [] if record else None
        self._refuse_second_chip()

    @property
    def events(self) -> tuple[Event, ...]:
        """What happened, in order, if the SRAM was made with `record=True`."""
        return tuple(self._events or ())

    # --- the two ways across ---------------------------------------------------------------------

    def load(self, source: HBMArray) -> OnChip:
        """A copy of a slice of an HBM array, on chip. Counts its bytes as read."""
        self._check_is_ours(source, "load takes")
        window = source.window  # and not the slice itself: that would keep its array alive
        self._admit(source.nbytes, source.shape, window)
        values = source._values.copy()
        block = self._place(values, window)
        self.hbm._bytes_read += source.nbytes
        source._home.bytes_read += source.nbytes
        return OnChip(values, block)

    def store(self, target: HBMArray, value: OnChip) -> None:
        """Write an on-chip value to a slice of an HBM array of its shape and dtype. Counts as written.

        A single number, such as a reduction gives, can be stored to a single element.
        """
        self._check_is_ours(target, "store writes to")
        if isinstance(value, int | float | np.generic) and target.size == 1:
            raw, number = np.full(target.shape, value, target.dtype), -1
        elif isinstance(value, OnChip) and value._block.memory is self:
            raw, number = raw_operand(value), value._block.number
        elif isinstance(value, OnChip):
            raw_operand(value)  # says so, if its chip is closed
            raise WrongMemory("store takes a value that is on this chip; this one is on another.")
        else:
            raise WrongMemory(
                f"store takes a value that is on this chip, not a plain {type(value).__name__}: "
                "compute it from what you loaded."
            )
        if raw.shape != target.shape or raw.dtype != target.dtype:
            raise ValueError(
                f"{target} is {target.shape} {target.dtype}, and the value to be stored is "
                f"{raw.shape} {raw.dtype}: both must agree."
            )
        target._values[...] = raw
        self.hbm._bytes_written += target.nbytes
        target._home.bytes_written += target.nbytes
        if self._events is not None:
            self._note("store", number, target.window, target.shape, target.nbytes)

    # --- memory made on chip ---------------------------------------------------------------------

    def zeros(self, shape, dtype=np.float64) -> OnChip:
        return self._make(shape, 0, dtype, "zeros")

    def full(self, shape, value: float, dtype=np.float64) -> OnChip:
        """Space filled with a single number."""
        if np.ndim(value):
            raise WrongMemory(
                "full takes a single number: an array is loaded, or computed on chip."
            )
        return self._make(shape, raw_operand(value), dtype, "full")

    def empty(self, shape, dtype=np.float64) -> OnChip:
        """Space to be written to. Floats are nan until then, so that a gap shows."""
        return self._make(shape, math.nan if np.dtype(dtype).kind == "f" else 0, dtype, "empty")

    def arange(self, *bounds, dtype=None) -> OnChip:
        """As np.arange: 8 bytes for each number, unless `dtype` says less."""
        self._check_open()
        start, stop, step = [0, *bounds, 1] if len(bounds) == 1 else [*bounds, 1][:3]
        length = max(0, math.ceil((stop - start) / step))
        self._admit(length * np.dtype(dtype or np.int64).itemsize, (length,), "arange")
        values = np.arange(*bounds, dtype=dtype)
        return OnChip(values, self._place(values, "arange"))

    def accumulate(self, accumulator: OnChip, a: OnChip, b: OnChip) -> OnChip:
        """accumulator += a @ b, with no temporary on chip, as a tensor core's D = AB + C (GN-23).

        (m, n) += (m, k) @ (k, n), or a vector for either. Sums in the accumulator's dtype. Returns it.
        """
        for value in (accumulator, a, b):
            if isinstance(value, HBMArray):
                raise WrongMemory(
                    f"accumulate: {value} lies off chip and is not on this chip. Sum on chip, in sram.zeros, "
                    "and store the sums when they are complete."
                )
            if not isinstance(value, OnChip) or value._block.memory is not self:
                raise WrongMemory(f"accumulate: a {type(value).__name__} that is not on this chip.")
        total, left, right = map(raw_operand, (accumulator, a, b))
        can_multiply = {left.ndim, right.ndim} <= {1, 2} and left.shape[-1] == len(right)
        if not (can_multiply and total.ndim) or total.shape != left.shape[:-1] + right.shape[1:]:
            raise ValueError(
                f"accumulate: {left.shape} @ {right.shape} does not give {total.shape}."
            )
        if np.shares_memory(total, left) or np.shares_memory(total, right):
            raise ValueError("accumulate: the accumulator must not overlap a factor.")
        rows = max(1, SCRATCH_BYTES // max(1, total[:1].nbytes)) if left.ndim == 2 else len(total)
        for i in range(0, len(total), max(1, rows)):
            part = left[i : i + rows] if left.ndim == 2 else left
            total[i : i + rows] += np.matmul(part, right, dtype=total.dtype, casting="same_kind")
        return accumulator

    def _make(self, shape, value, dtype, origin: str) -> OnChip:
        self._check_open()
        shape = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
        if np.dtype(dtype).kind not in "fiub":
            raise WrongMemory(f"A chip keeps numbers; these would be of dtype {np.dtype(dtype)}.")
        self._admit(math.prod(shape) * np.dtype(dtype).itemsize, shape, origin)
        values = np.full(shape, value, dtype)
        return OnChip(values, self._place(values, origin))

    # --- its limit, and its end ------------------------------------------------------------------

    def _admit(self, nbytes: int, shape: tuple[int, ...], origin: Any) -> None:
        if self._live_bytes + nbytes > self._capacity_bytes:
            gc.collect()  # what only a ring of references keeps is garbage
        if self._live_bytes + nbytes > self._capacity_bytes:
            raise overflow(self, nbytes, shape, origin)

    def __enter__(self) -> "SRAM":
        self._check_open()
        self._refuse_second_chip()
        self.hbm._open_sram = SRAM._in_use = weakref.ref(self)
        return self

    def __exit__(self, *exception) -> None:
        self.close()

    def close(self) -> None:
        """Release everything. What was on chip can't be used any more; the counts can be read."""
        self._is_closed = True
        for number in list(self._residents):
            self._free(number)
        if _chip_in_use() is self:
            self.hbm._open_sram = SRAM._in_use = None

    def _check_open(self) -> None:
        if self._is_closed:
            raise Released("This SRAM is closed: its `with` has ended.")
        if _chip_in_use() not in (None, self):
            raise WrongMemory("Another SRAM is in use, in a `with` around this: use that one.")

    def _check_is_ours(self, array: object, what_it_does: str) -> None:
        self._check_open()
        if not isinstance(array, HBMArray):
            raise WrongMemory(
                f"{what_it_does} a slice of an HBM array, not a {type(array).__name__}."
            )
        if array.hbm is not self.hbm:
            raise WrongMemory(f"{what_it_does} its own HBM; {array.name} lies in another one.")

    def _refuse_second_chip(self) -> None:
        if (chip := _chip_in_use()) is not None:
            which = "This SRAM" if chip is self else "The only SRAM"
            raise WrongMemory(f"{which} is open already, in a `with` around this: use it as it is.")

    def _grown(self) -> None:
        self.hbm._grown()


def _chip_in_use() -> SRAM | None:
    """The SRAM in whose `with` we are. While there is one, there is no other to compute on."""
    return SRAM._in_use() if SRAM._in_use is not None else None
