"""FlashAttention's forward pass in CUDA C++, called from torch: two rungs of lesson 08's ladder.

cuda/flash_tiles.cu         tiles in shared memory, ordinary arithmetic in float32
cuda/flash_tensor_cores.cu  the same steps, both products on tensor cores
cuda/binding.cpp            takes torch's tensors to either

Nothing is compiled before it is wanted. At the first call torch.utils.cpp_extension builds the kernel for
the GPU that is there, which takes a quarter of a minute or more, and keeps it in torch's own folder of extensions.
"""

import functools
import re

import torch

from course_utils.kernels.cuda_compile import (
    FOLDER,
    SOURCES,
    CudaMissing,
    KernelReport,
    compile_to_cubin,
    find_nvcc,
)
from course_utils.kernels.validation import checked_scale

__all__ = [
    "CudaMissing",
    "KernelReport",
    "compile_to_cubin",
    "compiles_here",
    "cuda_forward",
    "missing_here",
]

HEAD_SIZES = (64, 128)
DTYPES = {
    "flash_tiles": (torch.float32, torch.float16, torch.bfloat16),
    "flash_tensor_cores": (torch.float16, torch.bfloat16),
}


@functools.cache
def missing_here() -> str:
    """What this machine lacks to compile and run CUDA C++, in one line; empty if nothing."""
    if torch.version.cuda is None:
        return "this torch is built without CUDA: install the CUDA build of torch"
    if not torch.cuda.is_available():
        return "no NVIDIA GPU that torch can use"
    if find_nvcc() is None:
        return (
            "nvcc, CUDA's compiler, is not here: install the CUDA toolkit of torch's version "
            + (torch.version.cuda)
        )
    from torch.utils import cpp_extension  # it looks around for compilers, which takes a moment

    if not cpp_extension.is_ninja_available():
        return "ninja is not here: pip install ninja"
    return ""


def compiles_here() -> bool:
    """Whether cuda_forward can be compiled and run on this machine."""
    return not missing_here()


def cuda_forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    tensor_cores: bool = True,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention's output (B, H, n_queries, D), and each row's logsumexp (B, H, n_queries) in float32.

    q: (B, H, n_queries, D); k, v: (B, H, n_keys, D), any lengths; D 64 or 128; on one CUDA device.
    tensor_cores: float16 and bfloat16, from sm_80; without them float32 too, from sm_75.
    causal: aligned at the bottom right (PyTorch's own is_causal aligns at the top left). A query that sees no
    key has output 0 and logsumexp -inf. scale: 1 / sqrt(D) if not given; any finite number.
    Forward only: no gradient flows. Inputs that are not contiguous are copied.
    ValueError for what it cannot take; CudaMissing where nothing can be compiled or run.
    Source: FlashAttention-2 (Dao 2023), algorithm 1; lesson 07's flash_queries_outside.
    """
    kernel = "flash_tensor_cores" if tensor_cores else "flash_tiles"
    _refuse_what_no_kernel_takes(q, k, v, kernel)
    scale = checked_scale(scale, q.shape[3])
    missing = missing_here()
    if missing:
        raise CudaMissing(missing)
    if not q.is_cuda:
        raise ValueError(f"q, k and v must be on a CUDA device; they are on {q.device}")
    arch = "sm_{}{}".format(*torch.cuda.get_device_capability(q.device))
    if int(arch[3:]) < SOURCES[kernel]:
        without = "; tensor_cores=False runs from sm_75" if tensor_cores else ""
        raise ValueError(
            f"{kernel} needs sm_{SOURCES[kernel]} or newer; this GPU is {arch}{without}"
        )

    q, k, v = (_ready(x) for x in (q, k, v))
    out = torch.empty_like(q)
    logsumexp = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    if out.numel():
        _extension(kernel, arch).forward(q, k, v, out, logsumexp, scale, causal)
    return out, logsumexp


def _refuse_what_no_kernel_takes(q, k, v, kernel: str) -> None:
    for name, x in {"q": q, "k": k, "v": v}.items():
        if not isinstance(x, torch.Tensor) or x.ndim != 4:
            got = tuple(x.shape) if isinstance(x, torch.Tensor) else type(x).__name__
            raise ValueError(f"{name} must be a tensor (B, H, N, D); got {got}")
        if x.device != q.device:
            raise ValueError(f"q, k and v must be on one device; got {q.device} and {x.device}")
        if x.dtype != q.dtype:
            raise ValueError(f"q, k and v must have one dtype; got {q.dtype} and {x.dtype}")
    if k.shape != v.shape or k.shape[:2] != q.shape[:2] or k.shape[3] != q.shape[3]:
        shapes = ", ".join(str(tuple(x.shape)) for x in (q, k, v))
        raise ValueError(f"q (B, H, n_queries, D) and k, v (B, H, n_keys, D) do not fit: {shapes}")
    if q.shape[3] not in HEAD_SIZES:
        raise ValueError(f"{kernel} is written for D of 64 and 128; got {q.shape[3]}")
    if q.dtype not in DTYPES[kernel]:
        known = ", ".join(str(dtype) for dtype in DTYPES[kernel])
        also = "; tensor_cores=False takes it" if q.dtype in DTYPES["flash_tiles"] else ""
        raise ValueError(f"{kernel} takes {known}; got {q.dtype}{also}")


def _ready(x: torch.Tensor) -> torch.Tensor:
    """Contiguous, and from a multiple of 16 bytes on, since the kernel copies 16 at a time."""
    x = x.detach().contiguous()
    return x if x.data_ptr() % 16 == 0 else x.clone()


@functools.cache
def _extension(kernel: str, arch: str):
    """The compiled module with `forward`. Its name says for what it was built: torch caches by name."""
    from torch.utils import cpp_extension

    number = arch.removeprefix("sm_")
    return cpp_extension.load(
        name=re.sub(r"\W", "_", f"course_{kernel}_{arch}_torch_{torch.__version__}"),
        sources=[str(FOLDER / "binding.cpp"), str(FOLDER / f"{kernel}.cu")],
        extra_cflags=["-O2"],
        # torch forbids conversions like float(x) for half types; these lines allow them again.
        extra_cuda_cflags=[
            f"-gencode=arch=compute_{number},code={arch}",
            "-U__CUDA_NO_HALF_CONVERSIONS__",
            "-U__CUDA_NO_BFLOAT16_CONVERSIONS__",
        ],
    )
