"""Figures of schedules: what they draw, and the words that stand for them."""

import matplotlib.pyplot as plt
import pytest

from course_utils import plots, schedule_plots
from course_utils.remat.exhaustive import exhaustive_optimum
from course_utils.remat.model import Chain, Graph, Value
from course_utils.remat.plans import plan_schedule

RISING = Chain([1, 1, 1], [1, 1, 2, 3])


@pytest.fixture
def shown(monkeypatch):
    bundles = []
    monkeypatch.setattr(plots, "display", lambda bundle, raw=False: bundles.append(bundle))
    yield bundles
    assert not plt.get_fignums(), "a figure was left open"


@pytest.fixture
def drawn(monkeypatch):
    """The figures themselves, with their words, in place of showing them."""
    figures = []
    monkeypatch.setattr(
        schedule_plots, "show_figure", lambda figure, alt: figures.append((figure, alt))
    )
    yield figures
    plt.close("all")


def test_lives_of_a_bracket():
    lives = schedule_plots._lives(RISING.graph(), plan_schedule([[1, 2], 3]))
    assert lives == [
        ("z1", 0, 1, "again"),
        ("z3", 2, 3, "kept"),
        ("g3", 3, 4, "gradient"),
        ("z2", 1, 4, "kept"),
        ("g2", 4, 6, "gradient"),
        ("z1", 5, 6, "kept"),
        ("g1", 6, 7, "gradient"),
        ("g0", 7, 7, "gradient"),
    ]


def test_a_value_that_is_dropped_early_and_never_made_again_is_kept_to_its_last_reader():
    graph = Graph({"a": Value(1, 1), "b": Value(1, 1, ("a",)), "c": Value(1, 1, ("b",))}, ("c",))
    schedule = [("compute", "a"), ("compute", "b"), ("drop", "a"), ("compute", "c"), ("drop", "b")]
    kinds = {name: kind for name, _, _, kind in schedule_plots._lives(graph, schedule)}
    assert set(kinds.values()) == {"kept"}


def test_the_words_tell_steps_peak_and_what_is_computed_again(shown):
    free = exhaustive_optimum(RISING.graph(), 7).schedule
    schedule_plots.schedule_chart(
        RISING.graph(), plan_schedule([[[1, 2], 3]]), free, titles=["persistent", "free"]
    )
    words = shown[0]["text/plain"]
    assert "persistent: 10 steps, peak 7 bytes, computed again: z1 2 times, z2." in words
    assert "free: 9 steps, peak 7 bytes, computed again: z1, z2." in words


def test_a_row_of_the_chart_is_as_wide_as_what_is_alive(drawn):
    schedule = plan_schedule([1, 2, 3])
    schedule_plots.schedule_chart(RISING.graph(), schedule, unit="units", budget_bytes=7)
    lives, totals = drawn[0][0].axes
    assert [bar.get_width() for bar in totals.patches] == [1, 3, 6, 9, 8, 4, 2]
    assert [label.get_text() for label in lives.get_yticklabels()][:3] == ["z1", "z2", "z3"]
    assert totals.get_xlabel() == "units alive"
    assert lives.get_title(loc="left") == ""


def test_repeated_steps_are_labelled(drawn):
    schedule_plots.schedule_chart(RISING.graph(), plan_schedule([[1, 2], 3]))
    labels = [label.get_text() for label in drawn[0][0].axes[0].get_yticklabels()]
    assert labels == ["z1", "z2", "z3", "g3", "g2", "z1 again", "g1", "g0"]


def test_a_front_is_a_staircase_to_the_right(drawn):
    schedule_plots.memory_time_front(
        {"best": [(3, 6), (5, 2), (9, 0)]}, {"rule": [(10, 1)]}, xlabel="peak", ylabel="time"
    )
    (figure, words) = drawn[0]
    stairs = figure.axes[0].lines[0]
    assert stairs.get_drawstyle() == "steps-post"
    assert list(stairs.get_ydata()) == [6, 2, 0, 0]
    assert list(stairs.get_xdata())[:3] == [3, 5, 9] and stairs.get_xdata()[3] > 10
    assert "best: 6 at 3, 2 at 5, 0 at 9" in words and "rule: 1 at 10" in words


def test_bars_of_a_chain(shown):
    chain = Chain([2, 1], [10**6, 3 * 10**6, 10**6])
    schedule_plots.chain_bars(chain, ["one", "two"], title="two stages", time_unit="GFLOP")
    assert "one 3 MB, 2 GFLOP; two 1 MB, 1 GFLOP" in shown[0]["text/plain"]
