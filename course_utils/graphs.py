"""A computation's graph as a figure: what is made from what, and which values must be kept.

The lectures' graphs are short, a node a line of the program. So the layout is plain: a node stands
as far to the right as its longest way from the inputs.
"""

from collections.abc import Collection, Mapping, Sequence

import matplotlib.pyplot as plt

from course_utils.plots import STYLE, show_figure

_ACROSS, _DOWN = 1.65, 1.1  # inches from node to node


def computation_graph(
    parents: Mapping[str, Sequence[str]],
    formulas: Mapping[str, str],
    *,
    marked: Collection[str] = (),
    meaning: str = "",
    title: str = "",
) -> None:
    """Draw a graph from each node's parents, in the program's order; `formulas` go under the names.

    Nodes in `marked` stand out, in grey too; `meaning` says in a few words what the mark means.
    """
    places = _places(parents)
    wide, high = (max(c) - min(c) for c in zip(*places.values(), strict=True))
    with plt.style.context(STYLE):
        figure, axis = plt.subplots(figsize=(wide + 1.4, high + 1.2))
        axis.set(xlim=(-0.7, wide + 0.7), ylim=(-high / 2 - 0.5, high / 2 + 0.5), title=title)
        axis.axis("off")
        boxes = {}
        for node, place in places.items():
            colour, width = ("C4", 2.5) if node in marked else ("white", 1)
            words = f"{node}\n{formulas[node]}" if node in formulas else node
            frame = {"boxstyle": "round,pad=0.45", "facecolor": colour, "linewidth": width}
            boxes[node] = axis.text(*place, words, ha="center", va="center", bbox=frame)
        for node, sources in parents.items():
            for source in sources:
                _draw_edge(axis, boxes[source], boxes[node])
        if marked and meaning:
            sample = plt.Rectangle((0, 0), 1, 1, facecolor="C4", edgecolor="black", linewidth=2)
            axis.legend([sample], [meaning], loc="upper right", borderaxespad=0)
    show_figure(figure, _words(parents, formulas, marked, meaning, title))


def _places(parents: Mapping[str, Sequence[str]]) -> dict[str, tuple[float, float]]:
    """A place for each node, in inches: columns by the longest way from an input, each centred."""
    column: dict[str, int] = {}
    for node, sources in parents.items():
        column[node] = 1 + max((column[source] for source in sources), default=-1)
    places = {}
    for number in range(max(column.values()) + 1):
        nodes = [node for node in parents if column[node] == number]
        for row, node in enumerate(nodes):
            places[node] = (number * _ACROSS, ((len(nodes) - 1) / 2 - row) * _DOWN)
    return places


def _draw_edge(axis, source, node) -> None:
    """An arrow from box to box; one that skips a column bends away from what stands between."""
    (x0, y0), (x1, _) = source.get_position(), node.get_position()
    bend = (0.3 if y0 <= 0 else -0.3) if x1 - x0 > 1.5 * _ACROSS else 0
    axis.annotate(
        "",
        node.get_position(),
        source.get_position(),
        arrowprops={
            "arrowstyle": "-|>",
            "color": "0.35",
            "linewidth": 1.3,
            "patchA": source.get_bbox_patch(),
            "patchB": node.get_bbox_patch(),
            "connectionstyle": f"arc3,rad={bend}",
        },
    )


def _words(parents, formulas, marked, meaning: str, title: str) -> str:
    """The figure as text: each node, its formula, and what it is made from."""
    told = []
    for node, sources in parents.items():
        formula = f" = {formulas[node]}" if node in formulas else ""
        told.append(node + formula + (f", from {' and '.join(sources)}" if sources else " (input)"))
    words = f"{title or 'A computation graph'}. " + "; ".join(told) + "."
    return words + (f" Marked, {meaning}: {', '.join(marked)}." if marked else "")
