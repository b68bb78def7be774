"""Which array is alive when: the record behind every memory figure of the course.

A `Timeline` counts like a trace, and beside the total it notes at each step which arrays make it up, by
name. `trace_lines(function)` takes a step after every line of a function; `Timeline.mark` takes one where
you say. Names come from the program's own variables; what no name reaches shows as `unnamed`.
"""

import functools
import inspect
import linecache
import sys
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType

import numpy as np

from course_utils.tracing import Trace

UNNAMED = "unnamed"


@dataclass(frozen=True)
class Step:
    """One moment. `blocks` maps an array's name to its bytes, oldest array first.

    current_bytes: all that is alive after the step (exact).
    peak_bytes: the most that was alive during the step (within 64 KiB): temporaries show only here.
    shapes: of the arrays in `blocks`, by name.
    buffers: which memory a name stands for, as a number: a name given to another array has another one.
    made: the label under which an array was first there, by name; "" for what was there before all.
    """

    label: str
    blocks: dict[str, int]
    current_bytes: int
    peak_bytes: int
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    buffers: dict[str, int] = field(default_factory=dict)
    made: dict[str, str] = field(default_factory=dict)


class Timeline:
    """Steps of a program, each with the arrays alive after it.

    with Timeline() as timeline:
        a = np.ones((1000, 1000))
        timeline.mark("a = ones", a=a)

    Arrays made before the timeline began cost nothing here; give them as `before`, if they are
    reachable from what you mark. Those of them that `count` names are counted all the same, while they
    live. A tensor of `ag` counts as its `value` and its `grad`.
    """

    def __init__(self, before: Mapping[str, object] | None = None, count: Collection[str] = ()):
        self.steps: list[Step] = []
        self._trace = Trace()
        self._names: dict[int, tuple[weakref.ref, str]] = {}  # buffer -> its owner and first name
        self._made: dict[int, tuple[int, str]] = {}  # buffer -> its number, and who made it
        self._seen = 0
        self._outside, self._carried = [], []
        for name, owner in _buffers(before or {}):
            if name in count:
                self._carried.append(weakref.ref(owner))
                self._register(owner, name, "")
            else:
                self._outside.append(owner)

    def __enter__(self) -> "Timeline":
        self._carried_before = self._carried_bytes()
        self._trace.start()
        return self

    def __exit__(self, *exception) -> None:
        self._trace.stop()
        self._outside.clear()  # a figure's data must keep no array alive

    def mark(self, label: str, arrays: Mapping[str, object] | None = None, **named: object) -> Step:
        """Note a step: what is alive now, and which of it is among these arrays."""
        alive = self._alive({**(arrays or {}), **named}, label)
        blocks = {name: owner.nbytes for name, owner in alive.items()}
        shapes = {name: owner.shape for name, owner in alive.items()}
        known = {name: self._made[id(owner)] for name, owner in alive.items()}
        del alive  # a step refers to no array
        stats = self._trace.snapshot()
        current_bytes = stats.current_bytes + self._carried_bytes()
        peak_bytes = max(stats.peak_bytes + self._carried_before, current_bytes)
        self._carried_before = self._carried_bytes()
        rest_bytes = current_bytes - sum(blocks.values())
        if rest_bytes > 0:
            blocks[UNNAMED] = rest_bytes
        buffers = {name: number for name, (number, _) in known.items()}
        made = {name: by for name, (_, by) in known.items()}
        step = Step(label, blocks, current_bytes, peak_bytes, shapes, buffers, made)
        self.steps.append(step)
        self._trace.restart_peak()
        return step

    def note(self, label: str, arrays: Mapping[str, object] | None = None, **named: object) -> None:
        """Say who made those of these arrays that are new, without a step."""
        self._alive({**(arrays or {}), **named}, label)

    @property
    def peak_bytes(self) -> int:
        """The most that was alive at any moment of any step."""
        return max((step.peak_bytes for step in self.steps), default=0)

    def _carried_bytes(self) -> int:
        return sum(array.nbytes for ref in self._carried if (array := ref()) is not None)

    def _register(self, owner: np.ndarray, name: str, label: str) -> None:
        self._names.pop(id(owner), None)  # the newest comes last
        self._names[id(owner)] = (weakref.ref(owner), name)
        self._made[id(owner)] = (self._seen, label)
        self._seen += 1

    def _alive(self, arrays: Mapping[str, object], label: str) -> dict[str, np.ndarray]:
        outside = {id(owner) for owner in self._outside}
        found = {}
        for name, owner in _buffers(arrays):
            if id(owner) in outside:
                continue
            known, first_name = self._names.get(id(owner), (None, ""))
            if known is None or known() is not owner:  # a new buffer, perhaps at a freed one's id
                first_name = name
                self._register(owner, name, label)
            found[id(owner)] = (first_name, owner)
        order = list(self._names)
        alive: dict[str, np.ndarray] = {}
        for key in sorted(found, key=order.index):
            name, owner = found[key]
            while name in alive:
                name += "'"
            alive[name] = owner
        return alive


def trace_lines(
    function: Callable, *args, names: Sequence[str] = (), count: Collection[str] = ()
) -> Timeline:
    """Run `function(*args)` with a step after each line of its body.

    Only the function's own lines are steps, not those of what it calls. A line of a loop is a step
    each time it runs. Its arguments cost nothing, but for those that `count` names ("x",
    "output.grad"): they count as long as they live. Arguments are called what the function calls
    them, or by `names`.
    """
    code = _code_of(function)
    words = names or code.co_varnames[: code.co_argcount][-len(args) :]  # a method's self is none
    timeline = Timeline(before=dict(zip(words, args)), count=count)
    last_line: list[int] = []

    def at_event(frame, event, arg):
        if frame.f_code is not code:
            return None
        if event in ("line", "return") and last_line:
            source = linecache.getline(code.co_filename, last_line.pop()).strip()
            local = {name: value for name, value in frame.f_locals.items() if _is_data(value)}
            if event == "return":
                local["result"] = arg
            timeline.mark(source, local)
        if event == "line":
            last_line.append(frame.f_lineno)
        return at_event

    previous = sys.gettrace()
    with timeline:
        sys.settrace(at_event)
        try:
            function(*args)
        finally:
            sys.settrace(previous)
    return timeline


def _code_of(function: Callable) -> CodeType:
    """The code whose lines are the function's own, behind wrappers, partials and methods."""
    while True:
        function = inspect.unwrap(function)
        if isinstance(function, functools.partial):
            function = function.func
        elif hasattr(function, "__code__"):
            return function.__code__
        else:
            function = type(function).__call__


def _is_data(value: object) -> bool:
    return isinstance(value, np.ndarray | list | tuple | dict) or hasattr(value, "grad")


def _buffers(arrays: Mapping[str, object]) -> Iterator[tuple[str, np.ndarray]]:
    """The arrays that own memory behind these names: views lead to their base, lists to their items."""
    for name, value in arrays.items():
        if isinstance(value, np.ndarray):
            while isinstance(value.base, np.ndarray):
                value = value.base
            yield name, value
        elif isinstance(value, list | tuple):
            yield from _buffers({f"{name}[{i}]": item for i, item in enumerate(value)})
        elif isinstance(value, dict):
            yield from _buffers({f"{name}[{key!r}]": item for key, item in value.items()})
        elif hasattr(value, "grad") and hasattr(value, "value"):
            yield from _buffers({f"{name}.value": value.value, f"{name}.grad": value.grad})
