"""3.3: the lecture's listing, mended. Every closure must multiply its own weights, from its checkpoint on."""

import numpy as np

from course_utils.checks.core import Case, Exercise, Observation, Verdict, failed, passed
from course_utils.checks.judging import close
from course_utils.checks.rematerialization import run, training
from course_utils.checks.rematerialization.run import Layers

_NAME = "the output of layer"


def cases(seed: int) -> list[Case]:
    return run.cases(seed)


def _judge(case: Case, seen: Observation) -> Verdict:
    layers = Layers(case)
    wrong = (
        training.wrong_result(layers, seen)
        or wrong_values(layers, seen)
        or training.wrong_stage(layers, seen)
        or _too_many_products(layers, seen)
        or _too_few_products(layers, seen, bool(case.given.get("memory")))
        or training.wrong_training(layers, seen)
        or training.wrong_alone(layers, seen)
    )
    if wrong or not case.given.get("memory"):
        return wrong or passed()
    return training.judge_memory(layers, seen)


def wrong_values(layers: Layers, seen: Observation) -> Verdict | None:
    """The first value that is not what was discarded, and what it is instead, where that can be told."""
    refills = [refill for refill in seen.more["refills"] if isinstance(refill["value"], np.ndarray)]
    wrong = [r for r in refills if not close(r["value"], layers.outputs[r["layer"]])]
    if not wrong:
        return None
    layer, value = wrong[0]["layer"], wrong[0]["value"]
    origin = layers.origin_of(value)
    alike = [r["layer"] for r in wrong[1:] if close(r["value"], value)]
    told = f"The rematerializer of layer {layer} does not give back {_NAME} {layer}."
    if origin is not None:
        start, first, last = origin
        source = "the input" if start < 0 else f"{_NAME} {start}"
        by = f"multiplied {source} by weights[{first}:{last}]" if last > first else f"gave {source}"
        told += f" It {by}."
    if alike:
        others = ", ".join(map(str, sorted(alike)))
        return failed(
            "late binding",
            f"{told} Those of layers {others} give the same array: all read variables of the loop, and they read "
            "them when they are called, after it has ended.",
        )
    if origin is not None and origin[2] != layer + 1:
        return failed("wrong last weight", f"{told} Its last weight is not its own layer's.")
    if origin is not None and origin[1] == layers.start(layer) + 1:
        return failed(
            "late binding",
            f"{told} These are its weights; the array it starts from is another one's. When is that name looked up?",
        )
    starts = {layers.origin_of(r["value"]) or (-1,) for r in wrong}
    if {start[0] for start in starts} == {0} and origin[1] == 0 and layers.start(layer) == 0:
        return failed(
            "zero taken for none",
            f"{told} Other checkpoints are right, and this one is layer 0. Does a 0 mean `none yet` somewhere, as in "
            "`if farthest:`?",
        )
    if origin is not None and layers.start(layer) < 0:
        return failed("first segment", f"{told} Which index stands for the input, if 0 is a layer?")
    if origin is not None:
        return failed(
            "checkpoint off by one",
            f"{told} A checkpoint is a layer's output: that weight is in it.",
        )
    return failed("wrong values", told)


def _said(start: int) -> str:
    return "the input" if start < 0 else f"{_NAME} {start}"


def _too_many_products(layers: Layers, seen: Observation) -> Verdict | None:
    for refill in seen.more["refills"]:
        layer = refill["layer"]
        allowed = layer - layers.start(layer)
        done = refill["flops"] / layers.flops(layers.start(layer) + 1, layer + 1) * allowed
        if done > allowed + 0.01:
            from_input = close(np.array(refill["flops"]), np.array(layers.flops(0, layer + 1)))
            return failed(
                "from the input every time" if from_input else "too many products",
                f"To give back {_NAME} {layer} took the work of {done:.3g} products of its segment. From "
                f"{_said(layers.start(layer))}, the nearest that is kept, it takes {allowed}.",
            )
    return None


def _too_few_products(layers: Layers, seen: Observation, memory: bool) -> Verdict | None:
    for segment in [] if memory else layers.segments():  # in large, nothing is counted
        refills = [refill for refill in seen.more["refills"] if refill["layer"] in segment]
        if refills and not sum(refill["flops"] for refill in refills):
            return failed(
                "too few products",
                f"The outputs of the layers {segment} came back, and no product was counted. Values were kept "
                "somewhere, or multiplied where products are not counted: use `@` or np.matmul on the nodes' values.",
            )
    return None


EXERCISE = Exercise("3.3", "the listing, mended", 3, cases, run.run, _judge)
