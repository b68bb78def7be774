"""2.1: the backward of a matmul, on nodes that have gradients already."""

import numpy as np

from course_utils import ag
from course_utils.checks.core import Case, Exercise, Observation, Verdict, failed, passed
from course_utils.checks.judging import close, wrong_array
from course_utils.checks.requires_grad.nodes import deleted, node, random, run_step


def matmul_nodes(case: Case) -> tuple[ag.LazyTensor, ag.LazyTensor, ag.LazyTensor]:
    rows, inner, columns = case.given["shape"]
    x_value, w_value = random(case, rows, inner), random(case, inner, columns, stream=1)
    before = _gradients_before(case)
    x = node(x_value, before.get("x.grad"))
    w = node(w_value, before.get("w.grad"))
    output = ag.LazyTensor(x_value @ w_value, inputs=(x, w))
    output.grad = before["output.grad"].copy()
    return x, w, output


def _gradients_before(case: Case) -> dict[str, np.ndarray]:
    """The gradients that the nodes have when the step begins, by name. Missing: None."""
    rows, inner, columns = case.given["shape"]
    before = {"output.grad": random(case, rows, columns, stream=2)}
    if "x.grad" in case.given["exist"]:
        before["x.grad"] = random(case, rows, inner, stream=3)
    if "w.grad" in case.given["exist"]:
        before["w.grad"] = random(case, inner, columns, stream=4)
    return before


def matmul_products(case: Case) -> dict[str, np.ndarray]:
    """What a matmul's step has to add to its inputs' gradients: dX = G W^T, dW = X^T G (L12-23)."""
    rows, inner, columns = case.given["shape"]
    x, w = random(case, rows, inner), random(case, inner, columns, stream=1)
    g = _gradients_before(case)["output.grad"]
    return {"x.grad": g @ w.T, "w.grad": x.T @ g}


def _wrong_gradient(
    case: Case, grads: dict, name: str, added: np.ndarray, twins: dict
) -> Verdict | None:
    """One input's gradient after a step: typical mistakes by name, then plain comparison.

    twins: values that a typical mistake would have added instead, by (cause, diagnosis).
    """
    before = _gradients_before(case).get(name)
    expected = added if before is None else before + added
    actual = grads[name]
    if actual is None:
        return failed(
            "gradient missing", f"After the step {name} is still None; it must hold a gradient."
        )
    if before is not None and close(actual, before):
        return failed(
            "nothing added",
            f"After the step {name} holds what it held before: nothing was added to it.",
        )
    if before is not None and close(actual, added):
        return failed(
            "overwrote a gradient",
            f"{name} held a gradient before the step, and it is gone: {name} now holds only this step's "
            "share. A tensor that is used twice gets a share from each use.",
        )
    for (cause, diagnosis), twin in twins.items():
        if twin.shape == expected.shape and close(
            actual, twin if before is None else before + twin
        ):
            return failed(cause, diagnosis)
    return wrong_array(actual, expected, what=name)


_NOT_TRANSPOSED = (
    "not transposed",
    "The right factors, but one is not transposed. With square matrices the shapes cannot warn you: "
    "write the shapes of a product that is not square beside each factor.",
)
_TRANSPOSED = (
    "result transposed",
    "The right gradient, but transposed: rows and columns are exchanged. With square matrices the "
    "shapes cannot warn you.",
)
_WRONG_ORDER = (
    "factors swapped",
    "The right factors in the wrong order. With square matrices the shapes cannot warn you: "
    "write the shapes of a product that is not square beside each factor.",
)


def wrong_matmul_gradients(case: Case, grads: dict) -> Verdict | None:
    rows, inner, columns = case.given["shape"]
    x, w = random(case, rows, inner), random(case, inner, columns, stream=1)
    g, products = _gradients_before(case)["output.grad"], matmul_products(case)
    x_twins, w_twins = {}, {}
    if rows == inner == columns:  # elsewhere the shapes tell
        x_twins = {_NOT_TRANSPOSED: g @ w, _WRONG_ORDER: w.T @ g, _TRANSPOSED: w @ g.T}
        w_twins = {_NOT_TRANSPOSED: x @ g, _WRONG_ORDER: g @ x.T, _TRANSPOSED: g.T @ x}
    return _wrong_gradient(case, grads, "x.grad", products["x.grad"], x_twins) or _wrong_gradient(
        case, grads, "w.grad", products["w.grad"], w_twins
    )


def _cases(seed: int) -> list[Case]:
    both = ("x.grad", "w.grad")
    shapes = [(6, 6, 6), (5, 3, 4), (1, 7, 2), (8, 1, 1)]
    return [
        Case(f"x is {b} x {n}, w is {n} x {m}", {"shape": (b, n, m), "exist": both, "seed": seed})
        for b, n, m in shapes
    ]


def run_matmul(answer, case: Case) -> Observation:
    x, w, output = matmul_nodes(case)
    return run_step(answer, {"x": x, "w": w, "output": output}, x, w, output)


def _judge(case: Case, seen: Observation) -> Verdict:
    wrong = deleted(seen) or wrong_matmul_gradients(case, seen.value)
    if wrong and wrong.cause == "nothing added" and seen.more["returned"]:
        wrong = failed("returned instead of added", "The gradients were returned. The engine reads `x.grad` and "
                       "`w.grad`: add to those.")  # fmt: skip
    if not wrong and not close(seen.value["output.grad"], _gradients_before(case)["output.grad"]):
        wrong = failed(
            "changed its output's gradient", "output.grad is not what it was. Here it is only read."
        )
    return wrong or passed()


EXERCISE = Exercise("2.1", "the backward of a matmul", 2, _cases, run_matmul, _judge)
