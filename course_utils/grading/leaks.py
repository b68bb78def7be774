"""Looks into a students' copy for what would give an exercise away.

It knows what to look for because the answers are here: the body of every solution, the model answers
in words, and the right and wrong answers of the tests. White space and comments do not hide a body.
"""

import ast
import json
import re
from functools import cache
from pathlib import Path

from course_utils.authoring import syntax
from course_utils.authoring.outline import BEGIN, END, outline
from course_utils.authoring.source import read_lesson

SHORTEST = 30  # characters of a body, white space apart: shorter ones say nothing
# where the check itself must compute what a short exercise asks for; students can read it there
ORACLES = {
    ("course_utils/attention/traffic.py", "6.2"),  # one formula, the check's oracle
    ("course_utils/checks/rematerialization/chain.py", "3.1"),  # the check of 3.2 refills values
}
ANSWERS_BY = ("right", "wrong")  # the decorators of tests/answers


def leaks(contents: dict[str, bytes], root: Path) -> list[str]:
    """What the copy gives away, one line each."""
    texts = {name: squeezed(plain(name, content)) for name, content in contents.items()}
    found = [
        f"{name}: the answer to {which}"
        for which, secret in secrets(root)
        for name, text in texts.items()
        if secret in text and (name, which) not in ORACLES
    ]
    found += [f"{name}: a file of solutions" for name in contents if name.startswith("solutions/")]
    names = answer_names(root)
    for name, content in contents.items():
        defined = set(re.findall(r"\bdef (\w+)", plain(name, content)))
        found += [f"{name}: an answer of the tests, {each}" for each in sorted(defined & names)]
    return found


@cache
def secrets(root: Path) -> list[tuple[str, str]]:
    """(exercise, text without white space): the solutions' bodies, and the answers in words."""
    found = []
    for path in sorted((root / "solutions").glob("[0-9]*.py")):
        for part in outline(read_lesson(path)).parts:
            texts = [part.cell.text] if part.role == "written" else []
            texts += bodies(part.cell.text) if part.role == "answer" else []
            secret = [squeezed(text) for text in texts]
            found += [(str(part.id), each) for each in secret if len(each) >= SHORTEST]
    return found


def bodies(text: str) -> list[str]:
    """What stands between the markers of an answer cell."""
    inside = re.findall(f"{re.escape(BEGIN)}\n(.*?){re.escape(END)}", text, re.DOTALL)
    return [body for body in inside if body.strip()]


def plain(name: str, content: bytes) -> str:
    """A file's text; of a notebook, that of its cells."""
    text = content.decode("utf-8", "replace")
    if not name.endswith(".ipynb"):
        return text
    return "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])


def squeezed(text: str) -> str:
    """A text without white space and without lines that are comments."""
    lines = (line.strip() for line in text.splitlines())
    return "".join("".join(line.split()) for line in lines if not line.startswith("#"))


@cache
def answer_names(root: Path) -> set[str]:
    """The functions in tests/answers that are somebody's answer, if their names tell them apart."""
    found = set()
    for path in (root / "tests" / "answers").glob("lesson_*.py"):
        for node in syntax.parse(path.read_text(encoding="utf-8")).body:
            calls = [d for d in getattr(node, "decorator_list", ()) if isinstance(d, ast.Call)]
            if any(getattr(call.func, "id", "") in ANSWERS_BY for call in calls):
                found.add(node.name)
    return {name for name in found if name.count("_") >= 2}
