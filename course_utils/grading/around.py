"""Whether a program for the two-level memory says what it does: what is reached by other ways is not counted.

Traffic is counted where `load` and `store` are called. The numbers themselves lie in the same process, and Python
has many ways to an attribute that nobody writes down: `getattr` with a name that is put together, dunders,
code made from text. A program for a chip has no use for any of them. So where traffic is counted, a text that
takes such a way gets no pass, and is told why. All of it is read from the text, where nothing can be forged.
"""

import ast
import re
from collections.abc import Callable, Iterable, Iterator

from course_utils.checks.observe import MEMORY_WORKS
from course_utils.grading.hints import last_name, modules_named, parsed, root_name

AROUND = "reaches around the memory: "  # a flag that begins so decides, where traffic is counted
_BY_NAME = {"getattr", "setattr", "delattr", "attrgetter", "methodcaller"}
_MADE = {"attrgetter", "methodcaller"}
_FROM_TEXT = {"eval", "exec", "compile", "__import__", "vars", "globals", "locals"}
_INSIDES = {
    *("_getframe", "_current_frames", "f_locals", "f_back", "f_globals", "tb_frame", "tb_next"),
    *("get_objects", "get_referrers", "get_referents", "settrace", "setprofile", "modules"),
    *("getmembers", "getattr_static", "FunctionType", "CodeType", "Formatter", "format_map"),
    *("get_field", "byte_bounds", "import_module", "exec_module", "runstring", "measure"),
}
_MODULES = {
    *("ctypes", "_ctypes", "builtins", "marshal", "pickle", "copyreg", "runpy", "code", "codeop"),
    "unittest",
}
_TIMERS = {"timeit", "cProfile", "profile"}  # they run functions, and text as well
_SEARCHED = {"sys.path", "sys.meta_path", "sys.path_hooks"}
_PLAIN = {"numpy", "math"}  # getattr(np, name) reaches functions
_DUNDERS = {
    *("__name__", "__qualname__", "__doc__", "__init__", "__len__", "__class__", "__version__"),
    *("__enter__", "__exit__", "__post_init__", "__call__", "__getitem__", "__file__"),
}
_WORK = re.compile(rf"(?<!\w)(?:{'|'.join(sorted(MEMORY_WORKS))})\b")


def counts_traffic(run: Callable) -> bool:
    """Whether an exercise's `run` runs its answer on the two-level memory."""
    names = getattr(run, "__globals__", {})
    return "observe_on_chip" in names or "run_program" in names


def around_flags(sources: Iterable[str]) -> list[str]:
    """Each way round the memory that the text of an answer and its cells takes. Never raises."""
    return sorted({f"{AROUND}{way}" for way in _ways(parsed(sources))})


def _ways(tree: ast.AST) -> Iterator[str]:
    modules = modules_named(tree)
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    plain = {id(text) for text in _docstrings(tree)}
    functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from _call(node, modules)
            if modules.get(root_name(node.func), "").partition(".")[0] in _TIMERS:
                yield from _timed(node, functions)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            if node.id in _FROM_TEXT or node.id in _BY_NAME and id(node) not in called:
                yield node.id
        elif isinstance(node, ast.Attribute):
            yield from _attribute(node, modules, id(node) in called)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from _import(node)
        elif isinstance(node, ast.MatchClass):
            yield from (name for name in node.kwd_attrs if name in MEMORY_WORKS)
        elif isinstance(node, ast.Constant) and id(node) not in plain:
            yield from _text(node.value)


def _call(node: ast.Call, modules: dict[str, str]) -> Iterator[str]:
    name = last_name(node.func)
    if name == "format" and isinstance(getattr(node.func, "value", None), ast.Name | ast.BinOp):
        yield "format of a text that is not written there"
    if name not in _BY_NAME:
        return
    owner = "" if name in _MADE or not node.args else root_name(node.args[0])
    named = node.args[0 if name in _MADE else 1 :][:1]
    text = named[0].value if named and isinstance(named[0], ast.Constant) else None
    if name in ("setattr", "delattr"):
        is_fine = owner == "self"
    elif isinstance(text, str):
        is_fine = not text.startswith("_") and text not in _INSIDES
    else:
        is_fine = modules.get(owner, "").partition(".")[0] in _PLAIN
    if not is_fine:
        yield f"{name} of {text!r}" if text else f"{name} with a name that is put together"


def _timed(node: ast.Call, functions: set[str]) -> Iterator[str]:
    given = [*node.args, *(each.value for each in node.keywords)]
    for each in given:
        is_function = isinstance(each, ast.Lambda) or root_name(each) in functions
        is_number = isinstance(each, ast.Constant) and not isinstance(each.value, str)
        if not (is_function or is_number):
            yield f"{last_name(node.func)} of what may be text"


def _attribute(node: ast.Attribute, modules: dict[str, str], is_called: bool) -> Iterator[str]:
    name = node.attr
    is_inside = name in MEMORY_WORKS or name in _INSIDES
    if is_inside or name.startswith("__") and name not in _DUNDERS:
        yield f".{name}"
    elif name in _BY_NAME and not is_called:
        yield name
    elif f"{modules.get(root_name(node.value))}.{name}" in _SEARCHED:
        yield f"sys.{name}"
    elif isinstance(node.ctx, ast.Store | ast.Del) and root_name(node.value) in modules:
        yield f"it writes into {root_name(node.value)}"


def _text(value: object) -> Iterator[str]:
    if isinstance(value, str) and (_WORK.search(value) or value in ("__builtins__", "__dict__")):
        yield f"the text {value[:40]!r}"


def _import(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    places = [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        yield from (name for name in places if name in _INSIDES | _BY_NAME | _FROM_TEXT)
        yield from (f"sys.{name}" for name in places if f"{node.module}.{name}" in _SEARCHED)
        places = [node.module or ""]
    for place in places:
        if place.partition(".")[0] in _MODULES or place.startswith("course_utils.hierarchy."):
            yield f"import {place}"


def _docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value
