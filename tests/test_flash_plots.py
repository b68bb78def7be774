"""The figures of lesson 07 say in words what they show."""

import numpy as np
import pytest

from course_utils import flash_plots
from course_utils.hierarchy import HBM, SRAM


@pytest.fixture
def words(monkeypatch):
    told = []
    monkeypatch.setattr(flash_plots, "show_figure", lambda figure, alt: told.append(alt))
    yield told
    flash_plots.plt.close("all")


def test_tiles_are_told_with_how_many_and_how_long(words):
    hbm = HBM()
    Q, K = hbm.array(np.ones((4, 2)), "Q"), hbm.array(np.ones((6, 2)), "K")
    with SRAM(1000, hbm, record=True) as sram:
        q = sram.load(Q)  # stays while 12 numbers of K and its own 8 are moved
        for i in (0, 2, 4):
            k = sram.load(K[i : i + 2])
            del k
        del q
    flash_plots.tiles_in_time(sram, titles=["one"])
    assert "3 tiles of K, each on chip for 4 numbers" in words[0]
    assert "1 tiles of Q, each on chip for 20 numbers" in words[0]


def test_a_run_without_tiles_can_be_drawn(words):
    hbm = HBM()
    flash_plots.tiles_in_time(SRAM(1000, hbm, record=True), titles=["nothing"])
    assert "0 tiles of K" in words[0]


def test_the_law_tells_how_far_the_points_lie_from_the_line(words):
    flash_plots.traffic_law([(10, 2, 4, 1100.0), (20, 2, 4, 4000.0)], factor=10)
    assert "2 measured runs lie within 10% of the line 10 n" in words[0]


def test_printed_and_counted_bars_are_all_told(words):
    flash_plots.printed_and_counted({"GB": {"printed": (40.3, True), "counted": (40.27, False)}})
    assert words == ["Printed figures beside counted ones. GB: printed 40.3, counted 40.27."]
