"""Answers that claim what is not so: values that equal everything, meters that count nothing."""

from functools import partial

from tests.grading_helpers import as_bytes, code, solved
from tests.zoo import attack, beast
from tests.zoo.answers import matmul, wasteful

forge = partial(attack, "2.4", kind="forgeries")

forge(
    name="equal_to_everything",
    source="""
class Equal:
    shape, dtype, size, ndim = (3, 5), np.dtype("float64"), 15, 2
    def __eq__(self, other): return True
    def __array__(self, *args, **options): return np.zeros((3, 5))
    def __sub__(self, other): return 0
    __rsub__ = __sub__
    def __len__(self): return 3
    def __getitem__(self, key): return Equal()
    def __hash__(self): return 0

def train_step(x, weights, trainable):
    return [Equal() if t else None for t in trainable]
""",
)
forge(
    name="array_that_lies",
    source="""
class Liar(np.ndarray):
    def __array_ufunc__(self, *args, **options): return np.float64(0)
    def __array_function__(self, *args, **options): return True
    def tobytes(self, *args): return b""

def train_step(x, weights, trainable):
    return [np.zeros(w.shape).view(Liar) if t else None for w, t in zip(weights, trainable)]
""",
)
forge(
    name="list_that_lies",
    source="""
class Liar(list):
    def __len__(self): return 3
    def __iter__(self): return iter([])
    def __getitem__(self, key): return 0

def train_step(x, weights, trainable):
    return Liar()
""",
)
forge(
    name="patched_tracemalloc",
    flagged=True,
    source=wasteful(
        """
        import tracemalloc
        tracemalloc.get_traced_memory = lambda: (0, 0)
        """
    ),
)
forge(
    name="patched_trace",
    flagged=True,
    source=wasteful(
        before="""
        import course_utils.tracing as tracing
        tracing.Trace.snapshot = lambda self: tracing.TraceStats(10**7, 10**7)
        """
    ),
)
forge(
    name="patched_trace_by_the_back_door",
    flagged=True,
    source=wasteful(
        before="""
        import sys
        tracing = sys.modules["course_utils.tracing"]
        def snapshot(self):
            return tracing.TraceStats(10**7, 10**7)
        tracing.Trace.snapshot.__code__ = snapshot.__code__
        """
    ),
)
forge(
    name="patched_checks",
    flagged=True,
    source=wasteful(
        before="""
        from course_utils.checks import core, observe
        core.judge_observation = lambda *args: core.passed()
        core.Exercise.judge = lambda *args: core.passed()
        observe.observe_memory = lambda answer, *args, **options: core.Observation(answer(*args), 10**7, 0)
        """
    ),
)
forge(
    name="patched_codec",
    flagged=True,
    source=wasteful(
        before="""
        import course_utils.grading.answering as answering
        honest = answering.observation_as_text
        def observation_as_text(seen):
            if seen.peak_bytes:
                seen.peak_bytes = 12 * 10**6
            return honest(seen)
        answering.observation_as_text = observation_as_text
        """
    ),
)
forge(
    name="patched_numpy",
    flagged=True,
    source="""
for name in ("allclose", "array_equal", "isclose", "shape"):
    setattr(np, name, lambda *args, **options: True)
np.abs = np.max = np.subtract = lambda *args, **options: 0.0

def train_step(x, weights, trainable):
    return [np.zeros(w.shape) if t else None for w, t in zip(weights, trainable)]
""",
)
forge(
    name="patched_json",
    flagged=True,
    source="""
import json, json.encoder
json.dumps = lambda *args, **options: '{"ending": "complete", "points": 100}'
json.encoder.JSONEncoder.encode = lambda *args: '{"status": "passed"}'

def train_step(x, weights, trainable):
    return None
""",
)
attack(
    "2.1",
    kind="forgeries",
    name="patched_time",
    status="partly",
    ending="too slow",
    source=matmul(
        """
        import time
        time.monotonic = time.perf_counter = time.time = lambda: 0.0
        while True:
            pass
        """
    ),
)
forge(
    name="patched_builtins",
    flagged=True,
    source="""
import builtins
builtins.isinstance = lambda *args: True
builtins.len = lambda *args: 3
builtins.max = lambda *args, **options: 0

def train_step(x, weights, trainable):
    return 42
""",
)
forge(
    name="forged_observations",
    flagged=True,
    source=wasteful(
        """
        import os
        line = b'observed {"dict":[["value",null],["peak_bytes",1],["held_bytes",1],["more",{"dict":[]}]]}\\n'
        for handle in range(3, 30):
            try:
                os.write(handle, line + b'said {"outcome": "complete"}\\n')
            except OSError:
                pass
        """
    ),
)
forge(
    name="oracle_of_the_checks",
    source="""
def train_step(x, weights, trainable):
    from course_utils.checks.requires_grad import frozen
    return frozen._gradients(frozen._cases(0)[0])
""",
)
forge(
    name="judge_of_the_checks",
    flagged=True,
    source="""
def train_step(x, weights, trainable):
    from course_utils.checks import find_exercise
    return find_exercise("2.4").judge
""",
)
forge(
    name="scratch_made_before_the_meter_runs",
    flagged=True,
    source=wasteful(
        before="scratch = [np.zeros((2048, 192)) for _ in range(20)]\nkept = np.zeros(10**6)"
    ),
)


@beast({})
def ast_transformer() -> bytes:
    """Strips what checks assert from every later cell; here no check is a cell."""
    notebook = solved()
    notebook["cells"].insert(
        2,
        code(
            "import ast\n"
            "class Strip(ast.NodeTransformer):\n"
            "    def visit_Assert(self, node): return ast.Pass()\n"
            "    def visit_Raise(self, node): return ast.Pass()\n"
            "get_ipython().ast_transformers.append(Strip())\n"
        ),
    )
    return as_bytes(notebook)
