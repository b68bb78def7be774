"""What an overflow says: who asked for how much, and what is on chip already.

A full memory is a question: which of these values could have gone? So the message calls them what the
program calls them. It finds the names in the calling functions' variables, at the moment of the error.
"""

import inspect
import sys
from typing import Any

from course_utils.hierarchy.memory import Memory
from course_utils.hierarchy.onchip import OnChip
from course_utils.hierarchy.refusals import SRAMOverflow

TOLD_AT_MOST = 5


def overflow(memory: Memory, nbytes: int, shape: tuple[int, ...], origin: Any) -> SRAMOverflow:
    """The error to raise when this much, for a value of this shape, does not fit into `memory`."""
    what = origin if isinstance(origin, str) else f"loading {origin}"
    free_bytes = memory.capacity_bytes - memory.live_bytes
    return SRAMOverflow(
        f"{what} needs {nbytes:,} bytes for {shape}, and of {memory.capacity_bytes:,} only "
        f"{free_bytes:,} are free. On chip: {_tell_residents(memory)}.",
        what,
        shape,
        nbytes,
    )


def _tell_residents(memory: Memory) -> str:
    """The largest values that are alive: the program's name, origin, shape, bytes."""
    names = _names_in_callers()
    by_size = sorted(memory._residents.items(), key=lambda item: -item[1].nbytes)
    told = []
    for number, (origin, shape, nbytes) in by_size[:TOLD_AT_MOST]:
        name = names.get(number)
        told.append(f"{f'{name} = {origin}' if name else origin} {shape} {nbytes:,}")
    if rest := [resident.nbytes for _, resident in by_size[TOLD_AT_MOST:]]:
        told.append(f"{len(rest)} more, {sum(rest):,}")
    return "; ".join(told) or "nothing"


def _names_in_callers() -> dict[int, str]:
    """Block number -> a variable that holds it or a view of it; inner functions come first."""
    names: dict[int, str] = {}
    frame = sys._getframe(1)
    while frame is not None:
        if not frame.f_globals.get("__name__", "").startswith((__package__, "numpy")):
            variables = frame.f_locals
            held = [(name, value) for name, value in variables.items() if type(value) is OnChip]
            for name, value in held:
                if not name.startswith("_"):  # IPython's own names for what it printed
                    names.setdefault(value._block.number, name)
            if sys.version_info < (3, 13) and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
                for name, _ in held:  # the frame keeps this snapshot, which would keep the values
                    variables.pop(name, None)
        frame = frame.f_back
    return names
