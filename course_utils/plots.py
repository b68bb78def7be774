"""The course's figures: one style, and words for whoever cannot see them.

Every figure is shown through `show_figure`, which asks for an alternative text. Hatches and labels carry
what colours say, so a figure printed in grey reads the same.
"""

import base64
import contextlib
import inspect
import io
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from IPython.display import Code, display
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from course_utils.timeline import UNNAMED, Timeline

STYLE = Path(__file__).with_name("course.mplstyle")
MB = 10**6
_HATCHES = ["", "xx", "++", "**"]  # slanted lines mean "only during", dots a gradient
_DOTS = ["..", "oo", "OO", "o."]
_BOX = {"facecolor": "white", "alpha": 0.6, "linewidth": 0, "pad": 0.6}
_GRADIENT = re.compile(r"^d(?=[A-Z])|\.grad$")  # dZ1, Z1.grad
_MARKERS = ["o", "s", "^", "D", "v", "P", "X"]


def show_figure(figure: Figure, alt: str) -> None:
    """Show a finished figure with its alternative text, and forget it."""
    buffer = io.BytesIO()
    with plt.style.context(STYLE):  # how to save is part of the style
        figure.savefig(buffer, format="png", metadata={"Software": None})  # no version: same bytes
    plt.close(figure)
    image = base64.b64encode(buffer.getvalue()).decode()
    html = f'<img style="max-width: 100%" alt="{escape(alt)}" src="data:image/png;base64,{image}">'
    bundle = {"text/html": html, "image/png": image, "text/plain": alt}
    if _collected:
        _collected[-1].append(bundle)
    else:
        display(bundle, raw=True)


_collected: list[list[dict]] = []


@contextlib.contextmanager
def collect_figures() -> Iterator[list[dict]]:
    """Figures shown inside are put into the list, as displays by type, and not displayed."""
    _collected.append([])
    try:
        yield _collected[-1]
    finally:
        _collected.pop()


def show_source(*objects: object) -> None:
    """Show the source of functions or classes, to be read here and now."""
    text = "\n\n".join(textwrap.dedent(inspect.getsource(each)) for each in objects)
    display(Code(text, language="python"))


def memory_timeline(
    *timelines: Timeline,
    titles: Sequence[str] = (),
    skip: Sequence[str] = (),
    moment: str = "after",
) -> None:
    """Draw what is alive after each step, every array a block; the program reads downwards.

    The hatched part at a row's end is what lived only during the step, up to its peak. Several
    timelines share their scale. Steps whose label is in `skip` are left out. moment: "before" where each was
    marked when the step had all that it reads.
    """
    rows = [[step for step in line.steps if step.label not in skip] for line in timelines]
    widest = max(step.peak_bytes for steps in rows for step in steps) / MB
    with plt.style.context(STYLE):
        figure, axes = plt.subplots(
            1,
            len(rows),
            squeeze=False,
            figsize=(min(4.5 + 3.5 * len(rows), 12), 0.9 + 0.42 * max(map(len, rows))),
        )
        for axis, steps, title in zip(axes[0], rows, [*titles, *[""] * len(rows)]):
            _draw_steps(axis, steps, widest)
            if moment == "before":
                axis.set_xlabel("MB alive when the step has what it reads (hatched: on the way)")
            axis.set_title(title)
        figure.tight_layout()
    show_figure(figure, _timeline_words(rows, titles))


def _draw_steps(axis, steps, widest: float) -> None:
    look = _looks(name for step in steps for name in step.blocks if name != UNNAMED)
    look[UNNAMED] = ("0.75", "")
    for row, step in enumerate(steps):
        left = 0.0
        for name, nbytes in step.blocks.items():
            colour, hatch = look[name]
            width = nbytes / MB
            axis.barh(
                row, width, 0.8, left, color=colour, alpha=0.75, hatch=hatch, edgecolor="white"
            )
            if width > 0.011 * widest * len(name):
                box = _BOX if hatch else None  # a name upon a pattern
                axis.text(
                    left + width / 2, row, name, ha="center", va="center", fontsize=8, bbox=box
                )
            left += width
        inside = step.peak_bytes / MB - left
        if inside > 0.005 * widest:
            axis.barh(
                row,
                inside,
                0.8,
                left,
                facecolor="none",
                hatch="////",
                edgecolor="0.55",
                linewidth=0,
            )
        axis.plot([left + max(inside, 0)] * 2, [row - 0.4, row + 0.4], color="black", linewidth=1)
    axis.set_yticks(
        range(len(steps)), [step.label for step in steps], family="monospace", fontsize=8
    )
    axis.set(xlim=(0, widest * 1.03), xlabel="MB alive after the step (hatched: only during it)")
    axis.invert_yaxis()


def _looks(names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """(colour, hatch) by name: a gradient has the colour of its value, and dots."""
    bases = {name: re.sub(r"^d(?=[A-Z])|\.(grad|value)$", "", name) for name in names}
    at = {base: i for i, base in enumerate(dict.fromkeys(bases.values()))}
    kinds = {name: _DOTS if _GRADIENT.search(name) else _HATCHES for name in bases}
    return {
        name: (f"C{at[base] % 7}", kinds[name][at[base] // 7 % 4]) for name, base in bases.items()
    }


def _timeline_words(rows, titles: Sequence[str]) -> str:
    """The figure as a list: for each step what is held, the peak inside, and the arrays."""
    parts = []
    for steps, title in zip(rows, [*titles, *[""] * len(rows)]):
        told = [
            f"{step.label}: {step.current_bytes / MB:.1f} MB held ({', '.join(step.blocks) or 'nothing'}), "
            f"peak {step.peak_bytes / MB:.1f}"
            for step in steps
        ]
        parts.append((f"{title}. " if title else "") + "; ".join(told))
    return "Memory timeline. " + ". ".join(parts)


def growth(
    sizes: Sequence[float],
    series: Mapping[str, Sequence[float]],
    *,
    xlabel: str,
    ylabel: str,
    title: str = "",
    limits: Mapping[str, float] | None = None,
) -> None:
    """Draw measured values against size, both axes logarithmic, each curve labelled at its end.

    `limits` draws named horizontal lines, such as a memory that is full.
    """
    with plt.style.context(STYLE):
        figure, axis = plt.subplots(figsize=(7, 4))
        for (name, values), marker in zip(series.items(), _MARKERS):
            axis.loglog(sizes, values, marker=marker)
            axis.annotate(
                name,
                (sizes[-1], values[-1]),
                xytext=(8, 0),
                textcoords="offset points",
                va="center",
            )
        for name, value in (limits or {}).items():
            axis.axhline(value, color="0.4", linestyle="--", linewidth=1)
            axis.annotate(
                name, (sizes[0], value), xytext=(0, 3), textcoords="offset points", color="0.3"
            )
        axis.set_xscale("log", base=2)
        axis.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axis.set(xlabel=xlabel, ylabel=ylabel, title=title)
        axis.grid(True, which="major", alpha=0.25)
        axis.minorticks_off()
        low, high = axis.get_ylim()
        if high < 100 * low:  # powers of ten alone would leave one tick
            axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    told = [
        f"{name}: " + ", ".join(f"{_said(v)} at {n:,}" for n, v in zip(sizes, values))
        for name, values in series.items()
    ]
    told += [f"dashed line, {name}: {_said(value)}" for name, value in (limits or {}).items()]
    show_figure(
        figure,
        f"{title or ylabel}. {ylabel} against {xlabel}, logarithmic. " + "; ".join(told) + ".",
    )


def _said(value: float) -> str:
    """Three digits, without an exponent."""
    return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def measured_on_curves(
    sizes: Sequence[float],
    points: Mapping[str, Sequence[float]],
    curves: Mapping[str, Callable[[np.ndarray], np.ndarray]],
    *,
    xlabel: str,
    ylabel: str,
    title: str = "",
) -> None:
    """Draw measured points, and the curve of the same name that a formula promises for them.

    Both axes are logarithmic. Each curve is labelled at its beginning, each lowest point with its value.
    """
    along = np.geomspace(min(sizes), max(sizes), 200)
    told = []
    with plt.style.context(STYLE):
        figure, axis = plt.subplots(figsize=(7, 4))
        for (name, values), marker in zip(points.items(), _MARKERS):
            (line,) = axis.loglog(along, curves[name](along), linewidth=1)
            axis.loglog(sizes, values, marker, color=line.get_color())
            low = min(range(len(sizes)), key=lambda i: values[i])
            note = {"textcoords": "offset points"}
            axis.annotate(name, (sizes[0], values[0]), xytext=(10, 2), **note)
            lowest = f"{_said(values[low])} at {sizes[low]:,}"
            axis.annotate(lowest, (sizes[low], values[low]), xytext=(0, -16), ha="center", **note)
            measured = ", ".join(f"{_said(v)} at {n:,}" for n, v in zip(sizes, values))
            told.append(f"{name}: {measured}; lowest {lowest}")
        axis.set_xscale("log", base=2)
        axis.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axis.set(xlabel=xlabel, ylabel=ylabel, title=title)
        axis.set_ylim(bottom=0.8 * axis.get_ylim()[0])
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.minorticks_off()
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
        axis.grid(True, which="major", alpha=0.25)
    words = (
        f"{title or ylabel}. {ylabel} against {xlabel}, logarithmic, upon the formula's curves. "
    )
    show_figure(figure, words + "; ".join(told) + ".")
