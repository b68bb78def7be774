"""Figures of traffic: what the frames of a recorded run say, and that every figure says it in words."""

import numpy as np
import pytest

from course_utils import tiling_plots
from course_utils.hierarchy import HBM, SRAM
from tests.attention_on_chip import tiled_matmul


def recorded(m=4, n=6, k=5, tile=2):
    hbm = HBM()
    A, B = hbm.array(np.ones((m, k)), "A"), hbm.array(np.ones((k, n)), "B")
    C = hbm.empty((m, n), name="C")
    with SRAM(3 * tile * tile * 8, hbm, record=True) as sram:
        tiled_matmul(sram, A, B, C, tile, tile, tile)
    return sram.events, hbm


@pytest.fixture
def said(monkeypatch):
    """The alternative texts of the figures that were shown."""
    texts = []
    monkeypatch.setattr(tiling_plots, "show_figure", lambda figure, alt: texts.append(alt))
    yield texts
    tiling_plots.plt.close("all")


def test_frames_follow_a_tile_of_the_result_until_it_is_stored():
    events, hbm = recorded()
    frames = tiling_plots.frames_of(events)
    assert len(frames) == 6 * (3 + 1)  # six tiles: k in three pieces, then a store
    tiles = [("C", ((0, 2), (0, 2))), ("A", ((0, 2), (2, 4))), ("B", ((2, 4), (0, 2)))]
    assert sorted(frames[1].on_chip) == sorted(tiles)
    assert frames[2].stored == [] and frames[3].stored == [((0, 2), (0, 2))]
    assert frames[-1].moved_bytes == hbm.bytes_moved
    assert max(frame.live_bytes for frame in frames) == 3 * 4 * 8


def test_the_strip_of_frames_tells_tiles_and_bytes(said):
    tiling_plots.tile_frames(recorded()[0], (4, 6, 5), 96, [0, 3, 999], "Tiled")
    assert "moment 1: on chip C[0:2, 0:2] A[0:2, 0:2] B[0:2, 0:2], 96 of 96 bytes" in said[0]
    assert "moment 4" in said[0] and "moment 1000" not in said[0]


def test_the_roofline_tells_balance_points_and_marks(said):
    tiling_plots.roofline({"a chip": (100, 10)}, {"copy": (0.5, 4)}, {"attention": 18.7})
    for words in ("balance 10", "copy: intensity 0.5, 4 a second", "attention: intensity 18.7"):
        assert words in said[0]


@pytest.mark.parametrize(("tile", "loads"), [(1, 8), (2, 16), (4, 32)])
def test_t_times_t_threads_load_a_t_th(said, tile, loads):
    tiling_plots.sharing_table(tile, inner=4)
    assert f"Of {8 * tile * tile} accesses {loads} are the first" in said[0]


def test_traffic_tells_lines_points_and_the_bound(said):
    tiling_plots.traffic_against_capacity(
        [64, 256], {"tiled": [4000, 2000]}, {"measured": ([64], [3999])}, bound=[3000, 1500]
    )
    for words in ("tiled: 4,000 at 64", "points, measured: 3,999 at 64", "bound: 3,000 at 64"):
        assert words in said[0]
