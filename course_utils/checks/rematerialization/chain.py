"""3.2, its memory: a chain of products under a trace, with one node that is kept."""

import numpy as np

from course_utils import ag
from course_utils.checks.core import Case, Measure, Observation, Verdict, passed
from course_utils.checks.judging import over_budget, peak, say, wrong_array
from course_utils.checks.observe import describe_error
from course_utils.tracing import Trace

_ROWS, _WIDTH, _LAYERS, _KEPT = 1024, 192, 6, 2  # an activation is 1.5 MiB, a weight 288 KiB
_ACTIVATION_BYTES, _WEIGHT_BYTES = _ROWS * _WIDTH * 8, _WIDTH * _WIDTH * 8


def chain_case(seed: int) -> Case:
    return Case(
        f"memory: six layers, the output of layer {_KEPT} is kept", {"chain": True, "seed": seed}
    )


def _inputs(case: Case) -> tuple[np.ndarray, list[np.ndarray]]:
    rng = np.random.default_rng([case.given["seed"], 7])
    x = rng.standard_normal((_ROWS, _WIDTH))
    return x, [rng.standard_normal((_WIDTH, _WIDTH)) / _WIDTH**0.5 for _ in range(_LAYERS)]


def run_chain(answer, case: Case) -> Observation:
    """Held bytes after every product and every step; the peak inside each pass."""
    x_value, weight_values = _inputs(case)
    x = ag.RematTensor(x_value)
    weights = [ag.RematTensor(value, requires_grad=True) for value in weight_values]
    before = [w.grad for w in weights]
    seen = Observation(value={}, more={"forward": [], "backward": [], "renewed": []})
    try:
        with Trace() as trace:
            nodes = _forward(answer, x, weights, trace, seen)
            loss = ag.remat_sum(nodes[-1])
            seen.more["forward peak"] = trace.snapshot().peak_bytes
            loss.grad = np.array(1.0)
            _refill(loss)
            loss._backward()
            peaks = []
            for node in reversed(nodes):
                _refill(node)
                trace.restart_peak()
                node._backward()
                stats = trace.snapshot()
                peaks.append(stats.peak_bytes)
                seen.more["backward"].append(stats.current_bytes)
                new = [w.grad for w, old in zip(weights, before) if w.grad is not old]
                seen.more["renewed"].append(sum(getattr(grad, "nbytes", 0) for grad in new))
                peaks[-1] -= seen.more["renewed"][-1]
    except KeyboardInterrupt:
        raise
    except BaseException as problem:
        return Observation(error=describe_error(problem, answer))
    seen.peak_bytes = max(peaks)
    seen.value = {f"weights[{k}].grad": w.grad for k, w in enumerate(weights)}
    return seen


def _forward(answer, x, weights, trace: Trace, seen: Observation) -> list[ag.RematTensor]:
    nodes = [x]
    for layer, w in enumerate(weights):
        nodes.append(answer(nodes[-1], w))
        if layer != _KEPT:
            nodes[-1].rematerializer = _from_the_input(x, weights[: layer + 1])
        seen.more["forward"].append(trace.snapshot().current_bytes)
    return nodes[1:]


def _from_the_input(x, weights):
    def rematerializer():
        value = x.value
        for w in weights:
            value = value @ w.value
        return value

    return rematerializer


def _refill(node) -> None:
    for tensor in node.inputs:
        if tensor.value is None:
            tensor.value = tensor.rematerializer()


def judge_chain(case: Case, seen: Observation) -> Verdict:
    x, weights = _inputs(case)
    activations = [x]
    for w in weights:
        activations.append(activations[-1] @ w)
    g = np.ones_like(activations[-1])
    for k in reversed(range(_LAYERS)):
        name = f"weights[{k}].grad"
        wrong = wrong_array(seen.value[name], activations[k].T @ g, what=name)
        if wrong:
            return wrong
        g = g @ weights[k].T
    return _held(seen) or _peaks(seen) or passed(**_measures(seen))


def _held(seen: Observation) -> Verdict | None:
    for layer, held_bytes in enumerate(seen.more["forward"]):
        arrays = 1 + (layer > _KEPT)  # the newest, and the one that is kept
        wrong = _exactly(
            f"held after layer {layer}", held_bytes, arrays, 0, "in the forward pass, after the "
            f"product of layer {layer}",
        )  # fmt: skip
        if wrong:
            return wrong
    for step, (held_bytes, renewed) in enumerate(zip(seen.more["backward"], seen.more["renewed"])):
        layer = _LAYERS - 1 - step
        wrong = _exactly(
            f"held after the step of layer {layer}", held_bytes, 2, renewed,
            f"in the backward pass, after the step of layer {layer}",
        )  # fmt: skip
        if wrong:
            return wrong
    return None


def _exactly(name: str, held_bytes: int, arrays: int, more_bytes: int, when: str) -> Verdict | None:
    needed = arrays * _ACTIVATION_BYTES
    words = "one array" if arrays == 1 else "two arrays"
    return over_budget(
        name,
        Measure(held_bytes, "bytes", needed + more_bytes + 64, needed),
        "held too long",
        f"Held {when}: {say(held_bytes)}. There is a reader to come for {words} of an activation's size, "
        f"{say(needed)}. What refers to the rest? A discarded value lives on while any other name for its "
        "array does.",
    )


def _measures(seen: Observation) -> dict[str, Measure]:
    forward = peak(seen.more["forward peak"], 6 * _ACTIVATION_BYTES, 2 * _ACTIVATION_BYTES)
    # the kept one, x's value, output.grad, and what 2.2 allowed beside it; a weight's share, and the sum
    backward = peak(
        seen.peak_bytes,
        6 * _ACTIVATION_BYTES + 2 * _WEIGHT_BYTES,
        3 * _ACTIVATION_BYTES - _WEIGHT_BYTES,
    )
    size = f"(an activation: {_ACTIVATION_BYTES:,})"
    return {f"peak of the forward pass {size}": forward, f"peak inside a step {size}": backward}


def _peaks(seen: Observation) -> Verdict | None:
    for name, measure in _measures(seen).items():
        wrong = over_budget(
            name,
            measure,
            "too many temporaries",
            f"The {name.partition(' (')[0]} is {say(measure.value)}, "
            f"{measure.value / _ACTIVATION_BYTES:.1f} arrays of an activation's size. Which copies are made?",
        )
        if wrong:
            return wrong
    return None
