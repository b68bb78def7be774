"""What stands in for Triton where it can't be installed: enough to define a kernel, and to read on.

`triton.jit` keeps the function, so that a notebook's cells run and its checks can say what is missing.
Launching a kernel raises; so does anything else that would need a compiler.
"""

from types import SimpleNamespace

__all__ = ["StandInKernel", "tl", "triton"]


class StandInKernel:
    """A kernel that can be read, not run. `fn` is the Python function."""

    def __init__(self, fn):
        self.fn = fn
        self.__name__, self.__doc__ = fn.__name__, fn.__doc__
        self.__module__ = fn.__module__

    def __getitem__(self, grid):
        def launch(*args, **kwargs):
            from course_utils.triton_here import WHERE, KernelNotRunnable

            raise KernelNotRunnable(f"{self.__name__} can't run here. {WHERE}")

        return launch


def _jit(fn=None, **options):
    return StandInKernel(fn) if fn is not None else StandInKernel


def _cdiv(x: int, y: int) -> int:
    return -(-x // y)


def _next_power_of_2(n: int) -> int:
    return 1 << (n - 1).bit_length()


triton = SimpleNamespace(jit=_jit, cdiv=_cdiv, next_power_of_2=_next_power_of_2)
tl = SimpleNamespace(constexpr=int)
