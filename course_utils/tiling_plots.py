"""Figures of traffic: the roofline, who shares which load, and which tile is where, when.

A number of bytes says how much was moved, and not why. The strip of frames shows why: it is drawn from the
events that the two-level memory recorded, so it shows what the program did, whatever it was meant to do.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Rectangle

from course_utils.hierarchy import Event
from course_utils.plots import STYLE, show_figure

_MARKERS = ["o", "s", "^", "D", "v", "P", "X"]
_COLOURS = {"A": "C0", "B": "C1", "C": "C2"}
Box = tuple[tuple[int, int], ...]  # (start, stop) along each axis


def roofline(
    roofs: Mapping[str, tuple[float, float]],
    points: Mapping[str, tuple[float, float]],
    marks: Mapping[str, float] | None = None,
    title: str = "",
) -> None:
    """Draw attainable operations a second against intensity, both logarithmic.

    roofs: name -> (operations a second, bytes a second). points: name -> (intensity, operations a
    second), measured. marks: name -> intensity, as vertical lines.
    """
    marks = marks or {}
    intensities = [x for x, _ in points.values()] + list(marks.values())
    balances = [flops / rate for flops, rate in roofs.values()]
    x = np.geomspace(min(intensities + balances) / 3, max(intensities + balances) * 6, 400)
    with plt.style.context(STYLE):
        figure, axis = plt.subplots(figsize=(8, 4.6))
        for (name, (flops, rate)), balance in zip(roofs.items(), balances):
            (line,) = axis.loglog(x, np.minimum(flops, x * rate))
            axis.plot([balance], [flops], marker="|", markersize=14, color=line.get_color())
            name = f"{name}: balance {balance:.3g}"
            _label(axis, name, (x[-1], flops), (0, 6), ha="right")
        for (name, (intensity, flops)), marker in zip(points.items(), _MARKERS * 3):
            axis.plot([intensity], [flops], marker, color="black", markersize=5, zorder=4)
            _label(axis, name, (intensity, flops), (5, -12))  # under a roof there is room
        for name, intensity in marks.items():
            axis.axvline(intensity, color="0.4", linestyle="--", linewidth=1, zorder=0)
            heights = [min(flops, intensity * rate) for flops, rate in roofs.values()]
            between = (intensity, (min(heights) * max(heights)) ** 0.5)  # the roofs
            _label(axis, name, between, (-4, 0), rotation=90, ha="right", va="center")
        axis.set(xlabel="intensity (operations a byte moved)", ylabel="operations a second")
        axis.set(title=title, ylim=(axis.get_ylim()[0] / 1.7, None))
        axis.grid(True, alpha=0.25)
        axis.minorticks_off()
    told = [
        f"roof {name}: {flops:.3g} operations a second, {rate:.3g} bytes a second, balance {flops / rate:.3g}"
        for name, (flops, rate) in roofs.items()
    ]
    told += [f"{name}: intensity {at:.3g}, {flops:.3g} a second" for name, (at, flops) in points.items()]  # fmt: skip
    told += [f"dashed line, {name}: intensity {at:.3g}" for name, at in marks.items()]
    show_figure(figure, f"Roofline. {title}. " + "; ".join(told) + ".")


def _label(axis, text: str, at: tuple, offset: tuple[float, float], **look) -> None:
    look |= {"bbox": {"color": "white", "pad": 0.8}, "zorder": 3}
    axis.annotate(text, at, xytext=offset, textcoords="offset points", fontsize=8.5, **look)


def sharing_table(tile: int, inner: int) -> None:
    """Draw the accesses of tile x tile threads over `inner` steps; a repeated element is pale, hatched.

    Thread (i, j) reads M[i, k] and N[k, j] in step k. Source: GN-22.
    """
    threads = [(i, j) for i in range(tile) for j in range(tile)]
    seen, loads = set(), 0
    with plt.style.context(STYLE):
        figure, axis = plt.subplots(figsize=(1.4 + 1.5 * inner, 0.8 + 0.42 * len(threads)))
        for row, (i, j) in enumerate(threads):
            for k in range(inner):
                for half, element in enumerate((("M", i, k), ("N", k, j))):
                    is_new = element not in seen
                    seen.add(element)
                    loads += is_new
                    left = k + 0.47 * half + 0.03
                    look = (f"C{half}", "", "bold") if is_new else ("0.9", "////", "normal")
                    axis.add_patch(
                        Rectangle(
                            (left, row + 0.1), 0.44, 0.8, facecolor=look[0], hatch=look[1],
                            edgecolor="white", alpha=0.8,
                        )
                    )  # fmt: skip
                    axis.text(
                        left + 0.22, row + 0.5, "{}[{},{}]".format(*element), ha="center",
                        va="center", fontsize=8, fontweight=look[2],
                    )  # fmt: skip
        axis.set(xlim=(0, inner), ylim=(len(threads), 0))
        axis.set_yticks(np.arange(len(threads)) + 0.5, [f"thread {i},{j}" for i, j in threads])
        axis.set_xticks(np.arange(inner) + 0.5, [f"k = {k}" for k in range(inner)])
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
    accesses = 2 * inner * len(threads)
    show_figure(
        figure,
        f"Accesses of {len(threads)} threads in {inner} steps, thread (i, j) reading M[i,k] and N[k,j]. Of "
        f"{accesses} accesses {loads} are the first to their element (coloured), the others repeat one "
        "(pale, hatched).",
    )


class Frame(NamedTuple):
    """A moment of a recorded run."""

    on_chip: list[tuple[str, Box]]  # the tiles that are there
    stored: list[Box]  # what of the result is finished
    moved_bytes: int  # since the start
    live_bytes: int


def frames_of(events: Sequence[Event], result: str = "C") -> list[Frame]:
    """The moments at which a program has loaded what it needs, or has stored something.

    A tile of the result is a block that the program made and will store: where, the later event tells.
    """
    where = {event.block: event.box for event in events if event.kind == "store"}
    here, stored, moved, frames = {}, [], 0, []
    for event, following in zip(events, [*events[1:], None]):
        if event.kind == "load":
            here[event.block] = (event.name, event.box)
        elif event.kind == "allocate" and event.block in where:
            here[event.block] = (result, where[event.block])
        elif event.kind == "free":
            here.pop(event.block, None)
        elif event.kind == "store" and event.name == result:
            stored.append(event.box)
        moved += event.nbytes if event.kind in ("load", "store") else 0
        is_last_load = event.kind == "load" and (following is None or following.kind != "load")
        if is_last_load or event.kind == "store":
            frames.append(Frame(list(here.values()), list(stored), moved, event.live_bytes))
    return frames


def tile_frames(
    events: Sequence[Event],
    shape: tuple[int, int, int],
    capacity_bytes: int,
    at: Sequence[int] = range(8),
    title: str = "",
) -> None:
    """Draw which tiles of C = A B, (m, n) = (m, k) (k, n), are on chip at some moments of a run.

    shape: (m, n, k). at: which of `frames_of(events)` to show.
    """
    every = frames_of(events)
    chosen = [(number, every[number]) for number in at if number < len(every)]
    columns = len(chosen) if len(chosen) <= 4 else -(-len(chosen) // 2)
    rows = -(-len(chosen) // columns)
    with plt.style.context(STYLE):
        figure, axes = plt.subplots(
            rows, columns, squeeze=False, figsize=(2.5 * columns, 2.9 * rows), layout="constrained"
        )
        for axis in axes.flat:
            axis.axis("off")
        for axis, (number, frame) in zip(axes.flat, chosen):
            _draw_frame(axis, frame, shape, capacity_bytes)
            axis.set_title(f"{number + 1}. moved {frame.moved_bytes:,} B", fontsize=9)
        figure.suptitle(title, fontsize=11, fontweight="bold")
    told = [
        f"moment {number + 1}: on chip {_tiles(frame)}, {frame.live_bytes:,} of {capacity_bytes:,} bytes; "
        f"{frame.moved_bytes:,} bytes moved; {len(frame.stored)} tiles of C stored"
        for number, frame in chosen
    ]
    show_figure(figure, f"Which tile is where, when. {title}. " + "; ".join(told) + ".")


def _draw_frame(axis, frame: Frame, shape: tuple[int, int, int], capacity_bytes: int) -> None:
    """A to the left of C, B above it: a tile of C is in line with what it is made from."""
    m, n, k = shape
    gap = 0.12 * max(m, n, k)
    corner = {"A": (0, k + gap), "B": (k + gap, 0), "C": (k + gap, k + gap)}  # x, y; y downwards
    size = {"A": (k, m), "B": (n, k), "C": (n, m)}
    for box in frame.stored:
        _draw_box(axis, corner["C"], box, facecolor="0.8")
    for name, box in frame.on_chip:
        hatch = "xx" if name == "C" else ""
        _draw_box(axis, corner[name], box, facecolor=_COLOURS[name], hatch=hatch)
    for name, (x, y) in corner.items():
        axis.add_patch(Rectangle((x, y), *size[name], fill=False, edgecolor="black", linewidth=1))
        axis.text(x - 0.03 * n, y, name, ha="right", va="top", fontsize=9)
    width, below = k + gap + n, k + gap + m + 0.8 * gap
    full = frame.live_bytes / capacity_bytes
    axis.add_patch(Rectangle((0, below), width * full, 0.6 * gap, facecolor="0.4"))
    axis.add_patch(Rectangle((0, below), width, 0.6 * gap, fill=False, linewidth=1))
    axis.text(
        width / 2, below + 1.4 * gap, f"chip {100 * full:.0f} % full", ha="center", fontsize=8
    )
    axis.set(xlim=(-0.1 * n, width + 1), ylim=(below + 1.8 * gap, -1), aspect="equal")


def _draw_box(axis, corner: tuple[float, float], box: Box, **look) -> None:
    (top, bottom), (left, right) = box
    place, size = (corner[0] + left, corner[1] + top), (right - left, bottom - top)
    axis.add_patch(Rectangle(place, *size, edgecolor="white", linewidth=0.5, **look))


def _tiles(frame: Frame) -> str:
    def window(box: Box) -> str:
        return ", ".join(f"{start}:{stop}" for start, stop in box)

    return " ".join(f"{name}[{window(box)}]" for name, box in frame.on_chip) or "nothing"


def traffic_against_capacity(
    capacities: Sequence[int],
    lines: Mapping[str, Sequence[float]],
    points: Mapping[str, tuple[Sequence[int], Sequence[float]]],
    bound: Sequence[float],
    title: str = "",
) -> None:
    """Draw bytes moved against the chip's bytes, both logarithmic; nothing can lie below `bound`.

    lines: name -> closed form at each capacity. points: name -> (capacities, measured bytes).
    """
    with plt.style.context(STYLE):
        figure, axis = plt.subplots(figsize=(7.5, 4.4))
        for name, values in lines.items():
            axis.loglog(capacities, values)
            _label(axis, name, (capacities[-1], values[-1]), (6, 0), va="center")
        bottom = min(bound) / 2
        axis.fill_between(capacities, bottom, bound, facecolor="0.9", hatch="///", edgecolor="0.7")
        floor = (capacities[0] * 1.2, bottom * 1.2)
        axis.text(*floor, "no program gets here", bbox={"color": "0.9", "pad": 1})
        for (name, (at, values)), marker in zip(points.items(), _MARKERS):
            axis.plot(at, values, marker, color="black", label=name)
        axis.set(xlabel="bytes on chip", ylabel="bytes moved", title=title, ylim=(bottom, None))
        axis.set_xscale("log", base=2)
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axis.grid(True, alpha=0.25)
        axis.minorticks_off()
        if points:
            axis.legend()
    told = [f"{name}: " + _pairs(capacities, values) for name, values in lines.items()]
    told += [f"lower bound: {_pairs(capacities, bound)}"]
    told += [f"points, {name}: {_pairs(*pair)}" for name, pair in points.items()]
    show_figure(figure, f"{title}. Bytes moved against bytes on chip. " + "; ".join(told) + ".")


def _pairs(at: Sequence[int], values: Sequence[float]) -> str:
    return ", ".join(f"{value:,.0f} at {size:,}" for size, value in zip(at, values))
