"""The price of a schedule, by the rules of `model`: it runs in the head, nothing is computed.

Whatever a planner promises is checked here. The simulator knows nothing of plans, so a plan that breaks a
rule is found out, with the step at which it does.
"""

from collections import Counter
from dataclasses import dataclass

from course_utils.remat.model import Graph, Schedule


class InvalidSchedule(ValueError):
    """A schedule that cannot be run: says which step, and why."""


@dataclass(frozen=True)
class Price:
    """What a schedule costs.

    peak_bytes: the most that is alive at once, inputs apart. peak_step: the first step at which it is.
    time: of all that is computed. recomputed_time: of what is computed beyond the first time.
    recomputed: how many times each value is made beyond the first; values made once are left out.
    alive_bytes: at each step, what is alive during it.
    """

    peak_bytes: int
    peak_step: int
    time: float
    recomputed_time: float
    recomputed: dict[str, int]
    alive_bytes: tuple[int, ...]

    @property
    def recomputed_values(self) -> int:
        """How many computations are repetitions."""
        return sum(self.recomputed.values())


def simulate(graph: Graph, schedule: Schedule) -> Price:
    """The price of a schedule. Raises InvalidSchedule where it breaks a rule of `model`."""
    values, alive, made, alive_bytes = graph.values, set(), Counter(), []
    for number, (action, name) in enumerate(schedule):
        if name not in values:
            raise InvalidSchedule(f"step {number}: there is no value {name!r} to {action}")
        held = sum(values[other].nbytes for other in alive)
        if action == "drop":
            if name not in alive:
                raise InvalidSchedule(f"step {number}: {name} is dropped, but it is not alive")
            alive.remove(name)
        elif action == "compute":
            value = values[name]
            if name in alive:
                raise InvalidSchedule(f"step {number}: {name} is computed, but it is alive already")
            if value.once and made[name]:
                raise InvalidSchedule(f"step {number}: {name} is computed a second time")
            for read in value.reads:
                if read not in alive and read not in graph.inputs:
                    why = "was dropped" if made[read] else "was not computed yet"
                    raise InvalidSchedule(f"step {number}: {name} reads {read}, which {why}")
            held += value.nbytes + value.workspace_bytes
            alive.add(name)
            made[name] += 1
        else:
            raise InvalidSchedule(
                f"step {number}: a step computes or drops, it does not {action!r}"
            )
        alive_bytes.append(held)
    if missing := [name for name in graph.results if name not in alive]:
        raise InvalidSchedule(f"at the end the result {missing[0]} is not alive")
    again = {name: count - 1 for name, count in made.items() if count > 1}
    peak_bytes = max(alive_bytes, default=0)
    return Price(
        peak_bytes=peak_bytes,
        peak_step=alive_bytes.index(peak_bytes) if alive_bytes else 0,
        time=sum(values[name].time * count for name, count in made.items()),
        recomputed_time=sum(values[name].time * count for name, count in again.items()),
        recomputed=again,
        alive_bytes=tuple(alive_bytes),
    )
