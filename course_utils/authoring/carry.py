"""Carries a student's work from an old copy of a lesson into a new version of it.

The new copy is the fresh notebook, with what is the student's put where it belongs. Whose a cell
is, its id says: text that still hashes to it is the course's and is replaced; anything else is the
student's and is never lost. Answers and predictions are found by their exercise; where an editor
stripped metadata and ids (Colab does), an answer is found by the name that it defines.
"""

import copy
import re
from dataclasses import dataclass, field

from course_utils.authoring import syntax
from course_utils.authoring.ids import ROLES, is_given, role_id, role_in, text_hash, unique
from course_utils.authoring.student import without_prediction

YOURS = "yours"  # the tag of a cell that the student edited or added
BEFORE_ALL = -1
DEFINES = re.compile(r"^(?:async\s+def|def|class)\s+(\w+)", re.MULTILINE)


@dataclass
class Carried:
    """The new copy, and what of the student's is in it."""

    notebook: dict
    answers: int = 0
    predictions: int = 0
    kept: int = 0


@dataclass
class Merge:
    """A new copy in the making. `places` maps a name or the hash of a text to a cell of it."""

    cells: list[dict]
    places: dict[str, int]
    stubs: dict[str, str]
    result: Carried
    beside: dict[int, list[dict]] = field(default_factory=dict)
    filled: set[str] = field(default_factory=set)
    place: int = BEFORE_ALL  # of the last cell met whose new version is known

    def keep(self, cell: dict, note: str = "") -> None:
        """Keep a cell of the student's after the new version of the one it stood at, or after."""
        if not cell["source"].strip():
            return
        row = self.beside.setdefault(self.place, [])
        if note:
            row.append({"cell_type": "markdown", "metadata": {"tags": [YOURS]}, "source": note})
        row.append(yours(cell))
        self.result.kept += 1


def carry(old: dict, new: dict) -> Carried:
    """Merge an old copy into a fresh notebook; neither is changed. Old outputs stay behind."""
    notebook = copy.deepcopy(new)
    cells = notebook["cells"]
    places = {text_hash(cell["source"]): at for at, cell in reversed(list(enumerate(cells)))}
    places |= {cell["id"]: at for at, cell in enumerate(cells)}
    stubs = {cell["id"]: cell["source"] for cell in cells if "role" in part(cell, "course")}
    merge = Merge(cells, places, stubs, Carried(notebook))
    names = [known_name(cell) for cell in old["cells"]]
    for cell, name in zip(old["cells"], by_definition(old["cells"], names, stubs), strict=True):
        take(cell, name, merge)
    taken = {cell["id"] for cell in cells}
    notebook["cells"] = []
    for at in range(BEFORE_ALL, len(cells)):
        notebook["cells"] += [cells[at]] if at >= 0 else []
        for cell in merge.beside.get(at, ()):
            cell["id"] = unique(cell.get("id") or f"{YOURS}-{text_hash(cell['source'])}", taken)
            notebook["cells"].append(cell)
    return merge.result


def take(cell: dict, name: str | None, merge: Merge) -> None:
    """Put one cell of the old copy where it belongs, or leave it to its new version."""
    text = cell["source"]
    if YOURS in tags(cell):
        merge.keep(cell)
    elif role := role_in(name):
        merge.place = merge.places.get(name, merge.place)
        if (cell["cell_type"] == "code") == (role == "written"):  # its kind was changed
            merge.keep(cell)
        elif untouched(cell, merge.stubs.get(name)):
            return
        elif role in ("answer", "written"):
            take_answer(cell, name, merge)
        elif role == "predict":
            take_prediction(cell, name, merge)
        else:
            merge.keep(cell)
    elif name and is_given(text, name):
        merge.place = merge.places.get(name, merge.place)
    elif text_hash(text) in merge.places:
        merge.place = merge.places[text_hash(text)]
    else:
        merge.place = merge.places.get(name, merge.place)
        merge.keep(cell)


def take_answer(cell: dict, name: str, merge: Merge) -> None:
    if name not in merge.stubs:
        exercise = ".".join(name.split("-")[1:3])
        merge.keep(cell, f"Your answer to exercise {exercise}, which this lesson no longer has:")
    elif name not in merge.filled:
        merge.filled.add(name)
        merge.cells[merge.places[name]]["source"] = cell["source"]
        merge.result.answers += 1
    elif cell["source"] != merge.cells[merge.places[name]]["source"]:
        merge.keep(cell)


def take_prediction(cell: dict, name: str, merge: Merge) -> None:
    """The number moves into the new cell; a cell with more than that changed is kept beside."""
    number = predicted(cell["source"])
    carried = number is not None and name in merge.stubs and name not in merge.filled
    if carried:
        merge.filled.add(name)
        place = merge.cells[merge.places[name]]
        place["source"] = with_prediction(place["source"], number)
        merge.result.predictions += 1
    given = part(cell, "course").get("text") or text_hash(merge.stubs.get(name, ""))
    if not carried or text_hash(without_prediction(cell["source"])) != given:
        merge.keep(cell)


def tags(cell: dict) -> list:
    found = cell["metadata"].get("tags")
    return list(found) if isinstance(found, list) else []


def part(cell: dict, name: str) -> dict:
    """A part of a cell's metadata; {} where an editor or a hand left something that is none."""
    found = cell["metadata"].get(name)
    return found if isinstance(found, dict) else {}


def known_name(cell: dict) -> str | None:
    """The id that a cell of a copy was given: from our metadata, its own, or from nbgrader's."""
    course, own = part(cell, "course"), cell.get("id")
    if course.get("role") in ROLES and isinstance(course.get("exercise"), str):
        name = role_id(course["role"], course["exercise"])
        return f"{name}-{course['part']}" if "part" in course else name
    colab = cell["metadata"].get("id")  # Colab keeps ids there
    named = [n for n in (own, colab, part(cell, "nbgrader").get("grade_id")) if isinstance(n, str)]
    known = [n for n in named if role_in(n) or is_given(cell["source"], n)]
    return known[0] if known else own


def by_definition(cells: list[dict], names: list, stubs: dict[str, str]) -> list[str | None]:
    """Names for answers that lost theirs: by what the stub, and the answer, define."""
    wanted = {
        defined: name
        for name, stub in stubs.items()
        if role_in(name) == "answer" and name not in names
        for defined in DEFINES.findall(stub)
    }
    homes = {
        defined: name
        for name, stub in stubs.items()
        if role_in(name) == "answer"
        for defined in DEFINES.findall(stub)
    }
    found = []
    for cell, name in zip(cells, names, strict=True):
        if role_in(name) == "answer":
            name = renumbered(cell["source"], name, stubs, homes)
        nameless = cell["cell_type"] == "code" and not role_in(name)
        if nameless and YOURS not in tags(cell):
            matches = [wanted[d] for d in DEFINES.findall(cell["source"]) if d in wanted]
            name = matches[0] if matches else name
        found.append(name)
    return found


def renumbered(text: str, name: str, stubs: dict[str, str], homes: dict[str, str]) -> str:
    """Where an answer belongs whose exercise has another number now: to the stub of its name."""
    defined = DEFINES.findall(text)
    if set(defined) & set(DEFINES.findall(stubs.get(name, ""))):
        return name
    return next((homes[each] for each in defined if each in homes), name)


def untouched(cell: dict, stub: str | None) -> bool:
    """Is this an answer, a check or a prediction as the course gave it, then or now, or empty?"""
    given = {part(cell, "course").get("text"), text_hash(stub) if stub else None}
    return text_hash(cell["source"]) in given or not cell["source"].strip()


def predicted(text: str) -> str | None:
    """The source of the number in a prediction; None where there is none, or it does not parse."""
    try:
        number = syntax.calls(syntax.parse(text), "predict")[0].args[1]
    except (SyntaxError, IndexError):
        return None
    return None if getattr(number, "value", None) is ... else syntax.segment(text, number)


def with_prediction(stub: str, number: str) -> str:
    call = syntax.calls(syntax.parse(stub), "predict")[0]
    return syntax.replace_node(stub, call.args[1], number)


def yours(cell: dict) -> dict:
    """A student's cell to be kept: tagged, without outputs, not to be taken for the course's."""
    kept = copy.deepcopy(dict(cell))
    metadata = {k: v for k, v in kept["metadata"].items() if k not in ("course", "nbgrader")}
    kept["metadata"] = metadata | {"tags": [*(tag for tag in tags(cell) if tag != YOURS), YOURS]}
    if role_in(kept.get("id")):
        del kept["id"]
    if kept["cell_type"] == "code":
        kept |= {"execution_count": None, "outputs": []}
    return kept
