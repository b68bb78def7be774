"""What 3.5 is run on: stages that note every call, and what all of them give when all states are kept."""

from dataclasses import replace

import numpy as np

from course_utils.checks.core import Case, Observation
from course_utils.checks.observe import find_out_of_sight, observe, observe_memory

LARGE = 40_000  # numbers in a state: 320,000 bytes


class Stage:
    """z + a sin(z), with `a` a number of its own; collects dL/da.

    `log` gets for each call: its kind, the stage, the shape of g (of z, forward), the sums of z and g.
    """

    def __init__(self, number: int, a: float, log: list):
        self.number, self.a, self.log, self.grad = number, a, log, None

    def forward(self, z):
        self.log.append(("forward", self.number, np.shape(z), 0.0, 0.0))
        result = np.sin(z)
        result *= self.a
        result += z
        return result

    def backward(self, z, g):
        self.log.append(("backward", self.number, np.shape(g), _sum(z), _sum(g)))
        result = np.sin(z)
        result *= g
        self.grad = float(result.sum())
        np.cos(z, out=result)
        result *= self.a
        result += 1
        result *= g
        return result


def cases(seed: int) -> list[Case]:
    def one(name: str, stages: int, checkpoints: list[int], *shape: int) -> Case:
        return Case(
            name,
            {"stages": stages, "checkpoints": checkpoints, "shape": shape or (5,), "seed": seed},
        )

    return [
        one("8 stages, checkpoints [3, 6]", 8, [3, 6]),
        one("8 stages, no checkpoints", 8, []),
        one("6 stages, a checkpoint after every stage but the last", 6, [1, 2, 3, 4, 5]),
        one("9 stages, checkpoints [1, 2, 7]", 9, [1, 2, 7]),
        one("5 stages, checkpoints [2, 5]: the last state is one", 5, [2, 5]),
        one("5 stages, checkpoints [2], states of 3 x 4", 5, [2], 3, 4),
        one("one stage, no checkpoints", 1, []),
        one("memory: 24 stages, checkpoints [6, 12, 18]", 24, [6, 12, 18], LARGE),
        one("memory: 24 stages, checkpoints [16, 20]", 24, [16, 20], LARGE),
        one("memory: 24 stages, checkpoints [4, 8]", 24, [4, 8], LARGE),
    ]


def _inputs(case: Case, log: list) -> tuple[np.ndarray, list[Stage], list[int]]:
    rng = np.random.default_rng([case.given["seed"], case.given["stages"]])
    z = rng.standard_normal(case.given["shape"])
    numbers = rng.uniform(-0.4, 0.8, case.given["stages"])
    stages = [Stage(t, float(a), log) for t, a in enumerate(numbers, 1)]
    return z, stages, list(case.given["checkpoints"])


def run(answer, case: Case) -> Observation:
    log: list = []
    z, stages, checkpoints = _inputs(case, log)
    if case.given["shape"] != (LARGE,):
        seen = observe(answer, z, list(stages), checkpoints)
    else:
        small = Case("", {"stages": 2, "checkpoints": [1], "shape": (2,), "seed": 0})
        out_of_sight = find_out_of_sight(answer, *_inputs(small, []))
        seen = observe_memory(answer, z, list(stages), checkpoints)
        seen.out_of_sight = out_of_sight
    if seen.error and case.given["stages"] in checkpoints:
        told = f"{seen.error.message} (in a case where T itself is one of the checkpoints)"
        seen.error = replace(seen.error, message=told)
    seen.more = {"log": log, "gradients": [stage.grad for stage in stages]}
    return seen


def _sum(array) -> float:
    try:
        return float(np.sum(array))
    except (TypeError, ValueError):
        return float("nan")


def oracle(case: Case) -> tuple[np.ndarray, list[float], list[float]]:
    """dL/dz_0, the stages' gradients, and the sum of every state; all states kept."""
    z, stages, _ = _inputs(case, [])
    states = [z]
    for stage in stages:
        states.append(stage.forward(states[-1]))
    g = np.ones_like(states[-1])
    for stage in reversed(stages):
        g = stage.backward(states[stage.number - 1], g)
    return g, [stage.grad for stage in stages], list(map(_sum, states))
