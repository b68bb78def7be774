"""A two-level memory that counts: large and slow HBM, small and fast SRAM, and only two ways across.

A program's traffic cannot be seen from outside: NumPy moves what it likes between a processor's caches
and the memory, and says nothing. So the course computes on a memory of its own, where every byte that
crosses is counted, and where what is on chip must fit.

memory   one level: what is alive in it, how many bytes, the most there ever were
offchip  HBM and its arrays: they can be sliced, and nothing else
onchip   values in SRAM: NumPy to the eye, every one of them counted
numpys   which of NumPy's functions and methods an on-chip value knows
sram     the chip: load, store, allocate, accumulate
overflow what the error says when a value does not fit
refusals the errors, and what each means
metered  a run under both meters, this one and tracemalloc: for checks
"""

from course_utils.hierarchy.memory import Event
from course_utils.hierarchy.metered import UNSEEN_TOLERANCE_BYTES, Run, run_metered
from course_utils.hierarchy.offchip import HBM, HBMArray
from course_utils.hierarchy.onchip import OnChip
from course_utils.hierarchy.refusals import Released, SRAMOverflow, WrongMemory
from course_utils.hierarchy.sram import SRAM

__all__ = [
    "HBM",
    "SRAM",
    "UNSEEN_TOLERANCE_BYTES",
    "Event",
    "HBMArray",
    "OnChip",
    "Released",
    "Run",
    "SRAMOverflow",
    "WrongMemory",
    "run_metered",
]
