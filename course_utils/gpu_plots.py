"""The figures of lesson 08 that show measurements, each with its machine and date in the picture.

A recorded number that has lost its machine is a rumour. So no figure here can be drawn without the source
line below it, and a measurement made just now is drawn by the same functions and says that it is fresh.
"""

import math
from collections.abc import Sequence

import matplotlib.pyplot as plt
from matplotlib.ticker import LogLocator

from course_utils.plots import STYLE, show_figure
from course_utils.recorded import Measurement, Recorded

# one look for a rung in every figure: colour by family, marker and line by rung
_LOOKS = {
    "dense": ("0.45", "o", "-"),
    "blockwise": ("0.45", "s", "--"),
    "cuda_tiles": ("C2", "^", "--"),
    "cuda_tensor_cores": ("C2", "v", "-"),
    "triton": ("C5", "D", "-"),
    "math": ("C0", "o", ":"),
    "efficient": ("C0", "s", "--"),
    "flash": ("C0", "P", "-"),
    "cudnn": ("C3", "X", "-"),
}
_OTHER = ("0.3", ".", "-")


def ladder(
    record: Recorded,
    d: int = 64,
    causal: bool = False,
    passes: str = "forward",
    only: Sequence[str] = (),
) -> None:
    """Draw TFLOP/s over N, a line for each rung (or those in `only`), below a matrix product's rate."""
    rows = _with_numbers(record.ladder(d, causal, passes), only)
    title = f"The ladder: attention, {passes}, D = {d}{', causal' if causal else ''}"
    with plt.style.context(STYLE):
        figure, axis = plt.subplots(figsize=(8.6, 5.2))
        ends = []
        for rung, row in rows.items():
            look = _line_look(rung)
            axis.loglog(list(row), [m.tflops for m in row.values()], **look)
            last = list(row.values())[-1]
            ends.append((last.n, last.tflops, record.titles[rung], look["color"]))
        axis.axhline(record.matmul_tflops, color="black", linestyle="--", linewidth=1)
        sizes = sorted({n for row in rows.values() for n in row})
        roof = f"a matrix product: {record.matmul_tflops:.0f}"
        _note(axis, roof, (sizes[0] if sizes else 1, record.matmul_tflops), (0, 4))
        _finish_sizes(axis, sizes)
        axis.set(ylabel="TFLOP/s", title=title, ylim=(None, 1.5 * record.matmul_tflops))
        _label_ends(axis, ends)
        _source(figure, record)
    told = [_told(record, rung, row) for rung, row in rows.items()]
    told += _absent(record, record.ladder(d, causal, passes), only)
    words = f"{title}. TFLOP/s over N, both logarithmic, below {roof}. "
    show_figure(figure, words + "; ".join(told) + f". {record.machine_line}.")


def extra_bytes(record: Recorded, d: int = 64, causal=False, passes="forward") -> None:
    """Draw the bytes that each rung takes besides its results, for one sequence, over N."""
    rows = _with_numbers(record.ladder(d, causal, passes))
    title = (
        f"Memory besides the results, a sequence, {passes}, D = {d}{', causal' if causal else ''}"
    )
    told, ends = [], []
    with plt.style.context(STYLE):
        figure, axis = plt.subplots(figsize=(8.6, 4.8))
        for rung, row in rows.items():
            points = {n: m.extra_bytes_a_sequence for n, m in row.items() if m.extra_bytes > 0}
            if not points:
                told.append(f"{record.titles[rung]}: none")
                continue
            look = _line_look(rung)
            axis.loglog(list(points), list(points.values()), **look)
            n, value = list(points.items())[-1]
            ends.append((n, value, record.titles[rung], look["color"]))
            each = ", ".join(f"{_bytes(value)} at {n:,}" for n, value in points.items())
            told.append(f"{record.titles[rung]}: {each}")
        _finish_sizes(axis, sorted({n for row in rows.values() for n in row}))
        axis.yaxis.set_major_locator(LogLocator(base=10))
        axis.yaxis.set_major_formatter(lambda value, _: _bytes(value))
        axis.set(ylabel="extra bytes of one sequence", title=title)
        _label_ends(axis, ends)
        _source(figure, record)
    show_figure(
        figure,
        f"{title}, over N, both logarithmic. " + "; ".join(told) + f". {record.machine_line}.",
    )


def gn27(record: Recorded, variant: str = "causal, dropout") -> None:
    """Draw the paper's measurement again: milliseconds and peak bytes, bars by rung."""
    rows = [row for row in record.gn27["rows"] if row["variant"] == variant and "ms" in row]
    sizes = record.gn27["sizes"]
    panels = {
        "ms, forward and backward": [row["ms"] for row in rows],
        "GB alive at worst": [row["peak_bytes"] / 1e9 for row in rows],
    }
    names = [record.titles.get(row["rung"], row["rung"]) for row in rows]
    with plt.style.context(STYLE):
        height = 1.5 + 0.42 * len(rows)
        figure, axes = plt.subplots(1, 2, figsize=(10, height), sharey=True, layout="constrained")
        for axis, (label, values) in zip(axes, panels.items()):
            for at, (row, value) in enumerate(zip(rows, values)):
                colour = _LOOKS.get(row["rung"], _OTHER)[0]
                hatch = "" if row["rung"] == "dense" else "//"
                axis.barh(at, value, 0.7, color=colour, hatch=hatch, edgecolor="white")
                less = f" ({values[0] / value:.1f} times less)" if at else ""
                axis.text(value, at, f" {value:.3g}{less}", va="center", fontsize=9)
            axis.set(xlabel=label, xlim=(0, 1.45 * max(values, default=1)))
        axes[0].set_yticks(range(len(names)), names)
        axes[0].invert_yaxis()
        axes[0].set_title(f"GN-27 again: {variant}")
        _source(figure, record)
    gb = panels["GB alive at worst"]
    told = [f"{name} {row['ms']:.3g} ms and {g:.3g} GB" for name, row, g in zip(names, rows, gb)]
    words = "N = {n}, d = {d}, {heads} heads, a batch of {batch}, {dtype}".format(**sizes)
    show_figure(
        figure,
        f"GN-27 measured again, forward and backward, {variant}, {words}: "
        + "; ".join(told)
        + f". {record.machine_line}.",
    )


def roofline_rungs(record: Recorded, n: int = 4096, d: int = 64, causal: bool = False) -> None:
    """Draw the rungs whose traffic is known in closed form beneath this GPU's roofline.

    Intensity is operations over what the blocks load and store, the L2 cache's share included.
    """
    rows = {
        rung: row[n]
        for rung, row in _with_numbers(record.ladder(d, causal)).items()
        if n in row and row[n].traffic_bytes
    }
    points = {rung: (_intensity(m), m.tflops) for rung, m in rows.items()}
    roof, slope = record.matmul_tflops, record.copy_tb_per_second
    balance = roof / slope
    at = [balance, *(x for x, _ in points.values())]
    title = f"Under the roof: forward, N = {n:,}, D = {d}{', causal' if causal else ''}"
    with plt.style.context(STYLE):
        figure, axis = plt.subplots(figsize=(8.6, 4.8))
        left, right = min(at) / 3, max(at) * 4
        axis.loglog([left, balance, right], [left * slope, roof, roof], color="black", linewidth=1)
        _note(axis, f"{slope:.2f} TB/s", (left * 1.4, left * 1.4 * slope), (4, -14))
        _note(axis, f"a matrix product: {roof:.0f}", (balance, roof), (0, 5))
        for rung, point in points.items():
            look = _line_look(rung)
            axis.plot(*point, look["marker"], color=look["color"], markersize=9)
            text = f"{record.titles[rung]}: {point[1]:.0f}"
            _note(axis, text, point, (9, -3))
        axis.set(
            xlabel="operations a byte that the blocks load or store", ylabel="TFLOP/s", title=title
        )
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
        axis.minorticks_off()
        axis.grid(True, alpha=0.25)
        _source(figure, record)
    each = "{}: {:.0f} operations a byte, {:.0f} TFLOP/s"
    told = [each.format(record.titles[rung], *point) for rung, point in points.items()]
    show_figure(
        figure,
        f"{title}. Roof: {slope:.2f} TB/s and {roof:.0f} TFLOP/s, balance {balance:.0f}. "
        + "; ".join(told)
        + f". {record.machine_line}.",
    )


def _intensity(m: Measurement) -> float:
    return m.tflops * 1e12 * m.ms / 1e3 / m.traffic_bytes


def _with_numbers(rows: dict, only: Sequence[str] = ()) -> dict[str, dict[int, Measurement]]:
    """Without the measurements that were skipped or failed, and without rungs that have no others."""
    kept = {
        rung: {n: m for n, m in row.items() if not m.reason}
        for rung, row in rows.items()
        if not only or rung in only
    }
    return {rung: row for rung, row in kept.items() if row}


def _absent(record: Recorded, rows: dict, only: Sequence[str]) -> list[str]:
    return [
        f"{record.titles[rung]} is missing at {n:,}: {m.reason}"
        for rung, row in rows.items()
        for n, m in row.items()
        if m.reason and (not only or rung in only)
    ]


def _line_look(rung: str) -> dict:
    colour, marker, line = _LOOKS.get(rung, _OTHER)
    return {"color": colour, "marker": marker, "linestyle": line}


def _finish_sizes(axis, sizes: Sequence[int]) -> None:
    axis.set_xscale("log", base=2)
    axis.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axis.set_xlabel("N (queries and keys; as many tokens in the batch at every N)")
    axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axis.minorticks_off()
    axis.grid(True, which="major", alpha=0.25)


def _label_ends(axis, ends: list[tuple[float, float, str, str]]) -> None:
    """Write each line's name to its right, moved apart where two would meet."""
    low, high = (math.log(limit) for limit in axis.get_ylim())
    gap, ends = 0.045 * (high - low), sorted(ends, key=lambda end: end[1])
    places = [math.log(value) for _, value, *_ in ends]
    for _ in range(100):  # neighbours push each other away until all have room
        for i in range(1, len(places)):
            push = max(0, gap - places[i] + places[i - 1]) / 2
            places[i - 1], places[i] = places[i - 1] - push, places[i] + push
    right = 1.14 * max((n for n, *_ in ends), default=1)
    for (n, value, text, colour), place in zip(ends, places):
        line = {"arrowstyle": "-", "color": colour, "linewidth": 0.6, "relpos": (0, 0.5)}
        axis.annotate(
            text, (n, value), (right, math.exp(place)), va="center", fontsize=9,
            arrowprops=line, annotation_clip=False,
        )  # fmt: skip


def _note(axis, text: str, at: tuple, offset: tuple, **look) -> None:
    look |= {"textcoords": "offset points", "fontsize": 9}
    axis.annotate(text, at, xytext=offset, **look)


def _source(figure, record: Recorded) -> None:
    figure.text(0.01, -0.03, record.machine_line, fontsize=8, color="0.35")


def _told(record: Recorded, rung: str, row: dict[int, Measurement]) -> str:
    return f"{record.titles[rung]}: " + ", ".join(
        f"{m.tflops:.3g} at {n:,}" for n, m in row.items()
    )


def _bytes(value: float) -> str:
    sizes = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B"))
    size, unit = next((pair for pair in sizes if value >= pair[0]), sizes[-1])
    return f"{value / size:.3g} {unit}"
