"""The course's checks: one module a lesson, and the few tools they share.

core        what an exercise, a case, a verdict is; `check` puts them together
observe     calls an answer and notes what it did: values, bytes, errors. Judges nothing
judging     judges what was observed: values against an oracle, bytes against a budget, growth
show        a verdict as text and as HTML
predictions `predict`, `measured`, `needs`
record      what was passed and predicted, in a small local file; `progress`

A lesson's module has `EXERCISES`, a dict from id to `Exercise`. `measuring_memory` is the one to copy.
"""

from importlib import import_module
from pathlib import Path

_TOPICS = {
    "0": "start_here",
    "1": "measuring_memory",
    "2": "requires_grad",
    "3": "rematerialization",
    "4": "optimal_rematerialization",
    "5": "online_softmax",
    "6": "tiling",
    "7": "flash_attention",
    "8": "flash_attention_gpu",
}
_HERE = Path(__file__).parent
# a students' copy may hold the first lessons only
LESSONS = {
    number: topic for number, topic in _TOPICS.items() if (_HERE / topic / "__init__.py").is_file()
}


class UnknownExercise(KeyError):
    """No exercise has this id."""

    def __str__(self) -> str:
        return self.args[0]


def lesson_exercises(lesson: str) -> dict:
    """The exercises of one lesson ("1"), by id."""
    return import_module(f"{__name__}.{LESSONS[lesson]}").EXERCISES


def all_exercises() -> list:
    """Every exercise of the course, in order."""
    return [exercise for lesson in LESSONS for exercise in lesson_exercises(lesson).values()]


def find_exercise(exercise_id: str):
    """The exercise with this id. Raises UnknownExercise, naming those of the lesson."""
    if not isinstance(exercise_id, str):
        raise UnknownExercise(f'an exercise id is text, such as "1.1"; got {exercise_id!r}')
    lesson = exercise_id.partition(".")[0]
    exercises = lesson_exercises(lesson) if lesson in LESSONS else {}
    if exercise_id not in exercises:
        known = ", ".join(exercises) or "lessons " + ", ".join(LESSONS)
        raise UnknownExercise(f"there is no exercise {exercise_id!r}; there are {known}")
    return exercises[exercise_id]
