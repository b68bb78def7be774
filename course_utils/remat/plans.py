"""Plans for a chain, written with brackets.

A plan names the stages in their order, and a bracket says: do not keep what is inside, compute it again.

    [1, 2, 3, 4, 5, 6]          keep everything
    [[1, 2, 3], [4, 5, 6]]      two segments: of each, only its input is kept
    [[[1, 2], 3], 4, 5, 6]      a bracket in a bracket is opened later still

What is kept is the input of every item, a stage or a bracket, until that item's step backward is done. When
the way back comes to a bracket, its inside becomes a plan: the forward pass runs through it again, from
the input that was kept, now by the inside's own brackets. So every such plan is *persistent*: what is once
kept stays until it is consumed.
"""

from collections.abc import Iterator, Sequence

from course_utils.remat.model import Step

Plan = Sequence["int | Plan"]


def stages_of(plan: Plan) -> Iterator[int]:
    """The stages of a plan in their order, without the brackets."""
    for item in plan:
        if isinstance(item, int):
            yield item
        else:
            yield from stages_of(item)


def plan_schedule(plan: Plan) -> list[Step]:
    """The schedule of a plan for the graph of a chain, from z_1 to the loss and back to g_0.

    Raises ValueError unless the plan names the stages 1, 2, ..., T once each, in this order.
    """
    stages = list(stages_of(plan))
    if stages != list(range(1, len(stages) + 1)):
        named, last = set(stages), max(stages)
        missing = next(t for t in range(1, len(stages) + 2) if t not in named)
        told = f"stage {missing} is missing in {stages}" if missing < last else f"not {stages}"
        raise ValueError(f"a plan names the stages 1 to {last} in their order, each once: {told}")
    last = len(stages)
    loss = [("compute", f"g{last}")]
    if last:
        loss.append(("drop", f"z{last}"))
    return [*_forward(plan, keep_output=True), *loss, *_backward(plan)]


def _forward(plan: Plan, keep_output: bool) -> Iterator[Step]:
    """Through all items; afterwards the input of each is alive, and the last output, if it is wanted."""
    for position, item in enumerate(plan):
        inside = list(stages_of([item]))
        is_last = position == len(plan) - 1
        if is_last and not keep_output:
            inside = []  # only the inputs are wanted: the last item need not run
        for t in inside:
            yield ("compute", f"z{t}")
            if t > inside[0]:
                yield ("drop", f"z{t - 1}")


def _backward(plan: Plan) -> Iterator[Step]:
    """Back through all items, the last first, given their inputs and the gradient of the last output."""
    for item in reversed(plan):
        if isinstance(item, int):
            yield ("compute", f"g{item - 1}")
            yield ("drop", f"g{item}")
            if item > 1:
                yield ("drop", f"z{item - 1}")
        else:
            yield from _forward(item, keep_output=False)
            yield from _backward(item)
