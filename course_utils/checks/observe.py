"""Calling an answer, and noting what it did. Nothing here judges.

This is the part that runs beside the student's code, so it takes care of what such code does: it raises,
writes into its inputs, prints, exits, calls itself for ever, or takes its memory where NumPy's counter
does not see it.
"""

import dis
import gc
import linecache
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterator

import numpy as np

from course_utils.checks.core import Error, Observation
from course_utils.tracing import Trace

# Modules that allocate where tracemalloc does not see it. A pool of threads is harmless.
OUT_OF_SIGHT = (
    *("torch", "jax", "cupy", "tensorflow", "mmap", "ctypes", "_ctypes", "subprocess"),
    *("multiprocessing.shared_memory", "multiprocessing.heap", "multiprocessing.managers"),
    *("multiprocessing.popen_fork", "multiprocessing.popen_spawn_posix"),
    *("multiprocessing.popen_forkserver", "multiprocessing.popen_spawn_win32"),
    *("concurrent.futures.process", "numpy.memmap", "numpy._core.memmap"),
    *("tracemalloc", "course_utils.tracing"),  # the meter itself
)
# The works of the two-level memory: a program for it has no business there.
MEMORY_WORKS = {
    *("_values", "_home", "_block", "_residents", "_admit", "_place"),
    *("_free", "_make", "_grown", "_watch", "_in_use", "_open_sram"),
    *(
        "_live_bytes",
        "_peak_bytes",
        "_capacity_bytes",
        "_bytes_read",
        "_bytes_written",
        "_is_closed",
        "_restart_peak",
        "_peak_with_chip_bytes",
        "_events",
        "_blocks_made",
        "_keep",
    ),
}

# A grader's, that looks at this process from outside while memory is counted: called with "begins" and "ends".
ANNOUNCE: list[Callable[[str], None]] = []
LATE = "its result was another after the garbage collector had run: all the work belongs into the function"
LEFT_WATCHER = "a profiler or tracer was there when it had returned: it left one behind"


def observe(answer: Callable, *args, inputs_may_change: bool = False) -> Observation:
    """Call `answer(*args)`: its value or its error, and whether it changed an input."""
    before = [_copied(arg) for arg in args]
    try:
        value = answer(*args)
    except KeyboardInterrupt:
        raise
    except BaseException as problem:  # even exit() must not end the student's kernel
        return Observation(error=describe_error(problem, answer))
    changed = not inputs_may_change and not all(map(_same, before, args))
    return Observation(value=value, changed_input=changed)


def observe_memory(answer: Callable, *args, inputs_may_change: bool = False) -> Observation:
    """Call `answer(*args)` under a trace: its value, and its peak and held bytes beyond the inputs.

    The arguments must exist already, so they cost nothing. The first call of some NumPy functions
    imports modules: call the answer on something small before. Held is what outlives the call for
    good, not what only waits for the garbage collector. What a collection sets off belongs to the
    answer: it counts for the peak, and may not change the value.
    """
    before = [_copied(arg) for arg in args]
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # a trace that says what it displaced is no error
        with Trace() as trace:
            watchers, collects = _watchers(), gc.isenabled()
            for announce in ANNOUNCE:
                announce("begins")
                trace.restart_peak()
            try:
                value = answer(*args)
                watches = _watchers() != watchers
                gc.disable()  # what a collection takes away in between would pass for copies
                stats = trace.snapshot()
                kept = _copied(value)
                trace.restart_peak()
                copies_bytes = trace.snapshot().current_bytes - stats.current_bytes
                gc.collect()
                after = trace.snapshot()
            except KeyboardInterrupt:
                raise
            except BaseException as problem:
                return Observation(error=describe_error(problem, answer))
            finally:
                if collects:
                    gc.enable()
                for announce in ANNOUNCE:
                    announce("ends")
    changed = not inputs_may_change and not all(map(_same, before, args))
    if watches or not _same(kept, value):
        return Observation(error=Error("RuntimeError", LEFT_WATCHER if watches else LATE))
    peak_bytes = max(stats.peak_bytes, after.peak_bytes - copies_bytes)
    return Observation(value, peak_bytes, after.current_bytes - copies_bytes, changed_input=changed)


def _watchers() -> tuple:
    """What the interpreter calls at events; an answer has none."""
    return sys.getprofile(), sys.gettrace(), threading.getprofile(), threading.gettrace()


def find_out_of_sight(answer: Callable, *args) -> str:
    """What out of NumPy's sight the answer goes to with these (small) inputs: a library, or ""."""
    if any(type(arg).__module__.startswith("course_utils.hierarchy") for arg in args):
        named = [
            name for code in _codes(answer) for name in (*code.co_names, *code.co_consts)
        ]  # a constant: for getattr
        names = {name for name in named if isinstance(name, str)}
        if works := sorted(names & MEMORY_WORKS):
            return f"the works of the memory (`{works[0]}`)"
    found = [name for name in _modules_named(answer) if _is_hidden(name)]

    def at_event(frame, event, arg):
        if event == "call":
            name = frame.f_globals.get("__name__")
        elif event == "c_call":
            owner = type(getattr(arg, "__self__", None))
            name = getattr(arg, "__module__", None) or owner.__module__
        else:
            return
        if isinstance(name, str) and _is_hidden(name):
            found.append(name)

    previous = sys.getprofile()
    if previous is None or callable(previous):  # a profiler in C can't be put back: let it be
        sys.setprofile(at_event)
        try:
            answer(*args)
        except KeyboardInterrupt:
            raise
        except BaseException:
            pass  # `observe` reports it
        finally:
            sys.setprofile(previous)
    if not found:
        return ""
    if found[0].startswith("course_utils."):
        return found[0]
    return "np.memmap" if "memmap" in found[0] else found[0].partition(".")[0]


def describe_error(problem: BaseException, answer: Callable) -> Error:
    """An exception as plain data, with the last line of the answer's own file that led to it."""
    code = getattr(answer, "__code__", None)
    line, raised_in, here = "", code, problem.__traceback__
    while here is not None:
        raised_in = here.tb_frame.f_code
        if code is not None and raised_in.co_filename == code.co_filename:
            line = linecache.getline(code.co_filename, here.tb_lineno).strip().rstrip(":")
        here = here.tb_next
    problem.__traceback__ = None  # a kept traceback keeps the arrays it saw
    try:
        message = str(problem)[:500]
    except Exception:  # an exception class of the student's own
        message = ""
    is_stub = isinstance(problem, NotImplementedError) and not message
    if is_stub and code is not None and raised_in.co_name != getattr(answer, "__name__", ""):
        message = f"`{raised_in.co_name}`, which it calls, is still a stub"
    return Error(type(problem).__name__, message, line)


def _is_hidden(module_name: str) -> bool:
    return any(module_name == name or module_name.startswith(f"{name}.") for name in OUT_OF_SIGHT)


def _codes(answer: Callable) -> Iterator[types.CodeType]:
    """The answer's code, and that of the functions and classes inside it."""
    code = getattr(answer, "__code__", None)
    codes = [code] if code is not None else []
    while codes:
        code = codes.pop()
        codes += [const for const in code.co_consts if isinstance(const, types.CodeType)]
        yield code


def _modules_named(answer: Callable) -> Iterator[str]:
    """The modules that the answer's code imports or names, or whose classes it names."""
    for code in _codes(answer):
        for step in dis.get_instructions(code):
            if step.opname == "IMPORT_NAME":
                yield step.argval
            elif step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                value = answer.__globals__.get(step.argval)
                if isinstance(value, types.ModuleType):
                    yield value.__name__
                elif isinstance(module := getattr(value, "__module__", None), str):
                    yield module


def _copied(arg):
    if isinstance(arg, np.ndarray):
        return arg.copy()
    if isinstance(arg, list | tuple):
        return [_copied(item) for item in arg]
    return arg


def _same(before, after) -> bool:
    if isinstance(before, np.ndarray):
        if not isinstance(after, np.ndarray) or before.shape != after.shape:
            return False
        return np.array_equal(before, after, equal_nan=before.dtype.kind == "f")
    if isinstance(before, list):
        in_a_row = isinstance(after, list | tuple) and len(before) == len(after)
        return in_a_row and all(map(_same, before, after))
    return before is after or (type(before) is type(after) and before == after)
