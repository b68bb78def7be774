"""The figures of lesson 05: shown once, with words that carry what they show."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from course_utils import plots
from course_utils.softmax_plots import merge_shapes, running_softmax


@pytest.fixture
def words(monkeypatch):
    bundles = []
    monkeypatch.setattr(plots, "display", lambda bundle, raw=False: bundles.append(bundle))
    yield lambda: bundles[-1]["text/plain"]
    assert not plt.get_fignums(), "a figure was left open"


def test_the_stream_tells_maxima_factors_and_sums(words):
    running_softmax(np.array([0.0, 0.0, 1.0, 0.0, 0.0]), width=2)  # the last block is smaller
    told = words()
    assert "3 blocks" in told and "begins at 0.00 and is raised by 1 later blocks" in told
    assert f"block 1: maximum 1.00, factor {np.exp(-1):.2f}, sum {1 + 3 * np.exp(-1):.1f}" in told
    assert f"ends at {1 + 4 * np.exp(-1):.1f}" in told


def test_a_stream_whose_maximum_never_moves(words):
    running_softmax(-np.arange(8.0), width=2)
    assert "raised by 0 later blocks" in words()


def test_groupings_tell_their_merges_and_their_depth(words):
    merge_shapes({"comb": (((1, 2), 3), 4), "tree": ((1, 2), (3, 4))})
    assert "comb: 4 parts, 3 merges, 3 one after another" in words()
    assert "tree: 4 parts, 3 merges, 2 one after another" in words()
