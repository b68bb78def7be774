"""2.3: a tensor that is used twice. The traps are overwriting, and one buffer for two gradients."""

import weakref

import numpy as np

from course_utils import ag
from course_utils.checks.core import Case, Exercise, Observation, Verdict, failed, passed
from course_utils.checks.judging import close, over_budget, peak, say, wrong_array
from course_utils.checks.observe import find_out_of_sight, observe_memory
from course_utils.checks.requires_grad.nodes import deleted, node, random, run_step

_BIG_SHAPE = (512, 320)


def _cases(seed: int) -> list[Case]:
    def one(name: str, *exist: str, same: bool = False, shape: tuple = (4, 3)) -> Case:
        return Case(name, {"shape": shape, "exist": exist, "same": same, "seed": seed})

    return [
        one("x + y, neither has a gradient yet"),
        one("x + y, x has a gradient already", "x.grad"),
        one("x + y, y has a gradient already", "y.grad"),
        one("x + y, both have gradients already", "x.grad", "y.grad", shape=(1, 5)),
        one("x + x, no gradient yet", same=True),
        one("x + x, x has a gradient already", "x.grad", same=True),
        one("memory: x + y, neither has a gradient yet", shape=_BIG_SHAPE),
    ]


def _gradients_before(case: Case) -> dict[str, np.ndarray]:
    shape = case.given["shape"]
    return {name: random(case, *shape, stream=i) for i, name in enumerate(("x.grad", "y.grad"), 1)
            if name in case.given["exist"]}  # fmt: skip


def _nodes(case: Case) -> tuple[ag.LazyTensor, ag.LazyTensor, ag.LazyTensor]:
    shape, before = case.given["shape"], _gradients_before(case)
    x = node(random(case, *shape, stream=6), before.get("x.grad"))
    y = x if case.given["same"] else node(random(case, *shape, stream=7), before.get("y.grad"))
    output = ag.LazyTensor(x.value + y.value, inputs=(x, y))
    output.grad = random(case, *shape, stream=5)
    return x, y, output


def _run(answer, case: Case) -> Observation:
    x, y, output = _nodes(case)
    seen = run_step(answer, {"x": x, "y": y, "output": output}, x, y, output)
    if seen.error is not None:
        return seen
    arrays = [tensor.grad for tensor in (x, y) if isinstance(tensor.grad, np.ndarray)]
    seen.more["shared"] = x is not y and len(arrays) == 2 and np.shares_memory(*arrays)
    seen.more["read-only"] = not all(array.flags.writeable for array in arrays)
    if case.given["shape"] != _BIG_SHAPE:
        return seen
    seen.out_of_sight = find_out_of_sight(answer, *_nodes(Case("", case.given | {"shape": (2, 2)})))
    nodes = _nodes(case)
    g = weakref.ref(nodes[2].grad)
    again = observe_memory(answer, *nodes)
    seen.error, seen.peak_bytes, seen.held_bytes = again.error, again.peak_bytes, again.held_bytes
    # handed on to an input it may live, and only there
    homes = [tensor.grad for tensor in nodes[:2] if isinstance(tensor.grad, np.ndarray)]
    seen.more["kept"] = g() is not None and not any(np.shares_memory(g(), home) for home in homes)
    seen.more["used again"] = any(np.shares_memory(a, b) for a in arrays for b in homes)
    return seen


def _judge(case: Case, seen: Observation) -> Verdict:
    before, g = _gradients_before(case), random(case, *case.given["shape"], stream=5)
    if wrong := deleted(seen):
        return wrong
    uses = 2 if case.given["same"] else 1
    for name in ("x.grad",) if case.given["same"] else ("x.grad", "y.grad"):
        start = before.get(name)
        actual = seen.value[name]
        if actual is None:
            return failed(
                "gradient missing", f"After the step {name} is still None; it must hold a gradient."
            )
        expected = uses * g if start is None else start + uses * g
        if uses == 2 and not close(actual, expected):
            return failed(
                "both inputs are one tensor",
                "For x + x, the two inputs are one tensor: its gradient must get a share from each of the two, "
                "2 G in all, and it did not.",
            )
        if start is not None and close(actual, g):
            return failed(
                "overwrote a gradient",
                f"{name} held a gradient before the step, and it is gone. A tensor that is used twice gets a "
                "share from each use: add, where there is something to add to.",
            )
        wrong = wrong_array(actual, expected, what=name)
        if wrong:
            return wrong
    if seen.more["shared"]:
        return failed(
            "one buffer for two gradients",
            "x.grad and y.grad are the same memory. Both are right now, but the next `x.grad += ...` "
            "of an earlier step changes y.grad as well.",
        )
    if seen.more["read-only"]:
        return failed(
            "read-only gradient",
            "A gradient is a view that cannot be written: the next `+=` of an earlier step will fail.",
        )
    if seen.value["output.grad"] is not None:
        return failed(
            "not discarded",
            "After its step output.grad is still there, and nobody will read it again.",
        )
    return _judge_memory(seen, g) if case.given["shape"] == _BIG_SHAPE else passed()


def _judge_memory(seen: Observation, g: np.ndarray) -> Verdict:
    if seen.more["used again"]:
        return failed(
            "one buffer for two calls",
            "A second step, for other nodes, wrote its gradients into the arrays that the first one had "
            "left. Whoever holds those still needs them.",
        )
    if seen.more["kept"] or seen.held_bytes > 2 * g.nbytes:
        return failed(
            "held too long",
            "output.grad is None, but its array, or another one of this step, is still alive. What "
            "refers to it? A global list, an attribute or a default argument outlives a call.",
        )
    # output's own array is there before: at least one more is needed, two are plain style
    within = peak(seen.peak_bytes, 3 * g.nbytes, g.nbytes)
    return over_budget(
        "peak",
        within,
        "too many temporaries",
        f"The step had {say(seen.peak_bytes)} alive at once: more than "
        f"three new arrays of {say(g.nbytes)}.",
    ) or passed(peak=within)


EXERCISE = Exercise("2.3", "a tensor that is used twice", 3, _cases, _run, _judge)
