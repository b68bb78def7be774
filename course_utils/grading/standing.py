"""What names in a text stand for, as far as the text tells: modules, constant texts, the memory or parts of it.

`WAY = "load"` and then `getattr(sram, WAY)` is as plain as `sram.load`. And `setattr` on an object of one's own
is another thing than on an array in the memory. Both are read without running anything, and err on the careful
side: a name that is bound in any other way as well is no constant.
"""

import ast
import string
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress

_PLAIN_PARTS = {
    *("shape", "dtype", "itemsize", "nbytes", "size", "ndim", "T", "name"),
    *("capacity_bytes", "live_bytes", "peak_bytes", "bytes_read", "bytes_written", "bytes_moved"),
}
_PLAIN_CALLS = {"len", "range", "min", "max", "int", "float", "str", "repr", "round", "print"}
MOST_NODES = 20_000  # of a text that is followed; the largest honest one has a tenth
_RUN = {"eval", "exec", "timeit", "repeat"}


def parsed(sources: Iterable[str]) -> ast.Module:
    """All sources that are Python, as one module."""
    body: list[ast.stmt] = []
    for source in sources:
        with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            body += ast.parse(source).body
    return ast.Module(body, [])


def modules_named(tree: ast.AST) -> dict[str, str]:
    """What names stand for: modules, and what comes out of them. After `lib = np.lib`, lib does, too."""
    found = {}
    made_of = defaultdict(list)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            base = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            for alias in node.names:
                found[(alias.asname or alias.name).partition(".")[0]] = base + alias.name
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name | ast.Attribute):
            made_of[root_name(node.value)] += [
                each.id for each in node.targets if isinstance(each, ast.Name)
            ]
    waiting = list(found)
    while waiting:
        name = waiting.pop()
        for other in made_of.pop(name, ()):
            if other not in found:
                found[other] = found[name]
                waiting.append(other)
    return found


def root_name(node: ast.AST) -> str:
    """`np` of np.lib.array_utils. The nodes remember it: a chain is as long as its author likes."""
    chain = []
    while isinstance(node, ast.Attribute) and not hasattr(node, "root"):
        chain.append(node)
        node = node.value
    root = node.root if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    for each in chain:
        each.root = root
    return root


def last_name(node: ast.AST) -> str:
    """`array_utils` of np.lib.array_utils."""
    return getattr(node, "attr", "") or getattr(node, "id", "")


class Standing:
    """Of one text: its constants by name, and the names behind which the memory is."""

    def __init__(self, tree: ast.AST):
        self.nodes = list(ast.walk(tree))
        self._constants = constant_texts(self.nodes)
        self.functions = {
            node.name: node for node in self.nodes if isinstance(node, ast.FunctionDef)
        }
        self.memory: set[str] | None = None

    def texts(self, node: ast.AST | None) -> set[str] | None:
        """All texts that an expression can be; None where the text does not tell."""
        if isinstance(node, ast.Constant):
            return {node.value} if isinstance(node.value, str) else None
        if isinstance(node, ast.Name):
            return self._constants.get(node.id)
        if isinstance(node, ast.IfExp):
            both = self.texts(node.body), self.texts(node.orelse)
            return None if None in both else both[0] | both[1]
        return None

    def programs(self) -> set[str]:
        """Constant texts that are run: by eval, exec and timers."""
        found: set[str] = set()
        for node in self.nodes:
            if isinstance(node, ast.Call) and last_name(node.func) in _RUN:
                given = [*node.args[:2], *(each.value for each in node.keywords)]
                found |= {text.strip() for each in given for text in self.texts(each) or ()}
        return found

    def is_memory(self, node: ast.AST) -> bool:
        """Whether an expression may hold the memory, or what lies in it."""
        if len(self.nodes) > MOST_NODES:
            return True
        if self.memory is None:
            self.memory = self._reached()
        return self._touches(node, self.memory)

    def _touches(self, node: ast.AST, memory: set[str]) -> bool:
        waiting = [node]
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.Name) and node.id in memory:
                return True
            is_number = isinstance(node, ast.Attribute) and node.attr in _PLAIN_PARTS
            if is_number or isinstance(node, ast.Call) and last_name(node.func) in _PLAIN_CALLS:
                continue
            waiting += ast.iter_child_nodes(node)
        return False

    def _reached(self) -> set[str]:
        """Parameters of functions that nothing here calls, and all that is made of them; by name alone."""
        called = {last_name(node.func) for node in self.nodes if isinstance(node, ast.Call)}
        called |= {last_name(by) for each in self.functions.values() for by in each.decorator_list}
        memory = {
            arg.arg
            for name, function in self.functions.items()
            if name not in called and not name.startswith("__")
            for arg in _parameters(function)
        } - {"self", "cls"}
        for _ in range(20):
            before = len(memory)
            for node in self.nodes:
                memory |= set(self._passed_on(node, memory))
            if len(memory) == before:
                break
        return memory

    def _passed_on(self, node: ast.AST, memory: set[str]) -> Iterator[str]:
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.NamedExpr):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if node.value is not None and self._touches(node.value, memory):
                yield from (name for each in targets for name in _names(each))
        elif isinstance(node, ast.For | ast.comprehension):
            if self._touches(node.iter, memory):
                yield from _names(node.target)
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            if self._touches(node.context_expr, memory):
                yield from _names(node.optional_vars)
        elif isinstance(node, ast.Call):
            yield from self._arguments(node, memory)

    def _arguments(self, node: ast.Call, memory: set[str]) -> Iterator[str]:
        function = self.functions.get(last_name(node.func))
        given = [(at, each) for at, each in enumerate(node.args) if self._touches(each, memory)]
        named = [each.arg for each in node.keywords if self._touches(each.value, memory)]
        if function is None:
            is_kept = isinstance(node.func, ast.Attribute) and node.func.attr in ("append", "add")
            yield from _names(node.func.value) if is_kept and given else ()
            return
        names = [arg.arg for arg in (*function.args.posonlyargs, *function.args.args)]
        names = names[1:] if names[:1] in (["self"], ["cls"]) else names
        starred = any(isinstance(each, ast.Starred) for each in node.args) or None in named
        for at, _ in given:
            yield from names if starred else names[at : at + 1]
            if at >= len(names) and function.args.vararg:
                yield function.args.vararg.arg
        for name in named:
            kwarg = function.args.kwarg
            if name in names or name in {arg.arg for arg in function.args.kwonlyargs}:
                yield name
            elif kwarg:
                yield kwarg.arg


def constant_texts(nodes: Iterable[ast.AST]) -> dict[str, set[str]]:
    """Names all of whose bindings are texts that are written out, and these."""
    nodes = list(nodes)
    found: dict[str, set[str]] = {}
    explained: set[int] = set()
    others: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Assign):
            targets, values = node.targets, [node.value]
        elif isinstance(node, ast.For | ast.comprehension) and isinstance(
            node.iter, ast.Tuple | ast.List | ast.Set
        ):
            targets, values = [node.target], node.iter.elts
        else:
            continue
        texts = [each.value for each in values if isinstance(each, ast.Constant)]
        if len(texts) == len(values) and all(isinstance(text, str) for text in texts):
            for target in targets:
                if isinstance(target, ast.Name):
                    explained.add(id(target))
                    found.setdefault(target.id, set()).update(texts)
    for node in nodes:
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            others |= {node.id} if id(node) not in explained else set()
        elif isinstance(node, ast.arg):
            others.add(node.arg)
        elif isinstance(node, ast.alias):
            others.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            others.add(node.name)
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
            others.add(node.name or "")
        elif isinstance(node, ast.MatchMapping):
            others.add(node.rest or "")
    return {name: texts for name, texts in found.items() if name not in others}


def _parameters(function: ast.FunctionDef) -> list[ast.arg]:
    args = function.args
    more = [each for each in (args.vararg, args.kwarg) if each is not None]
    return [*args.posonlyargs, *args.args, *args.kwonlyargs, *more]


def _names(node: ast.AST) -> set[str]:
    """The names that a target binds, or whose object it writes into."""
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def parses(text: str) -> bool:
    try:
        ast.parse(text.strip())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def are_plain(texts: set[str] | None) -> bool:
    return texts is not None and not any(text.startswith("_") for text in texts)


def is_whole(text: str) -> bool:
    """Whether all fields of a format's text end in it, so that none is put together of two."""
    try:
        list(string.Formatter().parse(text))
    except ValueError:
        return False
    return True
