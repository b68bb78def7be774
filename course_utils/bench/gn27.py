"""The paper's famous measurement (GN-27), again, on the GPU at hand.

FlashAttention's paper times attention of GPT-2 medium, forward and backward together: N = 1024, d = 64, 16
heads, a batch of 64, in half precision, on an A100. It has a mask and dropout. The course's own kernels and
cuDNN as torch offers it are timed without dropout, so that is measured as well, with a mask and without.
The paper counts bytes that cross; here it is the most bytes alive at once, which torch counts exactly.
"""

from collections.abc import Sequence

import torch

from course_utils.bench.configurations import Configuration
from course_utils.bench.ladder import Step, attempt, trouble
from course_utils.bench.rungs import Rung, dense
from course_utils.gpu_timing import Job, Timing, extra_peak_bytes, interleaved, sdpa

BATCH, HEADS, N, D, DROPOUT = 64, 16, 1024, 64, 0.1
PAPER = {  # an A100; Dao et al. 2022, figure 2
    "standard_ms": 41.7,
    "flash_ms": 7.3,
    "runtime_ratio": 41.7 / 7.3,
    "standard_hbm_gb": 40.3,
    "flash_hbm_gb": 4.4,
    "hbm_ratio": 40.3 / 4.4,
}
VARIANTS = {  # name: (causal, dropout)
    "causal, dropout": (True, DROPOUT),
    "causal": (True, 0.0),
    "plain": (False, 0.0),
}


def gn27_step(causal: bool, device: str = "cuda") -> Step:
    """The figure's inputs."""
    configuration = Configuration(N, D, causal, "float16", tokens=BATCH * N, width=HEADS * D)
    return Step(configuration, device)


def with_dropout(rung: Rung):
    """The rung's attention with dropout, for the two that have it."""
    return {"dense": dense, "flash": sdpa("flash"), "efficient": sdpa("efficient")}[rung.name]


def measure_variant(
    name: str,
    rungs: Sequence[Rung],
    step: Step,
    *,
    capability: tuple[int, int],
    memory_bytes: int,
    seconds_each: float = 0.5,
    clock=None,
) -> list[dict]:
    """A row for every rung with a backward pass: milliseconds of both passes together, peak bytes.

    The ratios are how many times as long, and as many bytes, the dense way takes.
    """
    causal, dropout = VARIANTS[name]
    peaks, failed, both = {}, {}, {}
    for rung in rungs:
        unable = rung.why_not(step.configuration, capability, memory_bytes)
        if unable or not rung.has_backward:
            continue
        if dropout and rung.name not in ("dense", "flash", "efficient"):
            continue
        attention = with_dropout(rung) if dropout else rung.attention
        arguments = (causal, dropout) if dropout else (causal,)

        def run(attention=attention, arguments=arguments):
            return step.backward(attention(*step.inputs, *arguments))

        both[rung.name] = run
        attempt((rung.name, "both"), lambda run=run: peak_bytes(run), peaks, failed)
    jobs = {rung: Job(run) for rung, run in both.items() if (rung, "both") in peaks}
    raised = {}
    found = interleaved(jobs, seconds_each=seconds_each, clock=clock, failures=raised)
    troubles = {this[0]: what for this, what in failed.items()}
    troubles |= {rung: trouble(error) for rung, error in raised.items()}
    times = {rung: Timing.of(seconds) for rung, seconds in found.items()}
    standard = times.get("dense")
    rows = []
    for rung in both:
        row = {"variant": name, "rung": rung}
        if rung in troubles:
            rows.append(row | troubles[rung])
            continue
        mine, peak = times[rung], peaks[rung, "both"]
        row |= {"ms": 1e3 * mine.seconds, "ms_low": 1e3 * mine.low, "ms_high": 1e3 * mine.high}
        row |= {"repeats": mine.repeats, "peak_bytes": peak}
        if standard:
            row["runtime_ratio"] = standard.seconds / mine.seconds
            row["peak_ratio"] = peaks["dense", "both"] / peak
        rows.append(row)
    return rows


def peak_bytes(run) -> int:
    """The most bytes alive at once besides q, k, v and dO: the output and three gradients count."""
    run()
    extra, gradients = extra_peak_bytes(run)
    return extra + sum(each.nbytes for each in gradients)


def measure_gn27(rungs: Sequence[Rung], device: str = "cuda", **how) -> dict:
    """All variants, beside the paper's numbers."""
    rows = []
    for name, (causal, _) in VARIANTS.items():
        rows += measure_variant(name, rungs, gn27_step(causal, device), **how)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    sizes = {"batch": BATCH, "heads": HEADS, "n": N, "d": D, "dtype": "float16", "dropout": DROPOUT}
    return {"sizes": sizes, "paper": PAPER, "rows": rows}
