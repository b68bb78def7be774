"""2.2: gradients made late and discarded early, in a chain of matmuls under a trace."""

import numpy as np

from course_utils import ag
from course_utils.checks.core import Case, Exercise, Measure, Observation, Verdict, failed, passed
from course_utils.checks.judging import over_budget, peak, say, wrong_array
from course_utils.checks.observe import describe_error, find_out_of_sight
from course_utils.checks.requires_grad.matmul import (
    matmul_nodes,
    run_matmul,
    wrong_matmul_gradients,
)
from course_utils.checks.requires_grad.nodes import deleted, grad_of, random
from course_utils.tracing import Trace

_CHAIN_ROWS, _CHAIN_WIDTHS = 2048, (192, 224, 208, 192, 216)


def _cases(seed: int) -> list[Case]:
    def one(name: str, shape: tuple, *exist: str) -> Case:
        return Case(name, {"kind": "step", "shape": shape, "exist": exist, "seed": seed})

    return [
        one("no gradient of x yet; x is 6 x 6, w is 6 x 6", (6, 6, 6), "w.grad"),
        one("no gradient of x yet; x is 5 x 3, w is 3 x 4", (5, 3, 4), "w.grad"),
        one("x has a gradient already; x is 5 x 3, w is 3 x 4", (5, 3, 4), "x.grad", "w.grad"),
        one("neither has a gradient yet; x is 2 x 7, w is 7 x 3", (2, 7, 3)),
        Case("memory: four layers, traced", {"kind": "chain", "seed": seed}),
    ]


def _chain_inputs(case: Case) -> tuple[np.ndarray, list[np.ndarray]]:
    x = random(case, _CHAIN_ROWS, _CHAIN_WIDTHS[0])
    shapes = zip(_CHAIN_WIDTHS, _CHAIN_WIDTHS[1:])
    return x, [0.05 * random(case, n, m, stream=k) for k, (n, m) in enumerate(shapes, 1)]


def _run(answer, case: Case) -> Observation:
    if case.given["kind"] == "step":
        return run_matmul(answer, case)
    return _run_chain(answer, case)


def _run_chain(answer, case: Case) -> Observation:
    """Forward, then backward step by step under a trace: held bytes and peak of every matmul's step."""
    x_value, weight_values = _chain_inputs(case)
    small = Case("", {"shape": (2, 3, 2), "exist": ("w.grad",), "seed": 0})
    out_of_sight = find_out_of_sight(answer, *matmul_nodes(small))
    weights = [ag.LazyTensor(value, requires_grad=True) for value in weight_values]
    nodes = [ag.LazyTensor(x_value)]
    for w in weights:
        nodes.append(ag.lazy_matmul(nodes[-1], w, answer))
    loss = ag.lazy_sum(nodes[-1])
    loss.grad = np.array(1.0)
    del x_value, weight_values
    before = [w.grad for w in weights]
    held, renewed, peaks = [], [], []
    with Trace() as trace:
        loss._backward()
        for node in reversed(nodes[1:]):
            trace.restart_peak()
            try:
                node._backward()
            except KeyboardInterrupt:
                raise
            except BaseException as problem:
                return Observation(error=describe_error(problem, answer))
            stats = trace.snapshot()
            held.append(stats.current_bytes)
            peaks.append(stats.peak_bytes)
            # a style that makes the weights' gradients anew, not in place, holds those as well
            new = [w.grad for w, old in zip(weights, before) if w.grad is not old]
            renewed.append(sum(grad.nbytes for grad in new if isinstance(grad, np.ndarray)))
    value = {f"weights[{k}].grad": grad_of(w) for k, w in enumerate(weights)}
    kept = [k for k, node in enumerate(nodes[1:], 1) if getattr(node, "grad", None) is not None]
    more = {"held": held, "renewed": renewed, "kept": kept}
    return Observation(value, max(peaks), held[-1], more, out_of_sight=out_of_sight)


def _chain_gradients(case: Case) -> list[np.ndarray]:
    x, weights = _chain_inputs(case)
    activations = [x]
    for w in weights:
        activations.append(activations[-1] @ w)
    g, gradients = np.ones_like(activations[-1]), []
    for z, w in zip(reversed(activations[:-1]), reversed(weights)):
        gradients.append(z.T @ g)
        g = g @ w.T
    return gradients[::-1]


def _judge(case: Case, seen: Observation) -> Verdict:
    if case.given["kind"] == "chain":
        return _judge_chain(case, seen)
    wrong = deleted(seen) or wrong_matmul_gradients(case, seen.value)
    if not wrong and seen.value["output.grad"] is not None:
        wrong = failed(
            "not discarded",
            "After its step output.grad is still there, and nobody will read it again.",
        )
    return wrong or passed()


def _judge_chain(case: Case, seen: Observation) -> Verdict:
    activation_bytes = [_CHAIN_ROWS * width * 8 for width in _CHAIN_WIDTHS]  # Z_0 to Z_4
    weight_bytes = [n * m * 8 for n, m in zip(_CHAIN_WIDTHS, _CHAIN_WIDTHS[1:])]
    for k, expected in enumerate(_chain_gradients(case)):
        wrong = wrong_array(seen.value[f"weights[{k}].grad"], expected, what=f"weights[{k}].grad")
        if wrong:
            return wrong
    if seen.more["kept"]:
        names = ", ".join(f"Z{k}" for k in seen.more["kept"])
        return failed(
            "not discarded",
            f"After the backward pass {names} still have a gradient that nobody will read.",
        )
    for step, (held_bytes, renewed) in enumerate(zip(seen.more["held"], seen.more["renewed"])):
        layer = len(weight_bytes) - 1 - step  # whose gradient is the one that this step leaves
        needed_bytes = activation_bytes[layer]
        held = Measure(held_bytes, "bytes", needed_bytes + renewed, needed_bytes)
        wrong = over_budget(
            f"held after step {step + 1}",
            held,
            "held too long",
            f"After step {step + 1} of the backward pass {say(held_bytes)} of new arrays are held. "
            f"Of activations, only the gradient of Z{layer} is still needed, {say(needed_bytes)}; "
            f"new arrays for the weights' gradients take {say(renewed)}. Something outlives its step.",
        )
        if wrong:
            return wrong
    largest = max(activation_bytes)
    within = peak(seen.peak_bytes, 4 * largest + 2 * sum(weight_bytes), min(activation_bytes))
    wrong = over_budget(
        "peak inside a step",
        within,
        "too many temporaries",
        f"Inside a step {say(seen.peak_bytes)} were alive at once: more than four arrays of an activation's size, "
        f"{say(largest)} each, and the weights' gradients twice. Which copies does the step make?",
    )
    if wrong:
        return wrong
    return passed(**{"held after the last step": held, "peak inside a step": within})


EXERCISE = Exercise("2.2", "gradients made late, discarded early", 4, _cases, _run, _judge)
