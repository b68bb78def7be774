"""Figures of schedules: what is alive when, what a chain is made of, and what memory costs in time.

The chart of a schedule is the picture to think with: each value has a column as wide as its bytes, and
time runs downwards, so the widths in a row are what that step takes.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.patches import Patch

from course_utils.plots import STYLE, show_figure
from course_utils.remat.model import Chain, Graph, Schedule
from course_utils.remat.simulate import simulate

_LOOKS = {
    "kept": ("C0", ""),
    "again": ("C4", "////"),
    "gradient": ("C1", ".."),
}
_EDGES = {"kept": "white", "again": "0.15", "gradient": "0.15"}  # and hatches: C1 and C4 are pale
_MEANINGS = {
    "kept": "activation, until the last step that reads it",
    "again": "activation, dropped before that: it is computed again",
    "gradient": "gradient",
}
_MARKERS = ["o", "^", "D", "s", "v"]


def schedule_chart(
    graph: Graph,
    *schedules: Schedule,
    titles: Sequence[str] = (),
    unit: str = "bytes",
    unit_bytes: float = 1,
    budget_bytes: float | None = None,
) -> None:
    """Draw schedules of one graph side by side: columns are values, as wide as their bytes, rows steps.

    Beside each stand the bytes alive in every step. A chain's gradient g_t is drawn in the column of z_t.
    `unit` and `unit_bytes` say in what the bytes are told.
    """
    titles = [*titles, *[""] * len(schedules)]
    prices = [simulate(graph, schedule) for schedule in schedules]
    rows = [[name for action, name in schedule if action == "compute"] for schedule in schedules]
    widest = max(price.peak_bytes for price in prices) / unit_bytes
    with plt.style.context(STYLE):
        longest = max(map(len, rows))
        size = min(1 + 5.5 * len(schedules), 12), 1.2 + (0.2 if longest < 30 else 0.15) * longest
        figure = plt.figure(figsize=size, layout="constrained")
        parts = figure.subfigures(1, len(schedules), squeeze=False, wspace=0.04)[0]
        for part, schedule, price, title in zip(parts, schedules, prices, titles):
            left, right = part.subplots(1, 2, width_ratios=[3, 1])
            _draw_lives(left, graph, schedule)
            left.set_title(title)
            steps = zip(schedule, price.alive_bytes)
            alive = [nbytes / unit_bytes for (action, _), nbytes in steps if action == "compute"]
            _draw_totals(right, alive, widest, f"{unit} alive")
            if budget_bytes is not None:
                right.axvline(budget_bytes / unit_bytes, color="black", linestyle="--", linewidth=1)
                right.set_title("dashed: budget", fontsize=8, fontweight="normal")
        patches = [
            Patch(facecolor=colour, hatch=hatch, edgecolor=_EDGES[kind], label=_MEANINGS[kind])
            for kind, (colour, hatch) in _LOOKS.items()
        ]
        figure.legend(
            handles=patches, loc="outside lower left", ncols=len(schedules) + 1, fontsize=8
        )
    words = [
        _schedule_words(title, names, price, unit, unit_bytes)
        for title, names, price in zip(titles, rows, prices)
    ]
    show_figure(figure, "Chart of what is alive at each step. " + " ".join(words))


def _lives(graph: Graph, schedule: Schedule) -> list[tuple[str, int, int, str]]:
    """Each life of each value: its name, the compute steps from which and to which it is alive, its kind."""
    to_come = Counter(name for action, name in schedule if action == "compute")
    born, lives, row = {}, [], -1

    def end(name: str) -> None:
        kind = "again" if to_come[name] else "gradient" if graph.values[name].once else "kept"
        lives.append((name, born.pop(name), row, kind))

    for action, name in schedule:
        if action == "drop":
            end(name)
        else:
            row += 1
            to_come[name] -= 1
            born[name] = row
    for name in list(born):
        end(name)
    return lives


def _draw_lives(axis, graph: Graph, schedule: Schedule) -> None:
    is_chain = all(re.fullmatch(r"[zg]\d+", name) for name in graph.values)
    column_of = {name: f"z{name[1:]}" if is_chain else name for name in graph.values}
    columns = dict.fromkeys(
        sorted(column_of.values(), key=lambda z: int(z[1:])) if is_chain else column_of.values()
    )
    widths = {
        column: max(v.nbytes for name, v in graph.values.items() if column_of[name] == column)
        for column in columns
    }
    gap = 0.006 * sum(widths.values())
    left, at = 0.0, {}
    for column, width in widths.items():
        at[column] = left
        left += width + gap
    names = [name for action, name in schedule if action == "compute"]
    for name, first, last, kind in _lives(graph, schedule):
        colour, hatch = _LOOKS[kind]
        column, nbytes = column_of[name], graph.values[name].nbytes
        # where z_t is read to make g_t, both are there: each gets half of the cell
        top = first - (0.0 if kind == "gradient" and is_chain and name != "g0" else 0.5)
        bottom = last + (0.0 if kind == "kept" and is_chain else 0.5)
        axis.bar(
            at[column], bottom - top, nbytes, top,
            align="edge", color=colour, hatch=hatch, edgecolor=_EDGES[kind], linewidth=0.5,
        )  # fmt: skip
    seen: set[str] = set()
    labels = []
    for name in names:
        labels.append(f"{name} again" if name in seen else name)
        seen.add(name)
    axis.set_yticks(range(len(names)), labels, fontsize=7.5, family="monospace")
    axis.set(ylim=(len(names) - 0.4, -0.6), xlim=(-gap, left), ylabel="step: what is computed")
    wide = [column for column in columns if widths[column] > 0.035 * left]
    turned = {} if is_chain else {"rotation": 60, "ha": "left", "rotation_mode": "anchor"}
    axis.set_xticks([at[c] + widths[c] / 2 for c in wide], wide, fontsize=7.5, **turned)
    axis.xaxis.tick_top()
    axis.spines["top"].set_visible(True)
    axis.spines["bottom"].set_visible(False)


def _draw_totals(axis, alive: Sequence[float], widest: float, xlabel: str) -> None:
    """What each step has alive, as bars; the largest is marked and told."""
    peak, rows = max(alive), range(len(alive))
    axis.barh(rows, alive, 0.8, color=["C5" if total == peak else "0.75" for total in alive])
    axis.text(peak, alive.index(peak), f" {peak:.4g}", va="center", fontsize=8)
    axis.set(ylim=(len(alive) - 0.4, -0.6), yticks=[], xlim=(0, widest * 1.35), xlabel=xlabel)


def _schedule_words(title, names, price, unit, unit_bytes) -> str:
    times = {name: f" {n} times" if n > 1 else "" for name, n in price.recomputed.items()}
    again = ", ".join(f"{name}{n}" for name, n in times.items()) or "nothing"
    return (
        f"{title + ': ' if title else ''}{len(names)} steps, peak {price.peak_bytes / unit_bytes:.4g} "
        f"{unit}, computed again: {again}."
    )


def chain_bars(chain: Chain, names: Sequence[str], *, title: str = "", time_unit: str = "") -> None:
    """Draw a chain: for each stage the bytes of its output above, and the time of making it below."""
    megabytes = [nbytes / 1e6 for nbytes in chain.activation_bytes[1:]]
    with plt.style.context(STYLE):
        figure, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(8, 3.8))
        above.bar(range(chain.stages), megabytes, color="C0")
        above.set(ylabel="output, MB", title=title)
        below.bar(
            range(chain.stages), chain.forward_times, color="C1", hatch="++", edgecolor="white"
        )
        below.set_ylabel(f"forward, {time_unit}")
        below.set_xticks(range(chain.stages), names, rotation=45, ha="right", fontsize=8)
        figure.tight_layout()
    told = [
        f"{name} {size:.3g} MB, {time:.3g} {time_unit}"
        for name, size, time in zip(names, megabytes, chain.forward_times)
    ]
    show_figure(figure, f"{title}. Output and forward time of each stage: " + "; ".join(told) + ".")


def memory_time_front(
    stairs: Mapping[str, Sequence[tuple[float, float]]],
    points: Mapping[str, Sequence[tuple[float, float]]],
    *,
    xlabel: str,
    ylabel: str,
    title: str = "",
) -> None:
    """Draw recomputed time against peak memory: stairs are optima for every budget, points are plans.

    Of the stairs each item is (a budget, the least time from there on).
    """
    right = (
        max(peak for series in [*stairs.values(), *points.values()] for peak, _ in series) * 1.02
    )
    with plt.style.context(STYLE):
        figure, axis = plt.subplots(figsize=(7.5, 4.2))
        for number, (name, steps) in enumerate(stairs.items()):
            peaks, times = zip(*sorted(steps))
            axis.step(
                [*peaks, right], [*times, times[-1]], where="post", label=name,
                linestyle=["-", "--", ":"][number], color=["0.2", "C5", "C2"][number],
            )  # fmt: skip
        for (name, plans), marker in zip(points.items(), _MARKERS):
            axis.plot(*zip(*plans), marker, linestyle="none", label=name)
        axis.set(xlabel=xlabel, ylabel=ylabel, title=title)
        axis.grid(True, alpha=0.25)
        axis.legend()
        figure.tight_layout()
    told = [
        f"{name}: " + ", ".join(f"{time:.3g} at {peak:.4g}" for peak, time in series)
        for name, series in {**stairs, **points}.items()
    ]
    show_figure(figure, f"{title or ylabel}. {ylabel} against {xlabel}. " + "; ".join(told) + ".")
