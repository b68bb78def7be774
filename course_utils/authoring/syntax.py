"""Questions about a cell's code, answered by its syntax tree rather than by patterns.

A pattern that finds `predict("1.a", 24)` also finds it in a string or a comment, and loses its
way in `predict("1.a", f(2, 3))`. Columns in Python's tree are UTF-8 bytes, not characters: the
replacing is done on bytes.
"""

import ast
import warnings
from collections.abc import Iterator

SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def parse(text: str) -> ast.Module:
    """The syntax tree of code, without the warnings that Python has on it. Raises SyntaxError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text)
        except SystemError:
            # CPython 3.11 may lose count of the depth (gh-106905), and this text is not why
            return ast.parse(text)


def calls(tree: ast.AST, name: str) -> list[ast.Call]:
    """Every call of the plain name, in the order of the lines."""
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
    ]
    return sorted(found, key=lambda node: (node.lineno, node.col_offset))


def literal_id(call: ast.Call) -> str | None:
    """The first argument when it is a string literal: `"1.1"` of `check("1.1", f)`."""
    first = call.args[0] if call.args else None
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None


def is_single_call(tree: ast.Module, name: str) -> bool:
    """Does the cell hold one call of this name as a statement, and nothing else but imports?"""
    rest = [node for node in tree.body if not isinstance(node, ast.Import | ast.ImportFrom)]
    return (
        len(rest) == 1
        and isinstance(rest[0], ast.Expr)
        and isinstance(rest[0].value, ast.Call)
        and rest[0].value in calls(tree, name)
    )


def segment(text: str, node: ast.expr) -> str:
    """The source of a node."""
    return ast.get_source_segment(text, node) or ""


def replace_node(text: str, node: ast.expr, replacement: str) -> str:
    """The text with a node's source replaced."""
    lines = [line.encode() for line in text.split("\n")]
    first, last = node.lineno - 1, node.end_lineno - 1
    head, tail = lines[first][: node.col_offset], lines[last][node.end_col_offset :]
    lines[first : last + 1] = [head + replacement.encode() + tail]
    return b"\n".join(lines).decode()


def outer_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run when the cell runs: not what stands inside functions and classes."""
    for child in ast.iter_child_nodes(tree):
        yield child
        if not isinstance(child, SCOPES):
            yield from outer_nodes(child)


def bound_names(tree: ast.AST) -> set[str]:
    """The names a cell binds at top level: by def, class, assignment, import."""
    names = set()
    for node in outer_nodes(tree):
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).split(".")[0])
    return names


def definition(tree: ast.AST, name: str) -> ast.AST | None:
    """The last def or class of this name at top level."""
    found = [
        node
        for node in outer_nodes(tree)
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)) and node.name == name
    ]
    return found[-1] if found else None


def raises_not_implemented(node: ast.AST) -> bool:
    """Is this statement `raise NotImplementedError`, called or not?"""
    if not isinstance(node, ast.Raise):
        return False
    raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
    return isinstance(raised, ast.Name) and raised.id == "NotImplementedError"


def raises_when_called(node: ast.AST) -> bool:
    """Does a function, or a method of a class, hold `raise NotImplementedError`?"""
    return any(
        raises_not_implemented(inner)
        for function in ast.walk(node)
        if isinstance(function, FUNCTIONS)
        for inner in ast.walk(function)
    )


def raises_when_run(tree: ast.AST) -> bool:
    """Would running the cell itself, or defining its classes, reach `raise NotImplementedError`?"""
    for child in ast.iter_child_nodes(tree):
        if raises_not_implemented(child):
            return True
        if not isinstance(child, FUNCTIONS) and raises_when_run(child):
            return True
    return False
