"""The figures of lesson 07: which tile is on chip when, how traffic grows, and a measurement recounted.

The clock of the tile pictures is traffic itself: what a program moves is its time, as far as this lesson
is concerned, and a row of a picture is a row of a matrix.
"""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Rectangle

from course_utils.hierarchy import SRAM
from course_utils.plots import STYLE, show_figure

_LOOKS = {"K": ("C1", "////"), "Q": ("C0", "")}
_MARKERS = ["o", "s", "^", "D", "v"]


def tiles_in_time(*chips: SRAM, titles: Sequence[str]) -> None:
    """Draw which rows of Q and of K are on chip, against the numbers moved so far.

    chips: SRAMs made with `record=True`, after their programs; float64.
    """
    with plt.style.context(STYLE):
        figure, axes = plt.subplots(
            2, len(chips), squeeze=False, sharex="col", figsize=(3 + 4 * len(chips), 4.2)
        )
        words = []
        for column, (chip, title) in enumerate(zip(chips, titles)):
            stays, end = _stays_on_chip(chip)
            for axis, name in zip(axes[:, column], ("K", "Q")):
                colour, hatch = _LOOKS[name]
                rows = 0
                for start, stop, (first, last) in stays[name]:
                    axis.add_patch(
                        Rectangle(
                            (start, first),
                            stop - start,
                            last - first,
                            facecolor=colour,
                            edgecolor="white",
                            linewidth=0.5,
                            hatch=hatch,
                            alpha=0.8,
                        )  # fmt: skip
                    )
                    rows = max(rows, last)
                axis.set(xlim=(0, end or 1), ylim=(rows or 1, 0))
                axis.set_ylabel(f"rows of {name}")
                words.append(_stays_in_words(title, name, stays[name]))
            axes[0, column].set_title(title)
            axes[1, column].set_xlabel("numbers moved so far")
            axes[1, column].xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
            axes[1, column].locator_params(axis="x", nbins=5)
        figure.tight_layout()
    show_figure(figure, "Which rows are on chip, over the numbers moved. " + "; ".join(words) + ".")


def _stays_on_chip(chip: SRAM) -> tuple[dict[str, list], float]:
    """For Q and K: (loaded at, freed at, rows) of every tile, in numbers moved; and how many in all."""
    stays, open_tiles, moved = {"K": [], "Q": []}, {}, 0.0
    for event in chip.events:
        if event.kind == "load" and event.name in stays:
            open_tiles[event.block] = moved
        if event.kind in ("load", "store"):
            moved += event.nbytes / 8
        if event.kind == "free" and event.block in open_tiles:
            stays[event.name].append((open_tiles.pop(event.block), moved, event.box[0]))
    return stays, moved


def _stays_in_words(title: str, name: str, stays: list) -> str:
    long = np.mean([stop - start for start, stop, _ in stays]) if stays else 0
    return f"{title}: {len(stays)} tiles of {name}, each on chip for {long:,.0f} numbers moved on average"


def traffic_law(runs: Sequence[tuple[int, int, int, float]], factor: float) -> None:
    """Draw measured traffic against n^2 d^2 / M, and the line `factor` times that.

    runs: (n, d, M, numbers moved), M the numbers that fit on chip.
    """
    runs = sorted(runs)
    law = np.array([n * n * d * d / m for n, d, m, _ in runs])
    moved = np.array([run[3] for run in runs])
    depths = np.array([d for _, d, _, _ in runs])
    with plt.style.context(STYLE):
        figure, axis = plt.subplots(figsize=(6.5, 4))
        for d, marker in zip(sorted(set(depths)), _MARKERS):
            axis.loglog(law[depths == d], moved[depths == d], marker, label=f"d = {d}", alpha=0.8)
        ends = np.array([law.min(), law.max()])
        axis.loglog(ends, factor * ends, "--", color="0.4", linewidth=1, label=f"{factor:g} n²d²/M")
        axis.set(xlabel="n²d²/M", ylabel="numbers moved", title="One line for every n, d and M")
        axis.legend()
        axis.grid(True, which="major", alpha=0.25)
    worst = np.abs(moved / (factor * law) - 1).max()
    show_figure(
        figure,
        f"Numbers moved against n squared d squared over M, both logarithmic: {len(runs)} measured runs lie "
        f"within {worst:.0%} of the line {factor:g} n squared d squared over M.",
    )


def printed_and_counted(panels: Mapping[str, Mapping[str, tuple[float, bool]]]) -> None:
    """Bars side by side: for each panel (its axis label), bars by name: (value, whether it is printed)."""
    with plt.style.context(STYLE):
        figure, axes = plt.subplots(1, len(panels), squeeze=False, figsize=(5.2 * len(panels), 2.8))
        for axis, (label, bars) in zip(axes[0], panels.items()):
            for row, (value, is_printed) in enumerate(bars.values()):
                look = {"color": "0.6"} if is_printed else {"color": "C0", "hatch": "//"}
                axis.barh(row, value, 0.7, edgecolor="white", **look)
                axis.text(value, row, f" {value:,.4g}", va="center", fontsize=9)
            axis.set_yticks(range(len(bars)), list(bars))
            axis.set(xlabel=label, xlim=(0, 1.2 * max(value for value, _ in bars.values())))
            axis.invert_yaxis()
        figure.tight_layout()
    told = [
        f"{label}: " + ", ".join(f"{name} {value:,.4g}" for name, (value, _) in bars.items())
        for label, bars in panels.items()
    ]
    show_figure(figure, "Printed figures beside counted ones. " + ". ".join(told) + ".")
