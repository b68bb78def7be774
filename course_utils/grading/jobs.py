"""From what was read of a submission to what a sandbox is given: answers, and cases from the private seed.

A job is plain data, so it can go to another machine. The seed itself is not in it: every exercise has cases
of its own seed, a hash of the private one. Of a drawn seed that tells nothing in practice; a small one that
somebody chose (`--seed 7`) is found by trying.
"""

import hashlib
import json
import sys

from course_utils.checks import lesson_exercises
from course_utils.checks.core import Exercise
from course_utils.grading.codec import case_as_json
from course_utils.grading.records import Answer, Job, Reading
from course_utils.grading.sandbox.limits import Limits


def case_seed(seed: int, exercise_id: str) -> int:
    """The seed of one exercise's cases: below 2**31, a hash of `seed`."""
    digest = hashlib.sha256(f"cases of {exercise_id} from {seed}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % 2**31


def exercises_of(notebook: str) -> dict[str, Exercise]:
    """The exercises of a notebook ("02_requires_grad"), by id."""
    return lesson_exercises(str(int(notebook.partition("_")[0])))


def run_place(exercise: Exercise) -> tuple[str, str]:
    """(module, name) under which a sandbox finds an exercise's `run`: "_run", "TASK.run", "EXERCISE.run"."""
    run = exercise.run
    owner = getattr(run, "__self__", None)
    if owner is None and getattr(sys.modules[run.__module__], run.__name__, None) is run:
        return run.__module__, run.__name__
    for module_name, module in list(sys.modules.items()):
        if module_name.startswith("course_utils.checks.") and module is not None:
            for name, value in vars(module).items():
                if value is exercise or (owner is not None and value is owner):
                    return module_name, f"{name}.{run.__name__ if value is owner else 'run'}"
    raise LookupError(f"the run of exercise {exercise.id} has no name")


def make_job(submission_name: str, reading: Reading, seed: int) -> Job:
    """A reading's answers, with cases for every exercise of its notebook."""
    exercises = exercises_of(reading.notebook)
    answers = tuple(answer for answer in reading.answers if answer.exercise in exercises)
    cases = {each.id: each.cases(case_seed(seed, each.id)) for each in exercises.values()}
    return Job(submission_name, answers, cases)


def as_payload(job: Job, answers: list[Answer], limits: Limits, **more: int) -> bytes:
    """What the driver reads: a line of these answers and the limits, then a line of cases for each.

    So it reads an exercise's cases when the answer has a process of its own, which does not have them.
    """
    exercises, cases = [], []
    for answer in answers:
        exercise = exercises_of(answer.exercise.partition(".")[0])[answer.exercise]
        exercises.append(
            {
                "id": answer.exercise,
                "name": answer.name,
                "source": answer.source,
                "support": list(answer.support),
                "run": run_place(exercise),
            }
        )
        cases.append([case_as_json(case) for case in job.cases[answer.exercise]])
    first = {"exercises": exercises, "limits": limits.as_json() | more}
    return "".join(json.dumps(line) + "\n" for line in (first, *cases)).encode()
