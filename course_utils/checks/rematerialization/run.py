"""What 3.3 and 3.4 are run on: chains with checkpoints, and a training step on each."""

from dataclasses import asdict

import numpy as np

from course_utils.checks.core import Case, Observation
from course_utils.checks.judging import close
from course_utils.checks.observe import find_out_of_sight
from course_utils.checks.rematerialization.engine import train

_LARGE = (512, (192,) * 11)  # an activation is 768 KiB, a weight 288 KiB


def cases(seed: int) -> list[Case]:
    def small(name: str, widths: tuple, checkpoints: list, rows: int = 10) -> Case:
        return Case(
            name, {"rows": rows, "widths": widths, "checkpoints": checkpoints, "seed": seed}
        )

    rows, widths = _LARGE
    large = {"rows": rows, "widths": widths, "checkpoints": [5], "seed": seed, "memory": True}
    return [
        small("ten layers of one width, checkpoints [5]", (5,) * 11, [5]),
        small("ten layers of one width, checkpoints [2, 5, 8]", (5,) * 11, [2, 5, 8]),
        small("seven layers, each of another width, checkpoints [3]", (3, 4, 2, 6, 5, 7, 3, 2), [3]),
        small("six layers of one width, checkpoints [0, 3]", (4,) * 7, [0, 3]),
        small("five layers, checkpoints [1, 2, 4], the last among them", (4, 3, 5, 2, 4, 3), [1, 2, 4]),
        small("four layers, no checkpoints", (3, 4, 2, 5, 3), []),
        small("one layer, no checkpoints", (3, 2), []),
        Case("memory: ten layers, checkpoints [5]", large),
        Case("memory: ten layers, checkpoints [2, 7]", large | {"checkpoints": [2, 7]}),
    ]  # fmt: skip


class Layers:
    """A case's chain: its inputs, and what its layers give."""

    def __init__(self, case: Case):
        given = case.given
        rng = np.random.default_rng([given["seed"], len(given["widths"])])
        self.checkpoints = list(given["checkpoints"])
        self.rows, self.widths = given["rows"], given["widths"]
        self.x = rng.standard_normal((self.rows, self.widths[0]))
        self.weights = [
            rng.standard_normal((n, m)) / n**0.5 for n, m in zip(self.widths, self.widths[1:])
        ]
        self.outputs = []
        for w in self.weights:
            self.outputs.append((self.outputs[-1] if self.outputs else self.x) @ w)

    def start(self, layer: int) -> int:
        """The nearest checkpoint before a layer; -1 is the input."""
        return max((c for c in self.checkpoints if c < layer), default=-1)

    def segments(self) -> list[list[int]]:
        """The layers between checkpoints, those whose outputs are computed again."""
        found: dict[int, list[int]] = {}
        for layer in range(len(self.weights)):
            if layer not in self.checkpoints:
                found.setdefault(self.start(layer), []).append(layer)
        return list(found.values())

    def flops(self, first: int, last: int) -> int:
        """Of the products by weights[first:last]."""
        return sum(2 * self.rows * w.size for w in self.weights[first:last])

    def pass_flops(self) -> int:
        """Of a forward and a backward pass that recompute nothing."""
        return 3 * self.flops(0, len(self.weights))

    def gradients(self) -> list[np.ndarray]:
        g, found = np.ones_like(self.outputs[-1]), []
        for z, w in zip([*self.outputs[-2::-1], self.x], reversed(self.weights)):
            found.append(z.T @ g)
            g = g @ w.T
        return found[::-1]

    def origin_of(self, value: np.ndarray) -> tuple[int, int, int] | None:
        """(start, first, last): what is kept at `start` times weights[first:last], if it is any such."""
        count = len(self.weights)
        for start in [*reversed(self.checkpoints), -1]:
            for first in range(count + 1):
                product = self.x if start < 0 else self.outputs[start]
                for last in range(first, count + 1):
                    if last > first:
                        if product.shape[1] != self.weights[last - 1].shape[0]:
                            break
                        product = product @ self.weights[last - 1]
                    if close(value, product):
                        return start, first, last
        return None


def run(answer, case: Case) -> Observation:
    layers = Layers(case)
    traced = bool(case.given.get("memory"))
    seen = train(answer, layers.x, layers.weights, layers.checkpoints, traced=traced)
    refills = [
        {"layer": each.layer, "flops": each.flops, "value": each.value} for each in seen.refills
    ]
    names = (
        "stage",
        "kind",
        "last_gone",
        "misplaced",
        "kept",
        "lost",
        "flops",
        "left",
        "made_again",
    )
    names += ("forward_bytes", "forward_peak", "after_bytes")
    more = {name: getattr(seen, name) for name in names} | {"refills": refills}
    more["alone"] = [asdict(each) for each in seen.alone]
    more["error"] = f"{seen.error.kind}: {seen.error.message}" if seen.error else ""
    observation = Observation(
        seen.gradients, seen.peak_bytes, changed_input=seen.changed, more=more
    )
    if seen.error and seen.stage == "forward":
        observation.error = seen.error
    elif traced:
        small = Layers(Case("", {"rows": 2, "widths": (2, 2, 2), "checkpoints": [0], "seed": 0}))
        observation.out_of_sight = find_out_of_sight(
            lambda *args: train(answer, *args), small.x, small.weights, [0]
        ) or find_out_of_sight(answer)
    return observation
