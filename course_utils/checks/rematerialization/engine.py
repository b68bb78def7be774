"""The course's own product for nodes that lose their values, and a training step on it, observed.

The answers to 3.3 and 3.4 only say how values are computed again. They run on this engine, so that they
are judged for that, whatever the student's own product does.
"""

import operator
from dataclasses import dataclass, field

import numpy as np

from course_utils import ag
from course_utils.checks.core import Error
from course_utils.checks.observe import describe_error
from course_utils.counting import count_matmuls, counted
from course_utils.tracing import Trace


def matmul(x: ag.RematTensor, w: ag.RematTensor) -> ag.RematTensor:
    """x @ w; the inputs' values are discarded after each reading, where they can be computed again."""
    for tensor in (x, w):
        if tensor.value is None:
            tensor.value = tensor.rematerializer()
    output = ag.RematTensor(np.matmul(x.value, w.value), inputs=(x, w))

    def _backward():
        for tensor in (x, w):
            if tensor.grad is None:
                tensor.grad = np.zeros_like(tensor.value)
        x.grad += output.grad @ w.value.T
        w.grad += counted(x.value).T @ output.grad  # what came back may be a plain array
        output.grad = None
        _discard(x, w)

    output._backward = _backward
    _discard(x, w)
    return output


def _discard(*tensors: ag.RematTensor) -> None:
    for tensor in tensors:
        ag.discard_value_if_has_rematerializer(tensor)


@dataclass
class Refill:
    """One value that was computed again: of which layer's output, at what cost, and what came."""

    layer: int
    flops: int
    value: object


@dataclass
class Alone:
    """A rematerializer called by itself, when no output but the checkpoints has a value."""

    layer: int
    value: object
    error: str  # what it raised
    filled: list[int]  # the layers whose outputs have a value afterwards


@dataclass
class Training:
    """What a forward and a backward pass did. `stage` says where it ended early, if it did."""

    stage: str = ""
    error: Error | None = None
    kind: str = ""  # what the answer returned, where it is no list of nodes
    last_gone: bool = False  # the last output's value, before the loss has read it
    misplaced: list[int] = field(
        default_factory=list
    )  # items that are not made from the one before
    kept: list[int] = field(default_factory=list)  # layers whose output has no rematerializer
    lost: list[int] = field(default_factory=list)  # such layers whose value is gone all the same
    refills: list[Refill] = field(default_factory=list)
    alone: list[Alone] = field(default_factory=list)
    changed: bool = False  # the list of weights or of checkpoints
    made_again: int = 0  # products made by `matmul` in the backward pass
    flops: int = 0
    gradients: list = field(default_factory=list)
    left: list[int] = field(default_factory=list)  # layers that hold a value at the end, not kept
    forward_bytes: int = 0
    forward_peak: int = 0
    after_bytes: int = 0
    peak_bytes: int = 0


def train(answer, x_value: np.ndarray, weight_values: list, checkpoints: list[int], *,
          traced: bool = False) -> Training:  # fmt: skip
    """Forward by `answer(x, weights, checkpoints, matmul)`, then backward, each refill noted.

    Counted in small, with values; traced in large, on plain arrays, without.
    """
    make = (lambda value: value) if traced else counted
    x = ag.RematTensor(make(x_value))
    weights = [ag.RematTensor(make(value), requires_grad=True) for value in weight_values]
    seen = Training()
    with count_matmuls() as count:
        if not traced:
            nodes = _steps(answer, x, weights, checkpoints, seen)
        else:
            with Trace() as trace:
                nodes = _steps(answer, x, weights, checkpoints, seen, trace)
    seen.flops = count.flops
    seen.gradients = [plain(w.grad) for w in weights]
    if not traced and not seen.stage:
        seen.alone = _one_by_one(answer, nodes, seen)
    return seen


def _one_by_one(answer, nodes: list, seen: Training) -> list[Alone]:
    """Every rematerializer once more, in the order of the layers."""
    discarded = {layer: node for layer, node in enumerate(nodes) if layer not in seen.kept}
    found = []
    for layer, asked in discarded.items():
        for node in discarded.values():
            node.value = None
        value, error = None, ""
        try:
            value = plain(asked.rematerializer())
        except KeyboardInterrupt:
            raise
        except BaseException as problem:
            told = describe_error(problem, answer)
            error = f"{told.kind}: {told.message}"
        filled = [k for k, node in discarded.items() if node.value is not None]
        found.append(Alone(layer, value, error, filled))
    return found


def plain(value):
    """A counted array as an ordinary one; anything else as it is."""
    return np.array(value) if isinstance(value, np.ndarray) else value


def _steps(answer, x, weights, checkpoints, seen: Training, trace: Trace | None = None) -> list:
    def counted_matmul(x, w):
        seen.made_again += seen.stage != "forward"
        return matmul(x, w)

    nodes = []
    try:
        seen.stage = "forward"
        given = list(weights), list(checkpoints)
        nodes = answer(x, *given, counted_matmul)
        if not isinstance(nodes, list | tuple):
            seen.kind = type(nodes).__name__
            return []
        strangers = [node for node in nodes if not isinstance(node, ag.RematTensor)]
        if strangers or len(nodes) != len(weights):
            seen.kind = f"a list of {len(nodes)} items"
            seen.kind += f", one of them of type {type(strangers[0]).__name__}" if strangers else ""
            return []
        seen.misplaced = [
            layer for layer, (node, before, w) in enumerate(zip(nodes, [x, *nodes], weights))
            if [id(tensor) for tensor in node.inputs] != [id(before), id(w)]
        ]  # fmt: skip
        seen.last_gone = nodes[-1].value is None
        if seen.misplaced or seen.last_gone:
            return []
        loss = ag.remat_sum(nodes[-1])
        layer_of = {id(node): layer for layer, node in enumerate(nodes)}
        seen.kept = [layer for layer, node in enumerate(nodes) if node.rematerializer is None]
        seen.lost = [layer for layer in seen.kept if nodes[layer].value is None]
        if x.rematerializer is not None or x.value is None:
            seen.lost.append(-1)
        if trace:
            stats = trace.snapshot()
            seen.forward_bytes, seen.forward_peak = stats.current_bytes, stats.peak_bytes
            trace.restart_peak()
        if not seen.lost:
            loss.backward(lambda node: _refill(node, layer_of, seen, values=trace is None))
            seen.stage = ""
        same = [len(now) == len(then) and all(map(operator.is_, now, then))
                for now, then in zip(given, (weights, checkpoints))]  # fmt: skip
        seen.changed = not all(same)
        seen.left = [layer for layer, node in enumerate(nodes)
                     if layer not in seen.kept and node.value is not None]  # fmt: skip
        if trace:
            stats = trace.snapshot()
            seen.peak_bytes, seen.after_bytes = stats.peak_bytes, stats.current_bytes
    except KeyboardInterrupt:
        raise
    except BaseException as problem:
        seen.error = describe_error(problem, answer)
    return nodes


def _refill(node, layer_of, seen: Training, values: bool) -> None:
    for tensor in node.inputs:
        if tensor.value is not None:
            continue
        layer = layer_of.get(id(tensor), -1)
        seen.stage = f"the rematerializer of layer {layer}"
        with count_matmuls() as count:
            value = tensor.rematerializer()
        note = plain(value) if values else isinstance(value, np.ndarray)
        seen.refills.append(Refill(layer, count.flops, note))
        tensor.value = value
