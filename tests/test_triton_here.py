"""Triton as far as a machine has it: the interpreter is chosen in time, and stand-ins say what is missing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from course_utils.triton_here import HAS_GPU, HAS_TRITON
from course_utils.triton_stand_in import StandInKernel, tl, triton

PROGRAM = """
from course_utils.triton_here import INTERPRETED, KernelNotRunnable, tl, triton
import torch

@triton.jit
def double(x, n, block: tl.constexpr):
    at = tl.arange(0, block)
    tl.store(x + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)

x = torch.arange(5.0)
try:
    double[(1,)](x, 5, block=8)
    print(INTERPRETED, x.tolist())
except KernelNotRunnable as error:
    print(error)
"""
HIDE_TRITON = """
import importlib.util as util
find = util.find_spec
util.find_spec = lambda name, *rest: None if name == "triton" else find(name, *rest)
"""


def printed_by(program: str, folder: Path) -> str:
    """A kernel's source must lie in a file; and Triton is imported once a process."""
    file = folder / "program.py"
    file.write_text(program)
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, str(file)], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_kernel_is_refused_clearly_where_there_is_no_triton(tmp_path):
    printed = printed_by(HIDE_TRITON + PROGRAM, tmp_path)
    assert "double can't run here" in printed and "WSL" in printed


@pytest.mark.skipif(not HAS_TRITON or HAS_GPU, reason="needs Triton, and no GPU")
def test_without_a_gpu_kernels_are_interpreted(tmp_path):
    assert printed_by(PROGRAM, tmp_path) == "True [0.0, 2.0, 4.0, 6.0, 8.0]"


def test_has_gpu_is_what_torch_says():
    import torch

    capable = torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 0)
    assert capable == HAS_GPU


@pytest.mark.skipif(HAS_GPU, reason="needs a machine without a GPU")
def test_without_a_driver_torch_is_not_loaded(tmp_path):
    program = "import sys\nimport course_utils.triton_here\nprint('torch' in sys.modules)"
    assert printed_by(program, tmp_path) == "False"


def test_stand_ins_define_and_measure():
    @triton.jit
    def kernel(x, block: tl.constexpr):
        """Doc."""

    assert isinstance(kernel, StandInKernel) and kernel.__doc__ == "Doc."
    assert isinstance(triton.jit(noinline=True)(lambda: 0), StandInKernel)
    assert [triton.cdiv(7, 2), triton.next_power_of_2(5), triton.next_power_of_2(8)] == [4, 8, 8]
