"""8.8: make it fast: the student's attention beside PyTorch's flash backend, in one run, on a GPU and nowhere else.

Before anything is timed, one call is watched, and another one after it, both of the timed size: which of torch's
operations it comes to, and whether it launches a Triton kernel of its own. A race that torch's attention runs
against itself would be a draw.
"""

import sys
from functools import cache

from course_utils.checks.core import (
    Case,
    Error,
    Exercise,
    Measure,
    Observation,
    Status,
    Verdict,
    failed,
)
from course_utils.checks.observe import describe_error
from course_utils.triton_meter.source import is_stub

RATIO = 1.0  # at least as fast as PyTorch's flash backend
_ATTENTION_OF_OTHERS = (
    "course_utils",
    "flash_attn",
    "xformers",
    "transformer_engine",
    "cudnn",
    "cutlass",
    "jax",
)
_PRODUCTS = {"mm", "bmm", "addmm", "baddbmm", "matmul", "linear", "einsum", "_softmax", "softmax"}
_SAID = {
    "not a tensor": "fast_attention(q, k, v, causal) returns a tensor like q.",
    "wrong values": "Its values are not those of attention. 8.4 and 8.5 check a kernel's values one by one.",
    "inputs changed": "Whoever called it still needs q, k and v.",
    "impossible speed": "Where is the work done that the clock does not see?",
    "work beside the clock": "Work on another stream, or another thread, is work as well.",
}


def _cases(seed: int) -> list[Case]:
    """Two sizes; the inputs themselves are fresh in every round of the timing."""
    return [
        Case("n = 2,048, d = 64", {"n": 2048, "d": 64, "causal": False}),
        Case("n = 4,096, d = 128, causal", {"n": 4096, "d": 128, "causal": True}),
    ]


def gpu_missing() -> str:
    """What this machine lacks to time a kernel on, or ""."""
    from course_utils.triton_here import HAS_GPU, INTERPRETED

    if not HAS_GPU:
        return (
            "Speed can be measured on an NVIDIA GPU of compute capability 8.0 (A100) or newer, and there is "
            "none here. Hosted notebooks have some. Nothing else in this lesson depends on it."
        )
    return (
        "This notebook runs Triton's interpreter (TRITON_INTERPRET=1), not the GPU."
        if INTERPRETED
        else ""
    )


def _run(answer, case: Case) -> Observation:
    if is_stub(answer):
        return Observation(error=Error("NotImplementedError", ""))
    if missing := gpu_missing():
        return Observation(unavailable=missing)
    try:
        more = watch(answer, case, _timed_shape(case))
        if not _is_own_work(more):
            return Observation(value={}, more=more)  # there is nothing of the student's to time
        timing, after = time_on_gpu(answer, case), watch(answer, case, _timed_shape(case))
        return Observation(value=timing, more=more if _is_own_work(after) else after)
    except KeyboardInterrupt:
        raise
    except BaseException as problem:
        return Observation(error=describe_error(problem, answer))


def _is_own_work(watched: dict) -> bool:
    return not watched["others"] and not watched["operations"] and watched["launches"] > 0


def _timed_shape(case: Case) -> tuple[int, ...]:
    """(B, H, N, D) of the timing: who does something else at a smaller size is not watched there."""
    from course_utils.gpu_timing.attention import TOKENS, WIDTH

    n, d = case.given["n"], case.given["d"]
    return TOKENS // n, WIDTH // d, n, d


def watch(answer, case: Case, shape: tuple[int, ...], device: str = "cuda") -> dict:
    """One call: others' libraries it enters, operations of torch, Triton kernels launched."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from triton.runtime.jit import JITFunction, KernelInterface

    operations, others, launches = set(), set(), []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            operations.add(function.overloadpacket.__name__)
            return function(*args, **(kwargs or {}))

    def at_event(frame, event, arg):
        module = frame.f_globals.get("__name__") or ""
        if event == "call" and module.split(".")[0] in _ATTENTION_OF_OTHERS and module != __name__:
            others.add(module)

    launch, run = KernelInterface.__getitem__, JITFunction.run

    def counted(kernel, grid):
        launches.append(getattr(kernel, "__name__", "a kernel"))
        return launch(kernel, grid)

    def counted_run(kernel, *args, **kwargs):  # kernel.run(..., grid=grid) is a launch too
        launches.append(getattr(kernel, "__name__", "a kernel"))
        return run(kernel, *args, **kwargs)

    q, k, v = (torch.randn(shape, device=device).to(torch.bfloat16) for _ in range(3))
    previous = sys.getprofile()
    KernelInterface.__getitem__, JITFunction.run = counted, counted_run
    try:
        with Watch():
            sys.setprofile(at_event)
            answer(q, k, v, case.given["causal"])
    finally:
        sys.setprofile(previous)
        KernelInterface.__getitem__, JITFunction.run = launch, run
    used = {name for name in operations if name in _PRODUCTS or "attention" in name}
    return {"operations": sorted(used), "others": sorted(others), "launches": len(launches)}


@cache
def _ceilings():
    from course_utils.gpu_timing import machine_ceilings

    return machine_ceilings()


def time_on_gpu(answer, case: Case) -> dict:
    """The timing as plain data."""
    import torch

    from course_utils.gpu_timing import time_attention

    timing = time_attention(answer, **case.given, ceilings=_ceilings())
    told = {"cause": timing.cause, "detail": timing.detail, "baseline": timing.baseline}
    told["device"] = torch.cuda.get_device_name()
    if timing.ratio is not None:
        told |= {"ratio": timing.ratio.ratio, "low": timing.ratio.low, "high": timing.ratio.high}
    return told


def _judge(case: Case, seen: Observation) -> Verdict:
    if seen.more["others"]:
        return failed("somebody else's attention", f"Your function goes to {seen.more['others'][0]}. Launch "
                      "a kernel of your own.")  # fmt: skip
    if seen.more["operations"]:
        return failed(
            "torch's attention",
            f"Your function lets torch do the work ({', '.join(seen.more['operations'])}). torch may make and "
            "reshape tensors; products and softmax are your kernel's.",
        )
    if not seen.more["launches"]:
        return failed("no kernel launched", "Your function launches no Triton kernel.")
    timing = seen.value
    if cause := timing["cause"]:
        told = f"{timing['detail']}. {_SAID.get(cause, '')}".strip()
        return failed("raised an error" if cause == "error" else cause, told)
    measure = Measure(
        timing["ratio"], f"times the speed of PyTorch's {timing['baseline']}", None, RATIO
    )
    name = "causal" if case.given["causal"] else "not causal"
    if not timing["ratio"] >= RATIO:
        return failed(
            "too slow",
            f"It is right, and {timing['ratio']:.2f} times as fast as PyTorch's {timing['baseline']} backend "
            f"({timing['low']:.2f} to {timing['high']:.2f} in the rounds). Block sizes, warps and stages come "
            "first: what does 8.3 say about yours? Then: which masks does a whole block not need?",
            **{name: measure},
        )
    told = f"Verified on {timing['device']}: values after timing, and speed."
    return Verdict(Status.PASSED, told, {name: measure})


EXERCISE = Exercise("8.8", "make it fast", 4, _cases, _run, _judge, optional=True, gpu_only=True)
