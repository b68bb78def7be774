"""3.5: checkpointed reverse mode (AD1-23), without an engine. The log of calls tells what went wrong."""

import numpy as np

from course_utils.checks.core import Case, Exercise, Measure, Observation, Verdict, failed, passed
from course_utils.checks.judging import close, left_behind, over_budget, peak, say, wrong_array
from course_utils.checks.rematerialization.stages import LARGE, cases, oracle, run


def _judge(case: Case, seen: Observation) -> Verdict:
    expected, gradients, sums = oracle(case)
    wrong = _wrong_calls(case, seen) or _wrong_shape(case, seen)
    if wrong:
        return _block_left_out(case, seen) or wrong
    wrong = wrong_array(seen.value, expected, what="dL/dz_0")
    if wrong:
        return _wrong_state(case, seen, sums) or wrong
    for t, (actual, right) in enumerate(zip(seen.more["gradients"], gradients), 1):
        if not close(np.array(actual, dtype=float), np.array(right)):
            return failed(
                "wrong gradient of a stage",
                f"Stage {t} collected {actual:.6g}, expected {right:.6g}: it was given another state or gradient "
                "than its own.",
            )
    wrong = _wrong_count(case, seen)
    if wrong or case.given["shape"] != (LARGE,):
        return wrong or passed()
    return _judge_memory(case, seen)


def _block_left_out(case: Case, seen: Observation) -> Verdict | None:
    checkpoints, stages = case.given["checkpoints"], case.given["stages"]
    done = {call[1] for call in seen.more["log"] if call[0] == "backward"}
    if checkpoints and done == set(range(checkpoints[0] + 1, stages + 1)):
        return failed(
            "first block left out",
            f"No backward of the stages 1 to {checkpoints[0]} was called: what came is the gradient of "
            f"z_{checkpoints[0]}, not of z_0. Before the first checkpoint there is a block, too.",
        )
    if checkpoints and done == set(range(1, checkpoints[-1] + 1)):
        return failed(
            "last block left out",
            f"No backward of the stages {checkpoints[-1] + 1} to {stages} was called. After the last checkpoint "
            "there is a block, too. Where does it end?",
        )
    return None


def _wrong_state(case: Case, seen: Observation, sums: list[float]) -> Verdict | None:
    """The first backward that was not given the state that went in, and which one it was given."""
    calls = [(call[1], *call[3:]) for call in seen.more["log"] if call[0] == "backward"]
    given = {}
    for t, z_sum, _ in calls:
        near = [k for k, right in enumerate(sums) if abs(z_sum - right) < 1e-9 * (1 + abs(right))]
        given[t] = t - 1 if t - 1 in near else near[0] if near else None
    wrong = [t for t, k in given.items() if k != t - 1]
    after_checkpoint = [t for t in wrong if t - 1 in case.given["checkpoints"]]
    known = [t for t in after_checkpoint if given[t] is not None]
    if all(k == t for t, k in given.items()):
        return failed(
            "state off by one",
            "Each stage's backward was given the stage's own output. It wants the state that went in.",
        )
    if known:
        t = known[0]
        return failed(
            "checkpoint off by one",
            f"The backward of stage {t}, the first after checkpoint {t - 1}, was given z_{given[t]}. What is stored "
            f"under the number {t - 1}?",
        )
    if wrong:
        got = "another state" if given[wrong[0]] is None else f"z_{given[wrong[0]]}"
        return failed(
            "another state",
            f"The backward of stage {wrong[0]} was given {got}. It wants z_{wrong[0] - 1}, the state that went in.",
        )
    size = float(np.prod(case.given["shape"]))
    if abs(calls[0][2] - size) > 1e-9 * size:
        return failed(
            "first gradient",
            f"All states are right. The gradient that the last stage's backward was given has the sum "
            f"{calls[0][2]:.6g}, and dL/dz_T has {size:g}: L is the sum of the elements of z_T.",
        )
    return None


def _wrong_shape(case: Case, seen: Observation) -> Verdict | None:
    for kind, t, shape, *_ in seen.more["log"]:
        if kind == "backward" and shape != case.given["shape"]:
            return failed(
                "gradient of another shape",
                f"The backward of stage {t} was given a gradient of shape {shape}; a state's is "
                f"{case.given['shape']}, and a gradient has one number for each of its elements.",
            )
    return None


def _wrong_calls(case: Case, seen: Observation) -> Verdict | None:
    calls = [call[1] for call in seen.more["log"] if call[0] == "backward"]
    for t in range(1, case.given["stages"] + 1):
        if calls.count(t) != 1:
            return failed(
                "backward not once",
                f"The backward of stage {t} was called {calls.count(t)} times. Every stage has one step.",
            )
    if calls != sorted(calls, reverse=True):
        return failed(
            "wrong order", "The backward steps did not run from the last stage to the first."
        )
    return None


def _count(case: Case, seen: Observation) -> Measure:
    done = sum(call[0] == "forward" for call in seen.more["log"])
    stages = case.given["stages"]  # z_T itself is never read
    return Measure(done, "forward steps", 2 * stages, stages - 1)


def _wrong_count(case: Case, seen: Observation) -> Verdict | None:
    measure, stages = _count(case, seen), case.given["stages"]
    if measure.value < measure.at_least:
        return failed(
            "stages left out",
            f"{measure.value} forward steps were called; all states but z_{stages} are read, and take one each.",
        )
    calls = [call[1] for call in seen.more["log"] if call[0] == "forward"]
    bounds = [0, *case.given["checkpoints"], stages]
    per_state = stages + sum((b - a) * (b - a - 1) // 2 for a, b in zip(bounds, bounds[1:]))
    from_start = calls.count(1) > 2
    cause = "too many forward steps"
    if from_start and case.given["checkpoints"]:
        cause = "from the input every time"
    elif measure.value >= per_state:
        cause = "each state alone"
    wrong = over_budget(
        "forward steps",
        measure,
        cause,
        f"{measure.value} forward steps for {stages} stages: more than two passes. A block is computed again "
        "once, from its checkpoint, and then read from its end to its beginning.",
    )
    return wrong or _past_a_checkpoint(case, seen)


def _past_a_checkpoint(case: Case, seen: Observation) -> Verdict | None:
    calls = [call[:2] for call in seen.more["log"]]
    pairs = list(zip(calls, calls[1:]))
    for c in case.given["checkpoints"]:
        if pairs.count((("forward", c), ("forward", c + 1))) > 1:
            return failed(
                "other checkpoints",
                f"z_{c} was computed again on the way to z_{c + 1}. But {c} is one of the checkpoints: it is stored, "
                "and a block begins there.",
            )
    return None


def _judge_memory(case: Case, seen: Observation) -> Verdict:
    state_bytes, checkpoints = LARGE * 8, case.given["checkpoints"]
    bounds = [0, *checkpoints, case.given["stages"]]
    longest = max(b - a for a, b in zip(bounds, bounds[1:]))
    arrays = seen.peak_bytes / state_bytes
    name = f"peak, checkpoints {checkpoints}"
    within = peak(seen.peak_bytes, (len(checkpoints) + longest + 4) * state_bytes, 2 * state_bytes)
    all_kept = arrays > case.given["stages"]
    wrong = over_budget(
        name,
        within,
        "kept every state" if all_kept else "block not freed",
        f"At the peak {arrays:.1f} states were alive ({say(seen.peak_bytes)}). There are {len(checkpoints)} "
        f"checkpoints and {longest} stages in the longest block; four more are allowed, for gradients and what is in "
        "use. " + ("It looks as if all were kept." if all_kept else "Is a block still there when the next is "
        "computed, or a state that nobody reads?"),
    ) or left_behind(seen.held_bytes, state_bytes)  # fmt: skip
    return wrong or passed(**{name: within, "forward steps": _count(case, seen)})


EXERCISE = Exercise("3.5", "checkpointed reverse mode", 4, cases, run, _judge)
