"""Feedback tells nothing of hidden cases, although an answer chooses much of what a diagnosis says."""

import pytest

from course_utils.grading.feedback import fit_to_show
from course_utils.grading.records import ExerciseResult

SOURCE = "def f(x):\n    raise ValueError(x)\n"


def shown(diagnosis: str) -> str:
    return fit_to_show(ExerciseResult("2.4", "", 0, 4, "failed", "", diagnosis), SOURCE)


@pytest.mark.parametrize(
    "told, hidden",
    [
        ("Your code raised Seed_1244403890_x: y", "1244403890"),
        ("Your code raised ValueError at `seed 1244403890`: y", "1244403890"),
        ("Your code raised ValueError at `raise ValueError(x)`: is 0.768729", "768729"),
        ("Expected a list, got Seed1244403890.", "1244403890"),
        ("Expected x as a NumPy array, got SeedOneTwoFour.", "SeedOneTwoFour"),
        ("In w the error is 0.3: expected -0.109906 at index (1, 2), got 0.768729.", "768729"),
        ("In w the error is 0.3: expected -0.109906 at index (1, 2), got 0.768729.", "109906"),
        ("Expected an int, got 1244403890.", "1244403890"),
    ],
)
def test_what_an_answer_may_have_copied_is_not_told(told, hidden):
    assert hidden in told and hidden not in shown(told)


@pytest.mark.parametrize(
    "told",
    [
        "Your code raised ValueError at `raise ValueError(x)`: wrong",
        "Expected x of shape (3, 5), got (4, 5).",
        "Expected 3,145,728 bytes (3.15 MB), got 1,048,576 bytes (1.05 MB).",
        "Expected a tuple of 2, got list.",
        "The peak is 17.1 activations (53,776,144 bytes (53.78 MB)).",
    ],
)
def test_what_teaches_is_told(told):
    assert shown(told) == told
