"""Predict first, then measure: `predict` and `measured`; and `needs`, for what waits on an answer.

A prediction is kept in the record, so that it outlives a kernel that is restarted between the two.
"""

from html import escape
from types import EllipsisType

from course_utils.checks import record
from course_utils.checks.show import code_marks, in_kernel

_measured: dict[str, float] = {}  # since this kernel started


def predict(prediction_id: str, number: float | EllipsisType | None, unit: str = "") -> None:
    """Note what you expect to measure. `...` leaves it open, and the notebook runs on.

    Once it is measured, this shows both.
    """
    if number is ... or number is None:
        _say(
            f"Prediction {prediction_id} is open: replace the `...` by a number, then run this cell."
        )
        return
    if isinstance(number, bool) or not isinstance(number, int | float):
        _say(f"Prediction {prediction_id}: a number please, not {type(number).__name__}.")
        return
    record.store("predictions", prediction_id, {"number": number, "unit": unit})
    if prediction_id in _measured:
        measured(prediction_id, _measured[prediction_id])
    else:
        _say(f"Prediction {prediction_id}: {_quantity(number, unit)}. Now measure.")


def measured(prediction_id: str, value: float) -> None:
    """Show what was measured beside what was predicted, and their ratio."""
    value = _measured[prediction_id] = float(value)
    entry = record.load()["predictions"].get(prediction_id)
    if entry is None:
        _say(f"Prediction {prediction_id}: none made. Measured: {_number(value)}.")
        return
    number, unit = entry["number"], entry["unit"]
    both = f"you said {_quantity(number, unit)}, measured {_quantity(value, unit)}"
    ratio = f"; predicted / measured = {number / value:.3g}" if value else ""
    _say(f"Prediction {prediction_id}: {both}{ratio}.")


class needs:
    """`with needs("2.1"):` runs its block, which uses that answer. A stub in it ends the block, and says so."""

    def __init__(self, exercise_id: str):
        self.exercise_id = exercise_id

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind, problem, traceback) -> bool:
        if kind is not None and issubclass(kind, NotImplementedError):
            _say(f"Solve exercise {self.exercise_id} to see this.")
            return True
        return False


def _quantity(value: float, unit: str) -> str:
    return f"{_number(value)} {unit}".rstrip()


def _number(value: float) -> str:
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.1f}"


def _say(text: str) -> None:
    if in_kernel():
        from IPython.display import display

        shown = f'<em style="color: var(--jp-ui-font-color1, inherit)">{code_marks(escape(text))}</em>'
        display({"text/plain": text, "text/html": shown}, raw=True)
    else:
        print(text)
