"""Right and wrong answers to every exercise, collected by two decorators. `test_answers` tries them all."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    exercise: str
    function: Callable
    cause: str  # the cause its verdict must name; "" for a right answer

    def __str__(self) -> str:
        return f"{self.exercise}-{self.function.__name__}"


ANSWERS: list[Answer] = []


def right(exercise: str) -> Callable:
    """An honest answer in another style than the solution's: it must pass."""

    def collect(function: Callable) -> Callable:
        ANSWERS.append(Answer(exercise, function, ""))
        return function

    return collect


def wrong(exercise: str, cause: str) -> Callable:
    """A mistake that a student makes: it must fail for this cause."""

    def collect(function: Callable) -> Callable:
        ANSWERS.append(Answer(exercise, function, cause))
        return function

    return collect
