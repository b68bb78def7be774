"""Files of the students' copy that are not as they stand here: without what the copy does not hold.

A module may hold formulas for two lessons, the README a row for each, the list of figures all that was
measured. These are cut, by their structure, and what is left must still hang together: every import
of course_utils in the copy has to find its module and its name.
"""

import ast
import re
from collections.abc import Container
from functools import cache

from course_utils.authoring import syntax
from course_utils.errors import CourseError

PACKAGE = "course_utils"
LINK = re.compile(r"!?\[[^\]]*\]\(([^)#:]+)\)")
UNPACKED = (  # what the README says of the repository -> of a ZIP
    (
        "## Two commands\n\n",
        "## Two commands\n\nThis is your copy. Unpack the ZIP where you keep your work, open a terminal in its folder, "
        "and type the first of the two lines below: it opens the lessons. Work in those under `work/`, and hand in a "
        "notebook from there, under the name that it has. Unpack a newer ZIP over this folder: what you wrote "
        "stays, and `python course.py update` takes it along.\n\n",
    ),
    ("or newer, and git. ", "or newer. "),
    ("clone this page in a terminal, run", "upload the ZIP, unpack it in a terminal, run"),
    ("They follow a lecture", "The lessons follow a lecture"),
)
NOT_IN_A_ZIP = ("git clone", "course.py site")
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
    """The README without table rows and sentences that link to what is not in the copy, for who has a ZIP."""
    for ours, theirs in UNPACKED:
        text = text.replace(ours, theirs)

    def is_there(part: str) -> bool:
        return all(target.strip("/") in there for target in LINK.findall(part))

    kept = []
    for line in text.split("\n"):
        if any(words in line for words in NOT_IN_A_ZIP):
            continue
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
    known = {module: names_and_imports(content) for module, content in modules.items()}
    bound = {module: names for module, (names, _) in known.items()}
    found = []
    for module, (_, imports) in known.items():
        for base, names in imports:
            if not base:
                found += [f"{module} imports {name}" for name in names if name not in modules]
            elif base not in modules:
                found.append(f"{module} imports {base}")
            elif "__getattr__" not in bound[base]:
                lost = [n for n in names if f"{base}.{n}" not in modules and n not in bound[base]]
                found += [f"{module} imports {base}.{name}" for name in lost]
    return found


@cache
def names_and_imports(content: bytes) -> tuple[set[str], list[tuple[str, list[str]]]]:
    """What a module binds, and its imports of course_utils: (from where, or "", names), in order."""
    tree = syntax.parse(content.decode())
    imports = []
    for node in ast.walk(tree):
        base = getattr(node, "module", None) or ""
        if isinstance(node, ast.Import):
            imports.append(("", [a.name for a in node.names if a.name.split(".")[0] == PACKAGE]))
        elif isinstance(node, ast.ImportFrom) and base.split(".")[0] == PACKAGE:
            imports.append((base, [a.name for a in node.names]))
    return syntax.bound_names(tree), imports
