"""Whether what counts is still what it was before the student's code ran. Looked at inside the sandbox.

Values are judged outside and cannot be forged. Bytes are counted beside the answer, in one process with it,
and could be. Bytes from meters that were exchanged are worth nothing. What an answer's text says of its
intentions is read outside: `hints` and `around`.
"""

import os
import sys
import types

PATCHED = "patched: "  # a flag that begins so decides

# modules whose functions and classes must be the same afterwards
_WATCHED = (
    *("builtins", "gc", "json", "json.encoder", "json.decoder", "os", "sys", "time", "tracemalloc"),
    *("_tracemalloc", "types", "weakref", "dis", "base64", "linecache", "warnings", "dataclasses"),
    *("numpy", "numpy.linalg", "numpy.random", "numpy.lib", "numpy.lib.array_utils", "subprocess"),
)
_COURSE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_ROUTINE = (
    types.FunctionType,
    types.BuiltinFunctionType,
    type,
    property,
    classmethod,
    staticmethod,
)


class Snapshot:
    """What counts and what carries the counts, as it is before any of a student's code has run."""

    def __init__(self):
        names = [*_WATCHED, *(name for name in sys.modules if name.startswith("course_utils"))]
        self._modules = [sys.modules[name] for name in names if name in sys.modules]
        self._before = {module.__name__: _routines(module) for module in self._modules}
        self._routines, self._code = _routines, _code_of
        self._vars, self._held, self._workers, self._strangers = vars, _held, _workers, _strangers
        self._owners = [(worker, _attributes(worker)) for worker in _workers()]
        self._codes = {
            id(routine): (routine, _code_of(routine))
            for routines in self._before.values()
            for routine in routines.values()
        }

    def changed(self) -> list[str]:
        """Flags for what is another function or class now, or has other code."""
        found = []
        for module in self._modules:
            after = self._routines(module)
            for name, routine in self._before[module.__name__].items():
                if (
                    after.get(name) is not routine
                    or self._code(routine) is not self._codes[id(routine)][1]
                ):
                    found.append(f"{PATCHED}{module.__name__}.{name}")
        if [id(worker) for worker in self._workers()] != [id(owner) for owner, _ in self._owners]:
            found.append(f"{PATCHED}course_utils.triton_meter.client.WORKERS")
        for owner, before in self._owners:
            now = self._vars(owner)
            if any(self._held(now.get(name)) != held for name, held in before.items()):
                found.append(f"{PATCHED}the attributes of a {type(owner).__name__}")
            if now.keys() - before.keys():
                found.append(f"{PATCHED}what a {type(owner).__name__} has")
        found += [f"{PATCHED}{name}, which is not the course's" for name in self._strangers()]
        if sys.gettrace() is not None or sys.getprofile() is not None:
            found.append(f"{PATCHED}sys.settrace or sys.setprofile")
        return found[:10]


def _routines(module: types.ModuleType) -> dict[str, object]:
    """A module's functions and classes, and those of its own classes, by name."""
    found = {}
    for name, value in list(vars(module).items()):
        if isinstance(value, _ROUTINE) or type(value).__name__ == "ufunc":
            found[name] = value
        if isinstance(value, type) and value.__module__ == module.__name__:
            for inner, method in list(vars(value).items()):
                if isinstance(method, _ROUTINE):
                    found[f"{name}.{inner}"] = method
    return found


def _strangers() -> list[str]:
    """Modules under the course's name that come from elsewhere."""
    files = {
        name: str(getattr(module, "__file__", ""))
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] == "course_utils"
    }
    return [name for name, file in files.items() if not file.startswith(_COURSE)]


def _workers() -> list:
    """Objects through which what a kernel moves is counted: an attribute of theirs hides a method."""
    client = sys.modules.get("course_utils.triton_meter.client")
    return list(getattr(client, "WORKERS", {}).values())


def _attributes(owner: object) -> dict[str, object]:
    """Its own attributes: those that must be the same, and the names of all."""
    return {name: _held(value) for name, value in vars(owner).items()}


def _held(value: object) -> object:
    """What of an attribute must stay: callables. A process, a pipe and a folder may come and go."""
    return value if callable(value) else None


def _code_of(routine: object) -> object:
    return getattr(getattr(routine, "__func__", routine), "__code__", None)
