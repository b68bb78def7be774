"""The online softmax, a block at a time: what it carries along, and what becomes of it without its factors.

A row of 16 scores with a value each. After every block: the running maximum, the weights of the scores so
far, their running sum, the output, and the exact output of the same scores. Three slips can be chosen: to
rescale nothing, to rescale all but the sum (as a lecture prints it), and to do without the maximum.
"""

import math
from collections.abc import Sequence

import numpy as np

from course_utils import softmax_plots
from course_utils.widgets.base import show, table

__all__ = ["example_rows", "run", "softmax_data", "step_through_softmax"]

COUNT = 16
BLOCKS = (1, 2, 4, 8, 16)
WAYS = {
    "rescaled": "all older terms (right)",
    "never": "none",
    "printed": "not the sum (E5-82)",
    "no maximum": "none, and no maximum",
}
NOTHING = -math.inf


def example_rows() -> dict[str, list[float]]:
    """Rows of scores by name: each shows something else of what a maximum does."""
    rising = [-1.0, -2.0, -1.5, -0.5, 0.5, -0.5, 0.0, 1.0, 2.0, 1.0, 1.5, 2.5, 3.0, 2.0, 4.0, 3.5]
    return {
        "rising": rising,
        "largest first": sorted(rising, reverse=True),
        "800 higher": [score + 800 for score in rising],
        "partly hidden": [NOTHING] * 4 + [1.0, NOTHING, 0.5, 2.0] + [NOTHING] * 4 + [3.0, 0.0, 1.0, 2.0],
    }  # fmt: skip


def step_through_softmax() -> None:
    """Show the stepper; in its stead the outputs of every way on every row, and a table of one run."""
    data = softmax_data()
    heads = ["block", "largest so far", "factor due", "sum", "output", "exact"]
    rows = [
        [n, *(_short(step[name]) for name in ("max", "due", "sum", "output", "exact"))]
        for n, step in enumerate(data["runs"]["rising/4/rescaled"], start=1)
    ]
    show(
        "online_softmax",
        data,
        lambda: softmax_plots.rescaling_slips(_outputs(data), WAYS, width=4),
        table("The rising scores, in blocks of four", heads, rows),
    )


def softmax_data() -> dict:
    """The rows, their values, and every run: "row/block/way" -> what is carried after each block."""
    rows = example_rows()
    values = [round(math.cos(0.9 * j), 2) for j in range(COUNT)]  # between -1 and 1
    return {
        "rows": {name: [_plain(score) for score in scores] for name, scores in rows.items()},
        "values": values,
        "blocks": list(BLOCKS),
        "ways": WAYS,
        "runs": {
            f"{name}/{block}/{way}": run(scores, values, block, way)
            for name, scores in rows.items()
            for block in BLOCKS
            for way in WAYS
        },
    }


def run(scores: Sequence[float], values: Sequence[float], block: int, way: str) -> list[dict]:
    """What is carried after each block, in float64; inf and nan as words.

    A step has first and last (of the block), old_max, max, due (the factor that older terms need), weights
    (of all scores so far, as they are in the output), sum, output, and exact (the right output so far).
    """
    steps, weights, total, largest = [], np.zeros(0), 0.0, NOTHING
    with np.errstate(all="ignore"):
        for first in range(0, len(scores), block):
            new = np.array(scores[first : first + block])
            old_max, largest = largest, max(largest, new.max())
            counts_from = 0.0 if way == "no maximum" or largest == NOTHING else largest
            is_due = first > 0 and largest > NOTHING and way != "no maximum"
            due = float(np.exp(old_max - largest)) if is_due else 1.0
            added = np.exp(new - counts_from)
            weights = np.concatenate([weights * (1.0 if way == "never" else due), added])
            total = total * (due if way == "rescaled" else 1.0) + added.sum()
            steps.append(
                {
                    "first": first,
                    "last": first + len(new) - 1,
                    "old_max": _plain(old_max),
                    "max": _plain(largest),
                    "due": _plain(due),
                    "weights": [_plain(weight, 4) for weight in weights],
                    "sum": _plain(total),
                    "output": _plain(_mean(weights, values, total)),
                    "exact": _plain(exact(scores[: first + len(new)], values)),
                }
            )
    return steps


def exact(scores: Sequence[float], values: Sequence[float]) -> float:
    """The softmax's mean of the values, all scores at once; 0 where every score is -inf."""
    largest = max(scores)
    weights = np.exp(np.array(scores) - (largest if largest > NOTHING else 0.0))
    return _mean(weights, values, weights.sum())


def _mean(weights: np.ndarray, values: Sequence[float], total: float) -> float:
    """The weighted mean; of nothing at all it is 0, as in the lesson."""
    return float(weights @ np.array(values[: len(weights)]) / total) if total != 0 else 0.0


def _outputs(data: dict) -> dict[str, dict[str, list[float]]]:
    """Outputs after each block of four: row -> way ("exact" too) -> numbers."""
    found = {}
    for name in data["rows"]:
        runs = {way: data["runs"][f"{name}/4/{way}"] for way in WAYS}
        found[name] = {"exact": [step["exact"] for step in runs["rescaled"]]}
        found[name] |= {way: [float(step["output"]) for step in run] for way, run in runs.items()}
    return found


def _plain(number: float, digits: int = 6) -> float | str:
    """JSON knows neither inf nor nan: those travel as words."""
    number = float(number)
    return float(f"{number:.{digits}g}") if math.isfinite(number) else str(number)


def _short(number: float | str) -> str:
    return number if isinstance(number, str) else f"{number:.4g}"
