"""Files of the students' copy that are not as they stand here: without what the copy does not hold.

A module may hold formulas for two lessons, the README a row for each, the list of figures all that was
measured. These are cut, by their structure, and what is left must still hang together: every import
of course_utils in the copy has to find its module and its name.
"""

import ast
import re
from collections.abc import Container

from course_utils.authoring import syntax
from course_utils.errors import CourseError

LINK = re.compile(r"!?\[[^\]]*\]\(([^)#:]+)\)")
SENTENCE = re.compile(r"(?<=\.)\s+(?=[A-Z\[`*])")


def without_names(contents: dict[str, bytes], module: str, names: set[str]) -> None:
    """Cut names out of a module of the copy, and out of what its package passes on."""
    path = f"{module.replace('.', '/')}.py"
    above = f"{path.rpartition('/')[0]}/__init__.py"
    for each in (path, above):
        contents[each] = cut(contents[each].decode(), names).encode()


def cut(text: str, names: set[str]) -> str:
    """A module's text without these functions, classes and imports, also in `__all__`.

    Raises CourseError where what is left still uses one of them.
    """
    tree, lines = syntax.parse(text), text.split("\n")
    for node in reversed(tree.body):
        if isinstance(node, (*syntax.FUNCTIONS, ast.ClassDef)) and node.name in names:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            lines[first - 1 : node.end_lineno] = []
        elif isinstance(node, ast.ImportFrom) and any(a.name in names for a in node.names):
            kept = [a for a in node.names if a.name not in names]
            new = ast.ImportFrom(node.module, kept, node.level)
            lines[node.lineno - 1 : node.end_lineno] = [ast.unparse(new)] if kept else []
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            kept = [name for name in ast.literal_eval(node.value) if name not in names]
            lines[node.lineno - 1 : node.end_lineno] = [f"__all__ = {kept!r}"]
    left = re.sub(r"\n{4,}", "\n\n\n", "\n".join(lines))
    used = {node.id for node in ast.walk(syntax.parse(left)) if isinstance(node, ast.Name)}
    if used & names:
        raise CourseError(f"{', '.join(sorted(used & names))}: held back, but used beside it")
    return left


def readme(text: str, there: Container[str]) -> str:
    """The README without table rows and sentences that link to what is not in the copy."""

    def is_there(part: str) -> bool:
        return all(target.strip("/") in there for target in LINK.findall(part))

    kept = []
    for line in text.split("\n"):
        if line.startswith(("|", "- ")) or is_there(line):
            kept += [line] if is_there(line) else []
        else:
            kept.append(" ".join(part for part in SENTENCE.split(line) if is_there(part)))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept))


def figures(text: str, numbers: set[str]) -> str:
    """The list of the lectures' figures, with the rows of these lessons ("03") alone."""
    kept = []
    for line in text.split("\n"):
        cells = line.split("|")
        lessons = set(re.findall(r"\b\d\d\b", cells[3])) if len(cells) > 4 else set()
        if not lessons or lessons & numbers:
            kept.append(line)
    return "\n".join(kept)


def missing_imports(contents: dict[str, bytes]) -> list[str]:
    """Each import of course_utils in the copy whose module, or name, is not in it."""
    modules = {
        name.removesuffix(".py").removesuffix("/__init__").replace("/", "."): content
        for name, content in contents.items()
        if name.startswith("course_utils/") and name.endswith(".py")
    }
    trees = {module: syntax.parse(content.decode()) for module, content in modules.items()}
    bound = {module: syntax.bound_names(tree) for module, tree in trees.items()}
    found = []
    for module, tree in trees.items():
        for node in ast.walk(tree):
            base = getattr(node, "module", None) or ""
            if isinstance(node, ast.Import):
                ours = [a.name for a in node.names if a.name.split(".")[0] == "course_utils"]
                found += [f"{module} imports {name}" for name in ours if name not in modules]
            elif isinstance(node, ast.ImportFrom) and base.split(".")[0] == "course_utils":
                if base not in modules:
                    found.append(f"{module} imports {base}")
                    continue
                lazy = "__getattr__" in bound[base]
                names = [a.name for a in node.names if f"{base}.{a.name}" not in modules]
                lost = [name for name in names if name not in bound[base] and not lazy]
                found += [f"{module} imports {base}.{name}" for name in lost]
    return found
