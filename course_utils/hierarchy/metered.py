"""A run under both meters: the two-level memory, and tracemalloc beside it.

The simulation sees what is done to its own arrays. It does not see a program that takes single numbers
off the chip and keeps them in lists and plain arrays of its own. tracemalloc does: what Python really
took must be what both memories say they hold, and not much more. The rest is out of sight. It is looked
for at the peak, and whenever a value is made: a chip that was full once must not hide an array later.
"""

import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from course_utils.hierarchy.sram import SRAM
from course_utils.tracing import Trace

# What an honest program takes beside both memories, whatever its sizes: NumPy's buffers, up to 64 KiB for
# each operand of a ufunc on arrays that are broadcast or not contiguous, `accumulate`'s scratch, and
# Python's own objects. Seen: up to 177 kB.
UNSEEN_TOLERANCE_BYTES = 320 * 1024


@dataclass(frozen=True)
class Run:
    """What one run did. All in bytes.

    bytes_read, bytes_written: across to the chip and back, during the run.
    peak_bytes: the most that was on chip at once.
    hbm_peak_bytes: the most that arrays made in HBM during the run took at once.
    unseen_bytes: by how much Python's own peak exceeds that of both memories together, if it does. An honest
        program stays within UNSEEN_TOLERANCE_BYTES.
    """

    value: Any
    bytes_read: int
    bytes_written: int
    peak_bytes: int
    hbm_peak_bytes: int
    unseen_bytes: int


def run_metered(sram: SRAM, program: Callable[[SRAM], Any]) -> Run:
    """Call `program(sram)` inside the `with` of this fresh SRAM, under a trace.

    Its errors pass through; if it closes the SRAM that it was given, Released is raised.

    The inputs must be in HBM already. Call the program on something small before: the first call of
    some NumPy functions imports modules, which take memory too.
    """
    hbm = sram.hbm
    read_before, written_before, hbm_before = hbm.bytes_read, hbm.bytes_written, hbm.live_bytes
    hbm._restart_peak()
    unseen = [0]
    with Trace() as trace, sram:
        others_bytes = tracemalloc.get_traced_memory()[0]

        def watch(both_bytes: int) -> None:
            python_bytes = tracemalloc.get_traced_memory()[0] - others_bytes
            unseen[0] = max(unseen[0], python_bytes - (both_bytes - hbm_before))

        hbm._watch = watch
        try:
            value = program(sram)
        finally:
            hbm._watch = None
        python_peak_bytes = trace.snapshot().peak_bytes
        sram._check_open()  # a program that closed its chip could go on with a larger one
    both_peak_bytes = hbm._peak_with_chip_bytes - hbm_before
    return Run(
        value,
        hbm.bytes_read - read_before,
        hbm.bytes_written - written_before,
        sram.peak_bytes,
        hbm.peak_bytes - hbm_before,
        max(unseen[0], python_peak_bytes - both_peak_bytes),
    )
