"""Triton, as far as this machine has it: compiled, interpreted, or only read.

With a GPU of sm_80 or newer, `triton` and `tl` are simply the packages `triton` and `triton.language`.
Without one they run in Triton's interpreter, which executes a kernel line by line on the CPU; that must be
decided before Triton is first imported, and is decided here. Triton is made for Linux: elsewhere two
stand-ins take its place, with which a kernel can be defined and read, and says where it could run.

    from course_utils.triton_here import tl, triton
"""

import ctypes
import importlib.util
import os
import sys

__all__ = ["HAS_GPU", "HAS_TRITON", "INTERPRETED", "WHERE", "KernelNotRunnable", "tl", "triton"]

CUDA_DRIVER = "nvcuda.dll" if os.name == "nt" else "libcuda.so.1"


def _has_gpu() -> bool:
    """Of sm_80 or newer, the first with bf16 in its tensor cores; Triton wants it as well.

    PyTorch knows, and takes two seconds to load: it is asked where there is a driver to ask about.
    """
    try:
        ctypes.CDLL(CUDA_DRIVER)
    except OSError:
        return False
    import torch

    return torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 0)


HAS_GPU = _has_gpu()
HAS_TRITON = importlib.util.find_spec("triton") is not None
WHERE = (
    "Triton runs on Linux only. WSL gives Windows a Linux; a hosted notebook (Colab, Kaggle) has one "
    "too, some of them with a GPU."
)


class KernelNotRunnable(RuntimeError):
    """A Triton kernel was launched where there is no Triton."""


def _decided() -> bool:
    """Whether kernels are interpreted. A choice made before (in the environment) is kept."""
    if "triton" not in sys.modules and not HAS_GPU:
        os.environ.setdefault("TRITON_INTERPRET", "1")
    return os.environ.get("TRITON_INTERPRET", "0") == "1"


INTERPRETED = _decided() if HAS_TRITON else False

if HAS_TRITON:
    import triton
    import triton.language as tl
else:
    from course_utils.triton_stand_in import tl, triton
