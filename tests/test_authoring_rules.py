"""Each rule for a lesson's source: a breach is named with its file and its line."""

import pytest

from course_utils.authoring import outline, rules
from tests.test_authoring import ANSWER, SAMPLE, TITLE, WORDS, known, read

HEADING = "### Exercise 1.1 - payload - 2 points, easy, 5 min"
CHECK = '# %%\ncheck("1.1", f)\n'


def problems(text, name="01_x"):
    lesson = read(text, name)
    return rules.validate(lesson, outline.outline(lesson), known)


def exercise(heading=HEADING, answer=ANSWER, check=CHECK):
    return f"{TITLE}\n# %% [markdown]\n# {heading}\n\n{answer}\n{check}"


def test_a_sound_source_has_no_problems():
    assert problems(SAMPLE, "01_measuring_memory") == []
    assert problems(exercise()) == []


BROKEN = {  # what is wrong -> (source, line, words of the message)
    "never closed": (
        exercise(answer=ANSWER.replace("    ### END SOLUTION\n", "")), 9, "never closed",
    ),
    "never opened": (
        exercise(answer=ANSWER.replace("    ### BEGIN SOLUTION\n", "")), 10, "without `### BEGIN",
    ),
    "nested": (
        exercise(answer=ANSWER.replace("    return x", "    ### BEGIN SOLUTION\n    return x")),
        10, "inside the solution that line 9 opens",
    ),
    "not alone": (
        exercise(answer=ANSWER.replace("return x", "return x  ### END SOLUTION")), 10, "alone",
    ),
    "misspelt": (exercise(answer=ANSWER.replace("### BEGIN", "# begin")), 9, "alone"),
    "no points": (exercise("### Exercise 1.1 - payload - easy, 5 min"), 5, "has no points"),
    "no minutes": (exercise("### Exercise 1.1 - payload - 2 points, easy"), 5, "has no minutes"),
    "no difficulty": (
        exercise("### Exercise 1.1 - payload - 2 points, 5 min"), 5, "has no difficulty",
    ),
    "malformed": (
        exercise("### Exercise 1.1: payload - 2 points, easy, 5 min"), 5, "is malformed: write",
    ),
    "no id": (exercise("### Exercise payload - 2 points, easy, 5 min"), 5, "without an id"),
    "duplicate": (
        exercise() + f"\n# %% [markdown]\n# {HEADING}\n", 17, "again: its first heading",
    ),
    "of another lesson": (exercise(HEADING.replace("1.1", "2.1")), 5, "is not of lesson 01"),
    "no answer": (exercise(answer=""), 5, "has no answer cell"),
    "no check": (exercise(check=""), 5, "has no check"),
    "check only": (f"{TITLE}\n{CHECK}", 5, "without an exercise"),
    "two checks": (exercise(check=f"{CHECK}\n{CHECK}"), 17, "one check"),
    "check of an expression": (
        exercise(check='# %%\ncheck("1.1", f(1))\n'), 14, "takes the name of the answer",
    ),
    "check beside code": (exercise(check=CHECK + "x = 1\n"), 14, "nothing else"),
    "unknown": (
        exercise(HEADING.replace("1.1", "1.9"), check='# %%\ncheck("1.9", f)\n'), 14, "no such",
    ),
    "other points": (exercise(HEADING.replace("2 points", "3 points")), 5, "points 3 here, 2 in"),
    "needs an unknown one": (
        exercise() + '\n# %%\nwith needs("1.7"):\n    f(1)\n', 17, "no such exercise",
    ),
    "markers in text": (
        f"{TITLE}\n# %% [markdown]\n# ### BEGIN SOLUTION\n# 42\n# ### END SOLUTION\n",
        5, "a marker in a text cell",
    ),
    "solution without exercise": (f"{TITLE}\n{ANSWER}", 5, "outside an exercise"),
    "solution after the check": (
        exercise(check=f"{CHECK}\n{ANSWER.replace('def f', 'def g')}"), 17, "outside an exercise",
    ),
    "answer elsewhere": (
        exercise() + "\n# %%\ndef f(x):\n    return x\n", 17, "an answer outside a solution",
    ),
    "answer assigned elsewhere": (
        exercise() + "\n# %%\nif True:\n    f = abs\n", 17, "an answer outside a solution",
    ),
    "answer beside the markers": (
        exercise(answer=ANSWER.replace("def f", "def g") + "\ndef f(x):\n    return x\n"), 8,
        "no part of f is between markers",
    ),
    "answer undefined": (exercise(answer=ANSWER.replace("def f", "def g")), 8, "defines f"),
    "stub that raises at once": (
        exercise(answer="# %%\n### BEGIN SOLUTION\ndef f(x):\n    return x\n### END SOLUTION\n"), 8,
        "would raise when the cell runs",
    ),
    "stub that does not parse": (
        exercise(answer=ANSWER.replace("    ###", "###")), 8, "without its solution the cell",
    ),
    "the builder's own words": (exercise(answer=ANSWER + "    # YOUR CODE HERE\n"), 12, "builder"),
    "prediction with code": (
        TITLE + '\n# %%\npredict("1.a", 1)\nx = 2\n\n# %%\nmeasured("1.a", 1)\n', 5, "of its own",
    ),
    "prediction in code": (
        TITLE + '\n# %%\nx = predict("1.a", 1)\n\n# %%\nmeasured("1.a", 1)\n', 5, "of its own",
    ),
    "prediction without a number": (
        TITLE + '\n# %%\npredict("1.a", ...)\n\n# %%\nmeasured("1.a", 1)\n', 5, "is the number",
    ),
    "prediction never measured": (TITLE + '\n# %%\npredict("1.a", 1)\n', 5, "is not measured"),
    "measured, not predicted": (TITLE + '\n# %%\nmeasured("1.a", 1)\n', 5, "without a prediction"),
    "measured before": (
        TITLE + '\n# %%\nmeasured("1.a", 1)\n\n# %%\npredict("1.a", 1)\n', 5, "in a cell above",
    ),
    "prediction of another lesson": (
        TITLE + '\n# %%\npredict("2.a", 1)\n\n# %%\nmeasured("2.a", 1)\n', 5, "not of lesson 01",
    ),
    "long cell": (TITLE + "\n# %%\n" + "x = 1\n" * 21, 5, "21 lines"),
    "three code cells": (TITLE + "\n# %%\nx = 1\n" * 3, 11, "3 code cells in a row"),
    "no title": ("# %% [markdown]\n# ## Title\n", 2, "the title"),
    "code first": ("# %%\nx = 1\n", 2, "the title"),
    "nothing": ("", 1, "the title"),
    "syntax": (TITLE + "\n# %%\nx = 1\ny = = 2\n", 6, "does not parse"),
    "text before the first cell": ("x = 1\n" + TITLE, 1, "not opened by"),
    "metadata": (TITLE + '\n# %% {"tags": ["a"]}\nx = 1\n', 1, "not opened by a plain"),
    "written twice": (
        TITLE + WORDS + '\n# %% [markdown] written="1.w"\n# Too.\n', 13, "a question has one",
    ),
    "written, not asked": (
        TITLE + '\n# %% [markdown] written="1.w"\n# So.\n', 5, "no heading `### In your own words",
    ),
    "asked, not written": (TITLE + "\n# %% [markdown]\n# ### In your own words 1.w\n", 1, "no cell"),
    "written in code": (TITLE + '\n# %% written="1.w"\nx = 1\n', 5, "in a text cell"),
    "written of another lesson": (TITLE + WORDS.replace("1.w", "2.w"), 10, "its id is 1.w"),
    "an empty cell": (TITLE + "\n# %%\n\n# %% [markdown]\n# text\n", 4, "an empty cell"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_breach_is_named_with_file_and_line(name):
    text, line, words = BROKEN[name]
    found = problems(text)
    mine = [p for p in found if p.startswith(f"solutions/01_x.py:{line}: ") and words in p]
    assert mine, found
    assert all("\n" not in p for p in found)


def test_all_problems_of_a_source_are_listed():
    found = problems(BROKEN["no points"][0] + "\n# %%\ny = = 1\nmeasured('1.b', 1)\n")
    found += problems(BROKEN["never closed"][0] + "\n# %%\nmeasured('1.b', 1)\n")
    assert [problem.split(":")[1] for problem in found] == ["5", "17", "9", "16"]


def test_the_core_takes_two_hours_at_most():
    def lesson(extra):
        return (
            exercise(HEADING.replace("5 min", "100 min"))
            + f"\n# %% [markdown]\n# ### Exercise 1.2 - more - 2 points, hard, 30 min{extra}\n\n"
            + ANSWER.replace("def f", "def g")
            + '\n# %%\ncheck("1.2", g)\n'
        )

    assert problems(lesson("")) == [
        "solutions/01_x.py:1: the core exercises take 130 min: 120 at most"
    ]
    assert problems(lesson(", optional")) == []


def test_a_solution_may_be_longer_than_its_stub():
    long = ANSWER.replace("    return x", "    x += 1\n" * 30 + "    return x")
    assert problems(exercise(answer=long)) == []


def test_lines_count_in_a_quoted_text_cell_too():
    text = '# %% [markdown]\n"""\n# A\n\n### Exercise 1.1\n"""\n'
    heading = "solutions/01_x.py:5: the heading of exercise 1.1 has no points"
    assert any(problem.startswith(heading) for problem in problems(text))
