"""The softmax stepper's data against sums in 50 digits; its slips are wrong where they must be, and only there."""

import json
import math
from decimal import Decimal, getcontext

import matplotlib.pyplot as plt
import pytest

from course_utils import plots, softmax_plots
from course_utils.widgets import base
from course_utils.widgets.softmax import (
    BLOCKS,
    WAYS,
    example_rows,
    run,
    softmax_data,
    step_through_softmax,
)

getcontext().prec = 50
DATA = softmax_data()
ROWS = example_rows()


def weight(score: float, counted_from: float) -> Decimal:
    """exp(score - counted_from), where no exponential is too large; 0 for a hidden score."""
    return Decimal(0) if score == -math.inf else (Decimal(score) - Decimal(counted_from)).exp()


def mean(scores: list[float]) -> float:
    """The softmax's mean of the first values: no maximum is needed in such numbers."""
    weights = [weight(score, 0) for score in scores]
    if not sum(weights):
        return 0.0
    values = [Decimal(str(value)) for value in DATA["values"]]
    return float(sum(w * v for w, v in zip(weights, values, strict=False)) / sum(weights))


def steps_of(row: str, block: int, way: str):
    """(scores so far, step) after each block."""
    for step in DATA["runs"][f"{row}/{block}/{way}"]:
        yield ROWS[row][: step["last"] + 1], step


def is_right(step: dict) -> bool:
    return abs(float(step["output"]) - step["exact"]) < 1e-5  # nan is not


def should_have_rescaled(row: str, block: int, last: int) -> bool:
    """The maximum rose at a block that was not the first to count for something."""
    seen = ROWS[row][: last + 1]
    tops = [max(seen[:end]) for end in range(block, last + 2, block)]
    return any(-math.inf < old < new for old, new in zip(tops, tops[1:], strict=False))


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("block", BLOCKS)
def test_every_step_of_the_right_way_agrees_with_an_exact_softmax(row, block):
    for scores, step in steps_of(row, block, "rescaled"):
        largest = max(scores)
        assert step["exact"] == pytest.approx(mean(scores), abs=2e-6)
        assert step["output"] == pytest.approx(mean(scores), abs=2e-6)
        assert float(step["max"]) == largest
        weights = [float(weight(s, max(largest, -1e9))) for s in scores]
        assert step["weights"] == pytest.approx(weights, rel=1e-3, abs=1e-300)
        assert step["sum"] == pytest.approx(sum(weights), rel=1e-5)


@pytest.mark.parametrize("way", ["never", "printed"])
@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("row", ROWS)
def test_slips_are_wrong_from_the_first_rescaling_that_was_due(row, block, way):
    for _, step in steps_of(row, block, way):
        assert is_right(step) != should_have_rescaled(row, block, step["last"])


@pytest.mark.parametrize("block", BLOCKS)
def test_without_a_maximum_large_scores_leave_nan_and_others_are_right(block):
    for row in ROWS:
        for _, step in steps_of(row, block, "no maximum"):
            assert is_right(step) != (row == "800 higher")
            assert step["output"] == "nan" or row != "800 higher"


def test_the_printed_recursion_is_the_lectures():
    """O = O_old l_old / l e^(m_old - m) + e^(S - m) / l V, with l = l_old + e^(S - m) (E5-82)."""
    scores, values = ROWS["rising"], DATA["values"]
    m, l, o = scores[0], 1.0, values[0]  # noqa: E741
    for score, value in zip(scores[1:], values[1:], strict=True):
        m_old, l_old, m = m, l, max(m, score)
        l = l_old + math.exp(score - m)  # noqa: E741
        o = o * l_old / l * math.exp(m_old - m) + math.exp(score - m) / l * value
    last = DATA["runs"]["rising/1/printed"][-1]
    assert (last["output"], last["sum"]) == pytest.approx((o, l), rel=1e-5)


def test_a_row_that_is_hidden_as_a_whole_gives_zeros():
    for way in WAYS:
        steps = run([-math.inf] * 4, [1.0] * 4, 2, way)
        assert [(s["sum"], s["output"], s["exact"], s["max"]) for s in steps] == [
            (0.0, 0.0, 0.0, "-inf")
        ] * 2


def test_the_data_are_json_without_constants_that_json_lacks():
    text = json.dumps(DATA, allow_nan=False)
    assert len(text) < 150_000
    assert set(DATA["runs"]) == {f"{r}/{b}/{w}" for r in ROWS for b in BLOCKS for w in WAYS}


def test_a_figure_and_a_table_stand_in_its_place(monkeypatch):
    shown = []
    monkeypatch.setattr(base, "display", lambda bundle, **_: shown.append(bundle))
    monkeypatch.setenv("COURSE_STATIC", "1")
    step_through_softmax()
    (bundle,) = shown
    assert "rising: exact 0.44, all older terms (right) 0.44, none 0.10" in bundle["text/plain"]
    assert "<img" in bundle["text/html"] and bundle["text/html"].count("<tr>") == 5
    assert not plt.get_fignums()


def test_the_figure_tells_who_fails(monkeypatch):
    bundles = []
    monkeypatch.setattr(plots, "display", lambda bundle, raw=False: bundles.append(bundle))
    each = {"exact": [0.0, 1.0], "good": [0.0, 1.0], "bad": [0.0, math.nan]}
    softmax_plots.rescaling_slips({"a row": each}, {"good": "Good", "bad": "Bad"}, width=8)
    assert "a row: exact 1.00, Good 1.00, Bad nan" in bundles[0]["text/plain"]


def test_its_script_is_small():
    assert len(base.script("online_softmax").encode()) < 30_000
