"""What the text of an answer names that an honest one has hardly a use for. Hints, for a person to look at.

None of them takes points. A hint that fires on honest answers is worse than none: nobody looks any more. Of the
206 right answers of the tests three have one (they use planners of the course's own), of the 42 solutions none;
a test holds that. So words that honest answers use as well count only with their module (numpy.load, not
sram.load).
"""

import ast
from collections.abc import Iterable

from course_utils.grading.standing import (
    constant_texts,
    last_name,
    modules_named,
    parsed,
    root_name,
)
from course_utils.grading.tampering import PATCHED

LIBRARIES = {"torch", "matplotlib", "scipy", "pandas", "sklearn", "jax", "tensorflow"}
_KERNEL_METER = "course_utils.triton_meter."  # its public functions are the package's own

_HINTS = {
    "reaches for the meters": {
        *("tracemalloc", "course_utils.tracing", "course_utils.triton_meter", "psutil", "resource"),
    },
    "keeps data out of sight": {"sqlite3", "shelve", "dbm", "tempfile", "mmap", "fcntl"},
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
        *("tb_frame", "__traceback__", "__del__", "get_referents", "__getstate__"),
    },
    "keeps data out of sight": {"memfd_create", "shm_open", "savez", "tofile"},
    "reaches for the meters": {"reset_peak", "clear_traces", "get_traced_memory", "take_snapshot"},
    "starts processes": {"fork", "popen", "execv", "posix_spawn", "_exit"},
    "reads what is not its own": {"environ", "listdir", "scandir", "memmap", "fromfile"},
}
_HINTED_OF_MODULES = {  # of one module alone: elsewhere these are words like others (sram.load, model.modules)
    "looks into the interpreter": {
        "sys.modules",
        "gc.callbacks",
        "weakref.finalize",
        "string.Formatter",
    },
    "keeps data out of sight": {
        *("numpy.save", "numpy.load", "numpy.savetxt", "numpy.loadtxt", "os.pipe", "os.mkfifo"),
    },
    "starts processes": {"os.system", "os.kill"},
    "reads what is not its own": {"os.open", "io.open", "io.FileIO", "pathlib.Path"},
}
_ORACLES = {"4.1": "course_utils.remat.simulate.simulate"}  # 4.5 may use it
_HARMLESS = {"multiprocessing.pool.ThreadPool", "multiprocessing.dummy"}  # threads
_HINTED_NAMES = {
    "looks into the interpreter": {
        *("exec", "eval", "compile", "__import__", "__builtins__", "vars", "globals", "locals"),
    },
    "reads what is not its own": {"open"},
}


def oracle_flags(exercise: str, sources: Iterable[str]) -> list[str]:
    """Whether an answer calls what computes its very exercise, and is there for others."""
    tree = parsed(sources)
    modules = modules_named(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            place = modules.get(root_name(node), "")
            is_it = place == _ORACLES.get(exercise) and isinstance(node, ast.Name)
            if is_it or f"{place}.{last_name(node)}" == _ORACLES.get(exercise):
                return [f"uses what an exercise asks for: {last_name(node)}"]
    return []


def source_flags(sources: Iterable[str]) -> list[str]:
    """What the text of an answer and its cells names that honest answers rarely do. Never raises."""
    tree = parsed(sources)
    modules = modules_named(tree)
    constants = constant_texts(ast.walk(tree))
    found = {hint for node in ast.walk(tree) for hint in _hints_of(node, modules, constants)}
    if any(name.startswith(_KERNEL_METER) for name in _imports(tree)):
        found.add(f"{PATCHED}{_KERNEL_METER}* is imported, which counts what kernels move")
    return sorted(found)


def loads_libraries(sources: Iterable[str]) -> bool:
    """Whether they import what takes a hundred megabytes by itself."""
    modules = modules_named(parsed(sources)).values()
    return any(name.partition(".")[0] in LIBRARIES for name in modules)


def _hints_of(
    node: ast.AST, modules: dict[str, str], constants: dict[str, set[str]]
) -> Iterable[str]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield from _hints_of_import(node)
    elif isinstance(node, ast.Attribute):
        yield from _hints_of_name(node.attr, _HINTED_ATTRIBUTES)
        of = modules.get(root_name(node), "").partition(".")[0]
        yield from _hints_of_name(f"{of}.{node.attr}", _HINTED_OF_MODULES)
        if isinstance(node.ctx, ast.Store | ast.Del) and root_name(node) in modules:
            yield f"writes into a module: {root_name(node)}"
    elif isinstance(node, ast.Name):
        yield from _hints_of_name(node.id, _HINTED_NAMES)
    elif isinstance(node, ast.FunctionDef) and node.name == "__del__":
        yield "looks into the interpreter: __del__"
    elif isinstance(node, ast.Call):
        yield from _hints_of_call(node, modules, constants)


def _hints_of_import(node: ast.Import | ast.ImportFrom) -> Iterable[str]:
    names = [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        names = [f"{node.module}.{name}" for name in names]
        names += [node.module or ""] if set(names) - _HARMLESS else []
    for name in set(names) - _HARMLESS:
        yield from _hints_of_name(name, _HINTED_OF_MODULES)
        for hint, parts in _HINTS.items():
            if any(name == part or name.startswith(f"{part}.") for part in parts):
                yield f"{hint}: {name}"


def _hints_of_call(
    node: ast.Call, modules: dict[str, str], constants: dict[str, set[str]]
) -> Iterable[str]:
    name = last_name(node.func)
    if name not in ("getattr", "setattr", "delattr", "attrgetter", "methodcaller"):
        return
    named = node.args[0 if name in ("attrgetter", "methodcaller") else 1 :]
    texts = constants.get(getattr(named[0], "id", ""), set()) if named else set()
    if named and isinstance(named[0], ast.Constant):
        texts = {str(named[0].value)}
    if named and not texts:
        yield f"looks into the interpreter: {name} with a name that is put together"
    for text in texts:
        told = ast.Attribute(node.args[0], text, ast.Load())
        yield from _hints_of(told, modules, constants)
    if name in ("setattr", "delattr") and node.args and root_name(node.args[0]) in modules:
        yield f"writes into a module: {root_name(node.args[0])}"


def _hints_of_name(name: str, hinted: dict[str, set[str]]) -> Iterable[str]:
    return (f"{hint}: {name}" for hint, names in hinted.items() if name in names)


def _imports(tree: ast.AST) -> Iterable[str]:
    """Every module that is imported, or could be: `from a import b` may mean a.b."""
    public = (f"{_KERNEL_METER}meter", f"{_KERNEL_METER}HAS_GPU")
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from [node.module or "", *(name for name in names if name not in public)]
