"""3.1: before a node's step, its inputs get back the values that were discarded."""

import numpy as np

from course_utils import ag
from course_utils.checks.core import Case, Exercise, Observation, Verdict, failed, passed
from course_utils.checks.judging import wrong_array
from course_utils.checks.observe import observe
from course_utils.counting import CountedArray, counted

_SHAPE = (3, 4)
_GONE = ("gone", "deep")


def _cases(seed: int) -> list[Case]:
    """States of an input: gone; there, though it could be computed again; kept, since it can't be.

    zeros and counted are there as well, deep is gone, and so is its own input.
    """

    def one(name: str, *inputs: str) -> Case:
        return Case(name, {"inputs": inputs, "seed": seed})

    return [
        one("x was discarded, w is there", "x gone", "w kept"),
        one("nothing was discarded", "x there", "w kept"),
        one("x and y were discarded", "x gone", "y gone"),
        one("y was discarded, x is there", "x there", "y gone"),
        one("both inputs are one node, and it was discarded", "x gone", "x gone"),
        one("one input, as the sum has, and it was discarded", "x gone"),
        one("x was discarded, and so was what x is made from", "x deep", "w kept"),
        one("nothing was discarded, and x is all zeros", "x zeros", "w kept"),
        one("nothing was discarded, and x is a counted array", "x counted", "w kept"),
        one("a node without inputs"),
    ]


def _value(case: Case, name: str, state: str = "") -> np.ndarray:
    if state == "zeros":
        return np.zeros(_SHAPE)
    return np.random.default_rng([case.given["seed"], ord(name)]).standard_normal(_SHAPE)


def _run(answer, case: Case) -> Observation:
    calls: dict[str, int] = {}
    inputs: dict[str, ag.RematTensor] = {}

    def make(name: str, state: str) -> ag.RematTensor:
        def rematerializer():
            calls[name] = calls.get(name, 0) + 1
            return _value(case, name, state)

        value = _value(case, name, state)
        tensor = ag.RematTensor(counted(value) if state == "counted" else value)
        if state != "kept":
            tensor.rematerializer = rematerializer
        if state in _GONE:
            tensor.value = None
        if state == "deep":
            tensor.inputs = (make("u", "gone"),)
        return tensor

    for entry in case.given["inputs"]:
        name, state = entry.split()
        if name not in inputs:
            inputs[name] = make(name, state)
    names = [entry.split()[0] for entry in case.given["inputs"]]
    node = ag.RematTensor(np.ones(_SHAPE), inputs=tuple(inputs[name] for name in names))
    node.rematerializer = lambda: calls.update(node=calls.get("node", 0) + 1) or np.ones(_SHAPE)
    node.value = None
    seen = observe(answer, node)
    seen.more["calls"] = calls
    seen.more["inputs kept"] = [id(tensor) for tensor in node.inputs] == [
        id(inputs[name]) for name in names
    ]
    seen.more["no rematerializer"] = [
        name for name, tensor in inputs.items() if getattr(tensor, "rematerializer", None) is None
    ]
    values = {name: getattr(tensor, "value", None) for name, tensor in inputs.items()}
    values = {
        name: np.asarray(value) if isinstance(value, CountedArray) else value
        for name, value in values.items()
    }
    seen.more["is function"] = [name for name, value in values.items() if callable(value)]
    if seen.error is None:
        seen.value = {name: None if callable(value) else value for name, value in values.items()}
    return seen


def _judge(case: Case, seen: Observation) -> Verdict:
    calls = seen.more["calls"]
    if not seen.more["inputs kept"]:
        return failed(
            "inputs replaced",
            "node.inputs is not what it was. The nodes stay; only values come back.",
        )
    if seen.more["is function"]:
        return failed(
            "stored the function",
            f"The value of {seen.more['is function'][0]} is now a function: its rematerializer, which nobody "
            "has called.",
        )
    for entry in dict.fromkeys(case.given["inputs"]):
        name, state = entry.split()
        count = calls.get(name, 0)
        if state in _GONE and seen.value[name] is None:
            return _missing(name, count, seen)
        expected = _value(case, name, state)
        wrong = wrong_array(seen.value[name], expected, what=f"the value of {name}")
        if wrong:
            return wrong
        if state not in _GONE and count:
            return failed(
                "recomputed what was there",
                f"{name} had its value, and it was computed again. In a deep network that is most of the work.",
            )
        if count > 1:
            return failed(
                "computed twice",
                f"The rematerializer of {name} was called {count} times in one step. Once it has its value "
                "back, there is nothing left to do for it.",
            )
        if state != "kept" and name in seen.more["no rematerializer"]:
            return failed(
                "rematerializer gone",
                f"{name} has lost its rematerializer. So its value is never discarded again.",
            )
    if calls.get("u"):
        return failed(
            "too deep",
            "x was computed again, and so was an input of x. The step reads only the node's inputs, and a "
            "rematerializer finds for itself what it needs.",
        )
    if calls.get("node"):
        return failed(
            "the node itself",
            "The node's own rematerializer was called. Its step reads the values of its inputs.",
        )
    return passed()


def _missing(name: str, count: int, seen: Observation) -> Verdict:
    if seen.more["calls"].get("node"):
        return failed(
            "the node itself",
            f"The node's own value was computed again; that of its input {name} is still None. Which "
            "arrays does a step read?",
        )
    if count:
        return failed(
            "result not stored",
            f"The rematerializer of {name} was called, but {name}.value is still None: what it returned "
            "was not put there.",
        )
    return failed(
        "value missing", f"{name} is an input of the node, and its value is still None afterwards."
    )


EXERCISE = Exercise("3.1", "give the values back", 2, _cases, _run, _judge, returns_none=True)
