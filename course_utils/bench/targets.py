"""What the course's own kernels must reach, read off a file of measurements.

The measurements say how fast something is; here stands how fast it must be, and so a table can say in one
line each whether that is so. All ratios are to PyTorch's flash backend in the same run; what is missing
counts as not met.
"""

import math

FORWARD = {2048: 1.30, 4096: 1.38, 8192: 1.38, 16384: 1.38}  # n: times PyTorch's flash
BACKWARD = 1.25
TENSOR_CORES = 0.35
ERRORS = 1.5  # times the error of PyTorch's flash, or math in float32
EXPONENT = (0.95, 1.05)  # of n, for memory that is linear


def targets(data: dict) -> list[dict]:
    """A line for every target: what, wanted, reached (None: not measured), and whether it is met."""
    lines = []
    for n, wanted in FORWARD.items():
        reached = worst_ratio(data, "triton", "forward", n)
        lines.append(at_least(f"Triton forward, N = {n}: times flash", wanted, reached))
    for n in FORWARD:
        reached = worst_ratio(data, "triton", "backward", n)
        lines.append(at_least(f"Triton backward, N = {n}: times flash", BACKWARD, reached))
    for n in FORWARD:
        reached = worst_ratio(data, "cuda_tensor_cores", "forward", n)
        lines.append(at_least(f"CUDA C++ forward, N = {n}: times flash", TENSOR_CORES, reached))
    for which in ("forward", "backward"):
        reached = exponent(data, "triton", which)
        met = reached is not None and EXPONENT[0] <= reached <= EXPONENT[1]
        lines.append(line(f"Triton {which}: extra bytes grow with N to the power", 1, reached, met))
    reached = over_logsumexp(data)
    what = "Triton forward: extra bytes, over 4 N H a sequence"
    lines.append(line(what, 1, reached, reached == 1))
    for dtype in ("float16", "bfloat16", "float32"):
        reached = worst_error(data, dtype)
        met = reached is not None and reached <= ERRORS
        lines.append(line(f"Triton, {dtype}: largest error, times PyTorch's", ERRORS, reached, met))
    uncounted = rungs_without_traffic(data)
    lines.append(line("rungs whose traffic could not be counted", 0, uncounted, uncounted == 0))
    failed = data.get("tests", {}).get("failed")
    lines.append(line("tests on the GPU that failed", 0, failed, failed == 0))
    return lines


def line(what: str, wanted: float, reached: float | None, met: bool) -> dict:
    return {"what": what, "wanted": wanted, "reached": reached, "met": bool(met)}


def at_least(what: str, wanted: float, reached: float | None) -> dict:
    return line(what, wanted, reached, reached is not None and reached >= wanted)


def rows_of(data: dict, rung: str, which: str) -> list[dict]:
    return [row for row in data.get("ladder", ()) if row["rung"] == rung and row["pass"] == which]


def worst_ratio(data: dict, rung: str, which: str, n: int) -> float | None:
    """The smallest over depths, causal and not; None if any of them is missing."""
    ratios = [row.get("ratio") for row in rows_of(data, rung, which) if row["n"] == n]
    return None if not ratios or None in ratios else min(ratios)


def exponent(data: dict, rung: str, which: str) -> float | None:
    """The slope of log(extra bytes of a sequence) over log(n): the one farthest from 1."""
    slopes = []
    for d, causal in {(row["d"], row["causal"]) for row in rows_of(data, rung, which)}:
        points = {
            row["n"]: row["extra_bytes_a_sequence"]
            for row in rows_of(data, rung, which)
            if (row["d"], row["causal"]) == (d, causal) and row.get("extra_bytes_a_sequence")
        }
        if len(points) > 1:
            small, large = min(points), max(points)
            slopes.append(math.log(points[large] / points[small]) / math.log(large / small))
    return max(slopes, key=lambda slope: abs(slope - 1), default=None)


def over_logsumexp(data: dict) -> float | None:
    """Extra bytes of the forward pass over those of a float32 a row: the largest."""
    rows = rows_of(data, "triton", "forward")
    width = data.get("sizes", {}).get("width", 0)
    parts = [
        row["extra_bytes_a_sequence"] / (4 * row["n"] * width // row["d"])
        for row in rows
        if "extra_bytes_a_sequence" in row and width
    ]
    return max(parts, default=None)


def rungs_without_traffic(data: dict) -> int | None:
    """Of how many rungs a closed form was to be worked out and raised; None without a ladder."""
    rows = data.get("ladder", ())
    return len({row["rung"] for row in rows if row.get("traffic_failed")}) if rows else None


def worst_error(data: dict, dtype: str) -> float | None:
    """The largest ratio of errors of O, dQ, dK, dV; None if one is missing."""
    rows = [r for r in data.get("accuracy", ()) if r["rung"] == "triton" and r["dtype"] == dtype]
    ratios = [ratio for row in rows for ratio in row.get("ratios", ())]
    return max(ratios) if rows and len(ratios) == 4 * len(rows) else None
