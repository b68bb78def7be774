"""A clock that is told what time it is, a GPU that is none, and a record of invented numbers.

Nothing here is a measurement, and nothing of it is ever written into benchmarks/.
"""

from course_utils.gpu_timing.clocks import Measured
from course_utils.recorded import SCHEMA, Recorded

RUNGS = {
    "dense": "dense, torch",
    "cuda_tiles": "CUDA C++, tiles",
    "triton": "Triton",
    "flash": "PyTorch flash",
}
SPEED = {"dense": 40.0, "cuda_tiles": 8.0, "triton": 420.0, "flash": 300.0}  # invented


class FakeClock:
    """A function takes the seconds that `seconds_of(function)` says; the order of calls is kept."""

    def __init__(self, seconds_of=lambda function: 0.001):
        self.seconds_of, self.calls = seconds_of, []

    def measure(self, function, *inputs):
        self.calls.append(function)
        seconds = self.seconds_of(function)
        return Measured(function(*inputs), lambda: seconds)


def row(rung: str, n: int, d: int, causal: bool, which: str, **other) -> dict:
    speed = SPEED[rung] * (1 - 500 / n) * (0.8 if which == "backward" else 1.0)
    flops = 4 * n * 16384 * 2048 * (2.5 if which == "backward" else 1) / (2 if causal else 1)
    extra = 4 * n * 2048 // d if rung != "dense" else 4 * n * n * 2048 // d
    numbers = {
        "ms": flops / speed / 1e9,
        "ms_low": 0.9 * flops / speed / 1e9,
        "ms_high": 1.2 * flops / speed / 1e9,
        "repeats": 20,
        "tflops": speed,
        "of_matmul": speed / 800,
        "ratio": SPEED[rung] / SPEED["flash"],
        "extra_bytes": extra * 16384 // n,
        "extra_bytes_a_sequence": extra,
        "errors": [0.002] if which == "forward" else [0.002, 0.003, 0.004],
    }
    if which == "forward" and rung != "flash":
        numbers["traffic_bytes"] = int(flops / (100 if rung != "dense" else 20))
    return {"n": n, "d": d, "causal": causal, "pass": which, "rung": rung} | (other or numbers)


def ladder_rows() -> list[dict]:
    rows = []
    for which in ("forward", "backward"):
        for d in (64, 128):
            for causal in (False, True):
                for rung in RUNGS:
                    if (rung, which) == ("cuda_tiles", "backward"):
                        continue
                    for n in (2048, 4096, 8192, 16384):
                        skipped = rung == "dense" and n == 16384
                        other = {"skipped": "needs about 200 GB for the square"} if skipped else {}
                        rows.append(row(rung, n, d, causal, which, **other))
    return rows


def accuracy_rows() -> list[dict]:
    return [
        {
            "dtype": dtype, "d": 64, "causal": True, "n": 2048, "rung": rung,
            "o": 0.002, "dq": 0.003, "dk": 0.003, "dv": 0.002, "trusted": "flash",
            "ratios": [1.0, 1.1, 1.2, 1.3],
        }
        for dtype in ("float16", "bfloat16", "float32")
        for rung in ("triton", "flash")
    ]  # fmt: skip


def gn27_data() -> dict:
    times = {"dense": (20.0, 9e9), "flash": (4.0, 0.6e9)}
    rows = [
        {
            "variant": "causal, dropout", "rung": rung, "ms": ms, "ms_low": ms, "ms_high": ms,
            "repeats": 9, "peak_bytes": peak, "runtime_ratio": 20.0 / ms, "peak_ratio": 9e9 / peak,
        }
        for rung, (ms, peak) in times.items()
    ]  # fmt: skip
    sizes = {"batch": 64, "heads": 16, "n": 1024, "d": 64, "dtype": "float16", "dropout": 0.1}
    return {"sizes": sizes, "paper": {"runtime_ratio": 5.7}, "rows": rows}


def record_data() -> dict:
    """A whole file with invented numbers."""
    return {
        "schema": SCHEMA,
        "kind": "gpu",
        "date": "2001-02-03T04:05:06Z",
        "command": "none",
        "versions": {"python": "3", "torch": "2", "triton": "3", "numpy": "2"},
        "machine": {"gpu": "Invented GPU", "driver": "0", "cuda": "0"},
        "sizes": {"tokens": 16384, "width": 2048, "dtype": "bfloat16"},
        "rungs": dict(RUNGS),
        "baseline": "flash",
        "ceilings": {"copy_bytes_per_second": 4e12, "matmul_flops_per_second": 8e14},
        "ladder": ladder_rows(),
        "accuracy": accuracy_rows(),
        "gn27": gn27_data(),
        "tests": {"passed": 7, "failed": 0, "skipped": 1, "date": "2001-02-03T04:05:06Z"},
    }


def record() -> Recorded:
    return Recorded(record_data())
