"""What the text of an answer tells a grader: hints that spare honest answers, and ways round the memory."""

import importlib
import inspect
import time
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from course_utils.checks import LESSONS, find_exercise, lesson_exercises
from course_utils.checks.core import Observation
from course_utils.checks.core import passed as verdict_passed
from course_utils.grading import judging
from course_utils.grading.around import AROUND, NEARBY, around_flags, counts_traffic
from course_utils.grading.hints import oracle_flags, source_flags
from course_utils.grading.judging import judge_runs
from course_utils.grading.lessons import lessons
from course_utils.grading.reading import read_submission
from course_utils.grading.records import Answer, Ending, Job, Run
from tests.answers import ANSWERS
from tests.grading_helpers import as_bytes, solved

HERE = Path(__file__).parent / "answers"


@pytest.mark.parametrize(
    "source, hint",
    [
        ("import tracemalloc", "meters"),
        ("from course_utils.tracing import Trace", "meters"),
        ("from course_utils import tracing", "meters"),
        ("from course_utils.checks.core import passed", "grader"),
        ("from course_utils.attention import dense_attention", "exercise asks for"),
        ("import sys\nsys.modules['numpy']", "interpreter"),
        ("import numpy as np\nnp.matmul = print", "writes into a module"),
        ("import numpy as np\nlib = np.lib.array_utils\nlib.x = print", "writes into a module"),
        ("import numpy as np\nsetattr(np.linalg, 'x', 1)", "writes into a module"),
        ("f.__globals__", "interpreter"),
        ("import os\nos.fork()", "processes"),
        ("import os as system\nsystem.kill(1, 9)", "processes"),
        ("import socket", "network"),
        ("open('x')", "not its own"),
        ("import numpy as n\nn.save('x', y)", "out of sight"),
        ("from numpy import load", "out of sight"),
        ("from gc import callbacks", "interpreter"),
        ("getattr(x, 'a' + b)", "interpreter"),
    ],
)
def test_hints_in_a_source(source, hint):
    assert any(hint in flag for flag in source_flags(["", source]))


@pytest.mark.parametrize(
    "source",
    [
        "from course_utils.remat.simulate import simulate as run\nrun(g, s)",
        "from course_utils.remat import simulate as s\ns.simulate(g, s)",
    ],
)
def test_an_oracle_that_another_exercise_may_use(source):
    assert oracle_flags("4.1", [source]) and not oracle_flags("4.5", [source])
    assert not oracle_flags("4.1", [source.partition("\n")[0]])  # a first cell imports it


def test_a_name_means_what_another_cell_has_made_of_it():
    assert source_flags(["import numpy as np", "np.save('x', y)"])
    (flag,) = around_flags(["import numpy as np", "np.matmul = f"])
    assert flag.startswith(AROUND)


def test_a_chain_of_names_takes_no_time():
    """Read in the grader's own process, for each exercise of each submission."""
    names = [f"n{i}" for i in range(20_000)]
    chain = "".join(f"{new}={old}\n" for old, new in reversed(list(pairwise(names))))
    began = time.process_time()
    assert "writes into a module: n19999" in source_flags(
        [f"import numpy as n0\n{chain}n19999.x = 1"]
    )
    assert time.process_time() - began < 5


def test_honest_sources_and_broken_ones_raise_no_hint():
    honest = (
        "from course_utils.remat.simulate import simulate\n"
        "import re, sys, os\nimport numpy as np\nimport torch\nx = np.ones(3)\nx.shape = (3, 1)\n"
        "re.compile('a')\nsys.getsizeof(x)\nsram.load(Q[0:3])\nmodel.modules()\nmodel.load(x)\n"
        "from multiprocessing.pool import ThreadPool\nprocess.kill()\ncache.save(x)\n"
    )
    broken = ["def broken(:", "\0", "(" * 10**5]
    assert source_flags([honest, *broken]) == around_flags(broken) == []


@cache
def imports_of(file: Path) -> str:
    lines = file.read_text("utf-8").splitlines()
    return "\n".join(line for line in lines if line.startswith(("import ", "from ")))


def test_right_answers_raise_hardly_a_hint():
    """A hint that fires on honest work is passed over when it matters."""
    seen, flagged = 0, {}
    for lesson in list(LESSONS)[:8]:
        importlib.import_module(f"tests.answers.lesson_{int(lesson):02}")
    for answer in ANSWERS:
        function = answer.function
        if answer.cause or not inspect.isfunction(function) or int(answer.exercise[0]) > 7:
            continue
        text = "if True:\n" + "".join(inspect.getsource(function))
        text = text if text[9].isspace() else text.removeprefix("if True:\n")
        seen += 1
        if flags := source_flags([imports_of(HERE / f"lesson_0{answer.exercise[0]}.py"), text]):
            flagged[str(answer)] = flags
        if counts_traffic(find_exercise(answer.exercise).run):
            assert not around_flags([text]), answer
    held_back = {name for name, flags in flagged.items() if "asks for" in flags[0]}
    assert seen > 150 and flagged.keys() == held_back, flagged


@pytest.mark.parametrize("lesson", LESSONS)
def test_solutions_raise_no_hint(lesson):
    reading = read_submission(as_bytes(solved(f"{int(lesson):02}")), lessons(), "x.ipynb", None)
    for answer in reading.answers:
        sources = [*answer.support, answer.source]
        assert source_flags(sources) == [] == around_flags(sources), answer.exercise


# --- ways round the two-level memory --------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        'getattr(h, "_val" + "ues")',
        "read = getattr\nread(h, name)",
        "map(getattr, arrays, names)",
        "import operator as o\no.attrgetter(a + b)(h)",
        "from operator import attrgetter as by",
        'import string\nstring.Formatter().get_field("0." + n, (h,), {})',
        "h._values",
        "h.__getstate__()",
        "type(h).__dict__",
        "class Peek(HBMArray):\n    def look(self):\n        return self._values",
        "match h:\n    case HBMArray(_values=v):\n        pass",
        '"{0._values}".format(h)',
        'text = "{0._val" + "ues}"\ntext.format(h)',
        'text = "{0._values} and more"\ntext.format(h)',
        "exec(text)",
        "run = exec",
        "exec = exec\nexec(text)",
        'globals()["x" + y]',
        "g = globals()",
        "import gc\ngc.get_referents(h)",
        "from gc import get_objects as all_of_them",
        "import numpy as np\nlib = np.lib.array_utils\nlib.byte_bounds = spy",
        "import numpy as np\nnp.full = spy",
        'import sys\ngetattr(sys, "modules")',
        "def f(hbm, name):\n    setattr(hbm, name, 1)",
        "def put(o, n):\n    setattr(o, n, 1)\ndef f(sram):\n    box = [sram.hbm]\n    put(box[0], name())",
        "from course_utils.hierarchy.offchip import Home",
        "import ctypes",
        "import timeit as t\nt.timeit(text)",
        "import numpy as np\nnp.testing.measure(text)",
        "import sys\nsys.path.append('/tmp')",
        "from sys import path",
        'import functools\nfunctools.update_wrapper(Catch(), A, assigned=["".join(x)], updated=())',
        "from functools import wraps\n@wraps(f, x)\ndef g():\n    pass",
        "import functools as f\ncopied = f.update_wrapper",
        "import typing\ntyping.get_type_hints(T)",
        "from typing import *\nget_type_hints(T)",
        "class At:\n    __array_interface__ = {}",
        "class At:\n    @property\n    def __array_interface__(self):\n        return {}",
        'type("At", (), {name: value})',
        "class P(metaclass=M):\n    pass\nmatch h:\n    case P(v):\n        pass",
        "compile('x', 'y', 'exec')",
        'exec("h._values")',
        """exec("exec('x = h._values')")""",
        'WAY = "_values"\ngetattr(h, WAY)',
        'for way in ("load", "_values"):\n    getattr(h, way)',
        'WAY = "load"\ndef f(WAY):\n    return getattr(h, WAY)',
        "h.__class__ = Mine",
        "import unittest.mock",
        "from unittest import mock",
        "import inspect\ninspect.signature(f, eval_str=True)",
    ],
)
def test_ways_round_the_memory_are_found(source):
    assert any(flag.startswith(AROUND) for flag in around_flags([source]))


@pytest.mark.parametrize(
    "source",
    [
        'import numpy as np\nfor name in ("exp", "log"):\n    getattr(np, name)(x)',
        'getattr(sram, "capacity_bytes")',
        "import gc, math, itertools, functools, time\ngc.collect()",
        "class State:\n    def __init__(self, m):\n        self.m = m\nstate.m = 3",
        'print("{} of {}".format(a, b), f"{x:.3f}", format(x, ".2f"))',
        "from types import SimpleNamespace\ntype(x).__name__",
        '"""Not the _values."""\nnew_values = my_block = 1\nprint("new_values")',
        "from course_utils.hierarchy import HBM, SRAM, SRAMOverflow",
        'WAY = "accumulate"\ngetattr(sram, WAY)(c, a, b)',
        'for way in ("load", "store"):\n    getattr(sram, way)',
        'MSG = "tile {} of {}"\nprint(MSG.format(i, m))',
        "import functools\ndef log(f):\n    @functools.wraps(f)\n    def g(*a):\n        return f(*a)\n    return g\n"
        "@log\ndef tiled(sram, A):\n    pass",
        'from operator import attrgetter\nsorted(tiles, key=attrgetter("start"))',
        "import sys, timeit\ndef f():\n    pass\ntimeit.timeit(f, number=3)\ntimeit.repeat(lambda: f(), repeat=2)",
    ],
)
def test_honest_programs_go_no_way_round(source):
    assert around_flags([source]) == []


@pytest.mark.parametrize(
    "source",
    [
        "class Stats:\n    pass\nstats = Stats()\ndef note(o, **k):\n    for a, v in k.items():\n"
        "        setattr(o, a, v)\ndef f(sram, A):\n    note(stats, last=A.shape[0])",
        "class Opt:\n    def __init__(self, **k):\n        self.__dict__.update(k)",
        "from timeit import timeit\ntimeit('largest_tile(1536, 8)', globals=globals(), number=10)",
        "import unittest\nclass T(unittest.TestCase):\n    pass",
        'assert m == n, "shapes must fit; call _free otherwise"',
        "def told(text, *more):\n    print(text.format(*more))",
        'print("{i} of {m}".format(**locals()))',
        'eval("1 + 1")',
    ],
)
def test_habits_of_honest_programs_are_flagged_at_most(source):
    flags = around_flags([source])
    assert flags and all(flag.startswith(NEARBY) for flag in flags)


def test_a_pass_is_lost_where_traffic_is_counted_and_there_alone(monkeypatch):
    monkeypatch.setattr(judging, "_verdict", lambda *args: (verdict_passed(), []))
    reaches = "def f(h):\n    return h.__getstate__()\n"
    for exercise, cause in (("6.3", "meters reached around"), ("6.2", "")):
        cases = find_exercise(exercise).cases(1)[:1]
        job = Job("x", (Answer(exercise, "f", reaches, "name"),), {exercise: cases})
        seen = [Observation(), Observation()]
        result = judge_runs(job, [Run(exercise, Ending.COMPLETE, seen)])[exercise]
        assert (result.cause, result.points > 0) == (cause, not cause)
        assert any(flag.startswith(AROUND) for flag in result.flags) is bool(cause)


def test_which_exercises_count_traffic():
    exercises = lesson_exercises("6") | lesson_exercises("7")
    counted = [name for name, each in exercises.items() if counts_traffic(each.run)]
    assert counted == ["6.3", "6.4", "7.1", "7.3", "7.4", "7.5"]
