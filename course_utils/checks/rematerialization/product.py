"""3.2: a matrix product that discards what it has read. The trap is a value with a second reader."""

from course_utils.checks.core import Case, Exercise, Observation, Verdict, failed, passed
from course_utils.checks.judging import close, wrong_array
from course_utils.checks.rematerialization.chain import judge_chain
from course_utils.checks.rematerialization.pair import arrays, cases, expected, run


def _judge(case: Case, seen: Observation) -> Verdict:
    if case.given.get("chain"):
        return judge_chain(case, seen)
    wrong = _wrong_node(seen) or _lost(case, seen) or _wrong_stage(seen)
    return (
        wrong
        or _wrong_numbers(case, seen)
        or _not_discarded(case, seen)
        or _needless(seen)
        or passed()
    )


def _wrong_node(seen: Observation) -> Verdict | None:
    if not seen.more["is node"]:
        return failed("wrong type", f"Expected a RematTensor, got {seen.more['kind']}.")
    if not seen.more["inputs"] and seen.more["swapped"]:
        return failed(
            "inputs swapped", "The result's `inputs` are (w, x). Whoever reads them expects (x, w)."
        )
    if not seen.more["inputs"]:
        return failed(
            "inputs missing",
            "The result's `inputs` are not the nodes x and w: the backward pass will not find its way to them.",
        )
    if seen.more["stripped"]:
        return failed(
            "rematerializer gone",
            f"{seen.more['stripped'][0]} has lost its rematerializer: its value is gone, and nobody can bring it "
            "back. Only the value is discarded.",
        )
    if seen.more["own rematerializer"]:
        return failed(
            "its own rematerializer",
            "The product gave its result a rematerializer, so every result is discarded. Who decides which "
            "results are kept?",
        )
    return None


def _wrong_stage(seen: Observation) -> Verdict | None:
    stage = seen.more["stage"]
    if stage == "the second product":
        return failed(
            "a second reader",
            "The inputs were read by one product, which discarded values, and then by another one, which came to "
            f"{seen.more['error']}. A product may find an input without a value, the first or the second, or "
            "both. What can it do then?",
        )
    return _wrong_step(seen) if stage else None


def _wrong_step(seen: Observation) -> Verdict:
    told = f"The result's `_backward` came to {seen.more['error']}."
    kind = seen.more["error"].partition(":")[0]
    if gone := seen.more.get("gone"):
        return failed(
            "discarded too early",
            f"{told} x and w had their values when it was called, and then {gone[0]} had none. Was it "
            "discarded before its last reading in the step?",
        )
    if kind == "ValueError":
        return failed(
            "shapes do not fit",
            f"{told} x and w have their values. Write the shapes under the factors: G is (B, M), W is (N, M), X "
            "is (B, N). Which one is transposed?",
        )
    if kind == "TypeError" and (grads := seen.more.get("no grad")):
        return failed(
            "added to None",
            f"{told} {grads[0]}.grad is None before the first share comes: nothing can be added to that.",
        )
    return failed("error in the step", f"{told} x and w have their values.")


def _needless(seen: Observation) -> Verdict | None:
    if "needless" not in seen.more:
        return None
    moment, name = seen.more["needless"]
    return failed(
        "recomputed what was there",
        f"In {moment} the rematerializer of {name} was called, and {name} had its value when it began. In a deep "
        "network that is most of the work.",
    )


def _wrong_numbers(case: Case, seen: Observation) -> Verdict | None:
    given = arrays(case)
    for name, right in expected(case).items():
        actual = seen.value.get(name)
        if name.endswith("grad") and actual is None:
            return failed(
                "gradient missing",
                f"After the step {name} is None. Does the result have a `_backward` that makes it?",
            )
        before = given.get(f"{name} before") if case.given.get("before") else None
        if before is not None and close(actual, right - before):
            return failed(
                "overwrote a gradient", f"{name} held a share already, and it is gone: add to it."
            )
        what = f"the value of {name}" if name.endswith("output") else name
        wrong = wrong_array(actual, right, what=what)
        if wrong:
            return wrong
    return None


def _lost(case: Case, seen: Observation) -> Verdict | None:
    for moment, has_value in seen.more["values"].items():
        for name, there in has_value.items():
            if name != "grad" and name not in case.given["gone"] and not there:
                return failed(
                    "discarded for good",
                    f"After {_said(moment)} {name} has no value, and it has no rematerializer: nobody can "
                    "bring it back. Weights, the input and checkpoints are kept: let go only of what has one.",
                )
    return None


def _not_discarded(case: Case, seen: Observation) -> Verdict | None:
    for moment, has_value in seen.more["values"].items():
        for name, there in has_value.items():
            if name in case.given["gone"] and there:
                return failed(
                    "not discarded",
                    f"After {_said(moment)} {name} still has its value. It was read, and it can be computed "
                    "again.",
                )
        if moment.startswith("step") and has_value["grad"]:
            return failed(
                "gradient not discarded",
                "After its step output.grad is still there, and nobody will read it again.",
            )
    return None


def _said(moment: str) -> str:
    return "its step" if moment.startswith("step") else "the product was made"


EXERCISE = Exercise("3.2", "a product that discards", 4, cases, run, _judge)
