"""Figures: shown once, with words, in one style."""

import base64
import re

import matplotlib.pyplot as plt
import numpy as np
import pytest

from course_utils import plots
from course_utils.timeline import Timeline


@pytest.fixture
def shown(monkeypatch):
    bundles = []
    monkeypatch.setattr(plots, "display", lambda bundle, raw=False: bundles.append(bundle))
    yield bundles
    assert not plt.get_fignums(), "a figure was left open"


def two_steps() -> Timeline:
    with Timeline() as timeline:
        a = np.ones(100_000)
        timeline.mark("a = ones", a=a)
        b = np.sqrt(a) + 1
        timeline.mark("b = sqrt(a) + 1", a=a, b=b)
    return timeline


def image_of(bundle: dict) -> bytes:
    return base64.b64decode(re.search(r"base64,([^\"]+)", bundle["text/html"])[1])


def test_every_figure_is_an_image_with_words(shown):
    plots.memory_timeline(two_steps(), titles=["two & more"])
    plots.growth(
        [1, 2, 4],
        {"naive": [1, 4, 16], "blocks": [1, 2, 4]},
        xlabel="N",
        ylabel="bytes",
        limits={"full": 9},
    )
    assert len(shown) == 2
    for bundle in shown:
        assert image_of(bundle).startswith(b"\x89PNG") and len(image_of(bundle)) < 100_000
        assert re.search(r'alt="[^"]{40,}"', bundle["text/html"])


def test_the_words_carry_the_numbers(shown):
    plots.memory_timeline(two_steps(), titles=["two"])
    words = shown[0]["text/plain"]
    assert "b = sqrt(a) + 1: 1.6 MB held (a, b), peak 1.6" in words and "two." in words
    plots.growth([1024, 2048], {"naive": [100, 400]}, xlabel="N", ylabel="MB")
    assert "naive: 100 at 1,024, 400 at 2,048" in shown[1]["text/plain"]


def test_an_axis_says_which_moment_it_shows(shown, monkeypatch):
    labels = []
    monkeypatch.setattr(
        plots, "show_figure", lambda figure, _: labels.append(figure.axes[0].get_xlabel())
    )
    for moment in ("after", "before"):
        plots.memory_timeline(two_steps(), moment=moment)
    plt.close("all")
    assert "after the step" in labels[0] and "when the step has what it reads" in labels[1]


def test_a_figure_is_the_same_bytes_each_time(shown):
    timeline = two_steps()
    plots.memory_timeline(timeline)
    plots.memory_timeline(timeline)
    assert image_of(shown[0]) == image_of(shown[1])


def test_several_timelines_share_a_figure_and_steps_can_be_left_out(shown):
    plots.memory_timeline(two_steps(), two_steps(), titles=["left", "right"], skip=["a = ones"])
    words = shown[0]["text/plain"]
    assert "left." in words and "right." in words and "a = ones:" not in words


def test_the_style_stays_inside(shown):
    before = dict(plt.rcParams)
    plots.growth([1, 2], {"x": [1, 2]}, xlabel="N", ylabel="bytes")
    assert dict(plt.rcParams) == before


def test_colours_differ_in_lightness():
    """Told apart in grey: neighbours of the colour cycle differ in luminance."""
    from matplotlib.colors import to_rgb

    with plt.style.context(plots.STYLE):
        colours = plt.rcParams["axes.prop_cycle"].by_key()["color"]
    light = [
        np.dot(to_rgb(f"#{c}" if not c.startswith("#") else c), (0.2126, 0.7152, 0.0722))
        for c in colours
    ]
    assert all(abs(a - b) > 0.03 for a, b in zip(light, light[1:]))


def test_source_is_shown(monkeypatch):
    sources = []
    monkeypatch.setattr(plots, "display", sources.append)
    plots.show_source(Timeline.mark, two_steps)
    assert "def mark" in sources[0].data and "def two_steps" in sources[0].data
