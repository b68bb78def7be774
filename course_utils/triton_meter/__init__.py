"""A student's Triton kernel, run on a laptop and metered to the byte.

Triton's interpreter executes a kernel on NumPy, line by line. Here it runs in a process of its own, on a
memory that is only simulated: every load and store is checked against the tensors that were passed, and
counted. A kernel that reads past its tensors, writes into an input, or never ends, harms nothing and is told.

source     what a kernel needs to run elsewhere: its text, its helpers, its constants
launches   a launch and what came of it, as plain data; how both travel between processes
client     the door: `meter`, `run_launch`, `compile_launch`, `run_on_gpu`; keeps a worker process per kind
server     the worker: loads Triton once, then forks a child for each request
memory     tensors in a simulated memory: bounds, bytes, sectors, who wrote what
interpreting, compiling, on_gpu   what a child does: interpret, compile ahead of time, launch on a GPU
"""

from course_utils.triton_meter.client import (
    HAS_TRITON,
    MeterNotAvailable,
    compile_launch,
    meter,
    run_launch,
    run_on_gpu,
)
from course_utils.triton_meter.launches import Compiled, Launch, Metered, Tensor
from course_utils.triton_meter.source import KernelSource, NotAKernel, read_kernel

__all__ = [
    "HAS_TRITON",
    "Compiled",
    "KernelSource",
    "Launch",
    "MeterNotAvailable",
    "Metered",
    "NotAKernel",
    "Tensor",
    "compile_launch",
    "meter",
    "read_kernel",
    "run_launch",
    "run_on_gpu",
]
