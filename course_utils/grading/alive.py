"""What an answer has kept from before the call that is counted: it takes memory, and is no input.

A trace counts what is made while it runs. Arrays of the cells, and those that a first, small call has made, would
cost nothing. So a metered exercise's process traces from before its cells run; as a counted call begins, what is
alive is compared with what the check itself holds, and what is more counts for the peak.
"""

import ast
import gc
import os
import sys
import tracemalloc
import types
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from inspect import CO_OPTIMIZED
from typing import Any

import numpy as np

from course_utils.tracing import Trace

KEPT_BYTES = (
    128 * 1024
)  # small tables of an answer's own; the smallest array that is graded has twice that
OTHER_BYTES = 24 * 10**6  # code, modules and objects beside arrays
_COURSE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LEAVES = (types.ModuleType, type, types.FrameType, types.CodeType, types.TracebackType, str, bytes)
_frame_of, _referents, _is_tracing = sys._getframe, gc.get_referents, tracemalloc.is_tracing


class Kept:
    """Counts for the peak of each call what its answer had before. `flags`: what was found."""

    def __init__(self, sources: Iterable[str]):
        """Begin, before any cell has run. Modules come first: what they take is no answer's."""
        self.flags: list[str] = []
        for name in _imported(sources):
            with suppress(BaseException):
                import_module(name)
        gc.collect()
        tracemalloc.start()

    def charge(self) -> None:
        """In `observe_memory`, as a call begins: lower the open trace's ground by what is kept."""
        if not Trace._open or not Trace._lent:
            self.flags += ["stopped the count of what it keeps"] * (not self.flags)
            return
        trace = Trace._open[-1]
        held_bytes = _held_bytes(_frame_of(2))
        arrays_bytes = trace._base_bytes - held_bytes
        others_bytes = trace._python_base_bytes - trace._base_bytes
        kept_bytes = (arrays_bytes > KEPT_BYTES) * arrays_bytes
        kept_bytes += (others_bytes > OTHER_BYTES) * others_bytes
        if kept_bytes:
            trace._python_base_bytes -= kept_bytes
            told = f"{KEPT}{kept_bytes:,} bytes"
            self.flags = [*(flag for flag in self.flags if not flag.startswith(KEPT)), told]


KEPT = "keeps arrays from before the call, which count: "


def _imported(sources: Iterable[str]) -> list[str]:
    """The modules that cells name in imports."""
    names: dict[str, None] = {}
    for source in sources:
        with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, ast.Import):
                    names |= dict.fromkeys(alias.name for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    names |= {node.module: None}
    return list(names)[:50]


def _held_bytes(frame: types.FrameType | None) -> int:
    """Bytes of the arrays that the check holds: what its frames lead to, but not through the answer."""
    waiting: list[Any] = []
    while frame is not None:
        if frame.f_code.co_filename.startswith(_COURSE):
            names = frame.f_locals
            waiting += names.values()
            if type(names) is dict and frame.f_code.co_flags & CO_OPTIMIZED:
                names.clear()  # a function's is a copy that Python keeps, and with it what it has let go
        frame = frame.f_back
    seen: dict[int, Any] = {}  # with the object, so that no id is used twice
    sizes: dict[int, int] = {}
    while waiting:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, _LEAVES):
            continue
        seen[id(value)] = value
        if isinstance(value, types.FunctionType):
            if value.__code__.co_filename.startswith(_COURSE):
                waiting += [*(value.__closure__ or ()), *(value.__defaults__ or ())]
        elif isinstance(value, np.ndarray):
            place = value.__array_interface__["data"][0]
            sizes[place] = max(sizes.get(place, 0), value.nbytes)
            waiting.append(value.base)
        else:
            waiting += _referents(value)
    return sum(sizes.values())
