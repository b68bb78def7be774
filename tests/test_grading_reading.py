"""Reading a submission: every answer that a person would find is found, with what it needs."""

import json
import random
import time

import numpy as np
import pytest

from course_utils.grading.cells import Unreadable
from course_utils.grading.lessons import lessons
from course_utils.grading.magics import as_python
from course_utils.grading.reading import WrongNotebook, read_submission
from course_utils.grading.records import Answer, Reading
from course_utils.grading.statements import needed_names
from tests.grading_helpers import (
    answer_cell,
    as_bytes,
    code,
    colab,
    handed_out,
    solved,
    stripped,
    text,
    values,
    with_answer,
)

LESSONS = list(lessons())


def read(notebook: dict | bytes, name: str = "02_requires_grad.ipynb", **options) -> Reading:
    content = notebook if isinstance(notebook, bytes) else as_bytes(notebook)
    return read_submission(content, lessons(), name, **options)


def answer(notebook: dict, exercise: str = "2.4") -> Answer:
    return {each.exercise: each for each in read(notebook).answers}[exercise]


def is_right(found: Answer) -> bool:
    """Is this a train_step (2.4) that gives the gradients of a chain?"""
    (train_step,) = values(found)
    x, w = np.ones((3, 2)), np.full((2, 4), 2.0)
    (gradient,) = train_step(x, [w], [True])
    return np.array_equal(gradient, np.full((2, 4), 3.0))


@pytest.mark.parametrize("name", LESSONS)
@pytest.mark.parametrize("change", [None, stripped, colab], ids=["plain", "stripped", "colab"])
def test_every_answer_of_every_lesson_is_found(name, change):
    notebook = solved(name[:2])
    reading = read(change(notebook) if change else notebook, "x.ipynb")
    assert reading.notebook == name
    assert [a.exercise for a in reading.answers] == list(lessons()[name].exercises)
    ways = {None: "metadata", stripped: "name", colab: "cell id"}
    assert {a.found_by for a in reading.answers} == {ways[change]}


@pytest.mark.parametrize("name", LESSONS)
def test_what_answers_need_is_there_and_no_demonstration(name):
    for found in read(solved(name[:2]), f"{name}.ipynb").answers:
        if "torch" not in "".join(found.support):
            assert callable(values(found)[0])
        for source in found.support:
            assert "predict(" not in source
            assert "check(" not in source
            assert "plots" not in source


def test_reordered_cells():
    notebook = stripped(solved())
    random.Random(3).shuffle(notebook["cells"])
    assert is_right(answer(notebook))


def test_setup_cells_that_are_gone_are_lent():
    notebook = solved()
    notebook["cells"] = [answer_cell(notebook, "2.4")]
    assert is_right(answer(notebook))


def test_a_helper_an_import_and_a_constant_in_cells_of_their_own():
    notebook = with_answer("2.4", "def train_step(x, weights, trainable):\n    return scaled(x)")
    at = notebook["cells"].index(answer_cell(notebook, "2.4"))
    notebook["cells"][at:at] = [
        code("from math import (\n    pi,\n    tau as TURN,\n)"),
        code("SIDE = 2\nSIDE += 1\nprint(SIDE)\nraise RuntimeError('a demonstration')"),
        code("@functools.cache\ndef scaled(x):\n    return SIDE * TURN * x"),
        code("import functools"),
    ]
    (step,) = values(answer(notebook))
    assert step(1.0, None, None) == pytest.approx(6 * np.pi)


def test_the_helper_that_counts_is_the_one_above_the_check():
    notebook = with_answer("2.4", "def train_step(*a):\n    return helper()")
    at = notebook["cells"].index(answer_cell(notebook, "2.4"))
    notebook["cells"].insert(0, code("def helper():\n    return 'first'"))
    notebook["cells"].insert(at + 2, code("def helper():\n    return 'before the check'"))
    notebook["cells"].append(code("def helper():\n    return 'much later'"))
    assert values(answer(notebook))[0]() == "before the check"


def test_a_helper_below_the_check_serves_if_there_is_no_other():
    notebook = with_answer("2.4", "def train_step(*a):\n    return helper()")
    notebook["cells"].append(code("def helper():\n    return 'below'"))
    assert values(answer(notebook))[0]() == "below"


def test_an_answer_split_over_cells():
    notebook = with_answer("2.4", "TABLE = {}")
    at = notebook["cells"].index(answer_cell(notebook, "2.4"))
    more = [
        code("TABLE['a'] = 1\nTABLE.update(b=2)"),
        code("def train_step(*a):\n    return TABLE"),
    ]
    notebook["cells"][at + 1 : at + 1] = more
    assert values(answer(notebook))[0]() == {"a": 1, "b": 2}


def test_of_doubled_answers_the_last_counts_and_a_note_says_so():
    notebook = solved()
    notebook["cells"].append(code("def train_step(*a):\n    return 'second'"))
    reading = read(notebook)
    found = reading.answers[-1]
    assert values(found)[0]() == "second"
    assert found.found_by == "name"
    assert any("2.4: 2 cells define train_step" in note for note in reading.notes)


def test_a_stub_below_an_answer_does_not_hide_it():
    notebook = handed_out()
    right = text(answer_cell(solved(), "2.4"))
    notebook["cells"].insert(3, code(right))
    assert is_right(answer(notebook))


def test_a_stub_alone_is_still_handed_on():
    (found,) = [a for a in read(handed_out()).answers if a.exercise == "2.4"]
    with pytest.raises(NotImplementedError):
        values(found)[0](None, None, None)


def test_a_renamed_answer_is_found_by_its_check():
    notebook = with_answer("2.4", "def my_step(*a):\n    return 'mine'")
    check = next(c for c in notebook["cells"] if c["id"] == "check-2-4")
    check["source"] = 'check("2.4", my_step)'
    reading = read(notebook)
    assert reading.answers[-1].name == "my_step"
    assert any("my_step" in note for note in reading.notes)


@pytest.mark.parametrize(
    "source", ["train_step = lambda *a: 7", "def other(*a):\n    return 7\ntrain_step = other"]
)
def test_an_answer_by_assignment(source):
    assert values(answer(stripped(with_answer("2.4", source))))[0]() == 7


def test_a_syntax_error_costs_its_own_exercise_only():
    notebook = with_answer("2.2", "def lazy_matmul_backward(x, w, output):\n    return (")
    for change in (lambda n: n, stripped):
        reading = read(change(notebook))
        found = {each.exercise: each for each in reading.answers}
        assert is_right(found["2.4"])
        with pytest.raises(SyntaxError):
            values(found["2.2"])


def test_prints_and_checks_beside_an_answer_are_not_run_and_lines_stay():
    source = (
        "def train_step(*a):\n    return 7\n\nassert train_step() == 8, 'no'\n"
        "print(undefined)\ncheck('2.4', train_step)\nLAST = 1"
    )
    found = answer(with_answer("2.4", source))
    assert values(found)[0]() == 7
    assert found.source.splitlines().index("LAST = 1") == source.splitlines().index("LAST = 1")


def test_a_notebook_merged_into_one_cell():
    notebook = solved()
    joined = "\n".join(text(c) for c in notebook["cells"] if c["cell_type"] == "code")
    found = answer({"cells": [code(joined)], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    assert is_right(found)
    assert "measured(" not in found.source


@pytest.mark.parametrize(
    "source",
    [
        "%%time\ndef train_step(*a):\n    return 7",
        "!pip install numpy\ndef train_step(*a):\n    return 7",
        "%matplotlib inline\nfiles = !ls\ndef train_step(*a):\n    return 7\ntrain_step?",
        "def train_step(*a):\n    %time y = 3\n    return 7",
    ],
)
def test_magics_and_shell_lines_do_not_stop_an_answer(source):
    assert values(answer(with_answer("2.4", source)))[0]() == 7


def test_patches_of_a_module_that_an_answer_uses_come_along():
    notebook = solved()
    notebook["cells"].insert(2, code("np.allclose = lambda *a: True\nnp.random.seed(1)"))
    support = "".join(answer(notebook).support)
    assert "np.allclose = " in support
    assert "seed" not in support


def test_star_imports():
    notebook = with_answer("2.4", "def train_step(*a):\n    return sqrt(49)")
    notebook["cells"].insert(1, code("from math import *"))
    assert values(answer(notebook))[0]() == 7


def test_a_conditional_constant():
    notebook = with_answer("2.4", "def train_step(*a):\n    return SIZE")
    notebook["cells"][1:1] = [code("SIZE = 7"), code("if False:\n    SIZE = 8")]
    assert values(answer(notebook))[0]() == 7


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp1252"])
def test_other_encodings(encoding):
    notebook = solved()
    notebook["cells"].insert(0, code("# caf\u00e9"))
    reading = read(json.dumps(notebook, ensure_ascii=False).encode(encoding, "replace"))
    assert len(reading.answers) == 4
    assert bool(reading.notes) == (encoding == "cp1252")


def test_format_3():
    notebook = solved()
    cells = [
        {"cell_type": "code", "input": text(c), "language": "python", "outputs": []}
        for c in notebook["cells"]
        if c["cell_type"] == "code"
    ]
    old = {"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": [{"cells": cells}]}
    assert is_right(answer(old))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x89PNG\r\n\x1a\n\x00\x00",
        b"null",
        b"[]",
        b'{"cells": 3}',
        b'{"cells": [1, {}, {"cell_type": []}]}',
        b'{"cells": []}',
        b"[" * 200_000,
        as_bytes(solved())[:5000],
        b'{"cells": ' + b"9" * 5000 + b"}",
    ],
    ids=lambda content: repr(content[:12]),
)
def test_what_is_no_notebook_says_so(content):
    with pytest.raises((Unreadable, WrongNotebook)) as problem:
        read(content)
    assert 5 < len(str(problem.value)) < 120


@pytest.mark.parametrize(
    "source",
    ["(" * 5000, "-" * 100_000 + "1", "x = " + "1+" * 50_000 + "1", "a\x00b", "\ud800 = 1", "\x0c"],
    ids=["brackets", "minuses", "sum", "nul", "surrogate", "form feed"],
)
def test_cells_that_break_parsers_cost_nothing_else(source):
    notebook = solved()
    notebook["cells"].insert(1, code(source))
    assert is_right(answer(notebook))


def test_a_mass_of_statements_is_read_in_seconds():
    notebook = with_answer("2.4", "def train_step(*a):\n    return x7\n" + "print(1)\n" * 10_000)
    chain = "x0 = 0\n" + "".join(f"x{k} = x{k - 1}\n" for k in range(1, 9000))
    notebook["cells"].insert(1, code(chain))
    found = answer(notebook)
    assert values(found)[0]() == 0
    answer_cell(notebook, "2.4")["source"] = "def train_step(*a):\n    return x8999"
    assert any("too far" in note for note in read(notebook).notes)


def test_odd_metadata_costs_nothing():
    notebook = solved()
    for cell, odd in zip(notebook["cells"], [{"course": 3}, {"nbgrader": []}, {"id": 5}, None]):
        cell["metadata"] = odd
    for cell in notebook["cells"]:
        cell["id"] = 7
    notebook["metadata"] = {"course": "02"}
    assert is_right(answer(notebook))


def test_a_renamed_file_is_known_by_its_content():
    reading = read(solved("03"), "02_requires_grad.ipynb")
    assert reading.notebook == "03_rematerialization"
    assert any("by its content" in note for note in reading.notes)


def test_the_wrong_notebook_is_refused_with_its_name():
    with pytest.raises(WrongNotebook, match="this is 03_rematerialization"):
        read(solved("03"), wanted="02_requires_grad")
    with pytest.raises(WrongNotebook, match="no answer of this course"):
        read({"cells": [code("x = 1")], "metadata": {}})


def test_written_answers_are_read_and_placeholders_are_not():
    notebook = handed_out("01")
    written = [c for c in notebook["cells"] if c["id"].startswith("written-")]
    assert read(notebook).written == {}
    assert len(written) == 1
    written[0]["source"] = "Because a view *keeps* its base.\n"
    assert read(notebook).written == {"1.w": "Because a view *keeps* its base."}


@pytest.mark.parametrize("helper", ["decomp", "myexpr", "dec", "genexpr"])
def test_a_helpers_name_does_not_make_it_a_comprehension(helper):
    """What a function reads counts when it is called, whatever the function is called."""
    notebook = with_answer("2.1", f"def matmul_backward(x, w, output):\n    return {helper}(x)\n")
    at = notebook["cells"].index(answer_cell(notebook, "2.1"))
    notebook["cells"][at:at] = [
        code("def step(x):\n    return 'OLD'\n"),
        code(f"def {helper}(x):\n    return step(x)\n"),
        code("def step(x):\n    return 'NEW'\n"),
    ]
    (answer,) = [each for each in read(notebook).answers if each.exercise == "2.1"]
    (function,) = values(answer)
    assert function(0, 0, 0) == "NEW"
    assert needed_names("a = [f(x) for x in y]\nb = (g(x) for x in y)")[0] >= {"f", "g", "y"}


def test_only_questions_of_the_lesson_are_answers_in_words():
    notebook = solved()
    for name in ("9." + "x" * 140_000, "\ud800", "2.w"):
        course = {"role": "written", "exercise": name}
        cell = {"cell_type": "markdown", "metadata": {"course": course}, "source": "words"}
        notebook["cells"].append(cell)
    assert read(notebook).written == {"2.w": "words"}


def test_another_name_than_asked_is_noted():
    notebook = solved()
    cell = answer_cell(notebook, "2.1")
    cell["source"] = text(cell).replace("def matmul_backward", "def my_backward")
    told = "2.1: its cell defines my_backward; matmul_backward was asked for"
    assert told in read(notebook).notes


def test_cells_that_are_all_magic_take_no_time():
    began = time.monotonic()
    for source in ("%%time\n" * 5000 + "x = 1\n", "def f():\n" + "!a\n" * 12_000):
        notebook = solved()
        notebook["cells"].append(code(source))
        assert len(read(notebook).answers) == 4
    assert time.monotonic() - began < 10
    assert as_python("%%time\n%%capture\n\nx = 1\n")[0].split("\n")[3] == "x = 1"


def test_a_file_that_is_all_brackets_is_not_opened():
    content = b'{"cells": [' + b"[]," * 10**6 + b"[]]}"
    with pytest.raises(Unreadable, match="lists and tables"):
        read(b'{"x": [' + content + b"," + content + b"]}")
