"""Record what the lessons' three engines do on one chain: python -m tests.record_engines

Two of them are answers to exercises. They are read here from the lessons' sources, and the course carries
only what they did. A test holds the stored record against a fresh one.
"""

import ast
import json
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np

from course_utils import ag
from course_utils.timeline import Timeline
from course_utils.widgets.memory import TRACES

SOLUTIONS = Path(__file__).parents[1] / "solutions"
ENGINES = ("eager", "lazy", "rematerialized")
LAYERS, ROWS, WIDTH, CHECKPOINT = 6, 2048, 192, 2  # 3.1 MB an activation, 0.3 MB a weight


def answers(lesson: str, *names: str) -> list:
    """The functions of these names in a lesson's source, "02_requires_grad", ready to be called."""
    tree = ast.parse((SOLUTIONS / f"{lesson}.py").read_text("utf-8"))
    wanted = [node for node in tree.body if getattr(node, "name", None) in names]
    space: dict = {"np": np, "ag": ag}
    exec(compile(ast.Module(wanted, []), lesson, "exec"), space)
    return [space[name] for name in names]


def record_engines() -> dict[str, list[dict]]:
    """Forward and backward of one chain of products on each engine: engine -> its steps.

    Every engine is asked at the same moments: after each product, after the sum, and after each step
    backward. Of the rematerialized engine's outputs Z3 alone is kept. Weights and their gradients were
    there before.
    """
    return {name: [asdict(step) for step in _training_step(name).steps] for name in ENGINES}


def _training_step(engine: str) -> Timeline:
    x, weights, matmul, sum_, rematerialize, forward = _engine(engine)
    before = {"x": x, "w": weights}
    outputs: dict[str, ag.Tensor] = {}

    with Timeline(before=before) as timeline:

        def marked_matmul(z, w):
            k = len(outputs) + 1
            output = outputs[f"Z{k}"] = matmul(z, w)
            timeline.mark(f"Z{k} = Z{k - 1} W{k}" if k > 1 else "Z1 = X W1", _arrays(outputs))
            return output

        nodes = forward(x, weights, marked_matmul)
        outputs["L"] = sum_(nodes[-1])
        timeline.mark(f"L = sum of Z{LAYERS}", _arrays(outputs))
        outputs["L"].grad = np.array(1.0)
        for name, node in reversed(outputs.items()):
            rematerialize(node)
            node._backward()
            timeline.mark(f"backward of {name}", _arrays(outputs) | {"dX": x.grad})
    return timeline


def _engine(name: str):
    """x, weights, and this engine's matmul, sum, rematerialize and forward."""
    rng = np.random.default_rng(12)
    shapes = [(ROWS, WIDTH), *[(WIDTH, WIDTH)] * LAYERS]
    x, *weights = [rng.standard_normal(shape) / WIDTH**0.5 for shape in shapes]

    def keep_all(x, weights, matmul):
        nodes = []
        for w in weights:
            nodes.append(x := matmul(x, w))
        return nodes

    if name == "eager":
        leaves = [ag.Tensor(w) for w in weights]
        return ag.Tensor(x), leaves, ag.matmul, ag.sum, lambda node: None, keep_all
    if name == "lazy":
        (step,) = answers("02_requires_grad", "lazy_matmul_backward")
        leaves = [ag.LazyTensor(w, requires_grad=True) for w in weights]
        matmul = partial(ag.lazy_matmul, backward=step)
        return ag.LazyTensor(x), leaves, matmul, ag.lazy_sum, lambda node: None, keep_all
    wanted = ("rematerialize", "remat_matmul", "forward_in_segments")
    rematerialize, matmul, in_segments = answers("03_rematerialization", *wanted)
    leaves = [ag.RematTensor(w, requires_grad=True) for w in weights]

    def forward(x, weights, matmul):
        return in_segments(x, weights, [CHECKPOINT], matmul)

    return ag.RematTensor(x), leaves, matmul, ag.remat_sum, rematerialize, forward


def _arrays(outputs: dict[str, ag.Tensor]) -> dict[str, np.ndarray]:
    values = {name: node.value for name, node in outputs.items()}
    return values | {f"d{name}": node.grad for name, node in outputs.items()}


if __name__ == "__main__":
    text = json.dumps(record_engines(), separators=(",", ":"))
    text = text.replace('{"label"', '\n{"label"') + "\n"
    (TRACES / "engines.json").write_text(text, encoding="utf-8")
