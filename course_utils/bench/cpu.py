"""course.py bench cpu: what blocks save on a machine without a GPU.

A laptop's caches play the part of the chip, and nobody says what is in them. Even so the square of scores
has to be somewhere: this measures dense attention beside the blockwise one, in seconds and in bytes alive,
with the two rates of this machine beside them, measured as in lesson 06.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from course_utils.bench import files
from course_utils.bench.rungs import TITLES, blockwise, dense
from course_utils.gpu_timing import CpuClock, Job, Timing, interleaved, machine_ceilings
from course_utils.torch_memory import torch_peak_bytes

HEADS, D = 4, 64
LENGTHS = (512, 1024, 2048, 4096)
RUNGS = {"dense": dense, "blockwise": blockwise}


def measure_cpu(
    *,
    out: Path | None = None,
    lengths: Sequence[int] = LENGTHS,
    rungs: dict[str, Callable] | None = None,
    seconds_each: float = 1.0,
    say: Callable[[str], None] = lambda text: print(text, flush=True),
) -> dict:
    """All that `bench cpu` measures, as the file has it."""
    rungs, clock = rungs or RUNGS, CpuClock()
    say("a large copy, a large matrix product")
    ceilings = machine_ceilings(
        size=1024, copy_bytes=64 * 2**20, device="cpu", dtype=torch.float32, clock=clock
    )
    data = files.header("cpu", "python course.py bench cpu") | {
        "machine": files.cpu_machine() | {"threads": torch.get_num_threads()},
        "conventions": "forward without autograd, float32, not causal; ms: median; peak_bytes: most alive at once, o included",  # noqa: E501
        "ceilings": vars(ceilings),
        "sizes": {"batch": 1, "heads": HEADS, "d": D, "dtype": "float32"},
        "rungs": {name: TITLES[name] for name in rungs},
        "rows": [],
    }
    for n in lengths:
        say(f"N = {n}")
        data["rows"] += measure_length(n, rungs, seconds_each, clock)
    if out:
        files.write(data, out)
    return data


@torch.no_grad()
def measure_length(n: int, rungs: dict[str, Callable], seconds_each: float, clock) -> list[dict]:
    """A row for every rung: seconds beside the dense one's, and the most bytes alive."""
    q, k, v = (torch.randn(1, HEADS, n, D) for _ in range(3))
    jobs = {name: Job(lambda run=run: run(q, k, v)) for name, run in rungs.items()}
    times = interleaved(jobs, seconds_each=seconds_each, least=3, clock=clock)
    exact = dense(q.double(), k.double(), v.double())
    rows = []
    for name, run in rungs.items():
        timing = Timing.of(times[name])
        rows.append(
            {
                "n": n,
                "rung": name,
                "ms": 1e3 * timing.seconds,
                "ms_low": 1e3 * timing.low,
                "ms_high": 1e3 * timing.high,
                "repeats": timing.repeats,
                "peak_bytes": torch_peak_bytes(jobs[name].run),
                "error": float((run(q, k, v) - exact).norm() / exact.norm()),
            }
        )
    first = rows[0]
    for row in rows:
        row["time_ratio"] = first["ms"] / row["ms"]
        row["peak_ratio"] = first["peak_bytes"] / row["peak_bytes"]
    return rows


def cpu_report(data: dict) -> str:
    """The table that is printed last."""
    rates = data["ceilings"]
    lines = [
        f"{data['machine']['cpu']}, {data['machine']['threads']} threads, {data['date'][:10]}",
        f"copy {rates['copy_bytes_per_second'] / 1e9:.1f} GB/s, "
        f"matrix product {rates['matmul_flops_per_second'] / 1e9:.0f} GFLOP/s",
        f"{'':<18}{'N':>6}{'ms':>10}{'peak MB':>10}{'times as fast':>15}{'times less':>12}",
    ]
    for row in data["rows"]:
        lines.append(
            f"{data['rungs'][row['rung']]:<18}{row['n']:>6}{row['ms']:>10.1f}"
            f"{row['peak_bytes'] / 1e6:>10.1f}{row['time_ratio']:>15.2f}{row['peak_ratio']:>12.1f}"
        )
    return "\n".join(lines)
