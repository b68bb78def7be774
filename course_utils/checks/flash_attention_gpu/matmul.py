"""8.2: a tiled matrix product: ragged tiles, strides, accumulation in float32, exactly the tiles' traffic."""

import math

import numpy as np

from course_utils.checks.core import Case, Exercise, Observation, Verdict, failed
from course_utils.checks.flash_attention_gpu.kernel_runs import run_kernel
from course_utils.checks.flash_attention_gpu.kernel_task import (
    KernelTask,
    Moves,
    Wanted,
    output,
    rungs,
)
from course_utils.triton_meter import Launch, Tensor


def _cases(seed: int) -> list[Case]:
    def one(m: int, n: int, k: int, *blocks: int, apart: tuple = (), low: float = -1.0) -> dict:
        return {"sizes": (m, n, k), "blocks": blocks or (16, 16, 16), "apart": apart, "low": low,
                "dtype": "float16"}  # fmt: skip

    return rungs(
        [
            ("48 x 32 x 32, tiles of 16", one(48, 32, 32)),
            ("32 x 32 x 32, tiles of 16", one(32, 32, 32)),
            ("37 x 50 x 23, tiles of 16", one(37, 50, 23)),
            ("37 x 70 x 40, tiles of 16 x 32 x 16", one(37, 70, 40, 16, 32, 16)),
            ("20 x 30 x 40, rows farther apart", one(20, 30, 40, apart=(48, 33, 41))),
            ("positive numbers, k = 512", one(40, 40, 512, 32, 32, 32, low=0.5)),
            ("200 x 136 x 72, tiles of 64 x 64 x 32", one(200, 136, 72, 64, 64, 32)),
        ],
        one(200, 136, 72, 64, 64, 32),
        [("500 x 600 x 700", one(500, 600, 700, 64, 64, 32, apart=(704, 608, 602)))],
        seed,
    )


def _inputs(case: Case) -> tuple[np.ndarray, np.ndarray]:
    m, n, k = case.given["sizes"]
    rng = np.random.default_rng([case.given["seed"], m, n, k])
    return tuple(
        rng.uniform(case.given["low"], 1, shape).astype(np.float16) for shape in ((m, k), (k, n))
    )


def _launch(case: Case) -> Launch:
    a, b = _inputs(case)
    (m, n, k), blocks = case.given["sizes"], case.given["blocks"]
    apart = case.given["apart"] or (0, 0, 0)
    arguments = {
        "a": Tensor(a, row_stride=apart[0]),
        "b": Tensor(b, row_stride=apart[1]),
        "c": output(m, n, row_stride=apart[2]),
        **{"m": m, "n": n, "k": k},
        "a_row_stride": apart[0] or k,
        "b_row_stride": apart[1] or n,
        "c_row_stride": apart[2] or n,
    }
    grid = (math.ceil(m / blocks[0]), math.ceil(n / blocks[1]))
    return Launch(grid, arguments, dict(zip(("block_m", "block_n", "block_k"), blocks)))


def _run(answer, case: Case) -> Observation:
    return run_kernel(answer, case, _launch)


def _product(case: Case) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    a, b = (each.astype(np.float64) for each in _inputs(case))
    return a, b, a @ b


def _wanted(case: Case) -> Wanted:
    """Products of float16 are exact in float32; a sum of k of them errs by k roundings at most."""
    a, b, c = _product(case)
    return {"c": (c, 2.0**-24 * (a.shape[1] + 8) * (np.abs(a) @ np.abs(b)).max())}


def _mistakes(case: Case):
    a, b, c = _product(case)
    block_k = case.given["blocks"][2]
    starts = range(0, a.shape[1], block_k)

    def tiles(*which: int) -> np.ndarray:
        parts = [slice(starts[i], starts[i] + block_k) for i in which]
        return sum((a[:, part] @ b[part] for part in parts), np.zeros_like(c))

    if a.shape[1] % block_k:
        yield ("last tiles left out", "The last tiles along k, which are smaller than the others, had no part "
               "in it: the number of steps is rounded up.", {"c": tiles(*range(len(starts) - 1))})  # fmt: skip
    yield ("not accumulated", "This is the product of the last tiles alone. Every step along k adds to the "
           "accumulator.", {"c": tiles(len(starts) - 1)})  # fmt: skip
    twice = [2.0 ** (len(starts) - 1 - i) * tiles(i) for i in range(len(starts))]
    yield ("sum counted twice", "tl.dot(a, b, total) has added to the total already: total = tl.dot(a, b, total), or "
           "total += tl.dot(a, b).", {"c": sum(twice)})  # fmt: skip
    yield ("one step only", "This is the product of the first tiles alone. The pointers, or the offsets, go on "
           "by block_k each step.", {"c": tiles(0)})  # fmt: skip
    yield ("same tiles every step", "The first tiles were multiplied at every step: the offsets along k never "
           "change.", {"c": len(starts) * tiles(0)})  # fmt: skip
    if b.shape[0] == b.shape[1]:
        yield "b transposed", "This is a times the transpose of b.", {"c": a @ b.T}
    if a.shape[0] == a.shape[1] == b.shape[1]:
        yield "a transposed", "This is the transpose of a, times b.", {"c": a.T @ b}
        yield "product transposed", "This is the transpose of the product.", {"c": c.T}
    block_m, block_n, _ = case.given["blocks"]
    turned = "Every tile of {} was transposed, and it is square, so nothing stopped it."
    if block_n == block_k:
        yield "tiles transposed", turned.format("b"), {"c": a @ _tiles_turned(b, block_k)}
    if block_m == block_k:
        yield "tiles transposed", turned.format("a"), {"c": _tiles_turned(a, block_k) @ b}


def _tiles_turned(matrix: np.ndarray, block: int) -> np.ndarray:
    """Each square tile transposed in its place, the last ones filled up with zeros."""
    rows, columns = matrix.shape
    full = np.pad(matrix, ((0, -rows % block), (0, -columns % block)))
    tiles = full.reshape(full.shape[0] // block, block, full.shape[1] // block, block)
    return tiles.transpose(0, 3, 2, 1).reshape(full.shape)[:rows, :columns]


def _before(case: Case, seen: Observation) -> Verdict | None:
    """Which tiles were stored, when axes of the grid are exchanged; and what float16 leaves behind."""
    writers = seen.more["writers"]["c"]
    (m, n, _), (block_m, block_n, _) = case.given["sizes"], case.given["blocks"]
    rows, columns = math.ceil(m / block_m), math.ceil(n / block_n)
    row, column = np.arange(m)[:, None] // block_m, np.arange(n)[None, :] // block_n
    exchanged = np.where((row < columns) & (column < rows), column * columns + row, -1)
    if rows != columns and np.array_equal(writers, exchanged):
        return failed(
            "program axes exchanged",
            "Program (i, j) of the grid stored the tile in row j, column i. Axis 0 of the grid counts the "
            "tiles along m, axis 1 those along n.",
        )
    return _half_precision(case, seen) if (writers >= 0).all() else None


def _half_precision(case: Case, seen: Observation) -> Verdict | None:
    (c, tolerance), got = _wanted(case)["c"], seen.value["c"].astype(np.float64)
    error = np.abs(got - c)
    if not error.max() > tolerance or not np.isfinite(got).all():
        return None
    rounded = got.astype(np.float16).astype(np.float64) == got
    if rounded.all() and (error <= 2.0**-10 * np.abs(c) + tolerance).all():
        return failed(
            "rounded to float16",
            "Every number of c is a float16: the sum was rounded to half precision before it was stored. c "
            "is float32.",
        )
    halves = any(dot["accumulator"] == "float16" for dot in seen.more["dots"])
    a, b = (np.abs(each.astype(np.float64)) for each in _inputs(case))
    of_rounding = (
        error.max() <= 2.0**-10 * (a @ b).max()
    )  # each tile's product rounded, then summed up
    if halves or of_rounding or (rounded.all() and error.max() <= 0.02 * np.abs(c).max()):
        return failed(
            "float16 accumulator",
            f"The errors, up to {error.max():.2g}, are those of sums in float16, which has 11 bits: small "
            "products vanish beside a large sum. Inputs may be half, accumulators are float32.",
        )
    return None


def _moves(case: Case) -> dict[str, Moves]:
    (m, n, k), (block_m, block_n, _) = case.given["sizes"], case.given["blocks"]
    a_bytes = 2 * m * k * math.ceil(n / block_n)
    b_bytes = 2 * k * n * math.ceil(m / block_m)
    why = (
        "A program loads its rows of a and its columns of b once, tile by tile; where a tile is not full, lanes "
        "are masked (a remainder, `% m`, would read other rows again)."
    )
    c_why = "An accumulator stays in registers until it is done."
    return {
        "a": Moves((a_bytes, a_bytes), why=why),
        "b": Moves((b_bytes, b_bytes), why=why),
        "c": Moves((0, 0), (4 * m * n, 4 * m * n), c_why),
    }


TASK = KernelTask(
    "matmul_kernel", _launch, _wanted, _mistakes, _moves, _before,
    "a product of numbers below 1 can't: was something read that is not there?",
)  # fmt: skip
EXERCISE = Exercise("8.2", "tiled matmul", 3, _cases, _run, TASK.judge, returns_none=True)
