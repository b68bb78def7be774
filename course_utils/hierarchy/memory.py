"""One level of a memory: what is alive in it, how many bytes that takes, and the most there ever were.

A value that is made takes a `Block` of the memory. The value's views share the block, and when the last
of them goes, Python calls the block's `__del__`: that is how memory is freed here without anyone saying
so. The memory itself knows its blocks by number only; if it referred to them, they would never go.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np


class Resident(NamedTuple):
    """What is known of a block while it is alive.

    origin: the operation that made it, by name, or the window of HBM that it was loaded from.
    """

    origin: Any
    shape: tuple[int, ...]
    nbytes: int


@dataclass(frozen=True)
class Event:
    """One moment of a recorded run.

    kind: "load", "store", "allocate" or "free" (of a loaded tile, with its name and box again).
    block: the number of the on-chip block concerned; -1 where a single number was stored.
    name: the HBM array that was loaded from or stored to, or the operation that made the block.
    box: of an HBM array, (start, stop) of the slice along each axis of the whole; else ().
    nbytes: what crossed, or what was allocated or freed.
    live_bytes: what is on chip afterwards.
    """

    kind: str
    block: int
    name: str
    box: tuple[tuple[int, int], ...]
    shape: tuple[int, ...]
    nbytes: int
    live_bytes: int


class Memory:
    """Live and peak bytes of one level, of `capacity_bytes` (infinite if not given)."""

    def __init__(self, capacity_bytes: float = math.inf):
        self._capacity_bytes = capacity_bytes
        self._residents: dict[int, Resident] = {}  # by block number, oldest first
        self._live_bytes = self._peak_bytes = self._blocks_made = 0
        self._events: list[Event] | None = None  # None: not recorded
        self._is_closed = False

    @property
    def capacity_bytes(self) -> float:
        return self._capacity_bytes

    @property
    def live_bytes(self) -> int:
        """Bytes of the values that are alive here now."""
        return self._live_bytes

    @property
    def peak_bytes(self) -> int:
        """The most that was alive here at any moment so far."""
        return self._peak_bytes

    def _admit(self, nbytes: int, shape: tuple[int, ...], origin: Any) -> None:
        """Make sure that this much fits; a level with an end overrides this."""

    def _grown(self) -> None:
        """Called whenever a value was made here."""

    def _place(self, values: np.ndarray, origin: Any) -> "Block":
        """The block of a new value, which owns its numbers."""
        owner = owner_of(values)
        self._admit(owner.nbytes, values.shape, origin)
        block = Block(self, self._blocks_made, owner)
        self._blocks_made += 1
        self._residents[block.number] = Resident(origin, values.shape, owner.nbytes)
        self._live_bytes += owner.nbytes
        self._peak_bytes = max(self._peak_bytes, self._live_bytes)
        self._grown()
        if self._events is not None:
            kind = "allocate" if isinstance(origin, str) else "load"
            self._note(kind, block.number, origin, values.shape, owner.nbytes)
        return block

    def _free(self, number: int) -> None:
        resident = self._residents.pop(number, None)
        if resident is not None:  # closing the memory may have freed it already
            self._live_bytes -= resident.nbytes
            if self._events is not None:
                self._note("free", number, *resident)

    def _note(self, kind: str, number: int, origin: Any, shape: tuple, nbytes: int) -> None:
        is_slice = not isinstance(origin, str)
        name, box = (origin.name, origin.box) if is_slice else (origin, ())
        self._events.append(Event(kind, number, name, box, shape, nbytes, self._live_bytes))

    def _restart_peak(self) -> None:
        self._peak_bytes = self._live_bytes


class Block:
    """The memory that one value took, shared by all its views. `owner` is the NumPy array beneath."""

    __slots__ = ("memory", "number", "owner")

    def __init__(self, memory: Memory, number: int, owner: np.ndarray):
        self.memory, self.number, self.owner = memory, number, owner

    def __del__(self):
        self.memory._free(self.number)


def owner_of(values: np.ndarray) -> np.ndarray:
    """The array at the end of a chain of views: the one whose memory they all show."""
    while isinstance(values.base, np.ndarray):
        values = values.base
    return values
