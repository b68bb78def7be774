"""The ladder: every way to compute attention that lesson 08 compares, named here and nowhere else.

All rungs have one face, f(q, k, v, causal) -> o with (B, H, N, D) throughout, and all compute the same
function. They differ in what leaves the chip, in which unit multiplies, and in who wrote them.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from course_utils.attention import queries_outside_traffic
from course_utils.gpu_timing import sdpa

HALVES = ("float16", "bfloat16")
ALL = (*HALVES, "float32")
KERNELS = Path(__file__).parents[1] / "kernels"


@dataclass(frozen=True)
class Rung:
    """One way to compute attention, and what it needs."""

    name: str  # in the file of measurements
    title: str  # in figures and tables
    attention: Callable  # f(q, k, v, causal) -> o
    dtypes: tuple[str, ...] = HALVES
    has_backward: bool = True
    capability: tuple[int, int] = (8, 0)  # of the GPU, at the least
    bytes_a_score: int = 0  # alive at worst, forward and backward, where the square is formed
    depths: tuple[int, ...] | None = None  # the only D that it has
    blocks: Callable[[int, int, int], tuple[int, int]] | None = None  # (n, d, itemsize)
    compiles: bool = False  # by nvcc, at its first call: a quarter of a minute or more
    broken: str = ""  # what its first call raised here

    @property
    def passes(self) -> tuple[str, ...]:
        return ("forward", "backward") if self.has_backward else ("forward",)

    def why_not(self, configuration, capability: tuple[int, int], memory_bytes: int) -> str:
        """Why this rung can't be measured at this size, on this GPU; empty if it can."""
        if self.broken:
            return f"does not run here: {self.broken}"
        if capability < self.capability:
            return "needs sm_{}{}".format(*self.capability)
        if configuration.dtype not in self.dtypes:
            return f"has no {configuration.dtype}"
        if self.depths and configuration.d not in self.depths:
            return f"has no D = {configuration.d}"
        needed = self.bytes_a_score * configuration.scores
        if needed > 0.8 * memory_bytes:
            gb = needed / 1e9
            return (
                f"needs about {gb:.0f} GB for the square, and the GPU has {memory_bytes / 1e9:.0f}"
            )
        return ""

    def forward_traffic(self, configuration) -> int | None:
        """Bytes that the blocks of the forward pass load and store, in closed form; None if unknown.

        What a block loads may come from the L2 cache, so fewer bytes may have crossed from HBM.
        """
        n, d = configuration.n, configuration.d
        heads = configuration.batch * configuration.heads
        itemsize = getattr(torch, configuration.dtype).itemsize
        if self.name == "dense":
            return heads * itemsize * dense_passes(n, d, configuration.causal)
        if self.blocks is None:
            return None
        sizes = self.blocks(n, d, itemsize)  # block_q, block_k
        moved = queries_outside_traffic(
            n, n, d, *sizes, causal=configuration.causal, itemsize=itemsize
        )
        return heads * (moved.bytes_moved + n * (4 - itemsize))  # the logsumexp is in float32


def dense(q, k, v, causal=False, dropout_p=0.0):
    """Attention as the formula says it, one kernel a step; the square goes to HBM and back."""
    s = (q * q.shape[-1] ** -0.5) @ k.mT  # (B, H, N, N)
    if causal:
        hidden = torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).triu(1)
        s = s.masked_fill(hidden, -math.inf)
    p = torch.softmax(s, dim=-1)
    if dropout_p:
        p = torch.nn.functional.dropout(p, dropout_p)
    return p @ v


def dense_passes(n: int, d: int, causal: bool) -> int:
    """Numbers that `dense` moves for one head, forward: every step reads its inputs, writes its output.

    Scaled q: 2 n d. S = q k^T: 2 n d in, n^2 out. Mask: n^2 in and out. Softmax: n^2 in and out.
    O = P V: n^2 and n d in, n d out. (The mask itself is one for all heads, and is left out.)
    """
    squares = 1 + 2 * causal + 2 + 1
    return squares * n * n + 6 * n * d


def blockwise(q, k, v, causal=False):
    """Blocks of queries and keys in torch: the square never exists, but every block goes to HBM."""
    from course_utils.kernels import flash_attention

    return flash_attention(q, k, v, causal=causal, backend="blockwise")


def triton(q, k, v, causal=False):
    """The course's own Triton kernels."""
    from course_utils.kernels import flash_attention

    return flash_attention(q, k, v, causal=causal, backend="triton")


def cuda_cpp(tensor_cores: bool) -> Callable:
    """The course's CUDA C++ kernels; there is no backward pass of them."""

    def attention(q, k, v, causal=False):
        from course_utils.kernels.cuda_cpp import cuda_forward

        scale = q.shape[-1] ** -0.5
        return cuda_forward(q, k, v, causal=causal, scale=scale, tensor_cores=tensor_cores)[0]

    return attention


def cuda_blocks(kernel: str) -> Callable[[int, int, int], tuple[int, int]]:
    """The blocks that a CUDA C++ kernel takes, read where they are chosen: `block_q = 4096 / D, ...`."""

    def blocks(n: int, d: int, itemsize: int) -> tuple[int, int]:
        source = KERNELS / "cuda" / f"{kernel}.cu"
        said = r"block_(?:q|k) = (\d+)(?: / (D))?(?=[,;])"
        found = re.findall(said, source.read_text("utf-8"))[:2]
        block_q, block_k = (int(number) // (d if by else 1) for number, by in found)
        return block_q, block_k

    return blocks


def triton_blocks(n: int, d: int, itemsize: int) -> tuple[int, int]:
    """The blocks that the Triton kernel takes on this machine's GPU."""
    from course_utils.kernels.launch import choose_blocks

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return choose_blocks("forward", d, itemsize, n, device)[:2]


LADDER = (
    Rung("dense", "dense, torch", dense, ALL, capability=(0, 0), bytes_a_score=10),
    Rung("blockwise", "blockwise, torch", blockwise, ALL, capability=(0, 0)),
    Rung(
        "cuda_tiles", "CUDA C++, tiles", cuda_cpp(False), ALL, has_backward=False, compiles=True,
        capability=(7, 5), depths=(64, 128), blocks=cuda_blocks("flash_tiles"),
    ),
    Rung(
        "cuda_tensor_cores", "CUDA C++, tensor cores", cuda_cpp(True), has_backward=False,
        compiles=True, depths=(64, 128), blocks=cuda_blocks("flash_tensor_cores"),
    ),
    Rung("triton", "Triton", triton, ALL, blocks=triton_blocks),
    Rung("math", "PyTorch math", sdpa("math"), ALL, capability=(0, 0), bytes_a_score=20),
    Rung("efficient", "PyTorch efficient", sdpa("efficient"), ALL, capability=(5, 0)),
    Rung("flash", "PyTorch flash", sdpa("flash")),
    Rung("cudnn", "PyTorch cuDNN", sdpa("cudnn")),
)  # fmt: skip

TITLES = {rung.name: rung.title for rung in LADDER}
