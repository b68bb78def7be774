"""Judging values and bytes; and what people see of it."""

import numpy as np
import pytest

from course_utils.checks.core import Measure, Status, Verdict, failed
from course_utils.checks.judging import (
    close,
    growth_exponent,
    over_budget,
    peak,
    relative_error,
    say,
    wrong_array,
)
from course_utils.checks.show import as_html, as_text

EXPECTED = np.array([[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize(
    ("actual", "cause"),
    [
        ([[1, 2], [3, 4]], "wrong type"),
        (None, "wrong type"),
        (EXPECTED[0], "wrong shape"),
        (EXPECTED.astype("f4"), "wrong dtype"),
        (EXPECTED * np.nan, "not finite"),
        (EXPECTED * np.inf, "not finite"),
        (EXPECTED + 1e-6, "wrong values"),
        (EXPECTED.T, "wrong values"),
    ],
)
def test_wrong_arrays_are_named(actual, cause):
    assert wrong_array(actual, EXPECTED).cause == cause


def test_right_arrays_pass():
    assert wrong_array(EXPECTED * (1 + 1e-13), EXPECTED) is None
    assert wrong_array(EXPECTED.astype("f4"), EXPECTED, dtype="float32") is None
    assert wrong_array(np.float64(3), np.array(3.0)) is None
    assert wrong_array(np.empty((0, 3)), np.empty((0, 3))) is None


def test_the_worst_element_is_named():
    actual = EXPECTED.copy()
    actual[1, 0] = 7
    assert "index (1, 0)" in wrong_array(actual, EXPECTED).diagnosis
    assert relative_error(actual, EXPECTED) == 1.0


@pytest.mark.parametrize("odd", ["text", None, [1], object(), np.array(["a", "b"]), np.ones(3)])
def test_close_is_calm_about_anything(odd):
    assert not close(odd, np.ones(2))


def test_budgets_have_two_ends():
    inside = peak(1_000_000, 1_000_000, 500_000)
    assert over_budget("peak", inside, "cause", "text") is None
    assert over_budget("peak", peak(1_000_000 + 65_536, 1_000_000), "cause", "text") is None
    above = over_budget("peak", peak(1_000_000 + 65_537, 1_000_000), "cause", "text")
    assert (above.cause, above.diagnosis) == ("cause", "text") and "peak" in above.measured
    below = over_budget("peak", peak(499_999, 1_000_000, 500_000), "cause", "text")
    assert below.cause == "better than possible" and "500,000" in below.diagnosis


@pytest.mark.parametrize("power", [0, 1, 1.5, 2])
def test_growth_is_the_slope(power):
    sizes = [1000, 2000, 4000]
    assert growth_exponent(sizes, [5 * n**power for n in sizes]) == pytest.approx(power, abs=1e-9)


def test_numbers_read_well():
    assert say(8_000_128) == "8,000,128 bytes (8.00 MB)"
    assert say(24) == "24 bytes"
    assert say(1.98, "exponent") == "1.98 exponent"


def test_a_verdict_in_words():
    verdict = failed(
        "cause", "Use `out=`, not <b>.", peak=Measure(2_000_000, "bytes", 1_000_000, 500)
    )
    verdict.exercise, verdict.case = "1.3", "tall & thin"
    text, html = as_text(verdict), as_html(verdict)
    assert "Exercise 1.3: failed" in text and "tall & thin" in text
    assert "2,000,000 bytes (2.00 MB); allowed: at least 500 bytes, at most 1,000,000 bytes" in text
    assert "<code>out=</code>" in html and "&lt;b&gt;" in html and "tall &amp; thin" in html
    assert 'role="status"' in html and html.count("<div") == html.count("</div>")


@pytest.mark.parametrize("status", list(Status))
def test_every_status_has_a_mark_and_a_word(status):
    verdict = Verdict(status, exercise="1.1")
    assert str(status) in as_text(verdict) and str(status) in as_html(verdict)
    assert as_text(verdict)[0] in "✓✕○?"
