"""Three small networks with real arrays behind them: a residual chain, a U, a transformer.

Each gives the model's side, the graph of its training step by the rule of `training`, and the executor's, a
function for every value. So what is predicted can be counted on arrays. Times are FLOPs: two for each
multiplication with its addition in a product of matrices, a few for each element elsewhere. The loss is half
the sum of squares of the last value, so that value is its own gradient. All arrays are float64.
"""

from dataclasses import dataclass, field

import numpy as np

from course_utils.remat import operations as op
from course_utils.remat.model import Graph
from course_utils.remat.operations import Function, Layer
from course_utils.remat.training import (
    gradient_name,
    readers_backward,
    training_graph,
    weights_step,
)


@dataclass
class Network:
    """Layers by the names of their values, in their order; weights and gradients by their layer's.

    inputs: arrays that are there before it begins. wanted: those of them whose gradient is a result.
    """

    inputs: dict[str, np.ndarray]
    wanted: tuple[str, ...] = ()
    layers: dict[str, Layer] = field(default_factory=dict)
    weights: dict[str, np.ndarray] = field(default_factory=dict)
    weight_gradients: dict[str, np.ndarray] = field(default_factory=dict)

    def graph(self) -> Graph:
        """The graph of the training step."""
        operations = {name: layer.operation for name, layer in self.layers.items()}
        sizes = {name: array.nbytes for name, array in self.inputs.items()}
        return training_graph(operations, sizes, self.wanted)

    def functions(self) -> dict[str, Function]:
        """For `execute`: what makes each value, from the values that it reads."""
        graph, last = self.graph(), list(self.layers)[-1]
        made = {name: layer.forward for name, layer in self.layers.items()}
        made[gradient_name(last)] = np.copy
        for name in (*self.layers, *self.inputs):
            if gradient_name(name) in graph.values and name != last:
                made[gradient_name(name)] = self._gradient(name, graph)
            if weights_step(name) in graph.values:
                made[weights_step(name)] = _no_value(self.layers[name])
        return made

    def _gradient(self, name: str, graph: Graph) -> Function:
        operations = {each: layer.operation for each, layer in self.layers.items()}
        order = graph.values[gradient_name(name)].reads
        readers = readers_backward(operations, name)

        def gradient(*arrays: np.ndarray) -> np.ndarray:
            there, total = dict(zip(order, arrays)), None
            for reader in readers:
                share = there[gradient_name(reader)]
                if not operations[reader].is_sum:
                    saved = [there[each] for each in operations[reader].backward_reads[name]]
                    share = self.layers[reader].shares[name](share, *saved)
                if total is not None:
                    total += share
                else:
                    total = share.copy() if operations[reader].is_sum else share
                del share  # else two shares would stand beside the sum
            return total

        return gradient


def _no_value(layer: Layer) -> Function:
    def weights_alone(*arrays: np.ndarray) -> np.ndarray:
        layer.weights_alone(*arrays)
        return np.empty(0)

    return weights_alone


def _weight(network: Network, name: str, rng: np.random.Generator, n: int, m: int):
    """A new weight and its gradient, under their layer's name."""
    network.weights[name] = rng.standard_normal((n, m)) / n**0.5
    network.weight_gradients[name] = np.zeros((n, m))
    return network.weights[name], network.weight_gradients[name]


def residual_chain(blocks: int, rows: int, width: int, seed: int = 0) -> Network:
    """z_k = z_(k-1) + f_k with f_k = tanh(z_(k-1) W_k), from z0 to the last; arrays (rows, width)."""
    rng = np.random.default_rng(seed)
    network = Network({"z0": rng.standard_normal((rows, width))}, wanted=("z0",))
    for k in range(1, blocks + 1):
        before, f = f"z{k - 1}", f"f{k}"
        pair = _weight(network, f, rng, width, width)
        network.layers[f] = op.dense(before, f, rows, *pair)
        network.layers[f"z{k}"] = op.residual_sum(before, f, rows * width)
    return network


def u_network(levels: int, rows: int, width: int, seed: int = 0) -> Network:
    """A U of so many levels: encode and pool on the way down, upsample, add the skip and decode on the way up.

    Level 1 has arrays (rows, width), each level below a quarter of the rows. Values: encode1, pool1, ...,
    encode<levels>, then up, skip, decode of each level, the lowest first.
    """
    if rows % 4 ** (levels - 1):
        raise ValueError(f"{rows} rows cannot be quartered {levels - 1} times")
    rng = np.random.default_rng(seed)
    network = Network({"x": rng.standard_normal((rows, width))})

    def dense(name: str, before: str, rows_here: int) -> str:
        pair = _weight(network, name, rng, width, width)
        network.layers[name] = op.dense(before, name, rows_here, *pair)
        return name

    sizes = [rows // 4**level for level in range(levels)]
    last = dense("encode1", "x", rows)
    for level in range(1, levels):
        network.layers[f"pool{level}"] = op.pool(last, sizes[level - 1], width)
        last = dense(f"encode{level + 1}", f"pool{level}", sizes[level])
    for level in range(levels - 1, 0, -1):
        up, skip = f"up{level}", f"skip{level}"
        network.layers[up] = op.upsample(last, sizes[level], width)
        network.layers[skip] = op.residual_sum(up, f"encode{level}", sizes[level - 1] * width)
        last = dense(f"decode{level}", skip, sizes[level - 1])
    return network


def transformer(tokens: int, width: int, heads: int, layers: int = 1, seed: int = 0) -> Network:
    """Pre-norm blocks of a transformer: attention and an MLP of 4 * width, each with its residual sum.

    The input x is (tokens, width), scores and probs (heads, tokens, tokens). No mask, no gains, no biases.
    With several layers the values have the layer in their name: `probs.2`.
    """
    rng = np.random.default_rng(seed)
    network = Network({"x": rng.standard_normal((tokens, width))}, wanted=("x",))
    before = "x"
    for layer in range(1, layers + 1):
        before = _add_block(network, before, f".{layer}" if layers > 1 else "", heads, rng)
    return network


def _add_block(network: Network, x: str, suffix: str, heads: int, rng: np.random.Generator) -> str:
    (tokens, width), layers = network.inputs["x"].shape, network.layers
    elements = tokens * width

    def put(name: str, layer: Layer) -> str:
        layers[name + suffix] = layer
        return name + suffix

    def linear(name: str, read: str, n: int, m: int) -> str:
        return put(name, op.linear(read, tokens, *_weight(network, name + suffix, rng, n, m)))

    normed = put("norm1", op.layer_norm(x, tokens, width))
    q, k, v = (linear(name, normed, width, width) for name in ("q", "k", "v"))
    scores = put("scores", op.attention_scores(q, k, tokens, width, heads))
    probs = put("probs", op.softmax(scores, "probs" + suffix, heads, tokens))
    context = put("context", op.attention_output(probs, v, tokens, width, heads))
    projected = linear("proj", context, width, width)
    middle = put("middle", op.residual_sum(x, projected, elements))
    normed = put("norm2", op.layer_norm(middle, tokens, width))
    hidden = linear("up", normed, width, 4 * width)
    active = put("act", op.tanh(hidden, "act" + suffix, 4 * elements))
    down = linear("down", active, 4 * width, width)
    return put("out", op.residual_sum(middle, down, elements))
