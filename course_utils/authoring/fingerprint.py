"""Which files a lesson's outputs depend on, and whether they are still what they were.

A solution notebook remembers, in `metadata.course.executed_from`, the hash of its source and of
each module of course_utils that its code reaches. When one of them changes, the notebook is
executed again; when none does, its outputs stand and no byte of it changes.

Modules are found by reading imports, not by running them: a lesson that imports torch inside a
function is read as quickly as any other. The commands and this builder are not part of what a
lesson runs.
"""

import ast
import hashlib
import re
from collections.abc import Callable
from pathlib import Path

from course_utils.authoring import syntax
from course_utils.authoring.source import Lesson

PACKAGE = "course_utils"
NOT_RUN_BY_LESSONS = (["cli"], ["authoring"])
CHECK_CALLS = ("check", "needs")
DATA_BESIDE = {"course_utils.recorded": "benchmarks/*.json"}  # module -> what it reads elsewhere
LISTING = "the list of exercises"  # what `progress` shows


def fingerprint(
    lesson: Lesson,
    root: Path,
    find_exercise: Callable | None = None,
    list_exercises: Callable | None = None,
) -> dict[str, str]:
    """{path relative to the root: hash} of the source and of all that it runs of course_utils.

    A lesson that shows `progress` depends on every exercise's id, title and points as well, but not
    on how the other lessons' checks judge.
    """
    wanted, shows_progress = set(), False
    for cell in lesson.cells:
        if cell.tree:
            shows_progress |= bool(syntax.calls(cell.tree, "progress"))
            wanted |= imported(cell.tree, "", root)
            wanted |= check_modules(cell.tree, find_exercise)
    paths, waiting, seen = {lesson.path}, sorted(wanted), set()
    while waiting:
        module = waiting.pop()
        if module in seen or module.split(".")[1:2] in NOT_RUN_BY_LESSONS:
            continue
        seen.add(module)
        path = module_path(module, root)
        if path is None:
            continue
        paths.add(path)
        tree = module_tree(path)
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        waiting += imported(tree, package, root)
        waiting += [module.rpartition(".")[0]] if "." in module else []
        paths |= neighbours(tree, path.parent)
        paths |= set(root.glob(DATA_BESIDE[module])) if module in DATA_BESIDE else set()
    hashes = {path.relative_to(root).as_posix(): file_hash(path) for path in sorted(paths)}
    if shows_progress and list_exercises:
        hashes[LISTING] = listing_hash(list_exercises())
    return hashes


def changed(old: dict[str, str], new: dict[str, str]) -> list[str]:
    """The files that were added, removed or edited between two fingerprints, in order."""
    return sorted(path for path in old.keys() | new.keys() if old.get(path) != new.get(path))


def file_hash(path: Path) -> str:
    """Of a file's content, line ends aside."""
    content = path.read_bytes().replace(b"\r\n", b"\n")
    return hashlib.sha256(content).hexdigest()[:16]


def listing_hash(exercises: list) -> str:
    """Of what a table of exercises shows of them."""
    rows = [(each.id, each.title, each.points, each.optional) for each in exercises]
    return hashlib.sha256(repr(rows).encode()).hexdigest()[:16]


def module_path(module: str, root: Path) -> Path | None:
    place = root.joinpath(*module.split("."))
    for path in (place / "__init__.py", place.with_suffix(".py")):
        if path.is_file():
            return path
    return None


def module_tree(path: Path) -> ast.Module:
    try:
        return syntax.parse(path.read_bytes().decode("utf-8-sig"))
    except (SyntaxError, UnicodeDecodeError):
        return ast.Module(body=[], type_ignores=[])  # it will fail when the lesson runs


def imported(tree: ast.AST, package: str, root: Path) -> set[str]:
    """The modules of course_utils that the code imports, wherever in it; `package` is its own."""
    found, aliases = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == PACKAGE:
                    found.add(alias.name)
                    aliases.add(alias.asname or PACKAGE)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *([base] if base else [])])
            if base.split(".")[0] == PACKAGE:
                found |= {base}.union(*(provided(base, alias.name, root) for alias in node.names))
    for node in ast.walk(tree):  # course_utils.progress() after `import course_utils`
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", None) in aliases:
            found |= provided(PACKAGE, node.attr, root)
    return found


def provided(base: str, name: str, root: Path) -> set[str]:
    """The module behind `from base import name`: a submodule, or the home of a lazy name."""
    if module_path(f"{base}.{name}", root):
        return {f"{base}.{name}"}
    path = module_path(base, root)
    for node in module_tree(path).body if path and path.name == "__init__.py" else ():
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and target.id == "_HOME":
            homes = ast.literal_eval(node.value)
            return {homes[name]} if name in homes else set()
    return set()


def check_modules(tree: ast.AST, find_exercise: Callable | None) -> set[str]:
    """The modules of the checks that a cell asks for: the registry loads them by name, unseen."""
    found = set()
    for name in CHECK_CALLS:
        for call in syntax.calls(tree, name) if find_exercise else ():
            try:
                exercise = find_exercise(syntax.literal_id(call))
            except KeyError:
                continue  # the rules say so
            parts = [getattr(exercise, part, None) for part in ("cases", "run", "judge")]
            found |= {exercise.module, *(part.__module__ for part in parts if part)}
    return {module for module in found if module.split(".")[0] == PACKAGE}


def neighbours(tree: ast.AST, folder: Path) -> set[Path]:
    """Files beside a module that it names in a string: a style sheet, a table."""
    names = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)}
    plain = {n for n in names if isinstance(n, str) and re.fullmatch(r"[\w-]{1,60}\.\w{1,12}", n)}
    return {folder / n for n in plain if not n.endswith(".py") and (folder / n).is_file()}
