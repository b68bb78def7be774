"""The students' copy of the course: all of it or some lessons, without what gives an exercise away.

A file is in it only if something in it needs it: the notebooks of the chosen lessons, their checks, the
commands, and what these import. So a module that nobody thought of stays at home. Beyond that, HELD
names the parts that are, or compute, the answer to an exercise: where their lesson is not chosen they
must not come along, whoever imports them. At last the copy is searched for the solutions themselves.

A copy does not change with the moment or the machine: the same course gives the same bytes.
"""

import ast
import io
import re
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from course_utils.authoring import files, fingerprint, syntax
from course_utils.checks import LESSONS
from course_utils.errors import CourseError
from course_utils.grading import leaks, pruned

FOLDER = "memory-io-course"  # what the ZIP unpacks to
MOMENT = (1980, 1, 1, 0, 0, 0)
COMMANDS = (
    "course_utils.cli.__main__", "course_utils.cli.environment", "course_utils.cli.installing",
    "course_utils.cli.lab", "course_utils.cli.update", "course_utils.cli.test",
    "course_utils.cli.doctor", "course_utils.authoring",
)  # fmt: skip
TOP = (
    "course.py", "LICENSE", "requirements.txt", "constraints.txt", "pyproject.toml",
    "environment.yml", ".gitignore",
)  # fmt: skip
NEVER = ("course_utils.grading", "course_utils.bench", "course_utils.cli.grade")


@dataclass(frozen=True)
class Held:
    """A module, or some names of one, that would answer an exercise of a lesson."""

    module: str
    lesson: str
    reason: str
    names: tuple[str, ...] = ()  # none: the whole module


HELD = (
    Held("course_utils.remat.planners", "04", "the planners that 4.2, 4.3 and 4.4 ask for"),
    Held("course_utils.remat.exhaustive", "04", "finds the best schedules, as 4.5 asks for"),
    Held("course_utils.remat.milp", "04", "finds the best schedules of any graph"),
    Held("course_utils.remat.solver", "04", "belongs to milp"),
    Held(
        "course_utils.attention.traffic", "06", "the counts that 6.2 and the measurements give",
        ("tiled_matmul_traffic", "square_tile", "matmul_lower_bound_bytes", "standard_attention_traffic"),
    ),
    Held(
        "course_utils.attention.traffic", "07", "7.2 asks for these formulas",
        ("keys_outside_traffic", "queries_outside_traffic", "backward_traffic", "_rows_past_keys"),
    ),
    Held("course_utils.widgets.tiles", "07", "7.1, 7.3 and 7.4, event by event",
         ("step_through_flash", "flash_data")),
    Held("course_utils.kernels", "08", "what the exercises on a GPU ask for"),
)  # fmt: skip


def release(out: Path, lessons: Iterable[str] | None = None, root: Path = files.ROOT) -> list[str]:
    """Write the ZIP; the lessons in it. Raises CourseError for what cannot be, or must not be."""
    chosen = choose(lessons, root)
    contents = copy_of(chosen, root)
    if found := leaks.leaks(contents, root):
        raise CourseError(f"not written, it would give away: {'; '.join(found[:5])}")
    if out.is_dir():
        raise CourseError(f"{out} is a folder: name the ZIP file, as --out course.zip")
    files.write_whole({out: zip_bytes(contents)})
    return chosen


def choose(words: Iterable[str] | None, root: Path) -> list[str]:
    """The lessons that are meant: "00-03", "05". None: all. Raises CourseError for what means none."""
    stems = files.lesson_stems(root / "notebooks", ".ipynb")
    if not stems:
        raise CourseError("there are no notebooks to release: python course.py build makes them")
    chosen = set() if words else set(stems)
    for word in words or ():
        span = re.fullmatch(r"(\d\d)(?:-(\d\d))?", word)
        first, last = span.groups() if span else ("", "")
        meant = {s for s in stems if span and first <= s[:2] <= (last or first)}
        if not meant:
            there = f"{stems[0][:2]} to {stems[-1][:2]}"
            raise CourseError(f"no lessons {word!r}: there are {there}; write --lessons 00-03")
        chosen |= meant
    return sorted(chosen)


def copy_of(chosen: list[str], root: Path) -> dict[str, bytes]:
    """{path in the copy: content}. Raises CourseError where a held module would be needed."""
    contents = {name: read(root / name) for name in TOP if (root / name).is_file()}
    numbers = {stem[:2] for stem in chosen}
    for stem in chosen:
        contents[f"notebooks/{stem}.ipynb"] = read(root / "notebooks" / f"{stem}.ipynb")
    modules = needed(chosen, root)
    cut = {h.module: set() for h in HELD}
    for held in HELD:
        if held.lesson not in numbers and held.names:
            cut[held.module] |= set(held.names)
    for module, path in modules.items():
        refuse_held(module, numbers)
        contents[inside(path, root)] = read(path)
        for data in data_of(module, path, root):
            contents[inside(data, root)] = read(data)
    for module, names in cut.items():
        if names and module in modules:
            pruned.without_names(contents, module, names)
    forget_unread(contents)
    pictures = {inside(path, root) for path in (root / "docs").glob("*.png")}
    readme = pruned.readme(read(root / "README.md").decode(), {*contents, *pictures})
    for name in pictures:
        if f"]({name})" in readme:
            contents[name] = read(root / name)
    contents["README.md"] = readme.encode()
    if (figures := root / "docs" / "figures.md").is_file():
        contents["docs/figures.md"] = pruned.figures(read(figures).decode(), numbers).encode()
    if missing := pruned.missing_imports(contents):
        raise CourseError(f"the copy would not run: {'; '.join(missing[:5])}")
    return contents


READERS = {  # of what lies beside the widgets: their module
    "engines": "memory", "memory_timeline": "memory", "checkpoints": "checkpoints",
    "checkpoint_playground": "checkpoints", "online_softmax": "softmax", "roofline": "roofline",
    "tiles_in_motion": "tiles", "tiled_product": "tiles", "flash_attention": "tiles",
}  # fmt: skip


def forget_unread(contents: dict[str, bytes]) -> None:
    """Drop scripts and traces of widgets that nothing in the copy reads: those of later lessons."""
    for path in [Path(name) for name in contents if name.startswith("course_utils/widgets/")]:
        reader = READERS.get(path.stem) if path.suffix != ".py" else None
        text = contents.get(f"course_utils/widgets/{reader}.py", b"")
        if reader and (not text or (path.suffix == ".json" and path.stem.encode() not in text)):
            del contents[path.as_posix()]


def refuse_held(module: str, numbers: set[str]) -> None:
    for held in HELD:
        inside_it = module == held.module or module.startswith(f"{held.module}.")
        if inside_it and not held.names and held.lesson not in numbers:
            raise CourseError(
                f"{module} is needed by these lessons, and gives away lesson {held.lesson}: "
                f"{held.reason}. Release {held.lesson} too, or fewer lessons"
            )
    if module.startswith(NEVER):
        raise CourseError(f"{module} is for instructors, and something students get imports it")


def needed(chosen: list[str], root: Path) -> dict[str, Path]:
    """{module: file} of course_utils that these lessons and the commands reach, by their imports."""
    waiting = [*COMMANDS]
    for stem in chosen:
        waiting += notebook_imports(root / "notebooks" / f"{stem}.ipynb", root)
        if topic := LESSONS.get(str(int(stem[:2]))):
            waiting.append(f"course_utils.checks.{topic}")
    found: dict[str, Path] = {}
    while waiting:
        module = waiting.pop()
        path = fingerprint.module_path(module, root)
        if module in found or path is None:
            continue
        found[module] = path
        waiting += reached(module, path, root, path.stat().st_mtime_ns)[0]
    return dict(sorted(found.items()))


@cache
def reached(module: str, path: Path, root: Path, _changed: int) -> tuple[list[str], set[Path]]:
    """(modules that a module imports or names, files beside it that it names). Read once a change."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    tree = fingerprint.module_tree(path)
    found = sorted(fingerprint.imported(tree, package, root))
    found += named(tree, root) if module != "course_utils.cli.__main__" else []
    found += [module.rpartition(".")[0]] if "." in module else []
    return found, fingerprint.neighbours(tree, path.parent)


def named(tree: ast.AST, root: Path) -> list[str]:
    """The modules that code imports by a name in a string; all of a package for f"package.{name}"."""
    strings = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)]
    found = [s for s in strings if isinstance(s, str) and re.fullmatch(r"course_utils(\.\w+)+", s)]
    for node in ast.walk(tree):
        start = node.values[0] if isinstance(node, ast.JoinedStr) and node.values else None
        prefix = getattr(start, "value", "")
        if isinstance(prefix, str) and re.fullmatch(r"course_utils(\.\w+)+\.", prefix):
            package = root.joinpath(*prefix.strip(".").split("."))
            found += [f"{prefix}{path.stem}" for path in package.glob("*.py")]
    return found


def notebook_imports(path: Path, root: Path) -> set[str]:
    """The modules of course_utils that a notebook's cells import."""
    found = set()
    try:
        cells = files.stored_notebook(path)["cells"]
    except (OSError, ValueError) as error:
        raise CourseError(f"{path.name}: cannot be read: {error}") from None
    for cell in cells:
        if cell["cell_type"] == "code":
            plain = re.sub(r"^(\s*)[%!].*$", r"\1pass", cell["source"], flags=re.MULTILINE)
            found |= fingerprint.imported(syntax.parse(plain), "", root)
    return found


def data_of(module: str, path: Path, root: Path) -> list[Path]:
    """What a module reads: files it names beside it, all data of its package, or data elsewhere."""
    found = set(reached(module, path, root, path.stat().st_mtime_ns)[1])
    if path.name == "__init__.py" and module != "course_utils":
        for each in path.parent.rglob("*"):
            homes = [home for home in each.parents if (home / "__init__.py").is_file()]
            ours = bool(homes) and homes[0] == path.parent
            if each.is_file() and ours and each.suffix not in (".py", ".pyc", ".ipynb"):
                found.add(each)
    beside = fingerprint.DATA_BESIDE
    found |= set(root.glob(beside[module])) if module in beside else set()
    return sorted(found)


def inside(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CourseError(f"{path.name}: cannot be read: {error.strerror}") from None


def zip_bytes(contents: dict[str, bytes]) -> bytes:
    """A ZIP of these files, in one folder: sorted, and without the time or the machine."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(contents):
            entry = zipfile.ZipInfo(f"{FOLDER}/{name}", MOMENT)
            entry.create_system = 3  # rights as on Unix, wherever it is made
            entry.external_attr = (0o100755 if name == "course.py" else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, contents[name])
    return packed.getvalue()
