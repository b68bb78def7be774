"""2.4: frozen weights. Which activations are kept shows in the peak, and only there."""

import numpy as np

from course_utils.checks.core import Case, Exercise, Observation, Verdict, failed, passed
from course_utils.checks.judging import close, left_behind, over_budget, peak, say, wrong_array
from course_utils.checks.observe import find_out_of_sight, observe, observe_memory
from course_utils.checks.requires_grad.nodes import random

_FROZEN_SHAPE = (2048, 192)  # an activation is 3 MiB, a weight 288 KiB


def _cases(seed: int) -> list[Case]:
    def small(name: str, trainable: str, widths: tuple, rows: int = 5) -> Case:
        return Case(name, {"trainable": trainable, "widths": widths, "rows": rows, "seed": seed})

    def large(trainable: str) -> Case:
        rows, width = _FROZEN_SHAPE
        name = f"memory: eight layers, trainable {[k for k, t in enumerate(trainable) if t == 'T']}"
        widths = (width,) * (len(trainable) + 1)
        return Case(
            name,
            {"trainable": trainable, "widths": widths, "rows": rows, "seed": seed, "memory": True},
        )

    return [
        small("all three layers trainable", "TTT", (4, 3, 5, 2)),
        small("first and last of four trainable, all square", "T..T", (3, 3, 3, 3, 3)),
        small("the middle one of three trainable", ".T.", (4, 3, 5, 2)),
        small("first and last trainable", "T..T", (2, 6, 3, 4, 1), rows=1),
        small("one layer", "T", (3, 3)),
        small("none trainable", "...", (3, 2, 4, 3)),
        large(".......T"),
        large(".T.....T"),
        large("T......."),
    ]


def _inputs(case: Case) -> tuple[np.ndarray, list[np.ndarray], list[bool]]:
    widths = case.given["widths"]
    x = random(case, case.given["rows"], widths[0])
    weights = [
        random(case, n, m, stream=k) / n**0.5 for k, (n, m) in enumerate(zip(widths, widths[1:]), 1)
    ]
    return x, weights, [letter == "T" for letter in case.given["trainable"]]


def _run(answer, case: Case) -> Observation:
    x, weights, trainable = _inputs(case)
    if not case.given.get("memory"):
        return observe(answer, x, weights, trainable)
    small = Case("", {"trainable": ".T", "widths": (2, 2, 2), "rows": 2, "seed": 0})
    out_of_sight = find_out_of_sight(answer, *_inputs(small))
    seen = observe_memory(answer, x, weights, trainable)
    seen.out_of_sight = out_of_sight
    return seen


def _gradients(
    case: Case, input_of: int = 0, through_frozen: bool = True
) -> list[np.ndarray | None]:
    """dW_k = Z_(k-1)^T G_k for the trainable weights.

    Two usual mistakes: input_of=1 takes Z_k instead; without `through_frozen` G stays as it is at a
    frozen weight.
    """
    x, weights, trainable = _inputs(case)
    activations = [x]
    for w in weights:
        activations.append(activations[-1] @ w)
    g, gradients = np.ones_like(activations[-1]), []
    for k in reversed(range(len(weights))):
        gradients.append(activations[k + input_of].T @ g if trainable[k] else None)
        if through_frozen or trainable[k]:
            g = g @ weights[k].T
    return gradients[::-1]


def _judge(case: Case, seen: Observation) -> Verdict:
    expected, actual = _gradients(case), seen.value
    if not isinstance(actual, list | tuple) or len(actual) != len(expected):
        got = f"{len(actual)} items" if isinstance(actual, list | tuple) else type(actual).__name__
        return failed(
            "wrong type",
            f"Expected a list with an item for each of the {len(expected)} weights, got {got}.",
        )
    for k, (gradient, wanted) in enumerate(zip(actual, expected)):
        if wanted is None and gradient is not None:
            return failed(
                "gradient of a frozen weight",
                f"Weight {k} is frozen: its item must be None, without a gradient.",
            )
        if wanted is not None and gradient is None:
            return _likely_cause(case, actual, expected) or failed(
                "gradient missing", f"Weight {k} is trainable, but its item is None."
            )
        what = f"the gradient of weight {k}"
        wrong = wanted is not None and wrong_array(gradient, wanted, what)
        if wrong:
            return _likely_cause(case, actual, expected) or wrong
    return _judge_frozen_memory(case, seen) if case.given.get("memory") else passed()


def _likely_cause(case: Case, actual: list, expected: list) -> Verdict | None:
    """A usual mistake that leads to these wrong gradients, if there is one."""

    def alike(gradients: list) -> bool:
        pairs = zip(actual, gradients)
        return all(b is None if a is None else b is not None and close(a, b) for a, b in pairs)

    if alike(expected[::-1]):
        return failed(
            "last first",
            "The gradients come in the order of the backward pass. Expected: that of the weights.",
        )
    if alike(_gradients(case, input_of=1)):
        return failed(
            "activation off by one",
            "Each gradient was computed from its layer's output. Which array did the weight meet?",
        )
    square = len(set(case.given["widths"])) == 1
    if square and alike(_gradients(case, through_frozen=False)):
        return failed(
            "stopped at a frozen layer",
            "A gradient must pass through a frozen weight on its way to the layers below, and here it "
            "did not. Frozen means that the weight gets none itself.",
        )
    return None


def _judge_frozen_memory(case: Case, seen: Observation) -> Verdict:
    rows, width = _FROZEN_SHAPE
    activation_bytes, weight_bytes = rows * width * 8, width * width * 8
    trainable = [letter == "T" for letter in case.given["trainable"]]
    kept = sum(
        trainable
    )  # the inputs of the trainable layers; x is the caller's, but may be copied
    layers, wanted = len(trainable), sum(trainable)
    within = peak(
        seen.peak_bytes,
        (kept + 3.5) * activation_bytes + 2 * wanted * weight_bytes,
        wanted * weight_bytes,
    )
    name = f"peak, trainable {[k for k, t in enumerate(trainable) if t]} of {layers} layers"
    held_all = seen.peak_bytes > (layers - 1) * activation_bytes
    wrong = over_budget(
        name,
        within,
        "kept every activation" if held_all else "kept too long",
        f"The peak is {seen.peak_bytes / activation_bytes:.1f} activations ({say(seen.peak_bytes)}). "
        f"The gradients that are asked for read {kept} stored activation{'s' * (kept != 1)}; "
        f"with what is in use at any moment, {kept + 3.5} are allowed, and the gradients. "
        + (
            "It looks as if all were kept."
            if held_all
            else "Something is kept that no later step reads."
        ),
    )
    if wrong:
        return wrong
    wrong = left_behind(seen.held_bytes, wanted * weight_bytes)
    return wrong or passed(**{name: within})


EXERCISE = Exercise("2.4", "frozen weights", 4, _cases, _run, _judge)
