"""Two pictures of a softmax taken in pieces: what a stream carries along, and how merges may be grouped.

The first is drawn from the definitions of what is carried, not from the recursion that a student is about
to write: it shows what that recursion must arrive at.
"""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import MaxNLocator

from course_utils.plots import STYLE, show_figure


def running_softmax(scores: np.ndarray, width: int) -> None:
    """Draw a row of scores (C,), block by block: running maximum, running sum, rescale factors.

    After each block of `width` scores: the largest score so far; the sum of exp(score - that maximum)
    over all scores so far; and exp(old maximum - new maximum), by which older sums shrink.
    """
    count = -(-len(scores) // width)
    ends = np.minimum(np.arange(1, count + 1) * width, len(scores))
    running_max = np.maximum.accumulate(scores)[ends - 1]  # (count,)
    sums = [float(np.exp(scores[:end] - top).sum()) for end, top in zip(ends, running_max)]
    factors = np.exp(running_max[:-1] - running_max[1:])  # (count - 1,)
    moved = np.flatnonzero(factors < 1) + 1  # blocks that raised the maximum
    blocks = np.arange(count)
    with plt.style.context(STYLE):
        figure, (top, middle, bottom) = plt.subplots(
            3, 1, figsize=(8, 6), sharex=True, height_ratios=[3, 2, 1.4]
        )
        top.plot(np.arange(len(scores)) / width - 0.5, scores, ".", color="0.72", markersize=3)
        top.step(blocks, running_max, where="mid", color="C0")
        top.plot(moved, running_max[moved], "o", color="C5")
        top.set(ylabel="score", title="scores (grey), and the largest so far")
        middle.plot(blocks, sums, color="C2")
        middle.plot(moved, np.array(sums)[moved], "o", color="C5")
        middle.set(ylabel="sum", title="sum of exp(score - largest so far)", ylim=(0, None))
        bottom.bar(blocks[1:], factors, 0.8, color="C4")
        bottom.bar(moved, factors[moved - 1], 0.8, color="C5", hatch="//", edgecolor="white")
        bottom.set(
            ylabel="factor",
            ylim=(0, 1.05),
            xlabel=f"block of {width} scores (marked: it raised the maximum)",
            title="by how much older sums shrink",
        )
        figure.tight_layout()
    told = "; ".join(
        f"block {k}: maximum {running_max[k]:.2f}, factor {factors[k - 1]:.2f}, sum {sums[k]:.1f}"
        for k in moved
    )
    show_figure(
        figure,
        f"A stream of {count} blocks of {width} scores in three panels. The running maximum begins at "
        f"{running_max[0]:.2f} and is raised by {len(moved)} later blocks, and the sum falls where the "
        f"factor is small: {told}. Everywhere else the factor is 1. The sum ends at {sums[-1]:.1f}.",
    )


def merge_shapes(shapes: Mapping[str, object]) -> None:
    """Draw groupings side by side. A shape is a leaf (any name) or a pair of shapes: (("a", "b"), "c")."""
    with plt.style.context(STYLE):
        figure, axes = plt.subplots(
            1, len(shapes), figsize=(4.6 * len(shapes), 3.2), squeeze=False, sharey=True
        )
        said = []
        for axis, (title, shape) in zip(axes[0], shapes.items()):
            leaves = iter(range(10_000))
            _, rounds = _draw_shape(axis, shape, leaves)
            count = next(leaves)
            axis.set_title(f"{title}: {rounds} rounds")
            axis.set(xlim=(-0.6, count - 0.4), xticks=[])
            axis.yaxis.set_major_locator(MaxNLocator(integer=True))
            axis.spines["bottom"].set_visible(False)
            said.append(f"{title}: {count} parts, {count - 1} merges, {rounds} one after another")
        axes[0][0].set_ylabel("round")
        figure.tight_layout()
    show_figure(figure, "Groupings of merges. " + "; ".join(said) + ".")


def _draw_shape(axis, shape, leaves) -> tuple[float, int]:
    """Draw a shape from its leaves upwards; where its top stands: (across, round)."""
    if not isinstance(shape, tuple):
        place = (next(leaves), 0)
        axis.plot(*place, "s", color="C4", markersize=11)
        axis.annotate(str(shape), place, ha="center", va="center", fontsize=8)
        return place
    sides = [_draw_shape(axis, part, leaves) for part in shape]
    place = (sum(x for x, _ in sides) / 2, max(y for _, y in sides) + 1)
    for side in sides:
        axis.plot(*zip(side, place), color="0.6", linewidth=1, zorder=0)
    axis.plot(*place, "o", color="C1", markersize=9)
    return place


def rescaling_slips(
    outputs: Mapping[str, Mapping[str, Sequence[float]]], ways: Mapping[str, str], width: int
) -> None:
    """Draw the output after each block, a panel a row of scores: the exact one, and what each way makes of it.

    outputs: row -> way -> output after each block of `width` scores; the way "exact" is the right one; nan
    where a way has failed. ways: way -> its name in the legend.
    """
    markers = dict(zip(ways, ["o", "^", "v", "x"]))
    told = []
    with plt.style.context(STYLE):
        figure, axes = plt.subplots(2, 2, figsize=(8.6, 5.4), sharex=True, sharey=True)
        for axis, (row, each) in zip(axes.flat, outputs.items()):
            blocks = np.arange(1, len(each["exact"]) + 1)
            look = {"color": "0.6", "linewidth": 5, "solid_capstyle": "round", "alpha": 0.6}
            axis.plot(blocks, each["exact"], label="exact", **look)
            for (way, name), marker in zip(ways.items(), markers.values()):
                axis.plot(blocks, each[way], marker, markersize=7, label=name, fillstyle="none")
            failed = [name for way, name in ways.items() if not np.isfinite(each[way]).all()]
            axis.set_title(row + "".join(f" ({name}: nan)" for name in failed), fontsize=10)
            axis.set_xticks(blocks)
            ends = [f"{name} {each[way][-1]:.2f}" for way, name in ways.items()]
            told.append(f"{row}: exact {each['exact'][-1]:.2f}, {', '.join(ends)}")
        for axis in axes[1]:
            axis.set_xlabel(f"blocks of {width} scores so far")
        for axis in axes[:, 0]:
            axis.set_ylabel("output")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(
            handles, labels, loc="lower center", ncols=5, fontsize=8.5, title="What is rescaled:"
        )
        figure.tight_layout(rect=(0, 0.1, 1, 1))
    show_figure(
        figure,
        "Outputs of an online softmax after each block, for four rows of scores, by what is rescaled. At the "
        "end, " + "; ".join(told) + ".",
    )
