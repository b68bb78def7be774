"""4.6: a plan with brackets run by torch's checkpoint: values, saved bytes, and calls of every block."""

import numpy as np

from course_utils.checks.core import Case, Exercise, Measure, Observation, Verdict, failed, passed
from course_utils.checks.judging import close, say, wrong_array
from course_utils.checks.observe import describe_error
from course_utils.remat.plans import stages_of

_ROWS, _WIDTH = 12, 7


def _cases(seed: int) -> list[Case]:
    plans = {
        "no brackets": [1, 2, 3],
        "two segments": [[1, 2], [3, 4]],
        "a bracket, then blocks that are kept": [[1, 2, 3], 4, 5],
        "a bracket in the middle": [1, [2, 3], 4],
        "brackets in brackets": [[[1, 2], [3, 4]], [5, 6]],
        "one block in a bracket": [[1]],
        "blocks beside a bracket in a bracket": [[1, [2, 3], 4], 5],
        "brackets four deep": [[[[1, 2], 3], 4], 5, 6],
        "an x that needs no gradient": [[1, 2], 3],
    }
    return [
        Case(
            f"{name}: {plan}",
            {"plan": plan, "seed": seed, "number": number, "x_needs_gradient": "no g" not in name},
        )
        for number, (name, plan) in enumerate(plans.items())
    ]


def _arrays(case: Case) -> tuple[np.ndarray, list[np.ndarray]]:
    rng = np.random.default_rng([case.given["seed"], case.given["number"]])
    stages = len(list(stages_of(case.given["plan"])))
    x = rng.standard_normal((_ROWS, _WIDTH))
    return x, [rng.standard_normal((_WIDTH, _WIDTH)) / 2 for _ in range(stages)]


def _run(answer, case: Case) -> Observation:
    import torch

    from course_utils.torch_memory import saved_bytes

    class Residual(torch.nn.Module):
        """x + tanh(x W), which counts its calls."""

        def __init__(self, weight: np.ndarray, number: int) -> None:
            super().__init__()
            self.weight, self.number = torch.nn.Parameter(torch.from_numpy(weight)), number

        def forward(self, x):
            calls[self.number] += 1
            return x + torch.tanh(x @ self.weight)

    def array_of(tensor):
        return None if tensor is None else tensor.detach().numpy().copy()

    array, weights = _arrays(case)
    x = torch.from_numpy(array).requires_grad_(case.given["x_needs_gradient"])
    calls, given = [0] * len(weights), list(map(Residual, weights, range(len(weights))))
    blocks, parameters = torch.nn.ModuleList(given), [block.weight for block in given]
    plan, outputs = _copied(case.given["plan"]), []
    try:
        saved = saved_bytes(lambda: outputs.append(answer(plan, blocks, x)), parameters)
        (output,) = outputs
        if output is None:
            return Observation(value=None)
        if not isinstance(output, torch.Tensor):
            return Observation(value={"type": type(output).__name__})
        if output.layout != torch.strided or output.dtype not in (torch.float32, torch.float64):
            kind = output.dtype if output.layout == torch.strided else output.layout
            return Observation(value={"type": f"one of {kind}"})
        forward_calls = list(calls)
        if output.requires_grad and output.shape == x.shape:
            (0.5 * output.square().sum()).backward()
        value = {
            "output": array_of(output),
            "x.grad": array_of(x.grad),
            "weights": [array_of(weight.grad) for weight in parameters],
        }
    except KeyboardInterrupt:
        raise
    except BaseException as problem:
        return Observation(error=describe_error(problem, answer))

    more = {"saved": saved, "forward": forward_calls, "calls": calls}
    there = [id(block) for block in blocks] == [id(block) for block in given]
    return Observation(value, more=more, changed_input=plan != case.given["plan"] or not there)


def _copied(plan):
    return [_copied(item) if isinstance(item, list) else item for item in plan]


def _expected(case: Case) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """The output and the gradients of x and of the weights, of half the sum of squares."""
    x, weights = _arrays(case)
    inputs, branches = [], []
    for weight in weights:
        inputs.append(x)
        branches.append(np.tanh(x @ weight))
        x = x + branches[-1]
    output, g, gradients = x, x, []
    for x, y, weight in zip(reversed(inputs), reversed(branches), reversed(weights)):
        before_tanh = g * (1 - y * y)
        gradients.append(x.T @ before_tanh)
        g = g + before_tanh @ weight.T
    return output, g, gradients[::-1]


def _most_calls(plan: list, depth: int = 0) -> list[int]:
    """Once forward, and once more for every bracket around it."""
    counts = []
    for item in plan:
        counts += [1 + depth] if isinstance(item, int) else _most_calls(item, depth + 1)
    return counts


def _least_calls(plan: list) -> list[int]:
    """As `_most_calls`, but a bracket that is opened need not run through a bracket at its end again."""
    counts = [1] * len(list(stages_of(plan)))

    def run_again(items: list) -> None:
        for item in items[:-1] if not isinstance(items[-1], int) else items:
            for stage in stages_of([item]):
                counts[stage - 1] += 1
        for item in items:
            if not isinstance(item, int):
                run_again(item)

    for item in plan:
        if not isinstance(item, int):
            run_again(item)
    return counts


def _judge(case: Case, seen: Observation) -> Verdict:
    if not isinstance(seen.value, dict) or "output" not in seen.value:
        got = seen.value["type"] if isinstance(seen.value, dict) else type(seen.value).__name__
        return failed(
            "wrong type",
            f"Expected the last block's output, a dense tensor of its dtype, got {got}.",
        )
    output, x_gradient, weight_gradients = _expected(case)
    actual = seen.value["output"]
    if not close(actual, output):
        return _wrong_output(case, seen, output)
    needed = case.given["x_needs_gradient"]
    pairs = {"x": (seen.value["x.grad"], x_gradient)} if needed else {}
    for stage, pair in enumerate(zip(seen.value["weights"], weight_gradients), start=1):
        pairs[f"block {stage}'s weight"] = pair
    for name, (gradient, expected) in pairs.items():
        if gradient is None:
            why = (
                ""
                if needed
                else " With use_reentrant=True a bracket needs an input with a gradient."
            )
            return failed(
                "gradient missing",
                f"The output is right, but no gradient comes to {name}: somewhere the graph is cut.{why}",
            )
        if wrong := wrong_array(gradient, expected, f"the gradient of {name}"):
            return wrong
    saved = Measure(seen.more["saved"], "bytes")
    return (
        _wrong_calls(seen)
        or _wrong_memory(case, seen)
        or passed(**{"saved after the forward pass": saved})
    )


def _wrong_calls(seen: Observation) -> Verdict | None:
    """Whether every block was called once in the forward pass."""
    forward = seen.more["forward"]
    told = f"In the forward pass the blocks were called {forward} times. The plan names each once."
    if 0 in forward:
        return failed("blocks left out", told)
    return failed("called twice forward", told) if max(forward) > 1 else None


def _wrong_output(case: Case, seen: Observation, output: np.ndarray) -> Verdict:
    if wrong_calls := _wrong_calls(seen):
        return wrong_calls
    wrong = wrong_array(seen.value["output"], output, "the output")
    return wrong or failed("wrong values", "The output is not that of the blocks in their order.")


def _wrong_memory(case: Case, seen: Observation) -> Verdict | None:
    plan, nbytes = case.given["plan"], 8 * _ROWS * _WIDTH
    kept_whole = sum(isinstance(item, int) for item in plan)
    stages, saved = len(list(stages_of(plan))), seen.more["saved"]
    expected = (len(plan) + kept_whole) * nbytes
    measure = {"saved after the forward pass": Measure(saved, "bytes", expected, expected)}
    also = ", and one more array of each block outside brackets" if kept_whole else ""
    told = (
        f"After the forward pass {say(saved)} wait for the backward pass. This plan keeps the input of "
        f"each of its {len(plan)} items{also}: {say(expected)}."
    )
    if saved > expected:
        everything = 2 * stages * nbytes
        cause = "nothing checkpointed" if saved == everything else "kept too much"
        return failed(cause, told, **measure)
    brackets = len(plan) - kept_whole
    if brackets and saved == expected - brackets * nbytes:
        return failed(
            "bracket's input unseen",
            f"{told} The difference is the brackets' inputs. Give them to checkpoint as positional arguments: "
            "what comes by keyword or in a closure is held where autograd does not see it, and so a "
            "bracket in a bracket does not let go of it.",
            **measure,
        )
    if saved < expected:
        return failed("kept too little", f"{told} What stands outside brackets is kept.", **measure)
    calls, most, least = seen.more["calls"], _most_calls(plan), _least_calls(plan)
    counted = (
        f"With the backward pass the blocks were called {calls} times, and the plan says {most}."
    )
    if any(count > allowed for count, allowed in zip(calls, most)):
        return failed("recomputed too often", f"{counted} Which brackets are around each block?")
    if any(count < needed for count, needed in zip(calls, least)):
        return failed(
            "inner brackets ignored",
            f"{counted} A bracket in a bracket is opened in its turn, and then runs once more.",
        )
    return None


EXERCISE = Exercise("4.6", "a plan for torch", 2, _cases, _run, _judge, optional=True)
