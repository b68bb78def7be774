"""The drawn computation graph: where nodes stand, and the words that go with it."""

import pytest

from course_utils import graphs

PARENTS = {"x": [], "y": [], "a": ["x", "y"], "b": ["a"], "c": ["a", "b"]}


def test_a_node_stands_right_of_all_that_it_is_made_from() -> None:
    places = graphs._places(PARENTS)
    assert all(places[p][0] < places[n][0] for n, sources in PARENTS.items() for p in sources)
    assert len(set(places.values())) == len(PARENTS)


def test_the_words_tell_every_edge_and_every_mark(monkeypatch) -> None:
    shown = []
    monkeypatch.setattr(graphs, "show_figure", lambda figure, alt: shown.append((figure, alt)))
    graphs.computation_graph(
        PARENTS, {"a": "x y", "b": "2 a"}, marked=["a"], meaning="kept", title="G"
    )
    figure, alt = shown[0]
    assert alt == (
        "G. x (input); y (input); a = x y, from x and y; b = 2 a, from a; c, from a and b. "
        "Marked, kept: a."
    )
    axis = figure.axes[0]
    bold = [text.get_text() for text in axis.texts if _edge_width(text) > 2]
    assert bold == ["a\nx y"]
    assert sum(text.get_text() == "" for text in axis.texts) == 5  # an arrow an edge
    graphs.plt.close(figure)


def test_a_parent_that_is_no_node_is_an_error() -> None:
    with pytest.raises(KeyError):
        graphs._places({"a": ["nowhere"]})


def _edge_width(text) -> float:
    box = text.get_bbox_patch()
    return box.get_linewidth() if box else 0
