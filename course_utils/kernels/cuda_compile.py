"""What nvcc makes of a CUDA C++ kernel: registers, shared memory, spills. No GPU is needed for that.

The kernels' files include nothing of torch, so the compiler alone can take them. Its report answers what a
reader asks first of a kernel: do its variables fit into registers, or are they spilled to memory; and how
much room does one thread block take, which decides how many of them share a multiprocessor.
"""

import ctypes
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

__all__ = ["SOURCES", "CudaMissing", "KernelReport", "compile_to_cubin", "find_nvcc"]

FOLDER = Path(__file__).parent / "cuda"
# The oldest architecture that each compiles for: bf16 in tensor cores, ldmatrix and cp.async want sm_80.
SOURCES = {"flash_tiles": 75, "flash_tensor_cores": 80}
DTYPES = {"f": "float32", "6__half": "float16", "13__nv_bfloat16": "bfloat16"}
ENUM = {"float32": 0, "float16": 1, "bfloat16": 2}  # Dtype, in launch.h


class CudaMissing(RuntimeError):
    """CUDA C++ cannot be compiled or run here; the message says what is missing."""


@dataclass(frozen=True)
class KernelReport:
    """One kernel, as compiled for one architecture. Registers are those of one thread."""

    kernel: str
    dtype: str
    d: int
    arch: str
    registers: int
    shared_bytes: int  # of one thread block
    spill_bytes: int  # stored to, and loaded from, local memory, which is off chip
    stack_bytes: int


def find_nvcc() -> str | None:
    """The path of CUDA's compiler, looked for where torch looks too; None if there is none."""
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH")]
    folders = [*(Path(home) / "bin" for home in homes if home), None, "/usr/local/cuda/bin"]
    found = (shutil.which("nvcc", path=folder) for folder in folders)  # None: those on PATH
    return next(filter(None, found), None)


def compile_to_cubin(arch: str = "sm_80", kernel: str | None = None) -> list[KernelReport]:
    """Compile both kernels, or one, for an architecture, and report each variant (dtype, d).

    arch: "sm_80" and the like. kernel: "flash_tiles" or "flash_tensor_cores".
    ValueError for an unknown kernel or arch; CudaMissing without nvcc; RuntimeError with nvcc's words if
    it refuses the source.
    """
    if kernel is not None and kernel not in SOURCES:
        raise ValueError(f"kernel is one of {', '.join(SOURCES)}; got {kernel!r}")
    if not re.fullmatch(r"sm_\d+a?", arch):
        raise ValueError(f'arch is written "sm_80", "sm_90" and so on; got {arch!r}')
    nvcc = find_nvcc()
    if nvcc is None:
        raise CudaMissing("nvcc, CUDA's compiler, is not here: install the CUDA toolkit")
    if os.name == "nt":
        raise CudaMissing("the course compiles CUDA C++ on Linux; WSL gives Windows a Linux")
    names = list(SOURCES) if kernel is None else [kernel]
    return [report for name in names for report in _compile(nvcc, arch, name)]


def _compile(nvcc: str, arch: str, kernel: str) -> list[KernelReport]:
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "kernel.so"
        # A library, and not the cubin alone: its ordinary function shared_bytes is asked below.
        command = [nvcc, "-shared", "-std=c++17", "-cudart=static", f"-arch={arch}"]
        command += ["-Xptxas=-v", "-Xcompiler=-fPIC"]
        run = subprocess.run(
            [*command, "-o", str(library), str(FOLDER / f"{kernel}.cu")],
            capture_output=True,
            text=True,
        )
        if run.returncode:
            raise RuntimeError(f"nvcc refused {kernel}.cu for {arch}:\n{run.stderr}")
        shared_bytes = ctypes.CDLL(str(library)).shared_bytes
        return sorted(
            _reports(run.stdout + run.stderr, kernel, arch, shared_bytes),
            key=lambda report: (report.d, ENUM[report.dtype]),
        )


def _reports(text: str, kernel: str, arch: str, shared_bytes) -> list[KernelReport]:
    """Read ptxas's report: three lines for each variant of the kernel."""
    pattern = (
        rf"Compiling entry function '_Z\d+{kernel}I(?P<dtype>f|6__half|13__nv_bfloat16)Li(?P<d>\d+)E"
        r".*?(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, "
        r"(?P<loads>\d+) bytes spill loads.*?Used (?P<registers>\d+) registers"
    )
    found = []
    for match in re.finditer(pattern, text, flags=re.DOTALL):
        dtype, d = DTYPES[match["dtype"]], int(match["d"])
        found.append(
            KernelReport(
                kernel,
                dtype,
                d,
                arch,
                registers=int(match["registers"]),
                shared_bytes=shared_bytes(ENUM[dtype], d),
                spill_bytes=int(match["stores"]) + int(match["loads"]),
                stack_bytes=int(match["stack"]),
            )
        )
    return found
