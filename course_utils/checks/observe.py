"""Calling an answer, and noting what it did. Nothing here judges.

This is the part that runs beside the student's code, so it takes care of what such code does: it raises,
writes into its inputs, prints, exits, calls itself for ever, or takes its memory where NumPy's counter
does not see it.
"""

import gc
import linecache
import sys
import types
from collections.abc import Callable, Iterator

import numpy as np

from course_utils.checks.core import Error, Observation
from course_utils.tracing import Trace

# Libraries that allocate behind tracemalloc's back, by the first part of their module's name.
OUT_OF_SIGHT = ("torch", "mmap", "ctypes", "_ctypes", "multiprocessing", "subprocess", "jax", "cupy",
                "tensorflow")  # fmt: skip


def observe(answer: Callable, *args, inputs_may_change: bool = False) -> Observation:
    """Call `answer(*args)` and note its value or its error, and whether it changed an input array."""
    before = [_copied(arg) for arg in args]
    try:
        value = answer(*args)
    except (Exception, SystemExit) as problem:
        return Observation(error=describe_error(problem, answer))
    changed = not inputs_may_change and not all(map(_same, before, args))
    return Observation(value=value, changed_input=changed)


def observe_memory(answer: Callable, *args) -> Observation:
    """Call `answer(*args)` under a trace: its value, and its peak and held bytes beyond the inputs.

    The arguments must exist already, so they cost nothing. The first call of some NumPy functions
    imports modules: call the answer on something small before.
    """
    gc.collect()
    with Trace() as trace:
        try:
            value = answer(*args)
        except (Exception, SystemExit) as problem:
            return Observation(error=describe_error(problem, answer))
        stats = trace.snapshot()
    return Observation(value=value, peak_bytes=stats.peak_bytes, held_bytes=stats.current_bytes)


def find_out_of_sight(answer: Callable, *args) -> str:
    """The library out of NumPy's sight that the answer calls on these (small) arguments, or ""."""
    found = [module.__name__ for module in _modules_named(answer) if _is_hidden(module.__name__)]

    def at_event(frame, event, arg):
        if event == "call":
            name = frame.f_globals.get("__name__")
        elif event == "c_call":
            name = (
                getattr(arg, "__module__", None) or type(getattr(arg, "__self__", None)).__module__
            )
        else:
            return
        if isinstance(name, str) and _is_hidden(name):
            found.append(name)

    previous = sys.getprofile()
    sys.setprofile(at_event)
    try:
        answer(*args)
    except (Exception, SystemExit):
        pass  # `observe` reports it
    finally:
        sys.setprofile(previous)
    return found[0].partition(".")[0] if found else ""


def describe_error(problem: BaseException, answer: Callable) -> Error:
    """An exception as plain data, with the last line of the answer's own file that led to it."""
    code = getattr(answer, "__code__", None)
    line, here = "", problem.__traceback__
    while here is not None:
        if code is not None and here.tb_frame.f_code.co_filename == code.co_filename:
            line = linecache.getline(code.co_filename, here.tb_lineno).strip()
        here = here.tb_next
    message = str(problem) or "no message"
    problem.__traceback__ = None  # a kept traceback keeps the arrays it saw
    return Error(type(problem).__name__, message[:500], line)


def _is_hidden(module_name: str) -> bool:
    return module_name.partition(".")[0] in OUT_OF_SIGHT or "memmap" in module_name


def _modules_named(answer: Callable) -> Iterator[types.ModuleType]:
    """The modules that the answer's code names, as far as its globals tell."""
    code = getattr(answer, "__code__", None)
    codes = [code] if code is not None else []
    while codes:
        code = codes.pop()
        codes += [const for const in code.co_consts if isinstance(const, types.CodeType)]
        for name in code.co_names:
            value = answer.__globals__.get(name)
            if isinstance(value, types.ModuleType):
                yield value


def _copied(arg):
    if isinstance(arg, np.ndarray):
        return arg.copy()
    if isinstance(arg, list | tuple):
        return [_copied(item) for item in arg]
    return None


def _same(before, after) -> bool:
    if isinstance(before, np.ndarray):
        return before.shape == after.shape and np.array_equal(
            before, after, equal_nan=before.dtype.kind == "f"
        )
    if isinstance(before, list):
        return len(before) == len(after) and all(map(_same, before, after))
    return True
