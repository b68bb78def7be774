"""4.5: a schedule for a U-shaped graph. `simulate` says whether it runs, the exhaustive search how good it is."""

import random

from course_utils.checks.core import Case, Exercise, Measure, Observation, Verdict, failed, passed
from course_utils.checks.judging import say
from course_utils.checks.observe import observe
from course_utils.remat.drops import computations, with_early_drops
from course_utils.remat.model import Graph
from course_utils.remat.simulate import InvalidSchedule, simulate
from course_utils.remat.training import Operation, training_graph

_SLOWER_THAN_OPTIMUM = 1.2  # one choice of what to keep comes within 1.17 on every U that is drawn
_MOST_STEPS = 10_000
_BROKEN_RULES = {
    "which was dropped": "dropped too early",
    "not computed yet": "order broken",
    "a second time": "gradient made twice",
    "alive already": "computed while alive",
    "it is not alive": "dropped twice",
    "at the end": "result missing",
}


def _cases(seed: int) -> list[Case]:
    draw = random.Random(f"U {seed}")

    def case(name: str, share: float) -> Case:
        top = draw.randint(4, 9)
        given = {"top": top, "bottom": draw.randint(1, top // 2), "share": share}
        return Case(name, given | {t: draw.randint(4, 12) for t in ("encode", "deep", "decode")})

    return [
        case("a U with all the memory that it wants", 1.0),
        case("a U with most of it", 0.75),
        case("another U, half way down to the smallest budget", 0.5),
        case("another U, nearly at the smallest budget", 0.2),
        case("the smallest budget of all", 0.0),
    ]


def u_graph(case: Case) -> Graph:
    """encode, pool, deep, up, skip (encode + up), decode, and the way back."""
    top, bottom = case.given["top"], case.given["bottom"]

    def dense(read: str, name: str, nbytes: int) -> Operation:
        return Operation(case.given[name], nbytes, (read,), {read: (read, name)}, weights=True)

    operations = {
        "encode": dense("x", "encode", top),
        "pool": Operation(1, bottom, ("encode",), {"encode": ()}),
        "deep": dense("pool", "deep", bottom),
        "up": Operation(1, top, ("deep",), {"deep": ()}),
        "skip": Operation(1, top, ("encode", "up"), {"encode": (), "up": ()}, is_sum=True),
        "decode": dense("skip", "decode", top),
    }
    return training_graph(operations, {"x": top})


def budget_bytes(case: Case) -> int:
    """From the smallest, four values of the upper level, to what keeping everything takes."""
    graph, least = u_graph(case), 4 * case.given["top"]
    most = simulate(graph, with_early_drops(graph, list(graph.values))).peak_bytes
    return least + int(case.given["share"] * (most - least))


def _run(answer, case: Case) -> Observation:
    graph = u_graph(case)
    seen = observe(answer, graph, budget_bytes(case))
    seen.changed_input = seen.changed_input or graph != u_graph(case)
    return seen


def _steps(value: object) -> list[tuple[str, str]] | str:
    """The steps as pairs of plain text; or, where they are none, what was there instead."""
    try:
        if not isinstance(value, list | tuple):
            return f"got {type(value).__name__}"
        steps = []
        for number, step in enumerate(value):
            if not isinstance(step, list | tuple) or len(step) != 2:
                return f"but item {number} is of type {type(step).__name__} and no pair"
            action, name = step
            if not (isinstance(action, str) and isinstance(name, str)):
                return f"but item {number} holds something that is no text"
            steps.append((str.__str__(action), str.__str__(name)))
    except Exception:  # iterating may be the student's own
        return f"got {type(value).__name__}"
    return steps


def _judge(case: Case, seen: Observation) -> Verdict:
    from course_utils.remat.exhaustive import exhaustive_optimum

    graph, budget = u_graph(case), budget_bytes(case)
    schedule = _steps(seen.value)
    if isinstance(schedule, str):
        return failed(
            "wrong type",
            f'Expected a list of steps such as ("compute", "pool") or ("drop", "pool"), {schedule}.',
        )
    if len(schedule) > _MOST_STEPS:
        return failed("too many steps", f"The schedule has {len(schedule):,} steps.")
    try:
        price = simulate(graph, schedule)
    except InvalidSchedule as broken:
        rules = (cause for words, cause in _BROKEN_RULES.items() if words in str(broken))
        return failed(next(rules, "invalid schedule"), f"The schedule cannot be run: {broken}.")
    peak = Measure(price.peak_bytes, "bytes", budget)
    if price.peak_bytes > budget:
        return _over_budget(graph, schedule, budget, peak)
    optimum = exhaustive_optimum(graph, budget).price
    time = Measure(price.time, "time", _SLOWER_THAN_OPTIMUM * optimum.time, optimum.time)
    if price.time > time.at_most:
        again = ", ".join(f"{name} {count}" for name, count in price.recomputed.items())
        return failed(
            "recomputes too much",
            f"The schedule takes {say(price.time, 'units')} of time, and {say(optimum.time, 'units')} "
            f"are possible under {budget} bytes; 20 % more is allowed. Made again: {again}. Could some of "
            f"it have stayed? The peak is {price.peak_bytes}.",
            **{"time": time},
        )
    return passed(**{"peak": peak, "time": time})


def _over_budget(graph: Graph, schedule: list, budget: int, peak: Measure) -> Verdict:
    price = simulate(graph, schedule)
    early = simulate(graph, with_early_drops(graph, computations(schedule)))
    name = schedule[price.peak_step][1]
    told = f"While {name} is made, {price.peak_bytes} bytes are alive, and the budget is {budget}."
    if early.peak_bytes <= budget:
        return failed(
            "dropped too late",
            f"{told} The same computations fit if every value goes as soon as its last reader has run.",
            peak=peak,
        )
    if not price.recomputed:
        return failed(
            "nothing given up",
            f"{told} Every value is made once and waits for its last reader. Which could be made again?",
            peak=peak,
        )
    return failed("over budget", f"{told} Something is there that is not needed yet.", peak=peak)


EXERCISE = Exercise("4.5", "a U under a budget", 3, _cases, _run, _judge, optional=True)
