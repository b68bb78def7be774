"""Measured points upon a formula's curves: what is drawn, and what is told to whoever cannot see it."""

from course_utils import plots


def test_points_curves_and_words(monkeypatch):
    shown = []
    monkeypatch.setattr(plots, "show_figure", lambda figure, alt: shown.append((figure, alt)))
    plots.measured_on_curves(
        [2, 4, 8],
        {"T = 16": [10, 8, 10.5]},
        {"T = 16": lambda b: 16 / b + b},
        xlabel="stages",
        ylabel="peak (states)",
    )
    ((figure, alt),) = shown
    curve, points = figure.axes[0].get_lines()
    assert list(points.get_xdata()) == [2, 4, 8] and list(points.get_ydata()) == [10, 8, 10.5]
    assert curve.get_ydata().min() >= 8 and len(curve.get_xdata()) > 50
    assert figure.axes[0].get_ylabel() == "peak (states)"
    assert "10 at 2, 8 at 4, 10.5 at 8; lowest 8 at 4" in alt
    plots.plt.close(figure)
