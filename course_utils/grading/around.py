"""Whether a program for the two-level memory says what it does: what is reached by other ways is not counted.

Traffic is counted where `load` and `store` are called. The numbers themselves lie in the same process, and Python
has many ways to them that nobody writes down. So where traffic is counted, a text that takes a way which no
honest program has a use for gets no pass, and is told why (AROUND). What an honest one may do is flagged at most
(NEARBY), and a name of a constant text is read as that text. The list cannot be complete: see INSTRUCTORS.md.
"""

import ast
from collections.abc import Callable, Iterable, Iterator

from course_utils.checks.observe import MEMORY_WORKS
from course_utils.grading.standing import (
    Standing,
    are_plain,
    is_text,
    is_whole,
    last_name,
    modules_named,
    parsed,
    parses,
    root_name,
)
from course_utils.grading.ways import (
    BY_NAME,
    COPIES,
    FROM_TEXT,
    INSIDES,
    KINDS,
    MADE,
    MODULES,
    NAMED,
    NAMESPACES,
    PLAIN,
    PRIVATE_FIELD,
    SEARCHED,
    SUBMODULES,
    TAUGHT,
    TIMERS,
    WORK,
    WRITES,
    is_inner,
)

AROUND = "reaches around the memory: "  # a flag that begins so decides, where traffic is counted
NEARBY = "could reach around the memory: "  # one that begins so does not
_Ways = Iterator[tuple[str, str]]  # AROUND or NEARBY, and the way


def counts_traffic(run: Callable) -> bool:
    """Whether an exercise's `run` runs its answer on the two-level memory."""
    names = getattr(run, "__globals__", {})
    return "observe_on_chip" in names or "run_program" in names


def around_flags(sources: Iterable[str]) -> list[str]:
    """Each way round the memory that the text of an answer and its cells takes. Never raises."""
    tree, read = parsed(sources), set()
    while new := Standing(tree).programs() - read:  # a text may run another, which stands in it
        tree.body += parsed(new).body
        read |= new
    return sorted({f"{kind}{way}" for kind, way in _Text(tree).ways()})


class _Text:
    """One text, with what its names stand for."""

    def __init__(self, tree: ast.Module):
        self.standing = Standing(tree)
        self.nodes, self.modules = self.standing.nodes, modules_named(tree)
        self.parents = {
            id(part): node for node in self.nodes for part in ast.iter_child_nodes(node)
        }
        self.called = {id(node.func) for node in self.nodes if isinstance(node, ast.Call)}
        self.classes = {node.name: node for node in self.nodes if isinstance(node, ast.ClassDef)}
        self.docs = {
            id(node.value)
            for node in self.nodes
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        }
        self.all_imported = any(isinstance(n, ast.alias) and n.name == "*" for n in self.nodes)

    def ways(self) -> _Ways:
        for node in self.nodes:
            kind = type(node)
            if kind in _READ:
                yield from _READ[kind](self, node)

    def call(self, node: ast.Call) -> _Ways:
        name, texts = last_name(node.func), self.standing.texts(node.args[0] if node.args else None)
        module = self.modules.get(root_name(node.func), "").partition(".")[0]
        if name in BY_NAME:
            yield from self.by_name(name, node)
        elif name in FROM_TEXT and isinstance(node.func, ast.Name):
            is_known = name != "compile" and texts is not None and all(map(parses, texts))
            yield NEARBY if is_known else AROUND, name
        elif name in NAMESPACES and isinstance(node.func, ast.Name):
            yield NEARBY if self.is_harmless(node) else AROUND, name
        elif name in COPIES:
            chosen = {each.arg for each in node.keywords} & {"assigned", "updated", None}
            more = len(node.args) > (2 if name == "update_wrapper" else 1)
            if chosen or more or any(map(self.standing.is_memory, node.args)):
                yield AROUND, f"{name} of chosen attributes"
        elif name == "type" and len(node.args) == 3:
            yield AROUND, "a class made by type"
        if module in TIMERS or name in TIMERS:
            yield from self.timed(name, node)
        for each in node.keywords:
            if (
                each.arg == "eval_str"
                or each.arg == "style"
                and self.standing.texts(each.value) == {"{"}
            ):
                yield AROUND, f"{name} with {each.arg}"

    def by_name(self, name: str, node: ast.Call) -> _Ways:
        owner = node.args[0] if node.args and name not in MADE else None
        root = root_name(owner) if owner is not None else ""
        named = node.args[0 if name in MADE else 1 :][:1]
        texts = self.standing.texts(named[0]) if named else None
        parts = [part for text in texts or () for part in text.split(".")]
        is_inside = any(part.startswith("_") or part in INSIDES for part in parts)
        told = (
            f"{name} of {sorted(texts)[0]!r}"
            if texts
            else f"{name} with a name that is put together"
        )
        if name in WRITES:
            if root == "self":
                return
            is_theirs = owner is None or root in self.modules or self.standing.is_memory(owner)
            yield AROUND if is_inside or texts is None and is_theirs else NEARBY, told
        elif texts is None:
            if self.modules.get(root, "").partition(".")[0] not in PLAIN:
                yield AROUND, told
        elif is_inside:
            yield AROUND, told

    def is_harmless(self, node: ast.Call) -> bool:
        """Whether of globals(), locals() or vars() no more is used than names that are written out."""
        parent = self.parents.get(id(node))
        if node.args or node.keywords:
            return False
        if isinstance(parent, ast.Attribute):
            call = self.parents.get(id(parent))
            texts = self.standing.texts(call.args[0]) if getattr(call, "args", []) else None
            return parent.attr == "keys" or parent.attr == "get" and are_plain(texts)
        if isinstance(parent, ast.Subscript):
            return are_plain(self.standing.texts(parent.slice))
        if isinstance(parent, ast.keyword):
            name = last_name(getattr(self.parents.get(id(parent)), "func", parent))
            is_timed = parent.arg in ("globals", "locals") and name in ("timeit", "repeat", "Timer")
            return is_timed or parent.arg is None and name == "format"
        return isinstance(parent, ast.Compare)

    def timed(self, name: str, node: ast.Call) -> _Ways:
        for each in [*node.args, *(each.value for each in node.keywords)]:
            is_function = isinstance(each, ast.Lambda) or root_name(each) in self.standing.functions
            is_number = isinstance(each, ast.Constant) and not isinstance(each.value, str)
            is_namespace = isinstance(each, ast.Call) and last_name(each.func) in NAMESPACES
            texts = self.standing.texts(each)
            if texts is not None and all(map(parses, texts)):
                yield NEARBY, f"{name} of a text"
            elif not (is_function or is_number or is_namespace):
                yield AROUND, f"{name} of what may be text"

    def name(self, node: ast.Name) -> _Ways:
        if node.id in TAUGHT and isinstance(node.ctx, ast.Store):
            yield AROUND, node.id
        is_own = node.id in self.standing.functions or node.id in self.classes
        if is_own or not isinstance(node.ctx, ast.Load):
            return
        passed_on = set() if id(node) in self.called else FROM_TEXT | NAMESPACES | NAMED
        if node.id in passed_on or self.all_imported and node.id in INSIDES:
            yield AROUND, node.id

    def attribute(self, node: ast.Attribute) -> _Ways:
        name, root = node.attr, root_name(node.value)
        is_store = isinstance(node.ctx, ast.Store | ast.Del)
        if name == "__dict__" and isinstance(node.value, ast.Name) and root == "self":
            yield NEARBY, "self.__dict__"
        elif name in MEMORY_WORKS | INSIDES or name == "__class__" and is_store or is_inner(name):
            yield AROUND, f".{name}"
        elif name in NAMED and id(node) not in self.called:
            yield AROUND, name
        elif f"{self.modules.get(root)}.{name}" in SEARCHED:
            yield AROUND, f"sys.{name}"
        elif is_store and root in self.modules:
            yield AROUND, f"it writes into {root}"
        elif name == "format":
            yield from self.formatted(node)

    def formatted(self, node: ast.Attribute) -> _Ways:
        texts = self.standing.texts(node.value)
        if isinstance(node.value, ast.JoinedStr) or texts is None or id(node) not in self.called:
            texts = [n.value for n in self.nodes if is_text(n)]
            is_torn = any(not is_whole(text) for text in texts)
            yield AROUND if is_torn else NEARBY, "format of a text that is not written there"

    def defined(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> _Ways:
        if node.name in TAUGHT:
            yield AROUND, node.name

    def pattern(self, node: ast.MatchClass) -> _Ways:
        yield from ((AROUND, name) for name in node.kwd_attrs if name in MEMORY_WORKS)
        kind = last_name(node.cls)
        own = self.classes.get(kind)
        is_plain = kind in KINDS or own is not None and not own.bases and not own.keywords
        if node.patterns and not is_plain:
            yield AROUND, f"a pattern of {kind}'s parts without their names"

    def constant(self, node: ast.Constant) -> _Ways:
        if id(node) in self.docs or not isinstance(node.value, str):
            return
        value, is_prose = node.value, " " in node.value and "{" not in node.value
        if value.endswith("__") and is_inner(value) or PRIVATE_FIELD.search(value):
            yield AROUND, f"the text {value[:40]!r}"
        elif WORK.search(value):
            yield NEARBY if is_prose else AROUND, f"the text {value[:40]!r}"

    def imports(self, node: ast.Import | ast.ImportFrom) -> _Ways:
        places = [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            hidden = {each.name for each in node.names if each.asname} & NAMED
            for name in places:
                if name in INSIDES | FROM_TEXT | NAMESPACES | hidden:
                    yield AROUND, name
                elif f"{node.module}.{name}" in SEARCHED:
                    yield AROUND, f"sys.{name}"
            places = [node.module or "", *(f"{node.module}.{name}" for name in places)]
        for place in places:
            head, is_inner = place.partition(".")[0], place.startswith("course_utils.hierarchy.")
            is_inner &= isinstance(node, ast.Import) or place == node.module
            if head in MODULES or place in SUBMODULES or is_inner:
                yield AROUND, f"import {place}"
            elif place == "unittest":
                yield NEARBY, "import unittest"


_READ: dict[type, Callable[[_Text, ast.AST], _Ways]] = {
    ast.Call: _Text.call,
    ast.Name: _Text.name,
    ast.Attribute: _Text.attribute,
    ast.FunctionDef: _Text.defined,
    ast.AsyncFunctionDef: _Text.defined,
    ast.MatchClass: _Text.pattern,
    ast.Constant: _Text.constant,
    ast.Import: _Text.imports,
    ast.ImportFrom: _Text.imports,
}
