"""Timing a GPU honestly: a map.

A GPU works on its own: a call returns before the work is done, a second run finds its inputs in the cache,
and the clock rate changes with what ran before. Each of these has made slow programs look fast. What is
here is what a number needs before it may be compared with another.

clocks      seconds of GPU work by events, with the L2 cache overwritten before; a CPU's clock beside it
medians     medians of many, of programs that take turns; the ratio of two, with its spread
memory      the most bytes alive at once besides a result
ceilings    what this GPU can do at best, measured; what is faster than that is refused
reference   attention in float64, and how far a result is from it
attention   a student's attention against PyTorch's: `time_attention`
"""

from course_utils.gpu_timing.attention import (
    AttentionTiming,
    attention_bytes,
    attention_flops,
    baseline_backend,
    sdpa,
    time_attention,
)
from course_utils.gpu_timing.ceilings import (
    Ceilings,
    ImpossibleSpeed,
    machine_ceilings,
    refuse_impossible,
)
from course_utils.gpu_timing.clocks import CpuClock, GpuClock
from course_utils.gpu_timing.medians import Job, Ratio, Timing, compare, interleaved, median_seconds
from course_utils.gpu_timing.memory import extra_peak_bytes
from course_utils.gpu_timing.reference import reference_attention, relative_error

__all__ = [
    "AttentionTiming",
    "Ceilings",
    "CpuClock",
    "GpuClock",
    "ImpossibleSpeed",
    "Job",
    "Ratio",
    "Timing",
    "attention_bytes",
    "attention_flops",
    "baseline_backend",
    "compare",
    "extra_peak_bytes",
    "interleaved",
    "machine_ceilings",
    "median_seconds",
    "reference_attention",
    "refuse_impossible",
    "relative_error",
    "sdpa",
    "time_attention",
]
