"""What a GPU can do at best, measured; and the refusal of anything faster.

A data sheet says what a GPU could do; a large copy and a large matrix product say what it does. No program
moves its bytes faster than the one or multiplies faster than the other. If one seems to, the measurement is
wrong: work that was not done, or not waited for.
"""

from dataclasses import dataclass

import torch

from course_utils.gpu_timing.clocks import GpuClock
from course_utils.gpu_timing.medians import median_seconds

MARGIN = 1.25  # data sheets promise up to a quarter more than a copy or a product reaches


class ImpossibleSpeed(ValueError):
    """A timing that the hardware cannot have reached."""


@dataclass(frozen=True)
class Ceilings:
    """Bytes a second, read and written ones counted; operations a second, of 16-bit numbers."""

    copy_bytes_per_second: float
    matmul_flops_per_second: float


def machine_ceilings(
    *, size: int = 8192, copy_bytes: int = 2**31, device: str = "cuda", dtype=None, clock=None
) -> Ceilings:
    """Measure both ceilings: a copy of `copy_bytes`, a product of two random matrices (size, size).

    The numbers are random: a GPU multiplies zeros faster, since they take less power. dtype: bfloat16
    where the GPU has it in its tensor cores (sm_80 and newer), else float16.
    """
    clock = clock or GpuClock(device)
    dtype = dtype or _fast_dtype()
    if torch.device(device).type == "cuda":
        copy_bytes = min(copy_bytes, torch.cuda.mem_get_info()[0] // 8)
    source = torch.ones(copy_bytes, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    copy_seconds = median_seconds(lambda: target.copy_(source), warm_up=20, clock=clock)

    a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    product = torch.empty_like(a)
    matmul_seconds = median_seconds(
        lambda: torch.matmul(a, b, out=product), warm_up=20, clock=clock
    )
    return Ceilings(2 * copy_bytes / copy_seconds, 2 * size**3 / matmul_seconds)


def refuse_impossible(seconds: float, flops: float, moved_bytes: float, ceilings: Ceilings) -> None:
    """Raise ImpossibleSpeed if work of so many operations and bytes can't be done in so little time.

    flops, moved_bytes: what any program must do at the least. A quarter above the ceilings is let pass.
    """
    rates = {
        "operations": (flops, ceilings.matmul_flops_per_second),
        "bytes": (moved_bytes, ceilings.copy_bytes_per_second),
    }
    for what, (amount, rate) in rates.items():
        if not seconds * MARGIN * rate >= amount:  # so that nan is refused too
            raise ImpossibleSpeed(
                f"{amount:.3g} {what} in {1000 * seconds:.4g} ms would be {_times(amount, seconds, rate)} "
                f"what this GPU reaches at best ({rate:.3g} a second): this work was not done in that time"
            )


def _times(amount: float, seconds: float, rate: float) -> str:
    return f"{amount / seconds / rate:.1f} times" if seconds > 0 else "infinitely many times"


def _fast_dtype() -> torch.dtype:
    return torch.bfloat16 if torch.cuda.get_device_capability() >= (8, 0) else torch.float16
