"""4.3: recursive halving. Any plan passes whose memory grows like the logarithm at halving's price."""

import math

from course_utils.checks.core import Case, Exercise, Measure, Observation, Verdict, passed
from course_utils.checks.judging import over_budget
from course_utils.checks.observe import observe
from course_utils.checks.optimal_rematerialization.brackets import (
    NoPlan,
    periodic,
    price_of,
    read_plan,
)
from course_utils.remat.model import Chain
from course_utils.remat.plans import plan_schedule

_STAGES = (1, 2, 3, 4, 7, 8, 16, 21, 64, 100, 256, 1000)


def _cases(seed: int) -> list[Case]:
    return [
        Case(f"{stages} equal stage{'s' * (stages > 1)}", {"stages": stages}) for stages in _STAGES
    ]


def _run(answer, case: Case) -> Observation:
    return observe(answer, case.given["stages"])


def most_values(stages: int) -> int:
    """The budget for the peak, in values: one more than plain halving takes."""
    return math.ceil(math.log2(stages)) + 3


def most_recomputed(stages: int) -> float:
    """The budget for what is computed again: (stages / 2) log2(stages), rounded up."""
    return stages * math.ceil(math.log2(stages)) / 2


def _judge(case: Case, seen: Observation) -> Verdict:
    stages = case.given["stages"]
    try:
        plan = read_plan(seen.value, stages)
    except NoPlan as no:
        return no.verdict
    price = price_of(Chain.uniform(stages), plan)
    most_peak, most_again = most_values(stages), most_recomputed(stages)
    peak = Measure(price.peak_bytes, "values", most_peak, min(3, stages + 1))
    again = Measure(price.recomputed_values, "stages", most_again)
    cause = why = ""
    if price.peak_bytes > most_peak or price.recomputed_values > most_again:
        cause, why = _likely_cause(plan, stages, price.recomputed_values)
    told = (
        f"Of {stages} equal stages {price.peak_bytes} values are alive at the peak, and "
        f"{price.recomputed_values} stages are computed again; allowed are {most_peak} and "
        f"{most_again:g}. "
    )
    shown = {f"{stages} stages: peak": peak} if stages >= 64 else {}
    if stages == 64:
        shown["64 stages: computed again"] = again
    return (
        over_budget("peak", peak, cause or "peak grows too fast", told + why)
        or over_budget("computed again", again, cause or "computed too often", told + why)
        or passed(**shown)
    )


def _likely_cause(plan: list, stages: int, recomputed: int) -> tuple[str, str]:
    if recomputed == 0:
        return "everything kept", (
            "Nothing is computed again, so everything is kept: a bracket around one stage drops nothing."
        )
    schedule = plan_schedule(plan)
    for middle in (lambda n: n // 2, lambda n: (n + 1) // 2):
        if schedule == plan_schedule(_halved(1, stages, lambda a, b: [*a, b], middle)):
            return "wrong half closed", (
                "The second half is in the bracket, and the first is kept through all of it. "
                "Which of the two is needed at once?"
            )
    halves = [list(range(1, middle + 1)) for middle in (stages // 2, (stages + 1) // 2)]
    if any(plan == [half, *range(len(half) + 1, stages + 1)] for half in halves):
        return "one level only", "Only the whole chain was halved. Each half is a chain again."
    for middle in (lambda n: n // 2, lambda n: (n + 1) // 2):
        first_only = _halved(1, stages, lambda a, b: [a, *_flat(b)], middle)
        second_only = _halved(1, stages, lambda a, b: [_flat(a), *b], middle)
        if plan in (first_only, second_only):
            return "one half only", "One half was halved again, the other was not. Both are chains."
    if any(schedule == plan_schedule(periodic(stages, p)) for p in range(1, stages + 1)):
        return "one level of brackets", (
            "There is one level of brackets here, so at best the peak grows like a square root."
        )
    return "", "Follow one early stage: how many brackets are around it, and how many values wait?"


def _halved(first: int, last: int, join, middle) -> list:
    if first >= last:
        return list(range(first, last + 1))
    half = first + middle(last - first + 1)
    return join(_halved(first, half - 1, join, middle), _halved(half, last, join, middle))


def _flat(plan: list) -> list:
    flat = []
    for item in plan:
        flat += _flat(item) if isinstance(item, list) else [item]
    return flat


EXERCISE = Exercise("4.3", "recursive halving", 3, _cases, _run, _judge)
