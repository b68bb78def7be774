"""A lesson's source: read, and turned into two notebooks. Nothing is executed here.

SAMPLE and the helpers below it serve the tests of building and updating too.
"""

import ast
import json
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest

from course_utils.authoring import outline, source, student, syntax
from course_utils.authoring.files import notebook_bytes
from course_utils.authoring.ids import is_given, text_hash

SAMPLE = '''\
# ---
# jupyter:
#   jupytext:
#     text_representation: {format_name: percent}
# ---

# %% [markdown]
# # Measuring memory
#
# An array and its bytes: `naïve` text with """ in it.
#
# ```markdown
# ### Exercise: what a heading looks like
# ```

# %% tags=["setup"]
# %matplotlib inline
# ls is a comment
import numpy as np

from course_utils import check, measured, needs, predict

# %% [markdown]
# ### Exercise 1.1 - payload of any array - 2 points, easy, 5 min
#
# The formula.

# %%
def payload_bytes(shape, dtype):
    """Bytes of the numbers."""
    ### BEGIN SOLUTION
    return int(np.prod(shape)) * np.dtype(dtype).itemsize
    ### END SOLUTION

# %%
check("1.1", payload_bytes)

# %% [markdown]
# How much?

# %%
predict("1.a", max(24, (1)), unit="µB")

# %% [markdown]
# Now measure.

# %%
text = """
# %% opens no cell in a string
"""
measured("1.a", 24)
'''

TITLE = "# %% [markdown]\n# # Title\n"
ANSWER = "# %%\ndef f(x):\n    ### BEGIN SOLUTION\n    return x\n    ### END SOLUTION\n"


def known(exercise_id):
    """A registry that knows two exercises, as course_utils.checks.find_exercise does."""
    if exercise_id not in ("1.1", "1.2"):
        raise KeyError(exercise_id)
    return SimpleNamespace(points=2, module="course_utils.core")


def read(text=SAMPLE, name="01_measuring_memory"):
    return source.parse_lesson(Path(f"{name}.py"), text)


def build(text=SAMPLE, name="01_measuring_memory"):
    """(student's notebook, solution) of a source."""
    lesson = read(text, name)
    return student.notebooks(lesson, outline.outline(lesson))


# reading


def test_every_cell_knows_the_line_of_its_text():
    lines = SAMPLE.split("\n")
    cells = read().cells
    assert [c.kind for c in cells] == ["markdown", "code"] * 2 + ["code"] + ["markdown", "code"] * 2
    for cell in cells:
        bare = lines[cell.line - 1].removeprefix("# ") if cell.kind != "code" else None
        assert cell.text.split("\n")[0] == (bare or lines[cell.line - 1])


def test_lines_of_quoted_text_cells_and_of_code_after_them():
    text = '# %% [markdown]\n"""\n# A\n\n### Exercise 1.1\n"""\n\n# %%\n\nx = 1\n'
    cells = read(text).cells
    assert [(c.line, c.text) for c in cells] == [(3, "# A\n\n### Exercise 1.1"), (9, "\nx = 1")]


def test_only_magics_come_alive():
    given, solved = build()
    setup = "%matplotlib inline\n# ls is a comment\nimport numpy as np"
    assert given["cells"][1]["source"].startswith(setup)
    assert solved["cells"][1]["source"].startswith(setup)
    assert source.with_magics('s = """\n# %time x\n"""') == 's = """\n# %time x\n"""'
    assert source.with_magics("x = 1  # %time x") == "x = 1  # %time x"


def test_windows_line_ends_give_the_same_notebooks(tmp_path):
    for name, text in (("lf", SAMPLE), ("crlf", SAMPLE.replace("\n", "\r\n"))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "01_measuring_memory.py").write_bytes(text.encode())
    both = [
        source.read_lesson(tmp_path / name / "01_measuring_memory.py") for name in ("lf", "crlf")
    ]
    assert both[0].cells == both[1].cells


# the student's notebook


def test_a_stub_keeps_the_signature_and_nothing_of_the_answer():
    given, solved = build()
    assert given["cells"][3]["source"] == (
        'def payload_bytes(shape, dtype):\n    """Bytes of the numbers."""\n'
        "    # YOUR CODE HERE\n    raise NotImplementedError"
    )
    assert "### BEGIN SOLUTION" in solved["cells"][3]["source"]


def test_several_answers_in_a_cell():
    method = "    def {}(self):\n        {}\n        {} = 3\n        {}\n        return 1\n"
    marks = ("### BEGIN SOLUTION", "### END SOLUTION")
    text = "class A:\n"
    for name, secret in (("f", "x"), ("g", "y")):
        text += method.format(name, marks[0], secret, marks[1])
    text = student.stub(text)
    assert text.count("        # YOUR CODE HERE\n        raise NotImplementedError") == 2
    assert "= 3" not in text and text.count("return 1") == 2
    ast.parse(text)


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ('predict("1.a", 24, unit="MB")', 'predict("1.a", ..., unit="MB")'),
        ('predict("é.ü", (f(2, "…é") + 3), "µ")', 'predict("é.ü", (...), "µ")'),
        (
            'predict(\n    "1.a",\n    f(\n        2,\n    ),\n)',
            'predict(\n    "1.a",\n    ...,\n)',
        ),
        ('predict("1.a", 24', 'predict("1.a", 24'),
    ],
)
def test_predictions_are_hidden(text, hidden):
    assert student.without_prediction(text) == hidden


def test_both_notebooks_share_ids_and_metadata():
    given, solved = build()
    ids = [cell["id"] for cell in given["cells"]]
    assert ids == [cell["id"] for cell in solved["cells"]]
    assert [cell["metadata"] for cell in given["cells"]] == [
        cell["metadata"] for cell in solved["cells"]
    ]
    assert ids[3:7:1] == ["answer-1-1", "check-1-1", ids[5], "predict-1-a"]
    for cell in given["cells"]:
        if cell["id"] not in ("answer-1-1", "check-1-1", "predict-1-a"):
            assert is_given(cell["source"], cell["id"])
    nbformat.validate(nbformat.from_dict(given))
    nbformat.validate(nbformat.from_dict(solved))


def test_cells_of_the_same_text_get_different_ids():
    text = TITLE + "\n# %% [markdown]\n# same\n" * 3
    ids = [cell["id"] for cell in build(text)[0]["cells"]]
    assert ids[1:] == [text_hash("same"), text_hash("same") + "-2", text_hash("same") + "-3"]


def test_an_id_survives_an_editor():
    assert is_given("a = 1\r\n\n", text_hash("a = 1"))
    assert is_given("a = 1", text_hash("a = 1") + "-2")
    assert not is_given("a = 2", text_hash("a = 1"))


def test_metadata_for_nbgrader_and_for_us():
    cells = {cell["id"]: cell["metadata"] for cell in build()[0]["cells"]}
    answer, check = cells["answer-1-1"]["nbgrader"], cells["check-1-1"]["nbgrader"]
    shared = {"schema_version": 3, "task": False}
    assert answer == shared | {
        "grade": False, "grade_id": "answer-1-1", "locked": False, "solution": True,
    }  # fmt: skip
    assert check == shared | {
        "grade": True, "grade_id": "check-1-1", "locked": True, "solution": False, "points": 2,
    }  # fmt: skip
    course = cells["check-1-1"]["course"]
    assert course.pop("text") == text_hash('check("1.1", payload_bytes)')
    assert course == {
        "role": "check", "exercise": "1.1", "points": 2, "minutes": 5, "difficulty": "easy",
        "optional": False, "title": "payload of any array",
    }  # fmt: skip
    plain = [metadata for name, metadata in cells.items() if "-1-" not in name]
    assert [m for m in plain if m] == [{"tags": ["setup"]}]


def test_bytes_do_not_depend_on_the_moment():
    first, second = (notebook_bytes(build()[0]) for _ in range(2))
    assert first == second
    assert first.endswith(b"}\n") and not first.endswith(b"\n\n") and b"\r" not in first
    notebook = json.loads(first)
    assert list(notebook) == sorted(notebook)
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    assert "version" not in notebook["metadata"]["language_info"]
    assert "jupytext" not in notebook["metadata"]
    assert all(
        c["outputs"] == [] and c["execution_count"] is None
        for c in notebook["cells"]
        if c["cell_type"] == "code"
    )


def test_the_version_changes_with_the_content_and_with_nothing_else():
    version = build()[0]["metadata"]["course"]["version"]
    assert build()[1]["metadata"]["course"] == {"lesson": "01", "version": version}
    assert build(SAMPLE.replace("int(np.prod(shape))", "np.prod(shape)"))[0]["metadata"][
        "course"
    ] == {"lesson": "01", "version": version}
    changed = build(SAMPLE.replace("The formula", "A formula"))[0]["metadata"]["course"]
    assert changed["version"] != version


def test_replacing_minds_bytes_not_characters():
    tree = ast.parse("ü = g('é', 1)")
    assert (
        syntax.replace_node("ü = g('é', 1)", tree.body[0].value.args[1], "22") == "ü = g('é', 22)"
    )


# answers in words

WORDS = """
# %% [markdown]
# ### In your own words 1.w
#
# Why?

# %% [markdown] written="1.w"
# Because the row is a view.
"""


def test_an_answer_in_words_is_asked_for_and_not_given():
    given, solved = build(SAMPLE + WORDS)
    cells = [notebook["cells"][-1] for notebook in (given, solved)]
    assert [cell["id"] for cell in cells] == ["written-1-w"] * 2
    assert [cell["source"] for cell in cells] == [student.YOUR_WORDS, "Because the row is a view."]
    assert cells[0]["metadata"] == cells[1]["metadata"]
    metadata = cells[0]["metadata"]
    assert metadata["course"]["role"] == "written" and metadata["course"]["exercise"] == "1.w"
    by_hand = {"grade": True, "solution": True, "locked": False, "points": 0, "task": False}
    assert metadata["nbgrader"] == by_hand | {"grade_id": "written-1-w", "schema_version": 3}
    assert "written" not in metadata
    nbformat.validate(nbformat.from_dict(given))
