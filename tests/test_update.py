"""python course.py update: a newer lesson comes, and nothing that a student wrote is lost."""

import copy
import json
import random

import nbformat
import pytest

from course_utils.authoring.carry import carry
from course_utils.authoring.files import notebook_bytes
from course_utils.cli.update import main
from course_utils.errors import CourseError
from tests.test_authoring import ANSWER, SAMPLE, WORDS, build

STEM = "01_measuring_memory"
SECOND = f"""
# %% [markdown]
# ### Exercise 1.2 - twice - 2 points, easy, 5 min

{ANSWER}
# %%
check("1.2", f)
"""
OLD = build(SAMPLE + SECOND)[0]
NEWER = (
    SAMPLE.replace("Bytes of the numbers.", "Bytes of the numbers, and of no more.")
    .replace("# Now measure.", "# Now measure it.\n#\n# Twice.")
    .replace('unit="µB"', 'unit="kB"')
)
NEW = build(NEWER + SECOND)[0]
WITHOUT = build(NEWER)[0]
MINE = "def payload_bytes(shape, dtype):\n    return 4  # é"


def find(notebook, name):
    return next(cell for cell in notebook["cells"] if cell["id"] == name)


def texts(notebook):
    return [cell["source"] for cell in notebook["cells"]]


def yours(notebook):
    return [c["source"] for c in notebook["cells"] if "yours" in c["metadata"].get("tags", [])]


def code(text, name="mine", **metadata):
    return {
        "cell_type": "code", "execution_count": 3, "id": name, "metadata": metadata,
        "outputs": [{"output_type": "stream", "name": "stdout", "text": "4"}], "source": text,
    }  # fmt: skip


def markdown(text, name="note", **metadata):
    return {"cell_type": "markdown", "id": name, "metadata": metadata, "source": text}


@pytest.fixture
def old():
    return copy.deepcopy(OLD)


def at(notebook, name):
    return [cell["id"] for cell in notebook["cells"]].index(name)


# what is carried


def test_an_untouched_copy_becomes_the_new_lesson(old):
    for cell in old["cells"]:
        cell["source"] += "\n"  # as an editor may
    carried = carry(old, NEW)
    assert carried.notebook == NEW
    assert (carried.answers, carried.predictions, carried.kept) == (0, 0, 0)


def test_answers_and_predictions_come_along(old):
    find(old, "answer-1-1")["source"] = MINE
    find(old, "answer-1-1")["outputs"] = code("")["outputs"]
    find(old, "predict-1-a")["source"] = 'predict("1.a", 3 * (7 + 1), unit="µB")'
    carried = carry(old, NEW)
    assert find(carried.notebook, "answer-1-1") == find(NEW, "answer-1-1") | {"source": MINE}
    prediction = find(carried.notebook, "predict-1-a")["source"]
    assert prediction == 'predict("1.a", 3 * (7 + 1), unit="kB")'
    assert (carried.answers, carried.predictions, carried.kept) == (1, 1, 0)
    assert len(carried.notebook["cells"]) == len(NEW["cells"])


def test_a_prediction_with_more_than_a_number_is_kept_beside(old):
    edited = 'x = 3\npredict("1.a", x, unit="µB")'
    find(old, "predict-1-a")["source"] = edited
    carried = carry(old, NEW)
    assert find(carried.notebook, "predict-1-a")["source"] == 'predict("1.a", x, unit="kB")'
    assert yours(carried.notebook) == [edited]


def test_a_prediction_that_does_not_parse_is_kept(old):
    find(old, "predict-1-a")["source"] = 'predict("1.a", 24 MB'
    carried = carry(old, NEW)
    assert find(carried.notebook, "predict-1-a") == find(NEW, "predict-1-a")
    assert yours(carried.notebook) == ['predict("1.a", 24 MB']


def strip(cell, *fields):
    for name in fields:
        cell["metadata"].pop(name, None) if name != "id" else cell.pop("id")


@pytest.mark.parametrize("lost", [("id",), ("course",), ("course", "id"), ("course", "nbgrader")])
def test_an_answer_is_found_by_what_is_left_of_its_names(old, lost):
    answer = find(old, "answer-1-1")
    answer["source"] = MINE.replace("payload_bytes", "renamed")
    strip(answer, *lost)
    carried = carry(old, NEW)
    assert find(carried.notebook, "answer-1-1")["source"] == answer["source"]
    assert carried.kept == 0


def test_colab_strips_ids_and_metadata(old):
    find(old, "answer-1-1")["source"] = MINE
    for cell in old["cells"]:
        strip(cell, "id", "course", "nbgrader")
    old["metadata"] = {}
    carried = carry(old, OLD)
    assert find(carried.notebook, "answer-1-1")["source"] == MINE
    assert carried.answers == 1 and carried.kept == 0
    assert len(carried.notebook["cells"]) == len(OLD["cells"])


def test_colab_keeps_ids_in_the_metadata(old):
    for cell in old["cells"]:
        cell["metadata"] = {"id": cell.pop("id")}
    carried = carry(old, NEW)
    assert carried.kept <= 3  # without its hash, an old stub may be the student's
    assert carried.notebook["cells"][0] == NEW["cells"][0]
    assert not [text for text in yours(carried.notebook) if "Now measure." in text]


# what is kept


def test_edited_and_added_cells_are_kept_where_they_stood(old):
    find(old, "check-1-1")["source"] = 'check("1.1", other)'
    place = at(old, "check-1-1")
    old["cells"][place - 1 : place - 1] = [code("before = 1", "a"), markdown("note")]
    old["cells"].insert(0, code("first = 1", "b"))
    old["cells"].append({"cell_type": "raw", "id": "c", "metadata": {}, "source": "raw"})
    title = old["cells"][1]
    title["source"] += " My title."
    carried = carry(old, NEW)
    result = carried.notebook
    assert yours(result) == [
        "first = 1", title["source"], "before = 1", "note", 'check("1.1", other)', "raw",
    ]  # fmt: skip
    assert carried.kept == 6
    assert result["cells"][0]["source"] == "first = 1"
    assert result["cells"][1] == NEW["cells"][0]
    assert result["cells"][2]["source"] == title["source"]
    assert texts(result)[at(result, "answer-1-1") - 2 : at(result, "answer-1-1")] == [
        "before = 1", "note",
    ]  # fmt: skip
    assert find(result, "check-1-1") == find(NEW, "check-1-1")
    assert texts(result)[at(result, "check-1-1") + 1] == 'check("1.1", other)'
    assert texts(result)[-1] == "raw"
    mine = next(cell for cell in result["cells"] if cell["source"] == "before = 1")
    assert (mine["outputs"], mine["execution_count"]) == ([], None)
    nbformat.validate(nbformat.from_dict(result))
    assert len({cell["id"] for cell in result["cells"]}) == len(result["cells"])


def test_a_cell_whose_neighbour_is_gone_stands_after_the_one_before(old):
    place = next(n for n, text in enumerate(texts(old)) if text == "Now measure.")
    old["cells"].insert(place + 1, code("mine = 1"))
    result = carry(old, NEW).notebook
    assert texts(result)[at(result, "predict-1-a") + 1] == "mine = 1"


def test_an_edited_cell_that_the_new_lesson_changed_too_is_kept(old):
    cell = next(cell for cell in old["cells"] if cell["source"] == "Now measure.")
    cell["source"] = "I measured."
    result = carry(old, NEW).notebook
    assert "I measured." in yours(result) and "Now measure it.\n\nTwice." in texts(result)


def test_the_answer_to_an_exercise_that_is_gone_is_kept_and_said(old):
    find(old, "answer-1-2")["source"] = "def f(x):\n    return 2"
    carried = carry(old, WITHOUT)
    note, answer = carried.notebook["cells"][-2:]
    assert note["source"] == "Your answer to exercise 1.2, which this lesson no longer has:"
    assert answer["source"] == "def f(x):\n    return 2"
    assert carried.answers == 0 and carried.kept == 1
    assert "nbgrader" not in answer["metadata"] and answer["id"] != "answer-1-2"
    untouched = carry(copy.deepcopy(OLD), WITHOUT)
    assert untouched.notebook == WITHOUT


def test_of_doubled_answers_the_first_that_is_no_stub_counts(old):
    place, answer = at(old, "answer-1-1"), find(old, "answer-1-1")
    copies = [copy.deepcopy(answer) | {"id": f"copy{n}", "source": MINE + str(n)} for n in (1, 2)]
    old["cells"][place + 1 : place + 1] = copies
    carried = carry(old, NEW)
    assert find(carried.notebook, "answer-1-1")["source"] == MINE + "1"
    assert yours(carried.notebook) == [MINE + "2"]
    again = carry(carried.notebook, OLD)
    assert find(again.notebook, "answer-1-1")["source"] == MINE + "1"
    assert yours(again.notebook) == [MINE + "2"]
    assert all(list(texts(again.notebook)).count(MINE + n) == 1 for n in "12")


def test_an_emptied_answer_gets_its_new_stub(old):
    find(old, "answer-1-1")["source"] = "\n "
    assert carry(old, NEW).notebook == NEW


def test_an_answer_turned_into_text_is_kept(old):
    answer = find(old, "answer-1-1")
    strip(answer, "outputs", "execution_count")
    answer |= {"cell_type": "markdown", "source": "I think it is 4."}
    carried = carry(old, NEW)
    assert find(carried.notebook, "answer-1-1") == find(NEW, "answer-1-1")
    assert yours(carried.notebook) == ["I think it is 4."]


@pytest.mark.parametrize("broken", [None, 3, "x", [], {"role": 3}, {"tags": None}])
def test_odd_metadata_do_no_harm(old, broken):
    for cell in old["cells"]:
        cell["metadata"] = {"course": broken, "nbgrader": broken, "tags": None, "id": 3}
    find(old, "answer-1-1")["source"] = MINE
    assert find(carry(old, NEW).notebook, "answer-1-1")["source"] == MINE


def random_edits(notebook, seed):
    """A copy after a student's random deeds, and the texts that the student wrote."""
    draw, notebook, written = random.Random(seed), copy.deepcopy(notebook), []
    for deed in range(draw.randint(1, 25)):
        cells = notebook["cells"]
        place = draw.randrange(len(cells)) if cells else 0
        text = draw.choice(
            [f"# text {deed}", f"def payload_bytes():\n    return {deed}", f"x é {deed}"]
        )
        what = draw.choice(
            ["edit", "edit", "append", "add", "copy", "move", "delete", "strip", "type"]
        )
        if what == "add" or not cells:
            made = draw.choice([code, markdown])(text, f"mine-{deed}")
            cells.insert(place, made)
            written.append(text)
        elif what in ("edit", "append"):
            lost = cells[place]["source"]
            cells[place]["source"] = text if what == "edit" else f"{lost}\n{text}"
            written = [t for t in written if t != lost] + [cells[place]["source"]]
        elif what == "copy":
            cells.insert(
                draw.randrange(len(cells)), copy.deepcopy(cells[place]) | {"id": f"c{deed}"}
            )
        elif what == "move":
            cells.insert(draw.randrange(len(cells)), cells.pop(place))
        elif what == "delete":
            gone = cells.pop(place)["source"]
            still = [cell["source"] for cell in cells]
            written = [t for t in written if t != gone or t in still]
        elif what == "strip":
            strip(cells[place], *draw.sample(["course", "nbgrader"], draw.randint(1, 2)))
        elif cells[place]["cell_type"] == "code":
            cells[place] = markdown(cells[place]["source"], cells[place]["id"])
    present = [cell["source"] for cell in notebook["cells"]]
    return notebook, [text for text in written if text in present]


@pytest.mark.parametrize("new", [NEW, WITHOUT, OLD])
def test_whatever_a_student_does_nothing_written_is_lost(new):
    for seed in range(150):
        edited, written = random_edits(OLD, seed)
        result = carry(edited, new).notebook
        lost = [text for text in written if text not in texts(result)]
        assert not lost, (seed, lost)
        assert len({cell["id"] for cell in result["cells"]}) == len(result["cells"]), seed
        course = [
            cell["id"] for cell in result["cells"] if cell["id"] in {c["id"] for c in new["cells"]}
        ]
        assert course == [cell["id"] for cell in new["cells"]], seed
        nbformat.validate(nbformat.from_dict(result))
        again = carry(result, OLD).notebook
        assert not [text for text in written if text not in texts(again)], seed


# the command


@pytest.fixture
def course(tmp_path):
    for folder in ("notebooks", "work"):
        (tmp_path / folder).mkdir()
    (tmp_path / "notebooks" / f"{STEM}.ipynb").write_bytes(notebook_bytes(NEW))
    mine = copy.deepcopy(OLD)
    find(mine, "answer-1-1")["source"] = MINE
    mine["cells"].append(code("mine = 1"))
    (tmp_path / "work" / f"{STEM}.ipynb").write_bytes(notebook_bytes(mine))
    return tmp_path


def work(course):
    return {p.relative_to(course): p.read_bytes() for p in (course / "work").rglob("*.ipynb")}


def test_update_brings_the_new_lesson_and_keeps_the_old_copy(course, capsys):
    path = course / "work" / f"{STEM}.ipynb"
    before = path.read_bytes()
    assert main([], root=course) == 0
    backup = [p for p in work(course) if p.parent.name == "old"]
    assert len(backup) == 1 and (course / backup[0]).read_bytes() == before
    said = capsys.readouterr().out
    assert said == (
        f"work/{STEM}.ipynb: updated; carried 1 answer, kept 1 cell of yours; outputs come back "
        f"when you run it. The old copy: work/old/{backup[0].name}\n"
    )
    assert MINE in "".join(
        "".join(cell["source"]) for cell in json.loads(path.read_bytes())["cells"]
    )
    after = work(course)
    assert main([], root=course) == 0
    assert work(course) == after
    assert capsys.readouterr().out == "1 of your copies is up to date\n"


def test_an_old_copy_is_never_overwritten(course, monkeypatch):
    monkeypatch.setattr("time.strftime", lambda _: "20260102-030405")
    path = course / "work" / f"{STEM}.ipynb"
    for content in (path.read_bytes(), path.read_bytes() + b"\n\n"):
        path.write_bytes(content)
        assert main(["01"], root=course) == 0
    names = sorted(p.name for p in work(course) if p.parent.name == "old")
    assert names == [f"{STEM}.20260102-030405-2.ipynb", f"{STEM}.20260102-030405.ipynb"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"cells": [], "nbformat": 9, "nbformat_minor": 0, "metadata": {}}',
        b'{"cells": [3], "nbformat": 4, "nbformat_minor": 5, "metadata": {}}',
        b'{"cells": 3, "nbformat": 4, "nbformat_minor": 5, "metadata": {}}',
        b'{"cells": [{"cell_type": "code", "metadata": {}}], "nbformat": 4, "metadata": {}}',
        b"\xff\xfe\x00",
        notebook_bytes(OLD)[:2000],
    ],
)
def test_a_copy_that_cannot_be_read_is_left_and_the_others_proceed(course, capsys, content):
    (course / "notebooks" / "02_x.ipynb").write_bytes(notebook_bytes(NEW))
    (course / "work" / "02_x.ipynb").write_bytes(content)
    assert main([], root=course) == 2
    out, err = capsys.readouterr()
    assert err.startswith("work/02_x.ipynb: not a notebook (") and err.count("\n") == 1
    assert err.endswith("left as it is\n")
    assert (course / "work" / "02_x.ipynb").read_bytes() == content
    assert f"work/{STEM}.ipynb: updated" in out


def test_a_copy_in_an_older_format_without_ids_comes_along(course):
    path = course / "work" / f"{STEM}.ipynb"
    data = json.loads(path.read_bytes())
    data |= {"nbformat_minor": 2, "metadata": {}}
    for cell in data["cells"]:
        strip(cell, "id", "course", "nbgrader")
    path.write_text(json.dumps(data))
    assert main([], root=course) == 0
    result = nbformat.read(path, as_version=4)
    nbformat.validate(result)
    assert find(result, "answer-1-1")["source"] == MINE and "mine = 1" in yours(result)


def test_nothing_to_update(tmp_path, capsys):
    assert main([], root=tmp_path) == 0
    said = "nothing to update: python course.py lab makes your copies\n"
    assert capsys.readouterr().out == said
    assert list(tmp_path.iterdir()) == []


def test_a_lesson_that_is_no_longer_there_or_never_was(course, capsys):
    (course / "notebooks" / f"{STEM}.ipynb").unlink()
    before = work(course)
    assert main([], root=course) == 0
    assert "left as it is" in capsys.readouterr().out
    assert work(course) == before
    with pytest.raises(CourseError, match="no lesson '9'"):
        main(["9"], root=course)


def test_a_full_disk_leaves_the_copy_whole(course, monkeypatch, capsys):
    before = work(course)

    def full(path, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    assert main([], root=course) == 2
    assert "No space left on device" in capsys.readouterr().err
    assert work(course) == before


def test_an_answer_follows_its_name_when_exercises_are_renumbered(tmp_path):
    from course_utils.authoring.carry import carry

    def cell(exercise, source):
        name = f"answer-{exercise.replace('.', '-')}"
        course = {"role": "answer", "exercise": exercise, "text": "0" * 10}
        metadata = {"course": course}
        return {"cell_type": "code", "id": name, "metadata": metadata, "source": source}

    stub = "def {}(x):\n    # YOUR CODE HERE\n    raise NotImplementedError"
    old = {"cells": [cell("1.1", "def owned(x):\n    return 1")]}
    new = {"cells": [cell("1.1", stub.format("payload")), cell("1.2", stub.format("owned"))]}
    sources = [c["source"] for c in carry(old, new).notebook["cells"]]
    assert sources == [stub.format("payload"), "def owned(x):\n    return 1"]
    renamed = {"cells": [cell("1.1", "def my_payload(x):\n    return 1")]}
    assert carry(renamed, new).notebook["cells"][0]["source"].startswith("def my_payload")


def test_an_answer_in_words_comes_along():
    old, new = build(SAMPLE + WORDS)[0], build(NEWER + WORDS.replace("Why?", "Why so?"))[0]
    assert carry(old, new).notebook == new and carry(old, new).answers == 0
    find(old, "written-1-w")["source"] = "Because `a[0]` keeps all of it."
    carried = carry(old, new)
    assert find(carried.notebook, "written-1-w")["source"] == "Because `a[0]` keeps all of it."
    assert (carried.answers, carried.kept) == (1, 0)
    find(old, "written-1-w")["metadata"] = {}  # as an editor may leave it
    assert carry(old, new).answers == 1
    find(old, "written-1-w")["cell_type"] = "raw"
    assert "Because `a[0]` keeps all of it." in texts(carry(old, new).notebook)
