"""8.1: the softmax of a row, by one program: tails, strides, and one pass over the numbers."""

import numpy as np

from course_utils.checks.core import Case, Exercise, Observation
from course_utils.checks.flash_attention_gpu.kernel_runs import run_kernel
from course_utils.checks.flash_attention_gpu.kernel_task import (
    KernelTask,
    Moves,
    Wanted,
    output,
    rungs,
)
from course_utils.triton_meter import Launch, Tensor

_TOLERANCE = 1e-5  # of numbers up to 1: float32, and a log2(e) of five digits


def _cases(seed: int) -> list[Case]:
    def one(
        rows: int, columns: int, block: int, stride: int = 0, out_stride: int = 0, **more
    ) -> dict:
        sizes = {"rows": rows, "columns": columns, "block": block, "size": 1.0, "shift": 0.0}
        return sizes | {"stride": stride, "out_stride": out_stride, "dtype": "float32"} | more

    return rungs(
        [
            ("7 rows of 16, a block of 16", one(7, 16, 16)),
            ("5 rows of 13, a block of 16", one(5, 13, 16)),
            ("6 rows of 11, 20 apart; of out 17 apart", one(6, 11, 16, 20, 17)),
            ("numbers around 1,000", one(4, 50, 64, size=300.0, shift=1000.0)),
            ("numbers around -1,000", one(4, 50, 64, size=3.0, shift=-1000.0)),
            ("3 rows of one number", one(3, 1, 2)),
            ("20 rows of 200, a block of 256", one(20, 200, 256, 200, 200)),
        ],
        one(5, 700, 1024),
        [("1,000 rows of 700", one(1000, 700, 1024, 720, 701))],
        seed,
    )


def _inputs(case: Case) -> np.ndarray:
    given = case.given
    rng = np.random.default_rng([given["seed"], given["rows"], given["columns"]])
    x = given["shift"] + given["size"] * rng.standard_normal((given["rows"], given["columns"]))
    return x.astype(np.float32)


def _launch(case: Case) -> Launch:
    given, x = case.given, _inputs(case)
    stride, out_stride = (given[name] or x.shape[1] for name in ("stride", "out_stride"))
    arguments = {
        "x": Tensor(x, row_stride=given["stride"]),
        "out": output(*x.shape, row_stride=given["out_stride"]),
        "n_columns": x.shape[1],
        "x_row_stride": stride,
        "out_row_stride": out_stride,
    }
    return Launch((len(x),), arguments, {"block_size": given["block"]})


def _run(answer, case: Case) -> Observation:
    return run_kernel(answer, case, _launch)


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def _wanted(case: Case) -> Wanted:
    return {"out": (_softmax(_inputs(case).astype(np.float64)), _TOLERANCE)}


def _mistakes(case: Case):
    x, block = _inputs(case).astype(np.float64), case.given["block"]
    columns = x.shape[1]
    padded = np.pad(x, ((0, 0), (0, block - columns)))
    top = x.max(axis=1, keepdims=True)
    e = np.exp(x - top)
    padded_exp = np.exp(padded - padded.max(axis=1, keepdims=True))
    tail_counts = (
        "The lanes past the row's end take part as if a 0 stood there, and exp(0 - maximum) is no 0. Which "
        "number, put into a softmax, changes nothing?"
    )
    tails = {"out": (padded_exp / padded_exp.sum(axis=1, keepdims=True))[:, :columns]}
    yield "masked lanes count", tail_counts, tails
    lanes = np.exp(padded - top)
    yield "masked lanes count", tail_counts, {"out": e / lanes.sum(axis=1, keepdims=True)}
    raw = np.exp(padded)
    yield ("masked lanes count", tail_counts,
           {"out": np.exp(x) / raw.sum(axis=1, keepdims=True)})  # fmt: skip
    for unnormalized in (e, np.exp(x)):
        yield ("never normalized", "These are exponentials. The softmax divides them by their sum.",
               {"out": unnormalized})  # fmt: skip
    yield ("maximum not subtracted from both", "Subtract the maximum from all numbers, then take exp and sum: "
           "both the same exponentials.", {"out": np.exp(x) / e.sum(axis=1, keepdims=True)})  # fmt: skip
    two = np.exp2(x - top)
    yield ("base 2", "These are powers of 2. exp2(x) is exp(x) only if x is multiplied by log2(e) before.",
           {"out": two / two.sum(axis=1, keepdims=True)})  # fmt: skip
    yield ("logarithm returned", "This is the logarithm of the softmax.",
           {"out": x - top - np.log(e.sum(axis=1, keepdims=True))})  # fmt: skip
    yield (
        "divided by the maximum",
        "exp(x) is divided by the sum of the exponentials.",
        {"out": e / top},
    )
    if len(x) > 1:
        first = np.broadcast_to(_softmax(x)[:1], x.shape)
        yield ("always the first row", "Every row has the first one's softmax. Which row is a program's own?",
               {"out": first})  # fmt: skip


def _moves(case: Case) -> dict[str, Moves]:
    nbytes = 4 * case.given["rows"] * case.given["columns"]
    why = "A row fits into one block: load it once, and keep it for the maximum, the sum and the result."
    return {
        "x": Moves((nbytes, nbytes), why=why),
        "out": Moves(
            (0, 0), (nbytes, nbytes), "What is stored need not be read back: it is still there."
        ),
    }


TASK = KernelTask("softmax_kernel", _launch, _wanted, _mistakes, _moves)
EXERCISE = Exercise("8.1", "row softmax", 2, _cases, _run, TASK.judge, returns_none=True)
