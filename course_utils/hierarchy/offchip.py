"""HBM, the large memory outside the chip: its arrays can be sliced, and nothing else can be done to them.

A processor computes only with what it has loaded. NumPy would let you forget that: there every array
looks as near as any other. Here an array that lies off chip refuses arithmetic, and refuses as well to
become a NumPy array in some other way; `sram.load` and `sram.store` are the only ways across.
"""

import math
import weakref
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from course_utils.hierarchy.memory import Block, Memory
from course_utils.hierarchy.refusals import WrongMemory

# `box` asks NumPy for an array's address, and with it come a few names. While somebody holds them they cost
# nothing. Otherwise they come and go, and every 32,000 times Python rebuilds its table of names: a megabyte
# at once, which the meters would take for the program's.
_NAMES = np.zeros(1).__array_interface__


class HBM(Memory):
    """The off-chip memory. It has no end; what counts is what crosses to the chip and back.

    hbm.bytes_read, hbm.bytes_written: what was loaded from here, and stored to here.
    hbm.live_bytes, hbm.peak_bytes: what its arrays take.

    Making an array costs no traffic: it is there before the experiment begins, as a program's inputs
    are, and its outputs' space.
    """

    def __init__(self):
        super().__init__()
        self._bytes_read = self._bytes_written = self._arrays_made = 0
        self._open_sram: weakref.ref | None = None  # the SRAM in whose `with` we are
        self._peak_with_chip_bytes = 0  # of both memories at one moment
        self._watch: Callable[[int], None] | None = None  # told what both hold, when it grows

    @property
    def bytes_read(self) -> int:
        return self._bytes_read

    @property
    def bytes_written(self) -> int:
        return self._bytes_written

    @property
    def bytes_moved(self) -> int:
        """Both ways together."""
        return self._bytes_read + self._bytes_written

    def array(self, values, name: str = "") -> "HBMArray":
        """A copy of a NumPy array, off chip. `name` is for messages and figures."""
        return self._keep(np.array(values, order="C"), name)  # refused by on-chip values

    def zeros(self, shape, dtype=np.float64, name: str = "") -> "HBMArray":
        return self._keep(np.zeros(shape, dtype), name)

    def full(self, shape, value: float, dtype=np.float64, name: str = "") -> "HBMArray":
        return self._keep(np.full(shape, value, dtype), name)

    def empty(self, shape, dtype=np.float64, name: str = "") -> "HBMArray":
        """Space for a result. Floats are nan until they are stored, so that a gap shows."""
        dtype = np.dtype(dtype)
        return self.full(shape, math.nan if dtype.kind == "f" else 0, dtype, name)

    def _keep(self, values: np.ndarray, name: str) -> "HBMArray":
        if values.dtype.kind not in "fiub":
            raise WrongMemory(f"HBM keeps numbers; these are of dtype {values.dtype}.")
        self._arrays_made += 1
        name = name or f"array{self._arrays_made}"
        home = Home(name, self._place(values, name))
        return HBMArray(values, home)

    def _grown(self) -> None:
        chip = self._open_sram() if self._open_sram is not None else None
        both_bytes = self._live_bytes + (chip.live_bytes if chip is not None else 0)
        self._peak_with_chip_bytes = max(self._peak_with_chip_bytes, both_bytes)
        if self._watch is not None:
            self._watch(both_bytes)

    def _restart_peak(self) -> None:
        super()._restart_peak()
        self._peak_with_chip_bytes = self._live_bytes

    def _is_experimenting(self) -> bool:
        return self._open_sram is not None and self._open_sram() is not None


class Home:
    """What all slices of one HBM array share: its name, its block, and the traffic it has had."""

    __slots__ = ("block", "bytes_read", "bytes_written", "name")

    def __init__(self, name: str, block: Block):
        self.name, self.block = name, block
        self.bytes_read = self.bytes_written = 0


class Window(NamedTuple):
    """Which part of which array, for messages and events."""

    name: str
    box: tuple[tuple[int, int], ...]

    def __str__(self) -> str:
        """As one would write it: Q[0:16, 0:64]."""
        inside = ", ".join(f"{start}:{stop}" for start, stop in self.box)
        return f"{self.name}[{inside}]" if inside else self.name


class HBMArray(NDArrayOperatorsMixin):
    """An array off chip, or a slice of one. Slicing and `.T` are free: no number moves."""

    __slots__ = ("_home", "_values", "__weakref__")
    __hash__ = None

    def __init__(self, values: np.ndarray, home: Home):
        self._values, self._home = values, home

    shape = property(lambda self: self._values.shape)
    dtype = property(lambda self: self._values.dtype)
    ndim = property(lambda self: self._values.ndim)
    size = property(lambda self: self._values.size)
    itemsize = property(lambda self: self._values.itemsize)
    nbytes = property(lambda self: self._values.nbytes)
    T = property(lambda self: HBMArray(self._values.T, self._home))
    name = property(lambda self: self._home.name)
    hbm = property(lambda self: self._home.block.memory)
    bytes_read = property(lambda self: self._home.bytes_read, doc="Loaded from this whole array.")
    bytes_written = property(
        lambda self: self._home.bytes_written, doc="Stored to the whole array."
    )

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, key) -> "HBMArray":
        for part in key if isinstance(key, tuple) else (key,):
            is_plain = isinstance(part, slice | int | np.integer) and not isinstance(part, bool)
            if not (is_plain or part is None or part is Ellipsis):
                raise WrongMemory(
                    f"{self.name} lies off chip and can be sliced, as {self.name}[0:16], but not "
                    f"indexed with {type(part).__name__}: load what you need, and choose on chip."
                )
        keys = key if isinstance(key, tuple) else (key,)
        if Ellipsis not in keys:
            keys = (*keys, ...)  # else a single element would come as a number, not as a view
        return HBMArray(self._values[keys], self._home)

    def __setitem__(self, key, value):
        raise WrongMemory(
            f"{self.name} lies off chip: write to it with sram.store({self.name}[...], value)."
        )

    @property
    def box(self) -> tuple[tuple[int, int], ...]:
        """(start, stop) of this slice along each axis of the whole array."""
        whole = self._home.block.owner
        if not self.size:
            return tuple((0, 0) for _ in whole.shape)
        low, high = np.lib.array_utils.byte_bounds(self._values)
        start = np.lib.array_utils.byte_bounds(whole)[0]
        first = np.unravel_index((low - start) // whole.itemsize, whole.shape)
        last = np.unravel_index((high - start) // whole.itemsize - 1, whole.shape)
        return tuple((int(a), int(b) + 1) for a, b in zip(first, last))

    @property
    def window(self) -> Window:
        """Name and box: what remains to be told of a slice when its array may be gone."""
        return Window(self.name, self.box)

    def __str__(self) -> str:
        return str(self.window)

    def __repr__(self) -> str:
        return f"{self} {self.shape} {self.dtype}, off chip"

    def numpy(self) -> np.ndarray:
        """A plain copy, for looking at a result after the experiment. Moves no counted byte.

        Raises WrongMemory inside the `with` of an SRAM: there it would be a way round it.
        """
        if self.hbm._is_experimenting():
            raise WrongMemory(
                f"{self.name}.numpy() is for after the experiment. While an SRAM is open, "
                f"sram.load({self.name}[...]) is the way to read it."
            )
        return self._values.copy()

    # --- every other way to the numbers ----------------------------------------------------------

    def _refuse(self, what: str):
        raise WrongMemory(
            f"{what}: {self.name} lies off chip, where nothing computes. Load a part of it first, as "
            f"in sram.load({self.name}[0:16])."
        )

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        self._refuse(f"np.{ufunc.__name__}")

    def __array_function__(self, function, types, args, kwargs):
        if function in (np.shape, np.ndim, np.size) and len(args) == 1:  # no number moves
            return getattr(self, function.__name__)
        self._refuse(f"np.{function.__name__}")

    def transpose(self) -> "HBMArray":
        """As `.T`: a view, and free."""
        return self.T

    def __array__(self, dtype=None, copy=None):
        self._refuse("making a NumPy array of it")

    def __getattr__(self, name):
        if hasattr(np.ndarray, name) and not name.startswith("__"):
            raise AttributeError(f"{self.name} lies off chip and has no .{name}: load it first")
        raise AttributeError(f"an array in HBM has no attribute {name!r}")

    def __bool__(self):
        self._refuse("its truth")

    def __float__(self):
        self._refuse("its value")

    __int__ = __index__ = __complex__ = __float__

    def __reduce_ex__(self, protocol):
        self._refuse("pickling or copying it")
