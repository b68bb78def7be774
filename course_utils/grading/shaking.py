"""What is left of the checks when only `run` is kept: a module's statements, followed by their names.

A check is three pure parts in one module. The sandbox runs one of them, so it gets that one: the function
and whatever its names lead to, in its module and in others of the checks. Lines stay where they are, so a
traceback reads as in the course. What is left out is not in the sandbox, so no answer can find it there.
"""

import ast
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path


class _Module:
    """A module's top-level statements, by the names that they bind."""

    def __init__(self, name: str):
        self.name = name
        self.text = Path(find_spec(name).origin).read_text("utf-8")
        self.tree = ast.parse(self.text)
        self.kept: dict[int, set[str]] = {}  # statement -> the names wanted of it
        self.makers: dict[str, list[int]] = {}
        for number, statement in enumerate(self.tree.body):
            for bound in _bound(statement):
                self.makers.setdefault(bound, []).append(number)

    def source(self) -> str:
        """The kept statements on their lines, imports with the wanted names alone."""
        lines, given = [""] * len(self.text.splitlines()), self.text.splitlines()
        for number, names in self.kept.items():
            statement = self.tree.body[number]
            first = min([statement.lineno, *(d.lineno for d in _decorators(statement))]) - 1
            if isinstance(statement, ast.ImportFrom | ast.Import):
                some = [a for a in statement.names if (a.asname or a.name.split(".")[0]) in names]
                kept = ast.ImportFrom(statement.module, some, 0) if isinstance(
                    statement, ast.ImportFrom
                ) else ast.Import(some)  # fmt: skip
                lines[first] = ast.unparse(kept)
            else:
                lines[first : statement.end_lineno] = given[first : statement.end_lineno]
        return "\n".join(lines).rstrip() + "\n"


def shaken(
    runs: Iterable[tuple[str, str]], is_shaken: Callable[[str], bool]
) -> Iterator[tuple[str, str]]:
    """(module, what is left of its text) for every shaken module that the runs reach.

    `is_shaken(module)`: others are there whole. Raises KeyError for a name that its module does not bind.
    """
    modules: dict[str, _Module] = {}
    waiting = [(module, name.partition(".")[0]) for module, name in runs]
    seen = set()
    while waiting:
        wanted = waiting.pop()
        if wanted in seen or not is_shaken(wanted[0]):
            continue
        seen.add(wanted)
        name, attribute = wanted
        if name not in modules:
            modules[name] = _Module(name)
        module = modules[name]
        if attribute not in module.makers:
            if find_spec(f"{name}.{attribute}") is None:
                raise KeyError(f"{name} has no {attribute}")
            whole_module = modules.setdefault(f"{name}.{attribute}", _Module(f"{name}.{attribute}"))
            waiting += [(whole_module.name, each) for each in whole_module.makers]
            continue
        for number in module.makers[attribute]:
            module.kept.setdefault(number, set()).add(attribute)
            waiting += _leads_to(module, module.tree.body[number], attribute)
    return ((name, module.source()) for name, module in modules.items())


def _leads_to(module: _Module, statement: ast.stmt, attribute: str) -> list[tuple[str, str]]:
    """What a statement that binds `attribute` refers to: names of its module, and of other checks."""
    found = []
    if isinstance(statement, ast.ImportFrom):
        names = [a.name for a in statement.names if (a.asname or a.name) == attribute]
        return [(statement.module, name) for name in names]
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and node.id in module.makers:
            found.append((module.name, node.id))
        elif isinstance(node, ast.ImportFrom):
            found += [(node.module, alias.name) for alias in node.names]
    return found


def _bound(statement: ast.stmt) -> set[str]:
    """The names that a top-level statement binds, in whatever it contains but functions and classes."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return {alias.asname or alias.name.split(".")[0] for alias in statement.names}
    names = {
        node.id
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    return names


def _decorators(statement: ast.stmt) -> list[ast.expr]:
    return getattr(statement, "decorator_list", [])
