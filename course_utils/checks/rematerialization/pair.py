"""3.2, in small: two inputs, a product or two, and their steps. What every node holds after each is noted."""

import numpy as np

from course_utils import ag
from course_utils.checks.core import Case, Observation
from course_utils.checks.observe import describe_error, find_out_of_sight
from course_utils.checks.rematerialization.chain import chain_case, run_chain


def cases(seed: int) -> list[Case]:
    def one(name: str, gone: str, shape: tuple = (5, 3, 4), **more) -> Case:
        return Case(name, {"shape": shape, "gone": gone, "seed": seed, **more})

    return [
        one("neither x nor w has a rematerializer; x is 5 x 3, w is 3 x 4", ""),
        one("x has a rematerializer", "x"),
        one("x and w have rematerializers", "xw"),
        one("x has a rematerializer, and both have gradients already", "x", before=True),
        one("x has a rematerializer, and is read by a second product", "x", second="v"),
        one("x and w have rematerializers, and a second product reads both", "xw", second="w"),
        one("x @ x, and x has a rematerializer", "x", (4, 4, 4), same=True),
        chain_case(seed),
    ]


def _random(case: Case, rows: int, columns: int, stream: int) -> np.ndarray:
    return np.random.default_rng([case.given["seed"], stream]).standard_normal((rows, columns))


def arrays(case: Case) -> dict[str, np.ndarray]:
    rows, inner, columns = case.given["shape"]
    return {
        "x": _random(case, rows, inner, 0),
        "w": _random(case, inner, columns, 1),
        "v": _random(case, inner, columns, 2),  # the second reader's
        "g": _random(case, rows, columns, 3),
        "h": _random(case, rows, columns, 4),
        "x.grad before": _random(case, rows, inner, 5),
        "w.grad before": _random(case, inner, columns, 6),
    }


def expected(case: Case) -> dict[str, np.ndarray]:
    a = arrays(case)
    if case.given.get("same"):
        return {"output": a["x"] @ a["x"], "x.grad": a["g"] @ a["x"].T + a["x"].T @ a["g"]}
    found = {"output": a["x"] @ a["w"], "x.grad": a["g"] @ a["w"].T, "w.grad": a["x"].T @ a["g"]}
    if other := case.given.get("second"):
        found["second output"] = a["x"] @ a[other]
        found["x.grad"] = found["x.grad"] + a["h"] @ a[other].T
        found[f"{other}.grad"] = found.get(f"{other}.grad", 0.0) + a["x"].T @ a["h"]
    if case.given.get("before"):
        for name in ("x.grad", "w.grad"):
            found[name] = found[name] + a[f"{name} before"]
    return found


def run(answer, case: Case) -> Observation:
    if case.given.get("chain"):
        small = Case("", {"shape": (2, 2, 2), "gone": "x", "seed": 0})
        seen = run_chain(answer, case)
        seen.out_of_sight = find_out_of_sight(answer, *_nodes(small).values())
        return seen
    seen = Observation(value={}, more={"values": {}, "stage": "the product itself"})
    try:
        _observe_steps(answer, case, seen)
        seen.more["stage"] = ""
    except KeyboardInterrupt:
        raise
    except BaseException as problem:
        error = describe_error(problem, answer)
        if seen.more["stage"] == "the product itself":
            seen.error = error
        else:
            seen.more["error"] = f"{error.kind}: {error.message}"
    return seen


class _Rematerializer:
    """Gives the value back, and counts how often it was asked."""

    def __init__(self, value: np.ndarray):
        self.value, self.calls = value, 0

    def __call__(self) -> np.ndarray:
        self.calls += 1
        return self.value.copy()


def _nodes(case: Case) -> dict[str, ag.RematTensor]:
    a, nodes = arrays(case), {}
    for name in "x" if case.given.get("same") else "xw":
        nodes[name] = ag.RematTensor(a[name])
        if name in case.given["gone"]:
            nodes[name].rematerializer = _Rematerializer(a[name])
        if case.given.get("before"):
            nodes[name].grad = a[f"{name}.grad before"].copy()
    if case.given.get("second") == "v":
        nodes["v"] = ag.RematTensor(a["v"])
    return nodes


def _observe_steps(answer, case: Case, seen: Observation) -> None:
    """Forward, perhaps a second reader, then backward; what every node holds after each."""
    a, nodes = arrays(case), _nodes(case)
    x, w = nodes["x"], nodes.get("w", nodes["x"])
    readers = [("output", answer(x, w), a["g"])]
    _note_calls(seen, "the product", nodes)
    seen.more["stripped"] = [
        name for name in case.given["gone"] if getattr(nodes[name], "rematerializer", 0) is None
    ]
    _note(seen, "forward", nodes, *readers[-1][:2])
    output = readers[0][1]
    seen.more["kind"] = type(output).__name__
    seen.more["is node"] = isinstance(output, ag.RematTensor)
    if not seen.more["is node"]:
        return
    found = [id(node) for node in output.inputs]
    seen.more["inputs"] = found == [id(x), id(w)]
    seen.more["swapped"] = found == [id(w), id(x)]
    seen.more["own rematerializer"] = output.rematerializer is not None
    if other := case.given.get("second"):
        seen.more["stage"] = "the second product"
        readers.append(("second output", answer(x, nodes[other]), a["h"]))
        _note(seen, "second forward", nodes, *readers[-1][:2])
    for name, output, grad in reversed(readers):
        seen.more["stage"] = f"the step of {name}"
        output.grad = grad.copy()
        for node in output.inputs:
            if node.value is None:
                node.value = node.rematerializer()
        _reset_calls(nodes)
        try:
            output._backward()
        finally:
            seen.more["gone"] = [name for name, node in nodes.items() if node.value is None]
            seen.more["no grad"] = [name for name, node in nodes.items() if node.grad is None]
        _note_calls(seen, "its step", nodes)
        _note(seen, f"step of {name}", nodes, name, output)
    for name, node in nodes.items():
        seen.value[f"{name}.grad"] = _copied(getattr(node, "grad", None))


def _note_calls(seen: Observation, moment: str, nodes: dict) -> None:
    """The rematerializers that the answer called by itself, though all values were there."""
    for name, node in nodes.items():
        if getattr(node.rematerializer, "calls", 0):
            seen.more.setdefault("needless", (moment, name))
    _reset_calls(nodes)


def _reset_calls(nodes: dict) -> None:
    for node in nodes.values():
        if isinstance(node.rematerializer, _Rematerializer):
            node.rematerializer.calls = 0


def _note(seen: Observation, moment: str, nodes: dict, name: str, output) -> None:
    there = {name: getattr(node, "value", None) is not None for name, node in nodes.items()}
    if moment.startswith("step"):
        there["the result"] = output.value is not None
    seen.more["values"][moment] = there | {"grad": getattr(output, "grad", None) is not None}
    seen.value.setdefault(name, _copied(getattr(output, "value", None)))


def _copied(value):
    return value.copy() if isinstance(value, np.ndarray) else value
