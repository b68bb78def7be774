"""Running a student's kernel for a check: in the interpreter, through the compiler, on a GPU. Judges nothing.

Each rung answers what the one before cannot. The interpreter gives values, bounds and bytes on any Linux
laptop; the compiler says whether it is Triton at all; the GPU gives values with its own rounding, in bfloat16,
at sizes that take many blocks. A rung that this machine lacks is noted, and the verdict says so.
"""

import ast
import re
from collections.abc import Callable
from dataclasses import replace

from course_utils.checks.core import Case, Error, Observation
from course_utils.triton_meter import (
    HAS_TRITON,
    Launch,
    Metered,
    MeterNotAvailable,
    NotAKernel,
    compile_launch,
    read_kernel,
    run_launch,
    run_on_gpu,
)
from course_utils.triton_meter.source import KernelSource, is_stub

COMPILED_FOR = (80,)  # an A100; what newer GPUs have beside it, no kernel needs
_HINTS = (  # what an error's text begins with; what is said in its place
    (
        r"unsupported tensor index",
        "a pointer is an address and has no elements: tl.load(x + positions) reads them",
    ),
    (
        r"name '(torch|np|numpy)' is not defined",
        "a kernel has no {}: it computes with tl, on its own tiles",
    ),
)
_compiled: dict = {}  # what was compiled already: the same text gives the same


def run_kernel(answer, case: Case, launch_of: Callable[[Case], Launch]) -> Observation:
    """One launch on the case's rung. Never raises for anything that a kernel does."""
    if case.given["rung"] == "GPU" and not gpu_is_here():
        return Observation(value={}, more={"no GPU": True})
    if is_stub(answer):
        return Observation(error=Error("NotImplementedError", ""))
    try:
        source = read_kernel(answer)
    except NotAKernel as problem:
        return Observation(more={"not a kernel": str(problem)})
    launch = launch_of(case)
    wanted = len(launch.arguments) + len(launch.constexprs)
    if len(source.parameters) != wanted:
        return Observation(more={"parameters": list(source.parameters)})
    constexprs = dict(zip(source.parameters[len(launch.arguments) :], launch.constexprs.values()))
    launch = replace(launch, constexprs=constexprs)  # by position, as the arguments are
    if not HAS_TRITON:
        return Observation(unavailable=_where())
    try:
        return _RUNGS[case.given["rung"]](source, launch)
    except MeterNotAvailable as problem:
        return Observation(unavailable=f"{problem} {_where()}")


def _where() -> str:
    from course_utils.triton_here import WHERE

    return f"A kernel can't run here. {WHERE}"


def _interpreter(source: KernelSource, launch: Launch) -> Observation:
    return _observed(source, run_launch(source, launch))


def _compiler(source: KernelSource, launch: Launch) -> Observation:
    key = (source, tuple(launch.constexprs.items()), tuple(launch.options.items()))
    if key not in _compiled:
        if len(_compiled) > 200:
            _compiled.clear()
        made = [compile_launch(source, launch, sm) for sm in COMPILED_FOR]
        _compiled[key] = [vars(each) for each in made]
    return Observation(value={}, more={"compiled": _compiled[key]})


def _gpu(source: KernelSource, launch: Launch) -> Observation:
    return _observed(source, run_on_gpu(source, launch))


def gpu_is_here() -> bool:
    """Whether there is a GPU that Triton compiles for."""
    if not HAS_TRITON:
        return False
    from course_utils.triton_here import HAS_GPU

    return HAS_GPU


_RUNGS = {"interpreter": _interpreter, "compiler": _compiler, "GPU": _gpu}


def _observed(source: KernelSource, metered: Metered) -> Observation:
    if metered.error is not None:
        told = {name: metered.error.get(name, "") for name in ("kind", "message", "line")}
        return Observation(error=Error(**_with_a_hint(told)), more={"faults": metered.faults})
    more = {
        name: getattr(metered, name)
        for name in ("writers", "loaded", "stored", "dots", "faults", "atomics", "ended", "device")
    }
    more["and"] = _and_as_a_value(source.text)
    return Observation(value=metered.values, more=more)


def _with_a_hint(told: dict[str, str]) -> dict[str, str]:
    """The interpreter's words, and what they come from where they don't say it."""
    for pattern, hint in _HINTS:
        if re.match(pattern, told["message"]):
            return told | {"message": hint.format(*re.match(pattern, told["message"]).groups())}
    return told


def _and_as_a_value(text: str) -> str:
    """The first `and` or `or` outside of an if or while, as it is written; "" if there is none."""
    tree = ast.parse(text)
    tests = {
        node.test for node in ast.walk(tree) if isinstance(node, ast.If | ast.While | ast.IfExp)
    }
    inside = {part for test in tests for part in ast.walk(test)}
    for node in ast.walk(tree):
        if isinstance(node, ast.BoolOp) and node not in inside:
            return ast.unparse(node)
    return ""
