"""The checkpoint playground: keep a value or discard it, and see peak, price and schedule at once.

What every choice of values to keep comes to was found by the simulator and is stored (tests/record_checkpoints
does it), and so are the best schedules of all, from the exhaustive search. The drawing only looks up. Where
memory and time stand beside the best that anyone can do, everybody may see; the best schedules themselves
travel along only when the exercise that asks for them is passed.
"""

import json
import math
import os
from functools import cache
from pathlib import Path

from course_utils.checks import record
from course_utils.remat.model import Chain, Graph, Schedule
from course_utils.remat.training import Operation, training_graph
from course_utils.schedule_plots import memory_time_front
from course_utils.widgets.base import show, table

__all__ = ["WAYS", "choices", "graph_of", "keep_or_discard", "playground_data", "unpack_schedule"]

TRACES = Path(__file__).with_name("traces")
MB = 10**6
NETWORKS = {  # name -> title, and the exercise that asks for its best schedules
    "equal": ("eight equal layers", "4.4"),
    "uneven": ("eight layers that differ", "4.4"),
    "skip": ("a U with a skip", "4.5"),
}
WAYS = {  # how what was discarded comes back
    "together": "a segment at a time",  # what is made on the way stays until it is read
    "alone": "each by itself",
}
FIRST, FIRST_DROP = ord("a"), ord("A")


@cache
def graph_of(name: str) -> Graph:
    """The training step of a network of the playground. Times are products, or units of one."""
    if name == "equal":
        return Chain.uniform(8, nbytes=4000 * 128 * 8).graph()
    if name == "uneven":
        sizes = [3, 6, 2, 5, 4, 1, 4, 2, 2]
        return Chain([1, 3, 2, 4, 1, 5, 2, 3], [size * MB for size in sizes]).graph()
    if name == "skip":
        return training_graph(_u_operations(top=8 * MB, bottom=2 * MB), {"x": 8 * MB})
    raise ValueError(f"there is no network {name!r}: the playground has {', '.join(NETWORKS)}")


def _u_operations(top: int, bottom: int) -> dict[str, Operation]:
    def dense(read: str, name: str, time: float, nbytes: int) -> Operation:
        return Operation(time, nbytes, (read,), {read: (read, name)}, weights=True)

    return {
        "encode": dense("x", "encode", 8, top),
        "pool": Operation(1, bottom, ("encode",), {"encode": ()}),
        "deep": dense("pool", "deep", 2, bottom),
        "up": Operation(1, top, ("deep",), {"deep": ()}),
        "skip": Operation(1, top, ("encode", "up"), {"encode": (), "up": ()}, is_sum=True),
        "decode": dense("skip", "decode", 8, top),
    }


def choices(graph: Graph) -> list[str]:
    """The values that one can keep or discard: all of the way forward, but for the last one."""
    return [name for name, value in graph.values.items() if not value.once][:-1]


def keep_or_discard(*names: str) -> None:
    """Show the playground for these networks; in its stead the picture of all choices, and a table."""
    data = playground_data(*names)
    rows = [
        [
            f"{network['title']}, {budget / MB:.3g} MB",
            _percent(network, sets),
            _percent(network, best),
        ]
        for network in data["networks"]
        for budget, sets, best in _by_budget(network)
    ]
    heads = ["within", "best choice of what to keep", "best schedule of all"]
    show(
        "checkpoint_playground",
        data,
        lambda: [_draw(network) for network in data["networks"]],
        table("Computed again, in percent of the forward pass", heads, rows),
        alts=[_words(network) for network in data["networks"]],
        step=2 ** len(data["networks"][0]["choices"]) - 1,
    )


def playground_data(*names: str) -> dict:
    """The networks as the script reads them.

    values: name, bytes, time, reads, lane (the value that it is, or is the gradient of). choices: indices of
    values. runs: way -> for each set of choices, as bits, [peak, time again, values again, schedule].
    sets, all: [peak, time again] of the best choices, and of the best schedules of all. best: those
    as in runs, or nothing. onSite: is it for a page, where no exercise can be passed?
    """
    states = record.load()["exercises"]
    on_site = bool(os.environ.get("COURSE_SITE"))
    networks = []
    for name in names:
        title, exercise = NETWORKS[name]
        graph, stored = graph_of(name), _stored()[name]
        has_passed = states.get(exercise) == "passed" and not on_site
        networks.append(
            {
                "title": title,
                "values": _values(graph),
                "choices": [list(graph.values).index(choice) for choice in choices(graph)],
                "forward": sum(value.time for value in graph.values.values() if not value.once),
                "runs": stored["runs"],
                "sets": _stairs([run[:2] for runs in stored["runs"].values() for run in runs]),
                "all": stored["all"],
                "best": stored["best"] if has_passed else [],
                "exercise": exercise,
            }
        )
    return {"ways": WAYS, "networks": networks, "onSite": on_site}


def unpack_schedule(graph: Graph, packed: str) -> Schedule:
    """Steps from letters: a computes the first value, A drops it."""
    names = list(graph.values)
    return [
        ("drop", names[ord(letter) - FIRST_DROP])
        if letter.isupper()
        else ("compute", names[ord(letter) - FIRST])
        for letter in packed
    ]


def pack_schedule(graph: Graph, schedule: Schedule) -> str:
    """The steps as letters, for `unpack_schedule`."""
    names = list(graph.values)
    firsts = {"compute": FIRST, "drop": FIRST_DROP}
    return "".join(chr(firsts[action] + names.index(name)) for action, name in schedule)


@cache
def _stored() -> dict:
    return json.loads((TRACES / "checkpoints.json").read_text("utf-8"))


def _values(graph: Graph) -> list[dict]:
    forward = [name for name, value in graph.values.items() if not value.once]
    lanes = {name: name for name in forward}
    lanes |= {f"d_{name}": name for name in forward} | {f"g{name[1:]}": name for name in forward}
    return [
        {
            "name": name,
            "bytes": value.nbytes,
            "workspace": value.workspace_bytes,
            "reads": list(value.reads),
            "gradient": value.once,
            "lane": lanes.get(name, name),
        }
        for name, value in graph.values.items()
    ]


def _stairs(points: list[list]) -> list[list]:
    """Of all points those that no other beats in both, by memory."""
    stairs: list[list] = []
    for peak, time in sorted(map(tuple, points)):
        if not stairs or time < stairs[-1][1]:
            stairs.append([peak, time])
    return stairs


def _by_budget(network: dict) -> list[tuple[int, float | None, float]]:
    """(budget, least time of a choice, least time of all) for every budget at which one of them changes."""

    def least(stairs: list, budget: int) -> float | None:
        return min((time for peak, time in stairs if peak <= budget), default=None)

    budgets = sorted({peak for peak, _ in network["sets"] + network["all"]})
    return [(b, least(network["sets"], b), least(network["all"], b)) for b in budgets]


def _percent(network: dict, time: float | None) -> str:
    return "none" if time is None else f"{100 * time / network['forward']:.3g} %"


def _words(network: dict) -> str:
    """What the picture shows; its numbers are in the table."""
    told = [
        f"{what} from {_percent(network, stairs[0][1])} at {stairs[0][0] / MB:.3g} MB "
        f"to {_percent(network, stairs[-1][1])} at {stairs[-1][0] / MB:.3g} MB"
        for what, stairs in (("choices", network["sets"]), ("schedules of all", network["all"]))
    ]
    return (
        f"Choices of what to keep, {network['title']}: computed again, of the forward pass, against the peak. "
        f"Points for all choices; stairs for the best {'; for the best '.join(told)}."
    )


def _draw(network: dict) -> None:
    def shares(points: list, most: float = math.inf) -> list[tuple[float, float]]:
        found = {(peak / MB, time / network["forward"]) for peak, time, *_ in points}
        return sorted(point for point in found if point[1] <= most)

    highest = max(1, *(time / network["forward"] for _, time in network["sets"]))
    memory_time_front(
        {"best choices": shares(network["sets"]), "best schedules of all": shares(network["all"])},
        {
            f"brought back {WAYS[way]}": shares(runs, most=highest)
            for way, runs in network["runs"].items()
        },
        xlabel="peak, MB",
        ylabel="computed again, share of the forward pass",
        title=f"Choices of what to keep: {network['title']}",
    )
