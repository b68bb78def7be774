"""Nearly identical answers: found through renaming, silent about what everybody writes."""

import json

from course_utils.authoring.files import ROOT
from course_utils.grading.records import Graded, RowStatus
from course_utils.grading.similar import like_published, near_identical, tokens

NOTEBOOK = "01_measuring_memory"
OWN = '''
def distance_statistics(points, block):
    """Mine."""
    count = len(points)
    means, mins = np.empty(count), np.full(count, np.inf)
    for start in range(0, count, block):
        part = points[start : start + block]
        table = np.sqrt(((part[:, None] - points[None]) ** 2).sum(axis=-1))  # the trick
        means[start : start + block] = table.mean(axis=1)
        mins[start : start + block] = np.partition(table, 1, axis=1)[:, 1]
    return means, mins
'''
RENAMED = (
    OWN.replace("table", "d").replace("count", "n").replace("start", "i").replace("# the trick", "")
)
OTHER = """
def distance_statistics(points, block):
    results = []
    at = 0
    while at < points.shape[0]:
        rows = slice(at, min(at + block, points.shape[0]))
        squares = sum((points[rows, k : k + 1] - points[:, k]) ** 2 for k in range(3))
        np.sqrt(squares, out=squares)
        mean = np.add.reduce(squares, axis=1) / points.shape[0]
        np.fill_diagonal(squares[:, at:], np.inf)
        results.append((mean, squares.min(1)))
        at += block
    return tuple(np.concatenate(column) for column in zip(*results))
"""


def row(student, source, exercise="1.4"):
    return Graded(student, NOTEBOOK, RowStatus.GRADED, sources={exercise: source})


def test_renaming_and_comments_hide_nothing():
    pairs = near_identical([row("ada", OWN), row("bob", RENAMED), row("cy", OTHER)])
    assert [(p.students, p.same_text) for p in pairs] == [(("ada", "bob"), False)]
    assert pairs[0].share > 0.9 and (pairs[0].notebook, pairs[0].exercise) == (NOTEBOOK, "1.4")


def test_the_same_text_is_said_and_comes_first():
    rows = [row("a", OTHER), row("b", OTHER + "\n\n"), row("c", OWN), row("d", RENAMED)]
    pairs = near_identical(rows)
    assert [(p.students, p.same_text) for p in pairs] == [(("a", "b"), True), (("c", "d"), False)]


def test_what_many_wrote_says_nothing():
    own = [row(f"s{k}", OWN.replace("means", f"m{k}")) for k in range(20)]
    rows = [*own, row("x", OTHER), row("y", OTHER)]
    assert [pair.students for pair in near_identical(rows)] == [("x", "y")]


def test_one_text_is_said_however_many_have_it():
    rows = [row(f"s{k}", OWN) for k in range(10)] + [row("x", OTHER)]
    assert [len(pair.students) for pair in near_identical(rows)] == [10]


def test_a_ring_of_three_is_seen_in_a_small_class():
    ring = [row("a", OWN), row("b", RENAMED), row("c", RENAMED.replace("mins", "smallest"))]
    others = [row(f"s{k}", OTHER.replace("at", f"at{k}")) for k in range(9)]
    pairs = near_identical([*ring, *others])
    assert [pair.students for pair in pairs] == [("a", "b"), ("a", "c"), ("b", "c")]


def test_the_published_solution_is_noticed_and_an_answer_of_ones_own_is_not():
    notebook = json.loads((ROOT / "solutions" / f"{NOTEBOOK}.ipynb").read_text("utf-8"))
    (cell,) = [c for c in notebook["cells"] if c["id"] == "answer-1-4"]
    given = "".join(cell["source"])
    bare = "\n".join(line for line in given.split("\n") if "###" not in line)
    rows = [row("a", given), row("b", bare), row("c", bare.replace("block", "b")), row("d", OWN)]
    found = like_published(rows)
    assert [(pair.students, pair.same_text) for pair in found] == [
        (("a",), True), (("b",), True), (("c",), False),
    ]  # fmt: skip
    stub = json.loads((ROOT / "notebooks" / f"{NOTEBOOK}.ipynb").read_text("utf-8"))
    untouched = ["".join(c["source"]) for c in stub["cells"] if c["id"] == "answer-1-4"]
    assert near_identical([row("a", untouched[0]), row("b", untouched[0])]) == []
    assert like_published([row("a", untouched[0]), row("b", "def f(:")]) == []


def test_short_answers_and_the_given_stub_are_not_compared():
    short = (
        "def payload_bytes(shape, dtype):\n    return math.prod(shape) * np.dtype(dtype).itemsize"
    )
    assert near_identical([row("a", short, "1.1"), row("b", short, "1.1")]) == []
    assert near_identical([row("a", OWN), row("a", OWN)]) == [], "one student, two attempts"


def test_text_that_is_no_program_stops_nothing():
    rows = [row("a", OWN + "\n'''"), row("b", RENAMED + "\n  (("), row("c", "\x00"), row("d", "")]
    assert [pair.students for pair in near_identical(rows)] == [("a", "b")]
    assert tokens("x = 'a'  # why") == ["name", "=", "text"]
