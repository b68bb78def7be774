"""The measurements behind lesson 08: a map.

What the lesson says about a GPU's speed was measured once, and is kept in `benchmarks/gpu.json`. Nothing but
this package writes that file, and nothing but `course_utils.recorded` reads it.

rungs          the ladder: every way to compute attention, named once
configurations sizes, and what each rung needs of the machine there
ladder         all rungs at one size: speed, memory, error, in one run
accuracy       errors beside those of PyTorch's own, in every number format
gn27           the paper's famous measurement (GN-27), again
targets        what the course's own kernels must reach, read off the rest
gpu_tests      the tests marked `gpu`, run and counted
files          machine and versions; numbers rounded; a file that is whole or not there
gpu, cpu       the two programs        report    the table printed last
"""

from importlib import import_module

_HOME = {
    "measure_cpu": "course_utils.bench.cpu",
    "measure_gpu": "course_utils.bench.gpu",
    "measure_ladder": "course_utils.bench.gpu",
}

__all__ = list(_HOME)


def __getattr__(name: str):
    """Fetch a name from its home on first use: torch is loaded only when something is measured."""
    if name not in _HOME:
        raise AttributeError(f"module 'course_utils.bench' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
