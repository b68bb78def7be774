"""A student's attention against PyTorch's own, in one run.

A speed is worth something if the work was done. So every round has fresh inputs, PyTorch computes the same
ones in the same round, and every output is compared with PyTorch's after its timing, the last one in float64
too. What is faster than the hardware allows is refused, and so is work that goes on beside the clock.
"""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from course_utils.gpu_timing.ceilings import (
    Ceilings,
    ImpossibleSpeed,
    machine_ceilings,
    refuse_impossible,
)
from course_utils.gpu_timing.clocks import GpuClock
from course_utils.gpu_timing.medians import Ratio, ratio_of
from course_utils.gpu_timing.reference import reference_attention, relative_error

BACKENDS = {
    "math": SDPBackend.MATH,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}
TOKENS, WIDTH = 16384, 2048  # batch * n and heads * d: the sizes that attention is compared at


@dataclass(frozen=True)
class AttentionTiming:
    """How fast an attention is beside PyTorch's. If `cause` is not empty, it is why none of it counts."""

    baseline: str  # the name of PyTorch's backend
    ratio: Ratio | None = None
    flops_per_second: float = 0.0
    error: float = 0.0  # against float64, by norm, on two heads
    baseline_error: float = 0.0
    cause: str = ""  # two to four words
    detail: str = ""


def sdpa(backend: str) -> Callable:
    """PyTorch's attention by one backend ("math", "efficient", "flash", "cudnn"): f(q, k, v, causal).

    Causal is aligned at the top left, which is the same where there are as many queries as keys.
    """

    def attention(q, k, v, causal=False, dropout_p=0.0):
        with sdpa_kernel(BACKENDS[backend]):
            return torch.nn.functional.scaled_dot_product_attention(
                q, k, v, is_causal=causal, dropout_p=dropout_p
            )

    return attention


def baseline_backend() -> str:
    """What to compare with on this GPU: "flash", or "efficient" below sm_80, which flash does not run on."""
    return "flash" if torch.cuda.get_device_capability() >= (8, 0) else "efficient"


def attention_flops(n: int, d: int, heads: int, *, causal: bool, backward: bool = False) -> float:
    """Operations of attention over n queries and keys, `heads` counted over the whole batch.

    Two products, 4 n^2 d; half of it when causal, by convention (exactly half the pairs and n / 2 more);
    backward five products in place of two. All kernels are counted so, whatever more they do.
    """
    return 4.0 * n * n * d * heads * (0.5 if causal else 1.0) * (2.5 if backward else 1.0)


def attention_bytes(
    n: int, d: int, heads: int, *, itemsize: int = 2, backward: bool = False
) -> int:
    """The fewest bytes attention can move: q, k, v in and o out; or q, k, v, o, do in, dq, dk, dv out."""
    return (8 if backward else 4) * n * d * heads * itemsize


def time_attention(
    candidate: Callable,
    *,
    n: int,
    d: int,
    causal: bool,
    tokens: int = TOKENS,
    width: int = WIDTH,
    dtype: torch.dtype = torch.bfloat16,
    rounds: int = 20,
    warm_up: int = 3,
    device: str = "cuda",
    baseline: str | None = None,
    ceilings: Ceilings | None = None,
    clock=None,
) -> AttentionTiming:
    """Time candidate(q, k, v, causal) -> o beside PyTorch's, both on the same fresh inputs in each round.

    q, k, v, o: (tokens // n, width // d, n, d). baseline: a backend of PyTorch, this GPU's if not given.
    Whatever the candidate does, this returns: what was wrong stands in `cause` and `detail`.
    """
    name = baseline or baseline_backend()
    theirs, clock = sdpa(name), clock or GpuClock(device)
    ceilings = ceilings or machine_ceilings(device=device, clock=clock)
    shape = (tokens // n, width // d, n, d)
    random = torch.Generator(device).manual_seed(secrets.randbits(62))
    waits = ([], [])
    for number in range(-warm_up, rounds):
        inputs = [torch.randn(shape, generator=random, device=device).to(dtype) for _ in range(3)]
        copies = [x.clone() for x in inputs]
        exact = None
        if number % 2:
            exact = clock.measure(theirs, *inputs, causal)
        try:
            mine = clock.measure(candidate, *copies, causal)
            mine.wait()
        except (Exception, SystemExit) as error:
            return _raised(name, error)
        exact = exact or clock.measure(theirs, *inputs, causal)
        if wrong := _wrong(mine.result, exact.result, inputs, copies):
            return AttentionTiming(name, cause=wrong[0], detail=wrong[1])
        if number >= 0:
            waits[0].append(mine.wait()), waits[1].append(exact.wait())

    ratio = ratio_of(*waits)
    heads = shape[0] * shape[1]
    flops = attention_flops(n, d, heads, causal=causal)
    reference = reference_attention(*(x[-1, -2:] for x in inputs), causal=causal)[0]
    errors = [relative_error(each.result[-1, -2:], reference) for each in (mine, exact)]
    timing = {
        "ratio": ratio,
        "flops_per_second": flops / ratio.ours.seconds if ratio.ours.seconds > 0 else 0.0,
        "error": errors[0],
        "baseline_error": errors[1],
    }
    try:
        moved_bytes = attention_bytes(n, d, heads, itemsize=dtype.itemsize)
        refuse_impossible(ratio.ours.seconds, flops, moved_bytes, ceilings)
    except ImpossibleSpeed as impossible:
        return AttentionTiming(name, **timing, cause="impossible speed", detail=str(impossible))
    if not errors[0] <= 2 * errors[1] + 1e-7:
        detail = f"against float64 the error is {errors[0]:.1e}, PyTorch's {errors[1]:.1e}"
        return AttentionTiming(name, **timing, cause="not precise enough", detail=detail)
    try:
        wall = _wall_seconds(lambda: candidate(*copies, causal), device)
    except (Exception, SystemExit) as error:
        return _raised(name, error)
    if wall > 2 * ratio.ours.seconds + 1e-3:
        detail = f"the clock of the stream says {ratio.ours.seconds:.2e} s, the clock on the wall {wall:.2e}"
        return AttentionTiming(name, **timing, cause="work beside the clock", detail=detail)
    return AttentionTiming(name, **timing)


def _raised(baseline: str, error: BaseException) -> AttentionTiming:
    """The candidate raised, in whichever of its calls."""
    return AttentionTiming(baseline, cause="error", detail=f"{type(error).__name__}: {error}")


def _wrong(mine: object, exact: torch.Tensor, inputs: list, copies: list) -> tuple[str, str] | None:
    """(cause, detail) if an output is not the attention of the inputs."""
    if type(mine) is not torch.Tensor:
        return "not a tensor", f"the result is a {type(mine).__name__}"
    for what in ("shape", "dtype", "device", "layout"):
        if (got := getattr(mine, what)) != (wanted := getattr(exact, what)):
            return f"wrong {what}", f"expected {wanted}, got {got}"
    if not all(map(torch.equal, inputs, copies)):
        return "inputs changed", "q, k or v is not what it was before the call"
    difference = relative_error(mine, exact)
    limit = max(4 * torch.finfo(exact.dtype).eps, 1e-5)
    if not difference <= limit:  # nan too
        return (
            "wrong values",
            f"off PyTorch's by {difference:.1e} of its norm; {limit:.1e} is rounding",
        )
    return None


def _wall_seconds(function: Callable[[], object], device: str, calls: int = 5) -> float:
    """Seconds a call by the clock on the wall, from an idle device to an idle one: the best of three."""
    settle = torch.cuda.synchronize if torch.device(device).type == "cuda" else lambda: None
    seconds = []
    for _ in range(3):
        settle()
        start = time.perf_counter()
        for _ in range(calls):
            function()
        settle()
        seconds.append((time.perf_counter() - start) / calls)
    return min(seconds)
