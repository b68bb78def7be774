"""The record behind the memory figures: names, bytes, births and deaths."""

import functools
import sys

import numpy as np

from course_utils import ag
from course_utils.timeline import UNNAMED, Timeline, trace_lines
from course_utils.tracing import PEAK_TOLERANCE_BYTES

SIZE = 100_000
ARRAY = SIZE * 8


def program(n):
    a = np.ones(n)
    b = a * a
    c = a[: n // 2]
    b = None
    d = np.sqrt(a) + 1
    return d


def test_lines_are_steps_with_names_and_bytes():
    steps = trace_lines(program, SIZE).steps
    assert [step.label for step in steps] == [
        "a = np.ones(n)",
        "b = a * a",
        "c = a[: n // 2]",
        "b = None",
        "d = np.sqrt(a) + 1",
        "return d",
    ]
    assert [list(step.blocks) for step in steps] == [
        ["a"],
        ["a", "b"],
        ["a", "b"],
        ["a"],
        ["a", "d"],
        ["a", "d"],
    ]
    assert all(step.current_bytes == sum(step.blocks.values()) for step in steps)
    assert all(step.current_bytes == len(step.blocks) * ARRAY for step in steps)


def test_peak_of_a_line_shows_its_temporaries_and_no_others():
    def two_temporaries(n):
        a = np.ones(n)
        b = np.sqrt(a) * np.cos(a)
        a = None
        return b

    peaks = [step.peak_bytes for step in trace_lines(two_temporaries, SIZE).steps]
    expected = [1, 3, 2, 1]
    assert all(
        e * ARRAY <= p <= e * ARRAY + PEAK_TOLERANCE_BYTES
        for p, e in zip(peaks, expected, strict=True)
    )


def test_arguments_cost_nothing_unless_they_are_counted():
    def consume(node):
        y = node.grad + 1
        node.grad = None
        return y

    def make_node():
        node = ag.LazyTensor(np.ones(SIZE))
        node.grad = np.ones(SIZE)
        return node

    assert [step.current_bytes for step in trace_lines(consume, make_node()).steps] == [ARRAY] * 3
    counted = trace_lines(consume, make_node(), count=["node.grad"]).steps
    assert [list(step.blocks) for step in counted] == [["node.grad", "y"], ["y"], ["y"]]
    assert [step.current_bytes for step in counted] == [2 * ARRAY, ARRAY, ARRAY]
    assert counted[1].peak_bytes >= 2 * ARRAY


def test_what_no_name_reaches_is_unnamed():
    hidden = []
    with Timeline() as timeline:
        hidden.append(np.ones(SIZE))
        step = timeline.mark("hidden")
    assert step.blocks == {UNNAMED: ARRAY} and step.current_bytes == ARRAY


def test_tensors_lists_and_dicts_are_looked_into():
    with Timeline() as timeline:
        x = ag.Tensor(np.ones(SIZE))
        step = timeline.mark(
            "all",
            {"x": x, "list": [np.ones(SIZE)], "dict": {"k": np.ones(SIZE)}, "view": x.value[1:]},
        )
    assert list(step.blocks) == ["x.value", "x.grad", "list[0]", "dict['k']"]
    assert step.current_bytes == 4 * ARRAY


def test_a_new_array_at_an_old_name_is_a_new_block():
    with Timeline() as timeline:
        a = np.ones(SIZE)
        timeline.mark("first", a=a)
        a = np.ones(2 * SIZE)
        step = timeline.mark("second", a=a)
    assert step.blocks == {"a": 2 * ARRAY}
    assert timeline.peak_bytes >= 3 * ARRAY


def test_tracing_lines_leaves_the_tracer_and_the_arrays_alone():
    import weakref

    tracer = sys.gettrace()
    kept = []

    def remember(a):
        kept.append(weakref.ref(a))
        b = a + 1
        return b

    timeline = trace_lines(remember, np.ones(SIZE))
    assert sys.gettrace() is tracer
    assert kept[0]() is None and len(timeline.steps) == 3


def test_partials_methods_and_callable_objects_have_lines_too():
    class Doubler:
        def __call__(self, node):
            node.grad = node.grad * 2

        def run(self, node):
            node.grad = node.grad * 2

    def scale(factor, node):
        node.grad = node.grad * factor

    for function in (Doubler(), Doubler().run, functools.partial(scale, 2)):
        node = ag.LazyTensor(np.ones(SIZE))
        node.grad = np.ones(SIZE)
        (step,) = trace_lines(function, node, names=["n"], count=["n.grad"]).steps
        assert step.label.startswith("node.grad = node.grad")
        assert step.current_bytes == ARRAY and step.peak_bytes >= 2 * ARRAY


def test_a_step_tells_buffers_apart_and_who_made_them():
    with Timeline(before={"w": (w := np.ones(SIZE))}, count=["w"]) as timeline:
        x = np.ones(SIZE)
        timeline.note("earlier", x=x)
        first = timeline.mark("first", x=x, w=w)
        x += 1
        same = timeline.mark("in place", x=x, w=w)
        x = x + 1
        other = timeline.mark("another", x=x, w=w)
    assert first.made == same.made == {"w": "", "x": "earlier"}
    assert first.buffers == same.buffers and len(timeline.steps) == 3
    assert other.made == {"w": "", "x": "another"}
    assert other.buffers["x"] not in first.buffers.values()
    assert other.buffers["w"] == first.buffers["w"]
