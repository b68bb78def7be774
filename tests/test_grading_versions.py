"""Grades that depend on versions: of the checks, of the grader, and of the Python that reads an answer."""

import functools
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from course_utils.authoring.files import ROOT
from course_utils.checks.core import Error, Observation
from course_utils.grading import grade_one, newer_python
from course_utils.grading.records import Ending, ExerciseResult, Run, Submission
from course_utils.grading.statements import needed_names, with_own_scopes
from course_utils.grading.version import checks_version, judged_by
from tests.grading_helpers import answer_cell, as_bytes, code, solved

NEWER = f"3.{sys.version_info[1] + 1}"
FAILS = {"points": 0.0, "max_points": 2.0, "status": "failed", "cause": "raised an error"}


DECIDES = (
    "reading judging around disagreement hints tampering outside driver answering apart codec jobs "
    "support shaking sandboxed_course sandbox/limits sandbox/run newer_python"
)
SHOWS = "report feedback exports compare finals written"


def test_what_decides_a_grade_in_the_grader_is_part_of_the_version():
    files = {path.relative_to(ROOT / "course_utils") for path in judged_by("requires_grad", ROOT)}
    assert {Path(f"grading/{name}.py") for name in DECIDES.split()} <= files
    assert not {Path(f"grading/{name}.py") for name in SHOWS.split()} & files
    assert not {Path("authoring/build.py"), Path("cli/grade.py")} & files


def test_a_mended_grader_has_another_version(tmp_path):
    shutil.copytree(ROOT / "course_utils" / "grading", tmp_path / "course_utils" / "grading")
    changed = tmp_path / "course_utils" / "grading" / "around.py"
    versions = set()
    for _ in range(2):
        checks_version.cache_clear()
        versions.add(checks_version("02_requires_grad", tmp_path))
        changed.write_text(changed.read_text("utf-8") + "\nCHANGED = 1\n", "utf-8")
    checks_version.cache_clear()
    assert len(versions) == 2


def test_a_comprehensions_variable_is_no_need():
    for table in ("[k * k for k in range(n)]", "{k for k in range(n)}", "{k: n for k in range(n)}"):
        now, later = needed_names(f'T = {table}\ndef f(x): return f"{{ {table}!r:>{{w}}}}"')
        assert (now, later - {"range"}) == ({"range", "n"}, {"n", "w"})
    assert needed_names("[k for k in k]\n[(last := v) for v in data]")[0] == {"k", "data", "last"}
    assert needed_names(f"x = [0x{'f' * 9000} + i for i in o if '\\n' != f'{{i}}\\n']")[0] == {"o"}
    assert needed_names("match [a for a in b]:\n  case -1 | 'x': pass")[0] == {"b"}


def test_comprehensions_keep_scopes_of_their_own_in_every_python():
    """In 3.12 and later `symtable` would merge them: nothing of theirs may be left."""
    assert with_own_scopes("T = [k for k in r]") == "T = (k for k in r)"
    assert with_own_scopes("T = (k for k in r)  # as it is") == "T = (k for k in r)  # as it is"
    deep = "x = [k for k in r]" + " + 1" * 600
    assert needed_names(deep)[0] >= {"r"}


@functools.cache
def newer_pythons() -> list[str]:
    """Interpreters of 3.12 and 3.13 that are here, if any: one of each."""
    found = [shutil.which("python3.12"), shutil.which("python3.13")]
    found += sorted(map(str, Path.home().glob(".pyenv/versions/3.1[23].*/bin/python")))
    by_version = {run(each, "import sys; print(sys.version_info[:2])"): each for each in found}
    return [python for version, python in by_version.items() if version]


def run(python: str | None, program: str) -> str:
    command = [python or "none", "-B", "-c", program]
    try:
        return subprocess.run(command, capture_output=True, text=True, cwd=ROOT).stdout.strip()
    except OSError:
        return ""


def test_newer_pythons_read_an_answer_as_this_one_does():
    program = (
        "from course_utils.grading.statements import needed_names\n"
        "from course_utils.grading.similar import tokens\n"
        "answer = 'T = [k * f(k) for k in r]\\ndef g(x): return f\"{x:>{w}} is {T} {f\\'{x}\\'}\"'\n"
        "print(*[sorted(each) for each in needed_names(answer)], tokens(answer))\n"
    )
    if not newer_pythons():
        pytest.skip("Python 3.12 or 3.13 is not here")
    here = run(sys.executable, program)
    assert "'f', 'r'" in here and "'k'" not in here and here.count("'text'") == 1
    assert {run(python, program) for python in newer_pythons()} == {here}


def failing(notebook: dict, diagnosis: str, version: str | None) -> list[str]:
    """The flags of 2.1, failed with this, in a notebook that ran in this Python."""
    notebook["metadata"]["language_info"]["version"] = version
    sources = {"2.1": "".join(answer_cell(notebook, "2.1")["source"])}
    results = {"2.1": ExerciseResult("2.1", "t", diagnosis=diagnosis, **FAILS)}
    newer_python.add_flags(as_bytes(notebook), results, sources)
    return list(results["2.1"].flags)


def test_an_answer_that_a_newer_python_ran_is_for_a_person():
    notebook = solved("02")
    answer_cell(notebook, "2.1")["source"] = ["names = {'a': 1}\n", "x = = 1\n"]
    (flag,) = failing(notebook, "Your code raised SyntaxError", f"{NEWER}.1")
    assert NEWER in flag and "does not parse" in flag
    for version in ("3.11.2", "2.7.18", "{}.{}".format(*sys.version_info), "", None, 3.14, "4"):
        assert failing(notebook, "Your code raised SyntaxError", version) == []


def test_a_helper_that_a_newer_python_ran_is_for_a_person():
    notebook = solved("02")
    missing = "Your code raised NameError: name 'helper' is not defined"
    assert failing(notebook, missing, NEWER) == []  # a mistake: every cell parses
    notebook["cells"].append(code("%time 1"))
    assert failing(notebook, missing, NEWER) == []
    notebook["cells"].append(code("def helper(:\n    pass"))
    (flag,) = failing(notebook, missing, NEWER)
    assert flag.startswith("a cell does not parse")
    assert failing(notebook, "Your shape is wrong", NEWER) == []


def test_the_grader_flags_it_in_its_row(monkeypatch):
    """With the sandbox's own words for it, which no sandbox is needed for."""
    monkeypatch.setattr(grade_one, "run_in_sandbox", lambda job, inside: [
        Run("2.1", Ending.COMPLETE, [Observation(error=Error("SyntaxError", "unmatched '['"))] * 9)
    ])  # fmt: skip
    notebook = solved("02")
    notebook["metadata"]["language_info"]["version"] = NEWER
    answer_cell(notebook, "2.1")["source"] = ["x = = 1\n"]
    submission = Submission("ann", "02_requires_grad.ipynb", as_bytes(notebook))
    row = grade_one.grade_one(submission, grade_one.Settings(seed=3))
    assert NEWER in " ".join(row.results["2.1"].flags)
    assert not any(NEWER in " ".join(row.results[name].flags) for name in ("2.2", "2.3"))
