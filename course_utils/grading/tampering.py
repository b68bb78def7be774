"""Signs that an answer reached for the meters instead of for the question. For a person to look at.

Values are judged outside and cannot be forged. Bytes are counted beside the answer, in one process with it,
and could be. Two things are looked for: whether what counts is still what it was before the student's code
ran (inside), and what the source names that an honest answer has no use for (outside, from its text). The
first decides: bytes from meters that were exchanged are worth nothing. The second is a hint.
"""

import ast
import sys
import types
from collections.abc import Iterable

PATCHED = "patched: "  # a flag that begins so decides
_KERNEL_METER = "course_utils.triton_meter."  # its public functions are the package's own

# modules whose functions and classes must be the same afterwards
_WATCHED = (
    *("builtins", "gc", "json", "json.encoder", "json.decoder", "os", "sys", "time", "tracemalloc"),
    *("_tracemalloc", "types", "weakref", "dis", "base64", "linecache", "warnings", "dataclasses"),
    *("numpy", "numpy.linalg", "numpy.random", "numpy.lib"),
)
_ROUTINE = (
    types.FunctionType,
    types.BuiltinFunctionType,
    type,
    property,
    classmethod,
    staticmethod,
)
_HINTS = {
    "reaches for the meters": {
        *("tracemalloc", "course_utils.tracing", "course_utils.triton_meter", "psutil", "resource"),
    },
    "keeps data out of sight": {"sqlite3", "shelve", "dbm", "tempfile", "mmap"},
    "reaches for the grader": {"course_utils.checks", "course_utils.grading", "course_utils.cli"},
    "uses what an exercise asks for": {
        *("course_utils.attention", "course_utils.kernels", "course_utils.remat.planners"),
        *("course_utils.remat.exhaustive", "course_utils.remat.milp", "course_utils.remat.solver"),
    },
    "looks into the interpreter": {
        "inspect",
        "importlib",
        "builtins",
        "ctypes",
        "_ctypes",
        "pickle",
    },
    "starts processes": {"subprocess", "multiprocessing", "concurrent.futures.process", "pty"},
    "uses the network": {"socket", "urllib", "requests", "http", "httpx", "ftplib", "ssl"},
    "handles signals": {"signal"},
}
_HINTED_ATTRIBUTES = {
    "looks into the interpreter": {
        *("_getframe", "f_locals", "f_back", "f_globals", "__globals__", "__closure__", "__code__"),
        *("__subclasses__", "__builtins__", "get_objects", "get_referrers", "addaudithook"),
        *(
            "settrace",
            "setprofile",
            "ast_transformers",
            "__getattribute__",
            "__dict__",
            "_current_frames",
        ),
        *("tb_frame", "__traceback__", "__del__", "callbacks", "finalize", "modules"),
    },
    "keeps data out of sight": {"memfd_create", "shm_open", "save", "savez", "load", "tofile"},
    "reaches for the meters": {"reset_peak", "clear_traces", "get_traced_memory", "take_snapshot"},
    "starts processes": {"fork", "system", "popen", "execv", "posix_spawn", "_exit", "kill"},
    "reads what is not its own": {"environ", "listdir", "scandir", "memmap", "fromfile"},
}
_HINTED_NAMES = {
    "looks into the interpreter": {
        *("exec", "eval", "compile", "__import__", "__builtins__", "vars", "globals", "locals"),
    },
    "reads what is not its own": {"open"},
}


class Snapshot:
    """What counts and what carries the counts, as it is before any of a student's code has run."""

    def __init__(self):
        names = [*_WATCHED, *(name for name in sys.modules if name.startswith("course_utils"))]
        self._modules = [sys.modules[name] for name in names if name in sys.modules]
        self._before = {module.__name__: _routines(module) for module in self._modules}
        self._routines, self._code = _routines, _code_of
        self._vars, self._held, self._workers = vars, _held, _workers
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


def source_flags(sources: Iterable[str]) -> list[str]:
    """What the text of an answer and its cells names that honest answers rarely do. Never raises."""
    found: set[str] = set()
    for source in sources:
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        modules = _imported_names(tree)
        if any(name.startswith(_KERNEL_METER) for name in _modules_of(tree)):
            found.add(f"{PATCHED}{_KERNEL_METER}* is imported, which counts what kernels move")
        for node in ast.walk(tree):
            found |= set(_hints_of(node, modules))
    return sorted(found)


def _hints_of(node: ast.AST, modules: set[str]) -> Iterable[str]:
    imported = []
    if isinstance(node, ast.Import):
        imported = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        imported = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
    for name in imported:
        for hint, parts in _HINTS.items():
            if any(name == part or name.startswith(f"{part}.") for part in parts):
                yield f"{hint}: {name}"
    for kind, hints in ((ast.Attribute, _HINTED_ATTRIBUTES), (ast.Name, _HINTED_NAMES)):
        name = getattr(node, "attr" if kind is ast.Attribute else "id", None)
        for hint, names in hints.items():
            if isinstance(node, kind) and name in names:
                yield f"{hint}: {name}"
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
        owner = node.value
        while isinstance(owner, ast.Attribute):
            owner = owner.value
        if isinstance(owner, ast.Name) and owner.id in modules:
            yield f"writes into a module: {owner.id}"
    if isinstance(node, ast.FunctionDef) and node.name == "__del__":
        yield "looks into the interpreter: __del__"
    by_name = ("getattr", "setattr", "delattr", "attrgetter", "methodcaller")
    if isinstance(node, ast.Call) and _last_name(node.func) in by_name:
        named = node.args[0 if _last_name(node.func) in by_name[3:] else 1 :]
        if named and not isinstance(named[0], ast.Constant):
            yield f"looks into the interpreter: {_last_name(node.func)} with a name that is put together"
        elif named:
            yield from _hints_of(ast.Attribute(ast.Name("_"), named[0].value, ast.Load()), modules)
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("setattr", "delattr"):
        target = getattr(node.args[0], "id", "") if node.args else ""
        if target in modules:
            yield f"writes into a module: {target}"


def _modules_of(tree: ast.AST) -> Iterable[str]:
    """Every module that is imported, or could be: `from a import b` may mean a.b."""
    public = ("course_utils.triton_meter.meter", "course_utils.triton_meter.HAS_GPU")
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from [node.module or "", *(name for name in names if name not in public)]


def _last_name(node: ast.AST) -> str:
    return getattr(node, "attr", "") or getattr(node, "id", "")


def _imported_names(tree: ast.AST) -> set[str]:
    """What imports bind: modules, and what comes out of them."""
    return {
        (alias.asname or alias.name).split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
