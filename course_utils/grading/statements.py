"""The statements of a cell, and the names that each of them makes, changes and needs.

An answer needs the imports, helpers and constants that it uses, and a notebook has many more
statements than those: training runs, figures, experiments. Which are needed can be told from names
alone, without running anything.
"""

import ast
import builtins
import symtable
from dataclasses import dataclass

from course_utils.authoring import syntax
from course_utils.grading import magics
from course_utils.grading.cells import PlainCell

BUILTIN = frozenset(dir(builtins)) | {"__name__", "__file__", "__doc__"}
SHOWING = frozenset(
    ["print", "display", "check", "predict", "measured", "needs", "progress", "show_source"]
)
SETTLES = frozenset(["seterr", "simplefilter", "set_default_dtype", "setrecursionlimit"])
COMPOUND = (ast.If, ast.For, ast.While, ast.Try, ast.With)
INLINED = (ast.ListComp, ast.SetComp, ast.DictComp)
TOO_DEEP = (SyntaxError, ValueError, RecursionError, MemoryError)


@dataclass(frozen=True)
class Statement:
    """One statement at a cell's top level.

    `now` are names needed when it runs, `later` those needed when what it defines is called.
    `changes` are names whose object it changes for sure, `calls` those on which it calls a method.
    """

    cell: int
    order: int
    source: str
    makes: frozenset[str]
    changes: frozenset[str]
    calls: frozenset[str]
    now: frozenset[str]
    later: frozenset[str]
    shows: bool  # prints, plots or checks: nothing can need it
    is_import: bool = False
    is_partial: bool = False  # an if, a loop, a try: what it makes may have been there before
    imports_all: bool = False  # from math import *

    @property
    def place(self) -> tuple[int, int]:
        return self.cell, self.order

    @property
    def needs(self) -> frozenset[str]:
        return self.now | self.later


@dataclass(frozen=True)
class CodeCell:
    """A code cell as Python: `text` without magics, its tree (None if it does not parse)."""

    index: int
    text: str
    tree: ast.Module | None
    statements: tuple[Statement, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def makes(self) -> frozenset[str]:
        return frozenset().union(*(each.makes for each in self.statements))


def code_cell(index: int, cell: PlainCell) -> CodeCell:
    """What a cell's code is and needs. Never raises, whatever the text is."""
    text, notes = cell.text, []
    try:
        text, notes = magics.as_python(cell.text)
        tree = syntax.parse(text)
        lines = [line.encode() for line in text.split("\n")]
        statements = tuple(
            each
            for order, node in enumerate(tree.body)
            for each in statements_of(index, order, node, lines)
        )
    except TOO_DEEP:
        return CodeCell(index, text, None, (), tuple(notes))
    return CodeCell(index, text, tree, statements, tuple(notes))


def statements_of(cell: int, order: int, node: ast.stmt, lines: list[bytes]) -> list[Statement]:
    """A statement; an import of several names is as many statements, each with its own."""
    if not isinstance(node, ast.Import | ast.ImportFrom):
        return [statement(cell, order, node, source_of(lines, node))]
    found = []
    for alias in node.names:
        single = (
            ast.Import([alias])
            if isinstance(node, ast.Import)
            else ast.ImportFrom(node.module, [alias], node.level)
        )
        name = (alias.asname or alias.name).split(".")[0]
        nothing = frozenset()
        is_all = name == "*"
        made = frozenset({name})
        found.append(
            Statement(
                cell, order, ast.unparse(single), made, *[nothing] * 4, False, True, False, is_all
            )  # fmt: skip
        )
    return found


def statement(cell: int, order: int, node: ast.stmt, source: str) -> Statement:
    module = ast.Module([node], [])
    now, later = needed_names(source)
    changes, calls = changed_names(node)
    return Statement(
        cell,
        order,
        source,
        frozenset(syntax.bound_names(module)),
        frozenset(changes),
        frozenset(calls),
        frozenset((now | changes) - BUILTIN),
        frozenset(later - BUILTIN),
        shows_only(node),
        is_partial=isinstance(node, COMPOUND),
    )


def source_of(lines: list[bytes], node: ast.stmt) -> str:
    """A statement's own text, its decorators included, out of its cell's lines."""
    decorators = [each.lineno for each in getattr(node, "decorator_list", ())]
    first = min([node.lineno, *decorators])
    part = lines[first - 1 : node.end_lineno]
    part[-1] = part[-1][: node.end_col_offset]
    if not decorators:
        part[0] = part[0][node.col_offset :]
    return b"\n".join(part).decode()


def needed_names(source: str) -> tuple[set[str], set[str]]:
    """Global names that code reads (when it runs, when what it defines is called)."""
    now, later = set(), set()
    waiting = [(symtable.symtable(with_own_scopes(source), "cell", "exec"), now)]
    while waiting:
        table, needed = waiting.pop()
        at_top = table.get_type() == "module"
        for symbol in table.get_symbols():
            is_global = at_top or symbol.is_global()
            if is_global and (symbol.is_referenced() or symbol.is_declared_global()):
                needed.add(symbol.get_name())
        for child in table.get_children():
            is_loop = child.get_type() == "function" and ".0" in child.get_parameters()
            runs_now = (
                child.get_type() == "class" or is_loop
            )  # a comprehension's own argument is .0
            waiting.append((child, needed if runs_now else later))
    return now, later


def with_own_scopes(source: str) -> str:
    """The code, with as many names in as many scopes, for `symtable`.

    Since Python 3.12 a comprehension's variables stand among those of the code around it (PEP 709); those
    of a generator do not, so comprehensions become generators. Texts and numbers go: not all can be
    written out again.
    """
    tree = syntax.parse(source)
    if not any(isinstance(node, INLINED) for node in ast.walk(tree)):
        return source
    try:
        return ast.unparse(Generators().visit(tree))
    except RecursionError:  # as deep as few are: by the rules of this Python, then
        return source


class Generators(ast.NodeTransformer):
    """Every comprehension as a generator; texts and whole numbers empty, f-strings what is in them."""

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp) -> ast.GeneratorExp:
        return ast.GeneratorExp(self.visit(node.elt), self._visited(node.generators))

    visit_SetComp = visit_ListComp

    def visit_DictComp(self, node: ast.DictComp) -> ast.GeneratorExp:
        pair = ast.Tuple([self.visit(node.key), self.visit(node.value)], ast.Load())
        return ast.GeneratorExp(pair, self._visited(node.generators))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.Tuple:
        return ast.Tuple(self._visited(node.values), ast.Load())

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.Tuple:
        parts = [node.value, *([node.format_spec] if node.format_spec else [])]
        return ast.Tuple(self._visited(parts), ast.Load())

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        is_plain = isinstance(node.value, str | bytes | int)
        return ast.Constant(type(node.value)()) if is_plain else node

    def _visited(self, nodes: list) -> list:
        return [self.visit(each) for each in nodes]


def changed_names(node: ast.stmt) -> tuple[set[str], set[str]]:
    """Names whose object a statement changes (`x[0] = 1`, `x.a = 1`, `x += 1`), and may change
    (`x.append(1)`)."""
    changed, called_on = set(), set()
    for inner in syntax.outer_nodes(ast.Module([node], [])):
        if isinstance(inner, ast.Subscript | ast.Attribute) and isinstance(inner.ctx, ast.Store):
            changed.add(root_name(inner))
        elif isinstance(inner, ast.AugAssign):
            changed.add(root_name(inner.target))
        elif isinstance(inner, ast.Expr) and isinstance(inner.value, ast.Call):
            call = inner.value
            if isinstance(call.func, ast.Attribute):
                settles = call.func.attr in SETTLES
                (changed if settles else called_on).add(root_name(call.func))
            elif called(call) in ("setattr", "delattr") and call.args:
                changed.add(root_name(call.args[0]))
    return changed - {None}, called_on - {None}


def root_name(node: ast.AST) -> str | None:
    """`x` of `x[0].a`."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call | ast.Starred):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


def shows_only(node: ast.stmt) -> bool:
    """Is this a statement that only shows or tests something: print, check, assert, a bare value?"""
    if isinstance(node, ast.With):
        return all(called(item.context_expr) == "needs" for item in node.items)
    if isinstance(node, ast.Expr):
        is_call = isinstance(node.value, ast.Call)
        return not is_call or called(node.value) in SHOWING
    return isinstance(node, ast.Assert)


def called(node: ast.AST) -> str | None:
    return node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else None
