"""All rungs at one size, in one run.

Each rung is called alone first: that compiles it, counts its memory, and shows whether it runs at all. Then
those that do take turns on the clock. At last each is called once more and compared with float64: a speed
does not stand beside a wrong result. One rung that fails costs its own line and no other.
"""

import gc
import time
from collections.abc import Callable, Sequence
from functools import partial

import torch

from course_utils.bench.configurations import Configuration
from course_utils.bench.rungs import Rung
from course_utils.gpu_timing import (
    Ceilings,
    Job,
    Timing,
    extra_peak_bytes,
    interleaved,
    reference_attention,
    refuse_impossible,
    relative_error,
)

WRONG = 0.03  # of the norm: several times what 16 bits explain
PASSES = ("forward", "backward")
TOO_SLOW_SECONDS = 3.0


class TooSlow(RuntimeError):
    """A run takes so long that many of them would take minutes."""


class GpuLost(RuntimeError):
    """The GPU answers to nothing any more; no later measurement in this process would stand."""


class Step:
    """One size with its inputs, and the rungs that still run there."""

    def __init__(self, configuration: Configuration, device: str = "cuda"):
        self.configuration = configuration
        dtype = getattr(torch, configuration.dtype)
        q, k, v, do = (torch.randn(configuration.shape, device=device).to(dtype) for _ in range(4))
        self.inputs = tuple(x.requires_grad_() for x in (q, k, v))
        self.grad_output = do

    def forward(self, rung: Rung) -> torch.Tensor:
        return rung.attention(*self.inputs, self.configuration.causal)

    def forward_alone(self, rung: Rung) -> torch.Tensor:
        """Without autograd, as when nothing is trained."""
        with torch.no_grad():
            return self.forward(rung)

    def backward(self, o: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.autograd.grad(o, self.inputs, self.grad_output)

    def extra_bytes(self, rung: Rung, which: str) -> int:
        """Bytes besides the results, forward as for training. The first call compiles and warms up."""
        for _ in range(2):
            start = time.perf_counter()
            extra, o = extra_peak_bytes(self.forward, rung)
            if which == "backward":
                extra, _ = extra_peak_bytes(self.backward, o)
            seconds, o = time.perf_counter() - start, None  # what o has saved goes too
        if seconds > TOO_SLOW_SECONDS:
            raise TooSlow(f"one run takes {seconds:.0f} s")
        return extra

    def job(self, rung: Rung, which: str) -> Job:
        if which == "forward":
            return Job(lambda: self.forward_alone(rung))
        return Job(self.backward, lambda: self.forward(rung))

    def errors(self, rung: Rung, which: str, exact: Sequence[torch.Tensor]) -> list[float]:
        """Relative errors on the last two heads: of O, or of dQ, dK and dV."""
        o = self.forward(rung)
        if which == "forward":
            return [relative_error(o[-1, -2:], exact[0])]
        gradients = self.backward(o)
        return [relative_error(mine[-1, -2:], right) for mine, right in zip(gradients, exact[1:])]

    def exact(self) -> tuple[torch.Tensor, ...]:
        """O, dQ, dK, dV of the last two heads, in float64."""
        slices = [x[-1, -2:] for x in (*self.inputs, self.grad_output)]
        return reference_attention(*slices, causal=self.configuration.causal)


def measure(
    rungs: Sequence[Rung],
    step: Step,
    ceilings: Ceilings,
    *,
    baseline: str,
    capability: tuple[int, int],
    memory_bytes: int,
    seconds_each: float = 0.25,
    clock=None,
) -> list[dict]:
    """A row for every rung and pass: its numbers, or why there are none.

    Raises GpuLost if the GPU stops answering.
    """
    configuration = step.configuration
    wanted = [(rung, which) for rung in rungs for which in PASSES if which in rung.passes]
    reasons = {rung.name: rung.why_not(configuration, capability, memory_bytes) for rung in rungs}
    failed, extra, times, errors = {}, {}, {}, {}
    for rung, which in wanted:
        if not reasons[rung.name]:
            attempt((rung.name, which), partial(step.extra_bytes, rung, which), extra, failed)

    for each in PASSES:
        jobs = {
            rung.name: step.job(rung, which)
            for rung, which in wanted
            if which == each and (rung.name, which) in extra
        }
        raised = {}
        found = interleaved(jobs, seconds_each=seconds_each, clock=clock, failures=raised)
        times[each] = {name: Timing.of(seconds) for name, seconds in found.items()}
        for name, error in raised.items():
            failed[name, each] = trouble(error)
            check_gpu(name)

    exact = step.exact()
    for rung, which in wanted:
        if rung.name in times[which]:
            attempt((rung.name, which), partial(step.errors, rung, which, exact), errors, failed)

    rows = []
    for rung, which in wanted:
        row = key(configuration, rung, which)
        this = rung.name, which
        if reasons[rung.name]:
            row["skipped"] = reasons[rung.name]
        elif this in failed:
            row |= failed[this]
        else:
            row |= numbers(rung, which, configuration, times[which], baseline, ceilings)
            row |= memory(extra[this], configuration)
            row["errors"] = errors[this]
            judge(row, configuration, ceilings)
        rows.append(row)
    return rows


def key(configuration: Configuration, rung: Rung, which: str) -> dict:
    return {
        "n": configuration.n,
        "d": configuration.d,
        "causal": configuration.causal,
        "pass": which,
        "rung": rung.name,
    }


def numbers(rung, which, configuration, times: dict[str, Timing], baseline, ceilings) -> dict:
    """Speed, and what it is a part of."""
    mine = times[rung.name]
    rate = configuration.flops(which == "backward") / mine.seconds
    row = {
        "ms": 1e3 * mine.seconds,
        "ms_low": 1e3 * mine.low,
        "ms_high": 1e3 * mine.high,
        "repeats": mine.repeats,
        "tflops": rate / 1e12,
        "of_matmul": rate / ceilings.matmul_flops_per_second,
    }
    if theirs := times.get(baseline):
        row["ratio"] = theirs.seconds / mine.seconds
    if which == "forward":
        row |= counted_traffic(rung, configuration)
    return row


def memory(extra_bytes: int, configuration: Configuration) -> dict:
    return {
        "extra_bytes": extra_bytes,
        "extra_bytes_a_sequence": extra_bytes / configuration.batch,
    }


def judge(row: dict, configuration: Configuration, ceilings: Ceilings) -> None:
    """Take the numbers out of a row whose result is wrong, or whose speed can't be."""
    backward = row["pass"] == "backward"
    reason = ""
    if not all(error <= WRONG for error in row["errors"]):  # nan is wrong too
        reason = f"wrong values: errors {', '.join(f'{error:.1e}' for error in row['errors'])}"
    try:
        flops, least_bytes = configuration.flops(backward), configuration.least_bytes(backward)
        refuse_impossible(row["ms"] / 1e3, flops, least_bytes, ceilings)
    except ValueError as impossible:
        reason = str(impossible)
    if reason:
        for name in set(row) - {"n", "d", "causal", "pass", "rung"}:
            del row[name]
        row["failed"] = reason


def attempt(this: tuple[str, str], work: Callable[[], object], found: dict, failed: dict) -> None:
    """Put work() into `found`, or what it raised into `failed`; then leave no memory behind."""
    try:
        found[this] = work()
    except Exception as error:
        failed[this] = trouble(error)
    if this in failed:  # outside the except: the error holds what its frames held
        gc.collect()
        check_gpu(this[0])
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def check_gpu(name: str) -> None:
    """Raise GpuLost if an earlier failure has taken the GPU along, as an illegal access does."""
    if not torch.cuda.is_available():
        return
    try:
        torch.cuda.synchronize()
    except Exception as error:
        raise GpuLost(f"after {name} the GPU answers no more: {words(error)}") from None


def counted_traffic(rung: Rung, configuration: Configuration) -> dict:
    """A rung whose count fails keeps its timing, and the row says why there is no count."""
    try:
        traffic = rung.forward_traffic(configuration)
    except Exception as error:
        return {"traffic_failed": words(error)}
    return {} if traffic is None else {"traffic_bytes": traffic}


def trouble(error: Exception) -> dict[str, str]:
    """What a row says in place of numbers: too large and too slow is no fault of the program."""
    is_no_fault = isinstance(error, (TooSlow, torch.OutOfMemoryError))
    return {"skipped" if is_no_fault else "failed": words(error)}


def words(error: Exception) -> str:
    """An error in one line that fits into the file."""
    text = f"{type(error).__name__}: {error}"
    return " ".join(text.split())[:300]
