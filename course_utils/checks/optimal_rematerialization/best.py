"""4.4: the best plan under a byte budget, graded on being the best: within the budget, and none quicker."""

import math

import numpy as np

from course_utils.checks.core import Case, Exercise, Observation, Verdict, failed, passed
from course_utils.checks.observe import observe
from course_utils.checks.optimal_rematerialization.brackets import NoPlan, price_of, read_plan
from course_utils.remat.budget import InfeasibleBudget
from course_utils.remat.model import Chain
from course_utils.remat.plans import plan_schedule, stages_of
from course_utils.remat.simulate import Price

_UNEVEN = [4, 1, 6, 2, 5, 1, 3], [4, 6, 5, 7, 2, 6, 4, 3]
_LATE = [9, 1, 1, 8, 1, 1, 7, 2], [3, 1, 7, 6, 1, 8, 5, 1, 4]
_EQUAL = [1] * 9, [1] * 10


def _cases(seed: int) -> list[Case]:
    rng = np.random.default_rng([seed, 44])

    def one(name: str, chain: tuple[list, list], budget_bytes: int) -> Case:
        times, sizes = chain
        given = {"times": times, "sizes": sizes, "budget": budget_bytes}
        return Case(f"{name}, {len(times)} stages, budget {budget_bytes}", given)

    def drawn(stages: int, share: float, largest: int = 9) -> Case:
        """A budget between what the largest step takes and what keeping everything takes."""
        times = rng.integers(1, 10, stages).tolist()
        sizes = rng.integers(1, largest, stages + 1).tolist()
        least = _largest_step(sizes)
        most = sum(sizes[1:]) + max(sizes)
        budget = least - 1 if share < 0 else least + round(share * (most - least))
        return one("drawn", (times, sizes), budget)

    return [
        one("uneven", _UNEVEN, 26),
        one("uneven", _UNEVEN, 24),
        one("brackets in brackets are best", ([3, 2, 8, 2, 9], [7, 4, 6, 3, 1, 6]), 18),
        one("uneven", _UNEVEN, 21),
        one("uneven", _UNEVEN, 60),
        one("uneven", _UNEVEN, 18),
        one("uneven", _UNEVEN, 17),
        one("large values late", _LATE, 24),
        one("large values late", _LATE, 22),
        one("one", ([2], [3, 4]), 8),
        one("one", ([2], [3, 4]), 7),
        one("large values between", ([2, 1, 5, 5, 2], [1, 3, 6, 1, 6, 1]), 13),
        one("a large input", ([2], [9, 1]), 10),
        one("a large input", ([2], [9, 1]), 9),
        one("a large input", ([1, 2, 1], [9, 2, 1, 1]), 10),
        one("equal", _EQUAL, 3),
        one("equal", _EQUAL, 5),
        *(drawn(7, share) for share in (0.1, 0.2, 0.2, 0.4, 0.7)),
        drawn(8, 0.2, largest=4),
        drawn(6, -1),
        drawn(14, 0.15),
    ]


def _largest_step(sizes: list[int]) -> int:
    """What one step takes, at least: the loss, or a step backward with its input. z_0 costs nothing."""
    steps = [z * (t > 1) + z + g for t, (z, g) in enumerate(zip(sizes, sizes[1:]), start=1)]
    return max(*steps, 2 * sizes[-1])


def _run(answer, case: Case) -> Observation:
    given = case.given
    return observe(answer, list(given["times"]), list(given["sizes"]), given["budget"])


def _judge(case: Case, seen: Observation) -> Verdict:
    from course_utils.remat.planners import persistent_optimum

    chain, budget_bytes = Chain(case.given["times"], case.given["sizes"]), case.given["budget"]
    try:
        best = persistent_optimum(chain, budget_bytes).price
    except InfeasibleBudget:
        best = None
    if seen.value is None:
        return passed() if best is None else failed(*_gave_up(chain, budget_bytes, best))
    try:
        plan = read_plan(seen.value, chain.stages)
    except NoPlan as no:
        if best is None:
            return failed(
                "no plan fits",
                f"No plan fits within {budget_bytes} bytes: then the answer is None, and nothing else.",
            )
        return no.verdict
    price = price_of(chain, plan)
    if price.peak_bytes > budget_bytes:
        return failed(*_too_large(chain, budget_bytes, plan, price, feasible=best is not None))
    if price.recomputed_time > best.recomputed_time:
        return failed(*_too_slow(chain, budget_bytes, plan, price, best))
    return passed()


def _gave_up(chain: Chain, budget_bytes: int, best: Price) -> tuple[str, str]:
    told = (
        f"None was returned, but within {budget_bytes} bytes there is a plan: its peak is "
        f"{best.peak_bytes}, its recomputed time {best.recomputed_time}."
    )
    if best.recomputed_time == 0:
        return "none though all fits", f"{told} It keeps everything."
    if _best_one_level(chain, budget_bytes) == math.inf:
        told += " It has a bracket in a bracket; none with less fits."
    return "none though feasible", (
        f"{told} What do you count that need not be alive, which first value do you leave untried, or "
        "which part gets too little room?"
    )


def _too_large(
    chain: Chain, budget_bytes: int, plan: list, price: Price, feasible: bool
) -> tuple[str, str]:
    from course_utils.remat.planners import persistent_optimum

    told = (
        f"The plan {plan} has a peak of {price.peak_bytes} bytes, and the budget is {budget_bytes}."
    )
    too_large = {
        name
        for (action, name), alive_bytes in zip(plan_schedule(plan), price.alive_bytes)
        if action == "compute" and alive_bytes > budget_bytes
    }
    if too_large == {"g0"}:
        return "g_0 forgotten", (
            f"{told} Only the last step backward takes more: z_0 costs nothing, but g_0 does."
        )
    none = [0] * (chain.stages + 1)
    without = Chain(chain.forward_times, chain.activation_bytes, gradient_bytes=none)
    if price_of(without, plan).peak_bytes <= budget_bytes:
        best = persistent_optimum(without, budget_bytes).price
        if best.recomputed_time == price.recomputed_time:
            return "gradients forgotten", f"{told} It would be the best if gradients took nothing."
    if too_large == {f"g{chain.stages}"}:
        return "loss forgotten", (
            f"{told} Only the loss takes more than that: there z_T and g_T are alive together."
        )
    if all(name.startswith("z") for name in too_large):
        return "forward steps forgotten", (
            f"{told} Only steps forward take more: the values in passing need room as well."
        )
    if not feasible:
        return "no plan fits", f"{told} There is none within it: then the answer is None."
    if not any(isinstance(item, list) for item in plan):
        return "no bracket", (
            f"{told} There is no bracket in it, so everything is kept. Are brackets lost where the parts "
            "are joined? Or is the room of the later stages not less what is kept beside them?"
        )
    if _ends_closed(plan):
        return "rest in a bracket", (
            f"{told} It ends in a bracket. What comes after the first value kept stands beside the "
            "first item, in the same list."
        )
    first = plan_schedule(plan)[price.peak_step][1]
    return "over the budget", (
        f"{told} That is where {first} is made. Is the room of the later stages less what is kept "
        "beside them, and are both gradients of a step backward in it?"
    )


def _ends_closed(plan: list) -> bool:
    """Whether there are two items, and the last is a bracket around more than one stage."""
    return len(plan) == 2 and isinstance(plan[-1], list) and len(list(stages_of(plan[-1]))) > 1


def _too_slow(
    chain: Chain, budget_bytes: int, plan: list, price: Price, best: Price
) -> tuple[str, str]:
    from course_utils.remat.planners import persistent_optimum

    told = (
        f"The plan {plan} is within {budget_bytes} bytes, and its recomputed time is "
        f"{price.recomputed_time}. There is one with {best.recomputed_time}."
    )
    if price.recomputed_time == _best_one_level(chain, budget_bytes):
        return "one level of brackets", f"{told} That one has a bracket in a bracket."
    if _ends_closed(plan):
        return "rest in a bracket", (
            f"{told} Yours ends in a bracket. What comes after the first value kept stands beside the "
            "first item, in the same list."
        )
    try:
        with_input = persistent_optimum(chain, budget_bytes - chain.activation_bytes[0]).price
    except InfeasibleBudget:
        with_input = None
    smaller = price.peak_bytes <= budget_bytes - chain.activation_bytes[0]
    if smaller and with_input and price.recomputed_time == with_input.recomputed_time:
        return "input counted", f"{told} This is the best one if z_0 had to fit in as well."
    return "not the best", (
        f"{told} Which first value to keep did you not try, which time do you count that is not spent, "
        "or which part gets too little room?"
    )


def _best_one_level(chain: Chain, budget_bytes: int) -> float | None:
    """The least time of plans without brackets in brackets; inf: there is none. None: too many to try."""
    stages, best = chain.stages, math.inf
    if stages > 9:
        return None
    for kept in range(2 ** (stages - 1)):
        bounds = [0, *(t for t in range(1, stages) if kept >> (t - 1) & 1), stages]
        closed = [list(range(a + 1, b + 1)) for a, b in zip(bounds, bounds[1:])]
        for plan in (closed, [*closed[:-1], *closed[-1]]):
            price = price_of(chain, plan)
            if price.peak_bytes <= budget_bytes:
                best = min(best, price.recomputed_time)
    return best


EXERCISE = Exercise(
    "4.4", "the best plan under a budget", 5, _cases, _run, _judge, returns_none=True
)
