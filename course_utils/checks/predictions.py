"""Predict first, then measure: `predict` and `measured`; and `needs`, for what waits on an answer.

A prediction is kept in the record, so that it outlives a kernel that is restarted between the two.
"""

from html import escape
from math import isfinite
from types import EllipsisType

from course_utils.checks import record
from course_utils.checks.core import Status
from course_utils.checks.show import code_marks, in_kernel
from course_utils.tracing import many_traces

_measured: dict[str, float] = {}  # since this kernel started


def predict(
    prediction_id: str, number: float | EllipsisType | None, *more: float, unit: str = ""
) -> None:
    """Note what you expect to measure. `...` leaves it open, and the notebook runs on.

    Once it is measured, this shows both.
    """
    if number is ... or number is None:
        _say(
            f"Prediction {prediction_id} is open: replace the `...` by a number, and run this cell."
        )
        return
    if more:  # 8,112 is two numbers to Python
        _say(f"Prediction {prediction_id}: write the number without commas, such as 8112 or 8_112.")
        return
    if isinstance(number, bool) or not isinstance(number, int | float) or not isfinite(number):
        _say(f"Prediction {prediction_id}: a number please, not {str(number)[:40]!r}.")
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
    """`with needs("2.1"):` runs its block, which uses that answer, or those of several exercises.

    A stub in it ends the block, and says so. Of an answer that has not passed its check, errors are
    told, not raised, and what it shows comes with a word of care.
    """

    def __init__(self, *exercise_ids: str):
        self.exercise_ids = exercise_ids

    def __enter__(self) -> None:
        self._traces = many_traces()  # a demonstration may take a curve of them
        self._traces.__enter__()

    def __exit__(self, kind, problem, traceback) -> bool:
        self._traces.__exit__(None, None, None)
        states = record.load()["exercises"]
        open_ids = [each for each in self.exercise_ids if states.get(each) != Status.PASSED]
        told = " and ".join(open_ids or self.exercise_ids)
        if kind is not None and issubclass(kind, NotImplementedError):
            _say(f"Solve exercise {told} to see this.")
            return True
        if not open_ids:
            return False
        if kind is None:
            _say(f"Your answer to {told} has not passed its check: this is how it does.")
        elif issubclass(kind, Exception):
            _say(
                f"Your answer to {told} has not passed its check, and here it came to "
                f"{kind.__name__}: {problem}"
            )
        return kind is not None and issubclass(kind, Exception)


def _quantity(value: float, unit: str) -> str:
    number = _number(value)
    word = unit[:-1] if number == "1" and unit.endswith("s") else unit  # one array
    return f"{number} {word}".rstrip()


def _number(value: float) -> str:
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.1f}"


def _say(text: str) -> None:
    if in_kernel():
        from IPython.display import display

        shown = (
            f'<em style="color: var(--jp-ui-font-color1, inherit)">{code_marks(escape(text))}</em>'
        )
        display({"text/plain": text, "text/html": shown}, raw=True)
    else:
        print(text)
