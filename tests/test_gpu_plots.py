"""The figures of lesson 08 draw any record, say where it is from, and tell in words what they show."""

import matplotlib.pyplot as plt
import pytest

from course_utils import gpu_plots
from course_utils.recorded import Recorded
from tests import bench_fakes


@pytest.fixture
def shown(monkeypatch):
    figures = []
    monkeypatch.setattr(gpu_plots, "show_figure", lambda *pair: figures.append(pair))
    yield figures
    plt.close("all")


def texts(figure) -> str:
    inside = [text.get_text() for axis in figure.axes for text in axis.texts]
    return " | ".join([*inside, *(text.get_text() for text in figure.texts)])


DRAW = {
    "ladder": lambda r: gpu_plots.ladder(r, d=64),
    "ladder, backward": lambda r: gpu_plots.ladder(r, d=128, causal=True, passes="backward"),
    "extra bytes": lambda r: gpu_plots.extra_bytes(r),
    "gn27": lambda r: gpu_plots.gn27(r),
    "roofline": lambda r: gpu_plots.roofline_rungs(r),
}


@pytest.mark.parametrize("draw", DRAW.values(), ids=DRAW)
@pytest.mark.parametrize("is_fresh", [False, True])
def test_every_figure_names_machine_and_date_in_the_picture_and_in_words(shown, draw, is_fresh):
    record = Recorded(bench_fakes.record_data(), is_fresh)
    draw(record)
    (figure, words), *others = shown
    assert not others and record.machine_line in texts(figure) and record.machine_line in words
    assert ("measured here" if is_fresh else "recorded 2001") in words


def test_the_ladder_has_a_labelled_line_a_rung_below_the_roof(shown):
    gpu_plots.ladder(bench_fakes.record())
    figure, words = shown[0]
    (axis,) = figure.axes
    assert len(axis.lines) == len(bench_fakes.RUNGS) + 1
    for title in bench_fakes.RUNGS.values():
        assert title in texts(figure) and title in words
    assert "a matrix product: 800" in texts(figure)
    assert "Triton: 317 at 2,048" in words
    assert "dense, torch is missing at 16,384: needs about 200 GB" in words


def test_some_rungs_alone_can_be_drawn(shown):
    gpu_plots.ladder(bench_fakes.record(), only=["triton", "flash"])
    assert len(shown[0][0].axes[0].lines) == 3 and "tiles" not in shown[0][1]


def test_labels_at_the_ends_do_not_meet(shown):
    data = bench_fakes.record_data()
    for row in data["ladder"]:
        if "tflops" in row:
            row["tflops"] = 300.0
    gpu_plots.ladder(Recorded(data))
    axis = shown[0][0].axes[0]
    places = sorted(text.xyann[1] for text in axis.texts if text.get_text() in bench_fakes.RUNGS.values())  # fmt: skip
    assert len(places) == 4 and all(b / a > 1.05 for a, b in zip(places, places[1:]))


def test_memory_grows_with_n_or_with_its_square(shown):
    gpu_plots.extra_bytes(bench_fakes.record())
    words = shown[0][1]
    assert "Triton: 262 kB at 2,048, 524 kB at 4,096" in words
    assert "dense, torch: 537 MB at 2,048, 2.15 GB at 4,096" in words


def test_a_rung_that_takes_nothing_is_told(shown):
    data = bench_fakes.record_data()
    for row in data["ladder"]:
        if row["rung"] == "flash":
            row["extra_bytes"] = row["extra_bytes_a_sequence"] = 0
    gpu_plots.extra_bytes(Recorded(data))
    assert "PyTorch flash: none" in shown[0][1]


def test_the_papers_measurement_shows_ratios(shown):
    gpu_plots.gn27(bench_fakes.record())
    figure, words = shown[0]
    assert "(5.0 times less)" in texts(figure) and "(15.0 times less)" in texts(figure)
    assert "PyTorch flash 4 ms and 0.6 GB" in words and "a batch of 64" in words


def test_only_rungs_with_counted_traffic_stand_under_the_roof(shown):
    gpu_plots.roofline_rungs(bench_fakes.record())
    words = shown[0][1]
    assert "Triton: 100 operations a byte" in words and "flash" not in words
    assert "balance 200" in words


def test_a_record_without_numbers_can_be_drawn(shown):
    data = bench_fakes.record_data()
    data["ladder"] = [
        {name: row[name] for name in ("n", "d", "causal", "pass", "rung")} | {"failed": "no luck"}
        for row in data["ladder"]
    ]
    gpu_plots.ladder(Recorded(data))
    assert "Triton is missing at 2,048: no luck" in shown[0][1]
