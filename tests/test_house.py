"""The house's rules: floors, a light import, no stray dependencies."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "course_utils"
FLOORS = {
    "errors": 0, "locks": 0, "tracing": 0, "timeline": 0, "hardware": 0, "machine": 0, "hierarchy": 0,
    "triton_here": 0, "triton_stand_in": 0,
    "ag": 1, "counting": 1, "remat": 1, "attention": 1, "triton_meter": 1,
    "kernels": 2, "recorded": 2, "gpu_timing": 2, "gpu_plots": 2, "gpu_pictures": 2,
    "plots": 2, "graphs": 2, "torch_memory": 2, "torch_remat": 2,
    "schedule_plots": 2, "softmax_plots": 2, "tiling_plots": 2, "flash_plots": 2,
    "checks": 3, "widgets": 3, "bench": 3,
    "authoring": 4, "grading": 4, "site": 4, "cli": 4,
}  # fmt: skip
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_parts(path: Path) -> set[str]:
    """The parts of course_utils that a module imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "course_utils":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("course_utils."):
            found.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            found |= {
                alias.name.split(".")[1]
                for alias in node.names
                if alias.name.startswith("course_utils.")
            }
        assert not (isinstance(node, ast.ImportFrom) and node.level), f"{path}: a relative import"
        assert not (isinstance(node, ast.ImportFrom) and node.names[0].name == "*"), (
            f"{path}: a star import"
        )
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_downwards(path):
    own = part_of(path)
    for other in imported_parts(path) - {own}:
        assert FLOORS[other] <= FLOORS[own], (
            f"{own} (floor {FLOORS[own]}) imports {other} (floor {FLOORS[other]})"
        )


def test_every_part_has_a_floor():
    assert {part_of(path) for path in MODULES} == set(FLOORS)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_modules_are_short_and_say_why_they_exist(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 250
    assert len(ast.get_docstring(ast.parse(text)) or "") > 40


def test_import_is_light_and_quick():
    program = (
        "import sys, time; start = time.perf_counter(); import course_utils; "
        "took = time.perf_counter() - start; "
        "print(took, [m for m in ('torch', 'triton', 'matplotlib', 'numpy', 'IPython') if m in sys.modules])"
    )
    runs = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        for _ in range(3)
    ]
    took, loaded = min(run.stdout.split(" ", 1) for run in runs)
    assert loaded.strip() == "[]"
    assert float(took) < 0.15


def test_checks_load_neither_torch_nor_matplotlib():
    program = (
        "import sys; from course_utils import check, predict, measured, needs, progress; progress(); "
        "print([m for m in ('torch', 'triton', 'matplotlib') if m in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"


def test_public_names_resolve_and_others_are_refused():
    import course_utils

    assert all(callable(getattr(course_utils, name)) for name in course_utils.__all__)
    with pytest.raises(AttributeError, match="no attribute 'chekc'"):
        course_utils.chekc  # noqa: B018
