"""The table that is printed last: what was measured, in as few lines as say it."""

from course_utils.bench.gn27 import PAPER
from course_utils.recorded import Recorded


def gpu_report(data: dict) -> str:
    """Speeds by size, the paper's measurement again, and what must be reached."""
    record = Recorded(data)
    ceilings = data.get("ceilings", {})
    lines = [record.machine_line]
    if ceilings:
        lines.append(
            f"copy {record.copy_tb_per_second:.2f} TB/s, matrix product {record.matmul_tflops:.0f} TFLOP/s"
        )
    for d in (64, 128):
        for causal in (False, True):
            lines += speeds(record, d, causal)
    lines += paper_again(data.get("gn27", {})) + goals(data) + outcome(data)
    return "\n".join(lines)


def speeds(record: Recorded, d: int, causal: bool) -> list[str]:
    """TFLOP/s of every rung over N, forward / backward."""
    forward = record.ladder(d, causal)
    backward = record.ladder(d, causal, "backward")
    sizes = sorted({n for row in forward.values() for n in row})
    if not sizes:
        return []
    title = f"D = {d}{', causal' if causal else ''}, TFLOP/s"
    lines = ["", f"{title:<24}" + "".join(f"{n:>12,}" for n in sizes)]
    for rung, row in forward.items():
        cells = [
            f"{told(row.get(n))}/{told(backward.get(rung, {}).get(n))}".rjust(12) for n in sizes
        ]
        lines.append(f"{record.titles[rung]:<24}" + "".join(cells))
    return lines


def told(measurement) -> str:
    if measurement is None:
        return "-"
    if measurement.reason:
        return "skip" if measurement.skipped else "FAIL"
    digits = 1 if measurement.tflops < 10 else 0
    return f"{measurement.tflops:.{digits}f}"


def paper_again(gn27: dict) -> list[str]:
    if not gn27:
        return []
    paper = f"{PAPER['runtime_ratio']:.1f} in time, {PAPER['hbm_ratio']:.1f} in HBM traffic"
    lines = ["", f"GN-27, forward and backward (the paper, on an A100: {paper})"]
    for row in gn27["rows"]:
        start = f"{row['variant']:<18}{row['rung']:<12}"
        if "ms" not in row:
            lines.append(start + (row.get("failed") or row.get("skipped", ""))[:60])
            continue
        ratios = [row.get("runtime_ratio"), row.get("peak_ratio")]
        times = "".join(f"{ratio:>8.2f}" for ratio in ratios if ratio)
        lines.append(f"{start}{row['ms']:>8.2f} ms{row['peak_bytes'] / 1e9:>8.2f} GB{times}")
    return lines


def goals(data: dict) -> list[str]:
    lines = ["", f"{'must reach':<58}{'wanted':>8}{'reached':>9}"]
    for goal in data.get("targets", ()):
        reached = "-" if goal["reached"] is None else f"{goal['reached']:.3g}"
        met = "" if goal["met"] else "  not met"
        lines.append(f"{goal['what']:<58}{goal['wanted']:>8}{reached:>9}{met}")
    return lines


def outcome(data: dict) -> list[str]:
    lines = [""]
    tests = data.get("tests")
    if tests and "trouble" in tests:
        lines.append(f"tests: {tests['trouble']}")
    elif tests:
        lines.append("tests: {passed} passed, {failed} failed, {skipped} skipped".format(**tests))
        lines += [f"  failed: {name}" for name in tests.get("failures", ())]
    failed = {row["rung"]: row["failed"] for row in data.get("ladder", ()) if "failed" in row}
    lines += [f"{rung} failed: {text[:150]}" for rung, text in failed.items()]
    uncounted = {
        row["rung"]: row["traffic_failed"]
        for row in data.get("ladder", ())
        if row.get("traffic_failed")
    }
    lines += [
        f"{rung}: traffic could not be counted: {text[:150]}" for rung, text in uncounted.items()
    ]
    if "stopped" in data:
        lines.append(f"stopped: {data['stopped']}")
    return lines + [f"{data.get('seconds', 0):.0f} s"]
