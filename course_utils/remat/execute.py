"""A schedule run on real arrays. What the simulator predicts must come out here, to the byte.

The executor holds every array under its name in one dictionary and nowhere else, so that a `drop` frees
it. Its count adds up the sizes of the arrays that really are there; it does not look at the model's.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from course_utils.remat.model import Chain, Graph, Schedule


@dataclass
class Execution:
    """What a run came to: its results, the most bytes that were alive at once, and how often each value was made."""

    results: dict[str, np.ndarray]
    peak_bytes: int
    made: Counter = field(default_factory=Counter)

    @property
    def recomputed_values(self) -> int:
        """How many computations were repetitions."""
        return sum(count - 1 for count in self.made.values())


def execute(
    graph: Graph,
    functions: Mapping[str, Callable[..., np.ndarray]],
    schedule: Schedule,
    inputs: Mapping[str, np.ndarray],
) -> Execution:
    """Run a schedule. `functions[name]` makes a value from those that it reads, in the order of `reads`.

    The peak counts the arrays that the schedule makes, not the inputs, and no workspace: a function whose
    workspace the model knows has a higher peak by that much under a trace. Raises KeyError where the
    schedule reads what is not there; `simulate` says it in words.
    """
    alive, made, peak_bytes = {}, Counter(), 0
    for action, name in schedule:
        if action == "drop":
            del alive[name]
            continue
        read = [
            inputs[other] if other in inputs else alive[other] for other in graph.values[name].reads
        ]
        alive[name] = functions[name](*read)
        del read  # else it would keep what the next step drops
        made[name] += 1
        peak_bytes = max(peak_bytes, sum(array.nbytes for array in alive.values()))
    return Execution({name: alive[name] for name in graph.results}, peak_bytes, made)


def matmul_chain(
    x: np.ndarray, weights: list[np.ndarray]
) -> tuple[Chain, dict[str, Callable[..., np.ndarray]], list[np.ndarray]]:
    """The lecture's network, Z_t = Z_(t-1) W_t with the sum as its loss, for the model and for `execute`.

    x: (B, N_0); weights: (N_0, N_1), (N_1, N_2), ... Times are counts of matrix products: one forward, two
    backward. Returns the chain, its functions, and the list that receives the gradients of the weights,
    arrays that exist from the start, as an optimizer keeps them. (Source: figures L12-19, L12-23.)
    """
    widths = [x.shape[1], *(w.shape[1] for w in weights)]
    itemsize = np.result_type(x, *weights).itemsize
    sizes = [x.shape[0] * width * itemsize for width in widths]
    chain = Chain([1] * len(weights), sizes)
    gradients = [np.zeros_like(w) for w in weights]
    functions: dict[str, Callable[..., np.ndarray]] = {f"g{len(weights)}": np.ones_like}
    for t, (w, gradient) in enumerate(zip(weights, gradients), start=1):
        functions[f"z{t}"] = _forward(w)
        functions[f"g{t - 1}"] = _backward(w, gradient)
    return chain, functions, gradients


def _forward(w: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    return lambda z: z @ w


def _backward(
    w: np.ndarray, gradient: np.ndarray
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    def backward(z: np.ndarray, g: np.ndarray) -> np.ndarray:
        np.matmul(z.T, g, out=gradient)
        return g @ w.T

    return backward
