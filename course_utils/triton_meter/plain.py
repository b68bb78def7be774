"""Whether a kernel's text is a kernel's alone. It is run as Python before a launch, and beside what counts.

Text comes from a student's process. So its annotations and defaults, which Python evaluates where the function is
made, must be plain; beside functions it has imports and numbers; and it names no way into the interpreter.
"""

import ast

MODULES = ("triton", "math", "numpy")  # what a kernel may name, with their submodules
_INNER = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.Lambda,
    ast.ClassDef,
    ast.Import,
    ast.ImportFrom,
)
_INSIDES = {
    *(
        "runtime",
        "interpreter",
        "compiler",
        "backends",
        "modules",
        "inspect",
        "sys",
        "os",
        "ctypes",
    ),
    *("ctypeslib", "builtins", "testing", "importlib", "f_globals", "tools", "knobs", "lib"),
}
_NAMES = {
    *("setattr", "delattr", "getattr", "vars", "globals", "locals", "eval", "exec", "compile"),
    *("open", "type", "object", "super", "__import__", "__builtins__", "breakpoint", "input"),
}


def what_is_odd(text: str) -> str:
    """What in a kernel's text is no kernel's, as a sentence; "" for a plain one."""
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        return f"its text is no Python ({type(problem).__name__})"
    return next(filter(None, map(_odd_statement, body)), "")


def _odd_statement(node: ast.stmt) -> str:
    if isinstance(node, ast.Import | ast.ImportFrom):
        places = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        places = places or [alias.name for alias in node.names]
        return "" if all(_is_known(place) for place in places) else f"it imports {places[0]}"
    if isinstance(node, ast.FunctionDef):
        return _odd_function(node)
    if isinstance(node, ast.Assign) and _is_number(node.value):
        return ""
    return f"`{ast.unparse(node)[:60]}` stands beside its functions"


def _odd_function(function: ast.FunctionDef) -> str:
    args, where = function.args, f"of `{function.name}`"
    given = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
    annotations = [arg.annotation for arg in given if arg is not None]
    for node in filter(None, [*annotations, function.returns]):
        if not _is_plain(node):
            told = f"the annotation `{ast.unparse(node)[:60]}` {where} is computed"
            return f"{told}: write `tl.constexpr`, another name, or none"
    for node in filter(None, [*args.defaults, *args.kw_defaults]):
        if not _is_plain(node):
            return f"the default `{ast.unparse(node)[:60]}` {where} is computed: write a number"
    if any(ast.unparse(each) != "triton.jit" for each in function.decorator_list):
        return f"a decorator {where} is not `triton.jit`"
    inside = list(ast.walk(ast.Module(function.body, [])))
    if any(isinstance(node, _INNER) for node in inside):
        return f"the body {where} has a function, a class or an import: write it beside the kernel"
    for node in inside:
        name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
        hidden = isinstance(node, ast.Attribute) and (name in _INSIDES or name.startswith("_"))
        if hidden or isinstance(node, ast.Name) and name in _NAMES:
            return f"`{name}` {where} is no part of a kernel"
    return ""


def _is_plain(node: ast.expr) -> bool:
    """A constant, a name with its parts, or a number with a sign: evaluating it calls nothing."""
    while isinstance(node, ast.Attribute | ast.UnaryOp):
        if isinstance(node, ast.Attribute) and (node.attr in _INSIDES or node.attr.startswith("_")):
            return False
        node = node.value if isinstance(node, ast.Attribute) else node.operand
    return isinstance(node, ast.Constant | ast.Name)


def _is_number(node: ast.expr) -> bool:
    """What `source` writes for a constant: a literal, `tl.constexpr(...)`, `tl.dtype(...)`, `float("inf")`."""
    if isinstance(node, ast.Call) and not node.keywords:
        is_made = ast.unparse(node.func) in ("tl.constexpr", "tl.dtype", "float")
        return is_made and all(map(_is_number, node.args))
    return _is_plain(node)


def _is_known(module: str) -> bool:
    parts = module.split(".")
    return parts[0] in MODULES and not set(parts) & (_INSIDES - {"runtime"})
