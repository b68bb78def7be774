"""Nodes for the answers of 2.1 to 2.3, which are steps of the lecture's engine.

Such an answer adds to its inputs' `grad`, so what is observed is what the nodes hold afterwards. The nodes
may begin with gradients that are not zero: an answer that overwrites them looks right on fresh ones.
"""

from dataclasses import replace

import numpy as np

from course_utils import ag
from course_utils.checks.core import Case, Observation, Verdict, failed
from course_utils.checks.observe import observe


def random(case: Case, *shape: int, stream: int = 0) -> np.ndarray:
    """Normal numbers in float64, the same for the same case, shape and stream."""
    rng = np.random.default_rng([case.given["seed"], stream, *shape])
    return rng.standard_normal(shape)


def node(value: np.ndarray, grad: np.ndarray | None) -> ag.LazyTensor:
    """A node that holds this gradient, or none yet."""
    tensor = ag.LazyTensor(value)
    tensor.grad = None if grad is None else grad.copy()
    return tensor


def grad_of(tensor: ag.Tensor) -> object:
    """What stands in a node's grad: a copy, if it is an array. None also where it was deleted."""
    grad = getattr(tensor, "grad", None)
    return grad.copy() if isinstance(grad, np.ndarray) else grad


def run_step(answer, nodes: dict[str, ag.Tensor], *args: ag.Tensor) -> Observation:
    """One call of a backward step: the gradients that the nodes have then, and whether values changed."""
    values = {name: tensor.value.copy() for name, tensor in nodes.items()}
    seen = observe(answer, *args)
    if seen.error is not None and getattr(args[-1], "grad", None) is None:
        told = f"{seen.error.message} (output.grad was gone by then: was it discarded too early?)"
        seen.error = replace(seen.error, message=told)
    if seen.error is None:
        seen.more["returned"] = seen.value is not None
        seen.value = {f"{name}.grad": grad_of(tensor) for name, tensor in nodes.items()}
        seen.more["deleted"] = [
            name for name, tensor in nodes.items() if not hasattr(tensor, "grad")
        ]
        now = {name: getattr(tensor, "value", None) for name, tensor in nodes.items()}
        seen.changed_input = not all(
            isinstance(now[name], np.ndarray) and np.array_equal(value, now[name])
            for name, value in values.items()
        )
    return seen


def deleted(seen: Observation) -> Verdict | None:
    """A node that lost its attribute: the engine will stumble over that later, out of sight."""
    if not seen.more["deleted"]:
        return None
    name = seen.more["deleted"][0]
    return failed(
        "attribute deleted",
        f"After the step {name} has no attribute `grad` any more: `del` removes the attribute itself. "
        "A node without a gradient has `grad = None`.",
    )
