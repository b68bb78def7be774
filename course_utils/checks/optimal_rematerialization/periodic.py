"""4.2: the best of the periodic plans. The square root of the count is one of them, seldom the best."""

import math

import numpy as np

from course_utils.checks.core import Case, Exercise, Observation, Verdict, failed, passed
from course_utils.checks.observe import observe
from course_utils.checks.optimal_rematerialization.brackets import (
    NoPlan,
    periodic,
    price_of,
    read_plan,
)
from course_utils.remat.model import Chain
from course_utils.remat.plans import plan_schedule

_VGG = [6, 128, 128, 32, 64, 64, 16, 32, 32, 32, 8, 16, 16, 16, 4, 4, 4, 4, 1]


def _cases(seed: int) -> list[Case]:
    rng = np.random.default_rng([seed, 42])

    def one(name: str, times: list, sizes: list) -> Case:
        return Case(f"{name}, {len(times)} stages", {"times": times, "sizes": sizes})

    def drawn(stages: int) -> Case:
        times, sizes = rng.integers(1, 9, stages), rng.integers(1, 60, stages + 1)
        return one("uneven", times.tolist(), sizes.tolist())

    return [
        one(
            "large values first",
            [1, 20, 1, 10, 20, 1, 10, 20, 20, 1, 10, 20, 20, 1, 5, 5, 5, 1],
            _VGG,
        ),
        one("equal", [1] * 16, [1] * 17),
        one("equal", [1] * 23, [1] * 24),
        one("large values last", [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5], _VGG[::-1][:12]),
        one("one", [2], [3, 4]),
        one("two", [2, 3], [3, 9, 1]),
        one("a long segment is best", [4, 3, 1, 5, 8, 2, 2], [3, 3, 1, 2, 9, 7, 9, 5]),
        one("nothing is gained", [1, 8, 7, 8, 1], [2, 8, 3, 1, 1, 3]),
        one("equal peaks", [6, 3, 2, 3, 6, 1, 4, 1], [1, 7, 9, 1, 3, 2, 4, 2, 8]),
        drawn(14),
        drawn(14),
        drawn(15),
    ]


def _run(answer, case: Case) -> Observation:
    return observe(answer, list(case.given["times"]), list(case.given["sizes"]))


def _judge(case: Case, seen: Observation) -> Verdict:
    chain = Chain(case.given["times"], case.given["sizes"])
    stages = chain.stages
    try:
        plan = read_plan(seen.value, stages)
    except NoPlan as no:
        return no.verdict
    prices = {}
    for period in range(1, stages + 1):
        price = price_of(chain, periodic(stages, period))
        prices[period] = price.peak_bytes, price.recomputed_time
    best = min(prices.values())
    schedule = plan_schedule(plan)  # a bracket around one stage changes nothing
    found = [p for p in prices if plan_schedule(periodic(stages, p)) == schedule]
    if not found:
        return _not_periodic(schedule, stages)
    peak, time = prices[found[0]]
    if (peak, time) == best:
        return passed()
    told = (
        f"Segments of {found[-1]}: peak {peak:,} bytes, recomputed time {time:,}. There is a periodic plan "
        f"with {best[0]:,} bytes and {best[1]:,}."
    )
    between = [prices[p] for p in range(2, stages)]
    if best[1] == 0 and (peak, time) == min(between, default=None):
        return failed("p = 1 untried", f"{told} It keeps everything: p = 1 and p = T count too.")
    if peak == best[0]:
        return failed(
            "tie not broken", f"{told} Among plans of equal peak, the least time is asked for."
        )
    half = (stages + 1) // 2
    if (peak, time) == min(prices[p] for p in range(1, half + 1)):
        return failed(
            "long segments untried",
            f"{told} Its segments have more than {half} stages: try every p from 1 to {stages}.",
        )
    roots = {math.isqrt(stages), round(math.sqrt(stages)), math.ceil(math.sqrt(stages))}
    if roots & set(found):
        return failed(
            "square root of the count",
            f"{told} The square root of the number of stages is best where all values are alike. "
            "These are not.",
        )
    if len(found) > 1 or time == 0:
        return failed("everything kept", f"{told} This plan drops nothing.")
    return failed("not the least peak", told)


def _not_periodic(schedule: list, stages: int) -> Verdict:
    for period in range(1, stages + 1):
        *closed, last = _segments(stages, period)
        if schedule == plan_schedule([*closed, last]):
            return failed(
                "last segment closed",
                "The last segment is in a bracket too. It is to stay open: the way back begins with it.",
            )
        if schedule == plan_schedule(_from_the_end(stages, period)):
            return failed(
                "short segment first",
                f"The segments of {period} are counted from the end. Begin at stage 1: the last segment "
                "is the one that may be shorter.",
            )
    return failed(
        "not periodic",
        "The plan is no periodic one: every segment has the same number of stages, but for the last, "
        "which may be shorter.",
    )


def _segments(stages: int, period: int) -> list[list[int]]:
    numbers = list(range(1, stages + 1))
    return [numbers[start : start + period] for start in range(0, stages, period)]


def _from_the_end(stages: int, period: int) -> list:
    numbers = list(range(1, stages + 1))
    first = stages % period
    segments = [numbers[:first]] if first else []
    segments += [numbers[i : i + period] for i in range(first, stages, period)]
    return [*segments[:-1], *segments[-1]]


EXERCISE = Exercise("4.2", "the best period", 3, _cases, _run, _judge)
