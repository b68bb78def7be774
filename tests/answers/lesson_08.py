"""Right and wrong answers to lesson 08. What the lesson's own solutions do is not repeated here.

Most wrong kernels are a right one with a line or two changed, as a student's would be: `edited` says which.
"""

import linecache
import math

import numpy as np
import torch

from course_utils.triton_here import HAS_TRITON, tl, triton
from tests.answers import right, wrong

constexpr = tl.constexpr  # as `from triton.language import constexpr` leaves it
LOG2E = tl.constexpr(1.4426950408889634)
PLAIN_LOG2E = 1.4426950408889634
LN2 = tl.constexpr(0.6931471805599453)


def edited(kernel, name: str, *changes: tuple[str, str]):
    """The kernel under another name, with these texts replaced. Its lines can be looked up as any others."""
    text = "".join(linecache.getlines(__file__))
    start = text.index(f"@triton.jit\ndef {kernel.__name__}(")
    text = text[start:].partition("\n\n\n")[0] + "\n"
    text = text.replace(f"def {kernel.__name__}(", f"def {name}(")
    for old, new in changes:
        assert old in text, f"{kernel.__name__} has no {old!r}"
        text = text.replace(old, new)
    path = f"{__file__}:{name}"
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    names = dict(globals())
    exec(compile(text, path, "exec"), names)
    return names[name]


def wrong_kernels(exercise: str, kernel, *slips: tuple) -> None:
    """Each slip: cause, name, then the changes."""
    for cause, name, *changes in slips:
        wrong(exercise, cause)(edited(kernel, name, *changes))


def same_everywhere(*answers) -> None:
    for exercise, function in answers:
        right(exercise)(function)


# --- 8.1: the softmax of a row --------------------------------------------------------------------


@triton.jit
def softmax_in_base_2(x, out, n_columns, x_row_stride, out_row_stride, block_size: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, block_size)
    mask = at < n_columns
    v = tl.load(x + row * x_row_stride + at, mask=mask, other=-float("inf"))
    top = tl.max(v, axis=0)
    e = tl.exp2((v - top) * LOG2E)
    e = e / tl.sum(e, axis=0)
    tl.store(out + row * out_row_stride + at, e, mask=mask)


@triton.jit
def stable(v):
    return v - tl.max(v, axis=0)


@triton.jit
def softmax_with_a_helper(x, out, n, stride, out_stride, width: tl.constexpr):
    x += tl.program_id(axis=0) * stride
    out += tl.program_id(axis=0) * out_stride
    columns = tl.arange(0, width)
    v = tl.where(columns < n, tl.load(x + columns, mask=columns < n), float("-inf"))
    e = tl.exp(stable(v))
    tl.store(out + columns, e / tl.sum(e), mask=columns < n)


@triton.jit
def softmax_by_block_pointers(
    x, out, n_columns, x_row_stride, out_row_stride, block_size: tl.constexpr
):
    row = tl.program_id(0)
    source = tl.make_block_ptr(
        x + row * x_row_stride, (n_columns,), (1,), (0,), (block_size,), (0,)
    )
    target = tl.make_block_ptr(
        out + row * out_row_stride, (n_columns,), (1,), (0,), (block_size,), (0,)
    )
    v = tl.load(source, boundary_check=(0,), padding_option="zero")
    v = tl.where(tl.arange(0, block_size) < n_columns, v, -1e38)
    v = tl.softmax(v)
    tl.store(target, v, boundary_check=(0,))


LOWEST = tl.constexpr(np.finfo(np.float32).min)
SUMS = tl.constexpr(tl.float32) if HAS_TRITON else None


@triton.jit
def softmax_with_constants(x, out, n_columns, x_row_stride, out_row_stride, block_size: constexpr):
    row, at = tl.num_programs(0) - 1 - tl.program_id(0), tl.arange(0, block_size)  # last row first
    mask = (at < n_columns) & (row >= 0)  # a vector and a scalar
    v = tl.load(x + row * x_row_stride + at, mask=mask, other=LOWEST).to(SUMS)
    e = tl.where(mask, tl.exp(v - tl.max(v)), 0.0)
    tl.store(out + row * out_row_stride + at, e / tl.sum(e), mask=mask)


same_everywhere(
    ("8.1", softmax_in_base_2),
    ("8.1", softmax_with_a_helper),
    ("8.1", softmax_by_block_pointers),
    ("8.1", softmax_with_constants),
)
wrong_kernels(
    "8.1",
    softmax_in_base_2,
    ("out of bounds read", "softmax_unmasked", (', mask=mask, other=-float("inf")', "")),
    ("out of bounds write", "softmax_stores_all", ("e, mask=mask)", "e)")),
    ("masked lanes count", "softmax_zeros", ('-float("inf")', "0.0")),
    ("masked lanes count", "softmax_no_other", (', other=-float("inf")', "")),
    ("not finite", "softmax_no_max", ("v - top", "v")),
    ("base 2", "softmax_powers_of_2", (" * LOG2E", "")),
    ("never normalized", "softmax_exponentials", ("e = e / tl.sum(e, axis=0)", "pass")),
    ("row stride ignored", "softmax_columns_for_stride", ("row * x_row_stride", "row * n_columns")),
    ("row stride ignored", "softmax_one_stride", ("row * out_row_stride", "row * x_row_stride")),
    (
        "read too much",
        "softmax_reads_again",
        (
            "e = e /",
            "e = tl.exp2((tl.load(x + row * x_row_stride + at, "
            'mask=mask, other=-float("inf")) - top) * LOG2E) /',
        ),
    ),
    ("numbers left out", "softmax_first_row_only", ("row = tl.program_id(0)", "row = 0")),
    (
        "always the first row",
        "softmax_of_the_first_row",
        ("row * x_row_stride", "0 * x_row_stride"),
    ),
    (
        "changed its input",
        "softmax_in_place",
        ("tl.store(out + row * out_row_stride", "tl.store(x + row * x_row_stride"),
    ),
    ("raised an error", "softmax_by_torch", ("tl.exp2((v - top) * LOG2E)", "torch.exp(v - top)")),
    ("raised an error", "softmax_misnamed", ("tl.max", "tl.maximum_of")),
    ("does not compile", "softmax_own_constant", ("LOG2E", "PLAIN_LOG2E")),
    ("wrong parameters", "softmax_of_three", ("x_row_stride, out_row_stride, ", "")),
    (
        "nothing stored",
        "softmax_returns",
        ("tl.store(out + row * out_row_stride + at, e, mask=mask)", "return e"),
    ),
    ("atomic update", "softmax_adds", ("tl.store(", "tl.atomic_add(")),
    (
        "raised an error",
        "softmax_sliced",
        (
            'tl.load(x + row * x_row_stride + at, mask=mask, other=-float("inf"))',
            "x[row:n_columns]",
        ),
    ),
)


@wrong("8.1", cause="programs without work")
@triton.jit
def softmax_by_one_program(
    x, out, n_columns, x_row_stride, out_row_stride, block_size: tl.constexpr
):
    at = tl.arange(0, block_size)
    if tl.program_id(0) == 0:
        for row in range(tl.num_programs(0)):
            v = tl.load(x + row * x_row_stride + at, mask=at < n_columns, other=-float("inf"))
            e = tl.exp(v - tl.max(v))
            tl.store(out + row * out_row_stride + at, e / tl.sum(e), mask=at < n_columns)


@wrong("8.1", cause="not a kernel")
def softmax_without_jit(x, out, n_columns, x_row_stride, out_row_stride, block_size):
    out[:] = torch.softmax(x, dim=1)


# --- 8.2: a tiled matrix product ------------------------------------------------------------------


@triton.jit
def matmul_by_offsets(a, b, c, m, n, k, a_row_stride, b_row_stride, c_row_stride,
                      block_m: tl.constexpr, block_n: tl.constexpr, block_k: tl.constexpr):  # fmt: skip
    i = tl.program_id(0)
    j = tl.program_id(1)
    rows = i * block_m + tl.arange(0, block_m)
    cols = j * block_n + tl.arange(0, block_n)
    acc = tl.zeros((block_m, block_n), dtype=tl.float32)
    for step in range(tl.cdiv(k, block_k)):
        ks = step * block_k + tl.arange(0, block_k)
        a_mask = (rows[:, None] < m) & (ks[None, :] < k)
        b_mask = (ks[:, None] < k) & (cols[None, :] < n)
        at = tl.load(a + rows[:, None] * a_row_stride + ks[None, :], mask=a_mask, other=0.0)
        bt = tl.load(b + ks[:, None] * b_row_stride + cols[None, :], mask=b_mask, other=0.0)
        acc += tl.dot(at, bt)
    c_mask = (rows[:, None] < m) & (cols[None, :] < n)
    tl.store(c + rows[:, None] * c_row_stride + cols[None, :], acc, mask=c_mask)


@triton.jit
def matmul_moving_pointers(a, b, c, m, n, k, a_row_stride, b_row_stride, c_row_stride,
                           block_m: tl.constexpr, block_n: tl.constexpr, block_k: tl.constexpr):  # fmt: skip
    rows = tl.program_id(0) * block_m + tl.arange(0, block_m)[:, None]
    cols = tl.program_id(1) * block_n + tl.arange(0, block_n)[None, :]
    along = tl.arange(0, block_k)
    a_at = a + rows * a_row_stride + along[None, :]
    b_at = b + along[:, None] * b_row_stride + cols
    acc = tl.zeros((block_m, block_n), tl.float32)
    left = k
    while left > 0:
        at = tl.load(a_at, mask=(rows < m) & (along[None, :] < left), other=0)
        bt = tl.load(b_at, mask=(along[:, None] < left) & (cols < n), other=0)
        acc = tl.dot(at, bt, acc)
        a_at += block_k
        b_at += block_k * b_row_stride
        left -= block_k
    tl.store(c + rows * c_row_stride + cols, acc, mask=(rows < m) & (cols < n))


@triton.jit
def matmul_by_block_pointers(a, b, c, m, n, k, a_row_stride, b_row_stride, c_row_stride,
                             block_m: tl.constexpr, block_n: tl.constexpr, block_k: tl.constexpr):  # fmt: skip
    i, j = tl.program_id(0) * block_m, tl.program_id(1) * block_n
    a_tile = tl.make_block_ptr(a, (m, k), (a_row_stride, 1), (i, 0), (block_m, block_k), (1, 0))
    b_tile = tl.make_block_ptr(b, (k, n), (b_row_stride, 1), (0, j), (block_k, block_n), (1, 0))
    c_tile = tl.make_block_ptr(c, (m, n), (c_row_stride, 1), (i, j), (block_m, block_n), (1, 0))
    acc = tl.zeros((block_m, block_n), tl.float32)
    for _ in range(0, k, block_k):
        at = tl.load(a_tile, boundary_check=(0, 1), padding_option="zero")
        bt = tl.load(b_tile, boundary_check=(0, 1), padding_option="zero")
        acc = tl.dot(at, bt, acc)
        a_tile = tl.advance(a_tile, (0, block_k))
        b_tile = tl.advance(b_tile, (block_k, 0))
    tl.store(c_tile, acc, boundary_check=(0, 1))


same_everywhere(
    ("8.2", matmul_by_offsets), ("8.2", matmul_moving_pointers), ("8.2", matmul_by_block_pointers)
)
wrong_kernels(
    "8.2",
    matmul_by_offsets,
    (
        "program axes exchanged",
        "matmul_axes",
        ("i = tl.program_id(0)", "i = tl.program_id(1)"),
        ("j = tl.program_id(1)", "j = tl.program_id(0)"),
    ),
    (
        "out of bounds read",
        "matmul_tail_of_k",
        (" & (ks[None, :] < k)", ""),
        ("(ks[:, None] < k) & ", ""),
    ),
    (
        "out of bounds read",
        "matmul_rows_unmasked",
        ("(rows[:, None] < m) & (ks[None, :] < k)", "ks[None, :] < k"),
    ),
    (
        "read too much",
        "matmul_wraps_round",
        ("(rows[:, None] < m) & (ks", "(ks"),
        ("a + rows[:, None] *", "a + (rows % m)[:, None] *"),
    ),
    ("out of bounds write", "matmul_stores_all", (", acc, mask=c_mask", ", acc")),
    ("last tiles left out", "matmul_floor", ("tl.cdiv(k, block_k)", "k // block_k")),
    ("not accumulated", "matmul_overwrites", ("acc += tl", "acc = tl")),
    (
        "same tiles every step",
        "matmul_stands_still",
        ("ks = step * block_k + tl", "ks = 0 * block_k + tl"),
    ),
    ("one step only", "matmul_first_tiles", ("range(tl.cdiv(k, block_k))", "range(1)")),
    (
        "float16 accumulator",
        "matmul_half",
        ("dtype=tl.float32", "dtype=tl.float16"),
        ("acc += tl.dot(at, bt)", "acc += tl.dot(at, bt).to(tl.float16)"),
    ),
    (
        "float16 accumulator",
        "matmul_half_dot",
        ("dtype=tl.float32", "dtype=tl.float16"),
        ("tl.dot(at, bt)", "tl.dot(at, bt, out_dtype=tl.float16)"),
    ),
    (
        "float16 accumulator",
        "matmul_half_tiles",
        ("acc += tl.dot(at, bt)", "acc += tl.dot(at, bt).to(tl.float16)"),
    ),
    ("sum counted twice", "matmul_adds_twice", ("tl.dot(at, bt)", "tl.dot(at, bt, acc)")),
    (
        "and in a mask",
        "matmul_and",
        ("(rows[:, None] < m) & (ks[None, :] < k)", "rows[:, None] < m and ks[None, :] < k"),
    ),
    ("rounded to float16", "matmul_rounds", (", acc, mask", ", acc.to(tl.float16), mask")),
    ("row stride ignored", "matmul_contiguous_a", ("* a_row_stride", "* k")),
    ("row stride ignored", "matmul_contiguous_c", ("* c_row_stride", "* n")),
    ("tiles transposed", "matmul_tiles_transposed", ("tl.dot(at, bt)", "tl.dot(at, tl.trans(bt))")),
    (
        "b transposed",
        "matmul_b_transposed",
        ("(ks[:, None] < k) & (cols[None, :] < n)", "(cols[None, :] < k) & (ks[:, None] < n)"),
        (
            "ks[:, None] * b_row_stride + cols[None, :]",
            "cols[None, :] * b_row_stride + ks[:, None]",
        ),
    ),
    (
        "read too much",
        "matmul_loads_twice",
        (
            "        acc += tl",
            "        at = tl.load(a + rows[:, None] * a_row_stride "
            "+ ks[None, :], mask=a_mask, other=0.0)\n        acc += tl",
        ),
    ),
    (
        "read too much",
        "matmul_sums_in_memory",
        (
            "acc += tl.dot(at, bt)",
            "acc = tl.dot(at, bt) + tl.load(c + rows[:, None] "
            "* c_row_stride + cols[None, :], mask=(rows[:, None] < m) & (cols[None, :] < n) & (step > 0), other=0.0)\n"
            "        tl.store(c + rows[:, None] * c_row_stride + cols[None, :], acc, mask=(rows[:, None] < m) & "
            "(cols[None, :] < n))",
        ),
    ),
)


# --- 8.3: a block's budget ------------------------------------------------------------------------


@right("8.3")
def budget_limit_by_limit(block_q, block_k, d, warps, stages=2, number_bytes=2):
    shared = number_bytes * d * (block_q + 2 * stages * block_k)
    threads = warps * 32
    accumulators = -(-block_q * (block_k + d) // threads)
    if accumulators + 64 > 255 or shared > 227 * 1024:
        return shared, accumulators, 0
    by_shared = 228 * 1024 // (shared + 1024)
    by_registers = 65536 // (threads * (accumulators + 64))
    return shared, accumulators, min(by_shared, by_registers, 2048 // threads, 32)


@right("8.3")
def budget_by_counting_up(block_q, block_k, d, warps, stages=2, number_bytes=2):
    tile_q, tile_k = block_q * d, block_k * d
    shared = (tile_q + stages * (tile_k + tile_k)) * number_bytes
    per_thread = math.ceil((block_q * block_k + tile_q) / (32 * warps))
    blocks = 0
    while (
        per_thread <= 191
        and (blocks + 1) * (shared + 1024) <= 228 * 1024
        and (blocks + 1) * 32 * warps * (per_thread + 64) <= 65536
    ):
        blocks += 1
    return [shared, per_thread, blocks]


def budget(
    shared=None,
    accumulators=None,
    others=64,
    most=255,
    reserved=1024,
    registers=65536,
    room=228 * 1024,
):
    """An answer with one rule changed."""

    def answer(block_q, block_k, d, warps, stages=2, number_bytes=2):
        sizes = (block_q, block_k, d, warps, stages, number_bytes)
        used, acc, _ = budget_limit_by_limit(*sizes)
        given = (shared(*sizes) if shared else used, accumulators(*sizes) if accumulators else acc)
        if acc + others > most or used + 1024 > room:
            return *given, 0
        fit = min(room // (used + reserved), registers // (32 * warps * (acc + others)), 32)
        return *given, min(fit, 2048 // (32 * warps))

    return answer


for _name, _cause, _answer in (
    ("no_stages", "stages left out", budget(shared=lambda q, k, d, w, s, b: (q + 2 * k) * d * b)),
    ("one_matrix", "one of K and V", budget(shared=lambda q, k, d, w, s, b: (q + s * k) * d * b)),
    ("all_in_stages", "Q in every stage", budget(shared=lambda q, k, d, w, s, b: s * (q + 2 * k) * d * b)),
    ("with_scores", "scores in shared memory",
     budget(shared=lambda q, k, d, w, s, b: ((q + 2 * s * k) * d + q * k) * b)),
    ("in_numbers", "numbers for bytes", budget(shared=lambda q, k, d, w, s, b: (q + 2 * s * k) * d)),
    ("no_output", "output left out", budget(accumulators=lambda q, k, d, w, s, b: -(-q * k // (32 * w)))),
    ("no_scores", "scores left out", budget(accumulators=lambda q, k, d, w, s, b: -(-q * d // (32 * w)))),
    ("floor", "rounded down", budget(accumulators=lambda q, k, d, w, s, b: q * (k + d) // (32 * w))),
    ("by_warps", "warps for threads", budget(accumulators=lambda q, k, d, w, s, b: -(-q * (k + d) // w))),
    ("one_by_one", "rounded twice",
     budget(accumulators=lambda q, k, d, w, s, b: -(-q * k // (32 * w)) - (-q * d // (32 * w)))),
    ("only_accumulators", "other registers left out", budget(others=0)),
    ("spills", "spilling not refused", budget(most=10**9)),
    ("accumulators_to_255", "64 left out of the 255", budget(most=255 + 64)),
    ("to_256", "64 left out of the 255", budget(most=256)),
    ("below_255", "255 registers refused", budget(most=254)),
    ("of_227", "227 KiB refused", budget(room=227 * 1024)),
    ("of_thousands", "227 KiB refused", budget(room=228_000)),
    ("no_reserve", "reserved bytes left out", budget(reserved=0)),
    ("no_registers", "registers left out", budget(registers=10**9)),
):  # fmt: skip
    _answer.__name__ = f"budget_{_name}"
    wrong("8.3", _cause)(_answer)


@wrong("8.3", cause="not three numbers")
def budget_shared_alone(block_q, block_k, d, warps, stages=2, number_bytes=2):
    return budget_limit_by_limit(block_q, block_k, d, warps, stages, number_bytes)[0]


@wrong("8.3", cause="not a whole number")
def budget_in_fractions(block_q, block_k, d, warps, stages=2, number_bytes=2):
    shared, _, blocks = budget_limit_by_limit(block_q, block_k, d, warps, stages, number_bytes)
    return shared, block_q * (block_k + d) / (32 * warps), blocks


# --- 8.4: the forward kernel ----------------------------------------------------------------------


@triton.jit
def forward_in_base_2(q, k, v, out, logsumexp, n_queries, n_keys, scale,
                      d: tl.constexpr, block_q: tl.constexpr, block_k: tl.constexpr):  # fmt: skip
    block = tl.program_id(0)
    head = tl.program_id(1)
    q += head * n_queries * d
    k += head * n_keys * d
    v += head * n_keys * d
    rows = block * block_q + tl.arange(0, block_q)
    dims = tl.arange(0, d)
    at = rows[:, None] * d + dims[None, :]
    in_q = rows < n_queries
    qt = tl.load(q + at, mask=in_q[:, None], other=0.0)
    top = tl.full((block_q,), float("-inf"), tl.float32)
    total = tl.zeros((block_q,), tl.float32)
    acc = tl.zeros((block_q, d), tl.float32)
    for start in range(0, n_keys, block_k):
        keys = start + tl.arange(0, block_k)
        in_k = keys < n_keys
        kt = tl.load(k + keys[:, None] * d + dims[None, :], mask=in_k[:, None], other=0.0)
        s = tl.dot(qt, kt.T) * scale * LOG2E
        s = tl.where(in_k[None, :], s, float("-inf"))
        new_top = tl.maximum(top, tl.max(s, 1))
        p = tl.exp2(s - new_top[:, None])
        kept = tl.exp2(top - new_top)
        total = total * kept + tl.sum(p, 1)
        acc = acc * kept[:, None]
        vt = tl.load(v + keys[:, None] * d + dims[None, :], mask=in_k[:, None], other=0.0)
        acc += tl.dot(p.to(vt.dtype), vt)
        top = new_top
    lse = (top + tl.log2(total)) * LN2
    acc = acc / total[:, None]
    tl.store(out + head * n_queries * d + at, acc.to(out.dtype.element_ty), mask=in_q[:, None])
    tl.store(logsumexp + head * n_queries + rows, lse, mask=in_q)


@triton.jit
def forward_by_block_pointers(q, k, v, out, logsumexp, n_queries, n_keys, scale,
                              d: tl.constexpr, block_q: tl.constexpr, block_k: tl.constexpr):  # fmt: skip
    first, head = tl.program_id(0) * block_q, tl.program_id(1)
    q_at = tl.make_block_ptr(
        q + head * n_queries * d, (n_queries, d), (d, 1), (first, 0), (block_q, d), (1, 0)
    )
    o_at = tl.make_block_ptr(
        out + head * n_queries * d, (n_queries, d), (d, 1), (first, 0), (block_q, d), (1, 0)
    )
    k_at = tl.make_block_ptr(
        k + head * n_keys * d, (d, n_keys), (1, d), (0, 0), (d, block_k), (0, 1)
    )
    v_at = tl.make_block_ptr(
        v + head * n_keys * d, (n_keys, d), (d, 1), (0, 0), (block_k, d), (1, 0)
    )
    q_tile = tl.load(q_at, boundary_check=(0,), padding_option="zero")
    q_tile = (q_tile * scale).to(q_tile.dtype)
    row_max = tl.zeros((block_q,), tl.float32) - float("inf")
    row_sum = tl.zeros((block_q,), tl.float32)
    o = tl.zeros((block_q, d), tl.float32)
    for start in range(0, n_keys, block_k):
        k_tile = tl.load(k_at, boundary_check=(1,), padding_option="zero")
        v_tile = tl.load(v_at, boundary_check=(0,), padding_option="zero")
        hidden = (start + tl.arange(0, block_k))[None, :] >= n_keys
        s = tl.where(hidden, -1.0e30, tl.dot(q_tile, k_tile))
        new_max = tl.maximum(row_max, tl.max(s, axis=1))
        alpha = tl.exp(row_max - new_max)
        p = tl.exp(s - new_max[:, None]).to(v_tile.dtype)
        row_sum = alpha * row_sum + tl.sum(p.to(tl.float32), axis=1)
        o = tl.dot(p, v_tile, o * alpha[:, None])
        row_max = new_max
        k_at = tl.advance(k_at, (0, block_k))
        v_at = tl.advance(v_at, (block_k, 0))
    tl.store(o_at, (o / row_sum[:, None]).to(out.dtype.element_ty), boundary_check=(0,))
    rows = first + tl.arange(0, block_q)
    tl.store(logsumexp + head * n_queries + rows, tl.log(row_sum) + row_max, mask=rows < n_queries)


@triton.jit
def forward_normalized_at_each_step(q, k, v, out, logsumexp, n_queries, n_keys, scale,
                                    d: tl.constexpr, block_q: tl.constexpr, block_k: tl.constexpr):  # fmt: skip
    head = tl.program_id(1)
    rows = tl.program_id(0) * block_q + tl.arange(0, block_q)[:, None]
    inner = tl.arange(0, d)[None, :]
    q_at = (head * n_queries + rows) * d + inner
    q_tile = tl.load(q + q_at, mask=rows < n_queries, other=0.0)
    lse = tl.full((block_q, 1), -float("inf"), tl.float32)
    o = tl.zeros((block_q, d), tl.float32)
    for step in range(tl.cdiv(n_keys, block_k)):
        first = (tl.cdiv(n_keys, block_k) - 1 - step) * block_k  # from the last keys backwards
        keys = first + tl.arange(0, block_k)[:, None]
        k_at = (head * n_keys + keys) * d + inner
        k_tile = tl.load(k + k_at, mask=keys < n_keys, other=0.0)
        v_tile = tl.load(v + k_at, mask=keys < n_keys, other=0.0)
        s = scale * tl.dot(q_tile, tl.trans(k_tile))
        s += tl.where(tl.trans(keys) < n_keys, 0.0, -float("inf"))
        top = tl.max(s, axis=1, keep_dims=True)
        own = top + tl.log(tl.sum(tl.exp(s - top), axis=1, keep_dims=True))
        highest = tl.maximum(lse, own)
        new_lse = highest + tl.log(tl.exp(lse - highest) + tl.exp(own - highest))
        o = tl.exp(lse - new_lse) * o + tl.dot(tl.exp(s - new_lse).to(v_tile.dtype), v_tile)
        lse = new_lse
    tl.store(out + q_at, o, mask=rows < n_queries)
    tl.store(logsumexp + head * n_queries + rows, lse, mask=rows < n_queries)


same_everywhere(
    ("8.4", forward_in_base_2),
    ("8.4", forward_by_block_pointers),
    ("8.4", forward_normalized_at_each_step),
)
wrong_kernels(
    "8.4",
    forward_in_base_2,
    ("scale forgotten", "forward_no_scale", (" * scale", "")),
    ("scale of your own", "forward_own_scale", (" * scale", " * (1.0 / d**0.5)")),
    ("base 2", "forward_powers_of_2", (" * LOG2E", "")),
    (
        "masked keys count",
        "forward_tail_counts",
        ('s = tl.where(in_k[None, :], s, float("-inf"))', "pass"),
    ),
    ("out of bounds read", "forward_keys_unmasked", ("mask=in_k[:, None], other=0.0", "")),
    (
        "out of bounds read",
        "forward_queries_unmasked",
        ("q + at, mask=in_q[:, None], other=0.0", "q + at"),
    ),
    ("out of bounds write", "forward_lse_unmasked", ("lse, mask=in_q", "lse")),
    (
        "not finite",
        "forward_no_max",
        ("new_top = tl.maximum(top, tl.max(s, 1))", "new_top = tl.zeros_like(top)"),
        ("kept = tl.exp2(top - new_top)", "kept = 1.0 + 0 * total"),
        ("acc * kept[:, None]", "acc * kept[:, None]"),
        (
            'top = tl.full((block_q,), float("-inf"), tl.float32)',
            "top = tl.zeros((block_q,), tl.float32)",
        ),
    ),
    (
        "nothing rescaled",
        "forward_no_rescale",
        ("kept = tl.exp2(top - new_top)", "kept = total * 0 + 1"),
    ),
    ("output not rescaled", "forward_output_kept", ("acc = acc * kept[:, None]", "pass")),
    ("sum not rescaled", "forward_sum_kept", ("total * kept + tl", "total + tl")),
    ("never normalized", "forward_unnormalized", ("acc = acc / total[:, None]", "pass")),
    (
        "only the last block",
        "forward_overwrites",
        ("acc += tl.dot", "acc = tl.dot"),
        ("total * kept + tl", "tl"),
    ),
    (
        "last block dropped",
        "forward_floor",
        ("range(0, n_keys, block_k)", "range(0, n_keys // block_k * block_k, block_k)"),
    ),
    (
        "keys counted by queries",
        "forward_square_only",
        ("range(0, n_keys, block_k)", "range(0, n_queries, block_k)"),
        ("in_k = keys < n_keys", "in_k = keys < tl.minimum(n_keys, n_queries)"),
    ),
    (
        "heads mixed",
        "forward_heads_of_queries",
        ("k += head * n_keys * d", "k += head * n_queries * d"),
        ("v += head * n_keys * d", "v += head * n_queries * d"),
    ),
    (
        "heads mixed",
        "forward_k_of_queries",
        ("k += head * n_keys * d", "k += head * n_queries * d"),
    ),
    (
        "masked keys count",
        "forward_one_key_more",
        ("tl.where(in_k[None, :]", "tl.where((keys <= n_keys)[None, :]"),
    ),
    (
        "float16 accumulator",
        "forward_half_sums",
        (
            "acc = tl.zeros((block_q, d), tl.float32)",
            "acc = tl.zeros((block_q, d), out.dtype.element_ty)",
        ),
        ("acc = acc * kept[:, None]", "acc = (acc * kept[:, None]).to(acc.dtype)"),
        (
            "acc += tl.dot(p.to(vt.dtype), vt)",
            "acc = (acc + tl.dot(p.to(vt.dtype), vt)).to(acc.dtype)",
        ),
    ),
    (
        "rounded to float16",
        "forward_half_p",
        ("p.to(vt.dtype), vt", "p.to(tl.float16), vt.to(tl.float16)"),
    ),
    ("not finite", "forward_max_from_0", ('float("-inf"), tl.float32', "0.0, tl.float32")),
    ("masked keys count", "forward_mask_of_minus_100", ('s, float("-inf")', "s, -100.0")),
    ("heads mixed", "forward_one_k", ("k += head * n_keys * d", "pass")),
    (
        "heads mixed",
        "forward_one_k_and_v",
        ("k += head * n_keys * d", "pass"),
        ("v += head * n_keys * d", "pass"),
    ),
    ("head ignored", "forward_one_head", ("head = tl.program_id(1)", "head = 0")),
    (
        "program axes exchanged",
        "forward_axes",
        ("block = tl.program_id(0)", "block = tl.program_id(1)"),
        ("head = tl.program_id(1)", "head = tl.program_id(0)"),
    ),
    ("K not transposed", "forward_k_as_it_is", ("kt.T", "(kt if block_k == d else kt.T)")),
    (
        "logsumexp not stored",
        "forward_no_lse",
        ("tl.store(logsumexp + head * n_queries + rows, lse, mask=in_q)", "pass"),
    ),
    (
        "logsumexp without maximum",
        "forward_lse_of_sum",
        ("(top + tl.log2(total)) * LN2", "tl.log(total)"),
    ),
    ("logsumexp in base 2", "forward_lse_base_2", (" * LN2", "")),
    (
        "logsumexp in two bases",
        "forward_lse_mixed",
        ("(top + tl.log2(total)) * LN2", "top + tl.log(total)"),
    ),
    ("maximum for logsumexp", "forward_lse_max", ("(top + tl.log2(total)) * LN2", "top * LN2")),
    (
        "read too much",
        "forward_v_twice",
        (
            "        top = new_top",
            "        top = new_top + 0 * tl.sum(tl.load(v + keys[:, None] "
            "* d + dims[None, :], mask=in_k[:, None], other=0.0).to(tl.float32))",
        ),
    ),
    (
        "read too much",
        "forward_q_again",
        (
            "        s = tl.dot(qt",
            "        qt = tl.load(q + at, mask=in_q[:, None], other=0.0)\n        s = tl.dot(qt",
        ),
    ),
    (
        "written too much",
        "forward_stores_each_step",
        (
            "        top = new_top",
            "        top = new_top\n        tl.store(out + head * "
            "n_queries * d + at, acc / total[:, None], mask=in_q[:, None])",
        ),
    ),
    (
        "does not compile",
        "forward_changing_type",
        ("acc = tl.zeros((block_q, d), tl.float32)", "acc = tl.zeros((block_q, d), tl.float16)"),
    ),
    ("raised an error", "forward_shapes", ("total[:, None]", "total[None, :]")),
)


# --- 8.5: causal ----------------------------------------------------------------------------------


@triton.jit
def causal_masked_everywhere(q, k, v, out, logsumexp, n_queries, n_keys, scale,
                             d: tl.constexpr, block_q: tl.constexpr, block_k: tl.constexpr):  # fmt: skip
    head = tl.program_id(1)
    first = tl.program_id(0) * block_q
    behind = n_keys - n_queries
    rows = first + tl.arange(0, block_q)
    dims = tl.arange(0, d)[None, :]
    at = (head * n_queries + rows[:, None]) * d + dims
    in_q = rows < n_queries
    qt = tl.load(q + at, mask=in_q[:, None], other=0.0)
    top = tl.full((block_q,), float("-inf"), tl.float32)
    total = tl.zeros((block_q,), tl.float32)
    acc = tl.zeros((block_q, d), tl.float32)
    stop = tl.minimum(n_keys, tl.minimum(first + block_q, n_queries) + behind)
    for start in range(0, stop, block_k):
        keys = start + tl.arange(0, block_k)
        in_k = (keys < n_keys)[:, None]
        k_at = (head * n_keys + keys[:, None]) * d + dims
        kt = tl.load(k + k_at, mask=in_k, other=0.0)
        vt = tl.load(v + k_at, mask=in_k, other=0.0)
        s = tl.dot(qt, tl.trans(kt)) * scale
        sees = keys[None, :] <= rows[:, None] + behind
        s = tl.where(sees & (keys < n_keys)[None, :], s, float("-inf"))
        new_top = tl.maximum(top, tl.max(s, 1))
        safe = tl.where(new_top == float("-inf"), 0.0, new_top)
        p = tl.exp(s - safe[:, None])
        kept = tl.exp(top - safe)
        total = total * kept + tl.sum(p, 1)
        acc = acc * kept[:, None] + tl.dot(p.to(vt.dtype), vt)
        top = new_top
    some = total > 0
    o = acc / tl.where(some, total, 1.0)[:, None]
    tl.store(out + at, o.to(out.dtype.element_ty), mask=in_q[:, None])
    lse = tl.where(some, top + tl.log(tl.where(some, total, 1.0)), float("-inf"))
    tl.store(logsumexp + head * n_queries + rows, lse, mask=in_q)


@triton.jit
def one_step(qt, k, v, k_at, in_k, sees, row_max, row_sum, o, scale, masked: tl.constexpr):
    k_tile = tl.load(k + k_at, mask=in_k, other=0.0)
    v_tile = tl.load(v + k_at, mask=in_k, other=0.0)
    s = scale * tl.dot(qt, tl.trans(k_tile))
    if masked:
        s = tl.where(sees, s, -1.0e9)
    new_max = tl.maximum(row_max, tl.max(s, axis=1))
    p = tl.exp(s - new_max[:, None])
    if masked:
        p = tl.where(sees, p, 0.0)
    alpha = tl.exp(row_max - new_max)
    o = tl.dot(p.to(v_tile.dtype), v_tile, alpha[:, None] * o)
    return new_max, alpha * row_sum + tl.sum(p, axis=1), o


@triton.jit
def causal_in_two_loops(q, k, v, out, logsumexp, n_queries, n_keys, scale,
                        d: tl.constexpr, block_q: tl.constexpr, block_k: tl.constexpr):  # fmt: skip
    block, head = tl.program_id(0), tl.program_id(1)
    rows = block * block_q + tl.arange(0, block_q)
    last = rows + (n_keys - n_queries)
    inner = tl.arange(0, d)[None, :]
    q_at = (head * n_queries + rows[:, None]) * d + inner
    qt = tl.load(q + q_at, mask=(rows < n_queries)[:, None] & (last >= 0)[:, None], other=0.0)
    row_max = tl.full((block_q,), -1.0e9, tl.float32)
    row_sum = tl.zeros((block_q,), tl.float32)
    o = tl.zeros((block_q, d), tl.float32)
    whole = tl.maximum(block * block_q + n_keys - n_queries + 1, 0) // block_k * block_k
    for start in range(0, whole, block_k):
        keys = start + tl.arange(0, block_k)
        k_at = (head * n_keys + keys[:, None]) * d + inner
        row_max, row_sum, o = one_step(qt, k, v, k_at, (keys < n_keys)[:, None], keys[None, :] < n_keys,
                                       row_max, row_sum, o, scale, False)  # fmt: skip
    stop = tl.minimum((block + 1) * block_q, n_queries) + n_keys - n_queries
    for start in range(whole, stop, block_k):
        keys = start + tl.arange(0, block_k)
        k_at = (head * n_keys + keys[:, None]) * d + inner
        sees = keys[None, :] <= last[:, None]
        row_max, row_sum, o = one_step(qt, k, v, k_at, (keys < stop)[:, None], sees,
                                       row_max, row_sum, o, scale, True)  # fmt: skip
    o = tl.where(last[:, None] >= 0, o / row_sum[:, None], 0.0)
    lse = tl.where(last >= 0, row_max + tl.log(row_sum), -float("inf"))
    tl.store(out + q_at, o, mask=(rows < n_queries)[:, None])
    tl.store(logsumexp + head * n_queries + rows, lse, mask=rows < n_queries)


same_everywhere(
    ("8.5", causal_masked_everywhere),
    ("8.5", causal_in_two_loops),
    (
        "8.5",
        edited(
            causal_masked_everywhere,
            "causal_with_a_scalar_in_its_mask",
            ("in_k = (keys < n_keys)[:, None]", "in_k = (keys[:, None] < n_keys) & (start < stop)"),
        ),
    ),
)
wrong_kernels(
    "8.5",
    causal_masked_everywhere,
    (
        "blocks not skipped",
        "causal_all_blocks",
        ("range(0, stop, block_k)", "range(0, n_keys, block_k)"),
    ),
    (
        "blocks not skipped",
        "causal_one_block_more",
        ("range(0, stop, block_k)", "range(0, tl.minimum(stop + block_k, n_keys), block_k)"),
    ),
    (
        "no mask",
        "causal_no_mask",
        ("sees & ", ""),
        ("range(0, stop, block_k)", "range(0, n_keys, block_k)"),
    ),
    ("diagonal block not masked", "causal_blocks_only", ("sees & ", "")),
    ("mask off by one", "causal_not_oneself", ("<= rows[:, None]", "< rows[:, None]")),
    (
        "mask off by one",
        "causal_one_more",
        ("<= rows[:, None] + behind", "<= rows[:, None] + behind + 1"),
        ("range(0, stop, block_k)", "range(0, tl.minimum(stop + 1, n_keys), block_k)"),
    ),
    ("aligned at the top left", "causal_top_left", ("behind = n_keys - n_queries", "behind = 0")),
    (
        "mask turned round",
        "causal_turned_round",
        ("keys[None, :] <=", "keys[None, :] >="),
        ("range(0, stop, block_k)", "range(0, n_keys, block_k)"),
    ),
    (
        "rows that see nothing",
        "causal_nan_rows",
        ("some = total > 0", "some = total == total"),
        ('safe = tl.where(new_top == float("-inf"), 0.0, new_top)', "safe = new_top"),
    ),
    (
        "rows that see nothing",
        "causal_zero_over_zero",
        ("some = total > 0", "some = total == total"),
    ),
    (
        "skipped too early",
        "causal_stops_early",
        ("range(0, stop, block_k)", "range(0, tl.minimum(first + behind + 1, n_keys), block_k)"),
        ("sees & (keys < n_keys)", "sees & (keys <= first + behind)"),
    ),
    (
        "blocks not skipped",
        "causal_lanes_skipped",
        ("range(0, stop, block_k)", "range(0, n_keys, block_k)"),
        ("in_k = (keys < n_keys)", "in_k = (keys < stop)"),
    ),
    (
        "mask off by one",
        "causal_one_more_and_skipped",
        ("<= rows[:, None] + behind", "<= rows[:, None] + behind + 1"),
    ),
    (
        "skipped too early",
        "causal_end_too_early",
        ("range(0, stop, block_k)", "range(0, stop - 1, block_k)"),
    ),
    (
        "aligned at the top left",
        "causal_top_left_all_blocks",
        ("rows[:, None] + behind", "rows[:, None]"),
        ("range(0, stop, block_k)", "range(0, n_keys, block_k)"),
    ),
    ("scale forgotten", "causal_no_scale", (" * scale", "")),
    (
        "nothing rescaled",
        "causal_no_rescale",
        ("kept = tl.exp(top - safe)", "kept = 1.0 + 0.0 * total"),
    ),
    (
        "program axes exchanged",
        "causal_axes",
        ("head = tl.program_id(1)", "head = tl.program_id(0)"),
        ("first = tl.program_id(0)", "first = tl.program_id(1)"),
    ),
    ("out of bounds read", "causal_unmasked", ("mask=in_k, other=0.0", "")),
    (
        "logsumexp not stored",
        "causal_no_lse",
        ("tl.store(logsumexp + head * n_queries + rows, lse, mask=in_q)", "pass"),
    ),
)


# --- 8.6: dK and dV -------------------------------------------------------------------------------


@triton.jit
def keys_by_transposed_scores(q, k, v, do, logsumexp, row_dot, dk, dv, n_queries, n_keys, scale,
                              d: tl.constexpr, block_q: tl.constexpr, block_k: tl.constexpr):  # fmt: skip
    block = tl.program_id(0)
    head = tl.program_id(1)
    keys = block * block_k + tl.arange(0, block_k)
    in_k = (keys < n_keys)[:, None]
    inner = tl.arange(0, d)[None, :]
    k_at = (head * n_keys + keys[:, None]) * d + inner
    kt = tl.load(k + k_at, mask=in_k, other=0.0)
    vt = tl.load(v + k_at, mask=in_k, other=0.0)
    grad_k = tl.zeros((block_k, d), tl.float32)
    grad_v = tl.zeros((block_k, d), tl.float32)
    for start in range(0, n_queries, block_q):
        rows = start + tl.arange(0, block_q)
        in_q = rows < n_queries
        q_at = (head * n_queries + rows[:, None]) * d + inner
        qt = tl.load(q + q_at, mask=in_q[:, None], other=0.0)
        ot = tl.load(do + q_at, mask=in_q[:, None], other=0.0)
        lse = tl.load(logsumexp + head * n_queries + rows, mask=in_q, other=0.0)
        dot = tl.load(row_dot + head * n_queries + rows, mask=in_q, other=0.0)
        s = tl.dot(kt, tl.trans(qt)) * scale
        p = tl.exp(s - lse[None, :])
        p = tl.where(in_q[None, :], p, 0.0)
        grad_v += tl.dot(p.to(ot.dtype), ot)
        dp = tl.dot(vt, tl.trans(ot))
        ds = p * (dp - dot[None, :])
        grad_k += tl.dot(ds.to(qt.dtype), qt)
    tl.store(dk + k_at, grad_k * scale, mask=in_k)
    tl.store(dv + k_at, grad_v, mask=in_k)


@triton.jit
def keys_in_base_2(q, k, v, do, logsumexp, row_dot, dk, dv, n_queries, n_keys, scale,
                   d: tl.constexpr, block_q: tl.constexpr, block_k: tl.constexpr):  # fmt: skip
    first, head = tl.program_id(0) * block_k, tl.program_id(1)
    k_at = tl.make_block_ptr(
        k + head * n_keys * d, (n_keys, d), (d, 1), (first, 0), (block_k, d), (1, 0)
    )
    v_at = tl.make_block_ptr(
        v + head * n_keys * d, (n_keys, d), (d, 1), (first, 0), (block_k, d), (1, 0)
    )
    dk_at = tl.make_block_ptr(
        dk + head * n_keys * d, (n_keys, d), (d, 1), (first, 0), (block_k, d), (1, 0)
    )
    dv_at = tl.make_block_ptr(
        dv + head * n_keys * d, (n_keys, d), (d, 1), (first, 0), (block_k, d), (1, 0)
    )
    k_tile = tl.load(k_at, boundary_check=(0,), padding_option="zero")
    v_tile = tl.load(v_at, boundary_check=(0,), padding_option="zero")
    dk_tile = tl.zeros((block_k, d), tl.float32)
    dv_tile = tl.zeros((block_k, d), tl.float32)
    rows = tl.arange(0, block_q)
    q += head * n_queries * d + rows[:, None] * d + tl.arange(0, d)[None, :]
    do += head * n_queries * d + rows[:, None] * d + tl.arange(0, d)[None, :]
    logsumexp += head * n_queries + rows
    row_dot += head * n_queries + rows
    left = n_queries
    while left > 0:
        q_tile = tl.load(q, mask=rows[:, None] < left, other=0.0)
        do_tile = tl.load(do, mask=rows[:, None] < left, other=0.0)
        lse = tl.load(logsumexp, mask=rows < left, other=float("inf")) * LOG2E
        s = tl.dot(q_tile, tl.trans(k_tile)) * (scale * LOG2E)
        p = tl.exp2(s - lse[:, None])
        dv_tile = tl.dot(tl.trans(p).to(do_tile.dtype), do_tile, dv_tile)
        dp = (
            tl.dot(do_tile, tl.trans(v_tile))
            - tl.load(row_dot, mask=rows < left, other=0.0)[:, None]
        )
        ds = (p * dp * scale).to(q_tile.dtype)
        dk_tile = tl.dot(tl.trans(ds), q_tile, dk_tile)
        q += block_q * d
        do += block_q * d
        logsumexp += block_q
        row_dot += block_q
        left -= block_q
    tl.store(dk_at, dk_tile.to(dk.dtype.element_ty), boundary_check=(0,))
    tl.store(dv_at, dv_tile.to(dv.dtype.element_ty), boundary_check=(0,))


same_everywhere(("8.6", keys_by_transposed_scores), ("8.6", keys_in_base_2))
_IN_KERNEL = (
    ("scale forgotten", "no_scale", ("grad_k * scale", "grad_k")),
    ("scale twice", "scale_twice", ("p * (dp", "scale * p * (dp")),
    ("scores without scale", "unscaled_scores", ("tl.trans(qt)) * scale", "tl.trans(qt))")),
    ("row sums left out", "no_row_dot", ("(dp - dot[None, :])", "dp")),
    ("row_dot added", "row_dot_added", ("dp - dot", "dp + dot")),
    ("P left out", "no_p", ("p * (dp", "tl.where(in_q[None, :], 1.0, 0.0) * (dp")),
    ("P minus row_dot", "p_minus", ("(dp - dot[None, :])", "(p - dot[None, :])")),
    ("P not normalized", "own_max", ("s - lse[None, :]", "s - 0 * lse[None, :]")),
    ("base 2", "powers_of_2", ("tl.exp(s", "tl.exp2(s")),
    (
        "dK and dV exchanged",
        "exchanged",
        ("tl.store(dk +", "tl.store(dX +"),
        ("tl.store(dv +", "tl.store(dk +"),
        ("tl.store(dX +", "tl.store(dv +"),
    ),
    ("not accumulated", "overwrites", ("grad_v += ", "grad_v = "), ("grad_k += ", "grad_k = ")),
    (
        "last block left out",
        "floor",
        ("range(0, n_queries, block_q)", "range(0, n_queries // block_q * block_q, block_q)"),
    ),
    ("out of bounds read", "rows_unmasked", ("rows, mask=in_q, other=0.0", "rows")),
    ("out of bounds write", "stores_all", ("grad_v, mask=in_k", "grad_v")),
    ("head ignored", "one_head", ("head = tl.program_id(1)", "head = 0")),
    (
        "program axes exchanged",
        "axes",
        ("block = tl.program_id(0)", "block = tl.program_id(1)"),
        ("head = tl.program_id(1)", "head = tl.program_id(0)"),
    ),
    (
        "read too much",
        "loads_keys_inside",
        (
            "        dp = tl.dot",
            "        vt = tl.load(v + k_at, mask=in_k, other=0.0)\n        dp = tl.dot",
        ),
    ),
    (
        "read too much",
        "loads_vector_wide",
        (
            "lse = tl.load(logsumexp + head * n_queries + rows, mask=in_q, other=0.0)",
            "wide = tl.load(logsumexp + head * n_queries + rows[:, None] + 0 * inner, mask=in_q[:, None])\n"
            "        lse = tl.max(wide, axis=1)",
        ),
    ),
)
wrong_kernels(
    "8.6",
    keys_by_transposed_scores,
    *((cause, f"keys_{name}", *changes) for cause, name, *changes in _IN_KERNEL),
)


# --- 8.7: dQ --------------------------------------------------------------------------------------


@triton.jit
def queries_plainly(q, k, v, do, logsumexp, row_dot, dq, n_queries, n_keys, scale,
                    d: tl.constexpr, block_q: tl.constexpr, block_k: tl.constexpr):  # fmt: skip
    block = tl.program_id(0)
    head = tl.program_id(1)
    rows = block * block_q + tl.arange(0, block_q)
    in_q = rows < n_queries
    inner = tl.arange(0, d)[None, :]
    q_at = (head * n_queries + rows[:, None]) * d + inner
    qt = tl.load(q + q_at, mask=in_q[:, None], other=0.0)
    ot = tl.load(do + q_at, mask=in_q[:, None], other=0.0)
    lse = tl.load(logsumexp + head * n_queries + rows, mask=in_q, other=0.0)[:, None]
    dot = tl.load(row_dot + head * n_queries + rows, mask=in_q, other=0.0)[:, None]
    total = tl.zeros((block_q, d), tl.float32)
    for start in range(0, n_keys, block_k):
        keys = start + tl.arange(0, block_k)
        in_k = keys < n_keys
        k_at = (head * n_keys + keys[:, None]) * d + inner
        kt = tl.load(k + k_at, mask=in_k[:, None], other=0.0)
        vt = tl.load(v + k_at, mask=in_k[:, None], other=0.0)
        s = tl.dot(qt, tl.trans(kt)) * scale
        p = tl.where(in_k[None, :], tl.exp(s - lse), 0.0)
        dp = tl.dot(ot, tl.trans(vt))
        ds = p * (dp - dot)
        total += tl.dot(ds.to(kt.dtype), kt)
    tl.store(dq + q_at, total * scale, mask=in_q[:, None])


@triton.jit
def queries_transposed(q, k, v, do, logsumexp, row_dot, dq, n_queries, n_keys, scale,
                       d: tl.constexpr, block_q: tl.constexpr, block_k: tl.constexpr):  # fmt: skip
    head = tl.program_id(1)
    rows = tl.program_id(0) * block_q + tl.arange(0, block_q)
    q_at = (head * n_queries + rows[None, :]) * d + tl.arange(0, d)[:, None]  # (d, block_q)
    qt = tl.load(q + q_at, mask=rows[None, :] < n_queries, other=0.0)
    ot = tl.load(do + q_at, mask=rows[None, :] < n_queries, other=0.0)
    vector_at = head * n_queries + rows[None, :]
    lse = tl.load(logsumexp + vector_at, mask=rows[None, :] < n_queries, other=0.0) * LOG2E
    dot = tl.load(row_dot + vector_at, mask=rows[None, :] < n_queries, other=0.0)
    total = tl.zeros((d, block_q), tl.float32)
    for start in range(0, n_keys, block_k):
        keys = start + tl.arange(0, block_k)[:, None]
        k_at = (head * n_keys + keys) * d + tl.arange(0, d)[None, :]
        kt = tl.load(k + k_at, mask=keys < n_keys, other=0.0)
        vt = tl.load(v + k_at, mask=keys < n_keys, other=0.0)
        s = tl.where(keys < n_keys, tl.dot(kt, qt) * scale * LOG2E, -float("inf"))
        ds = tl.exp2(s - lse) * (tl.dot(vt, ot) - dot) * scale
        total = tl.dot(tl.trans(kt), ds.to(kt.dtype), total)
    tl.store(dq + q_at, total, mask=rows[None, :] < n_queries)


same_everywhere(("8.7", queries_plainly), ("8.7", queries_transposed))
wrong_kernels(
    "8.7",
    queries_plainly,
    ("scale forgotten", "queries_no_scale", ("total * scale", "total")),
    ("scale twice", "queries_scale_twice", ("ds = p", "ds = scale * p")),
    ("scores without scale", "queries_unscaled", ("tl.trans(kt)) * scale", "tl.trans(kt))")),
    ("row sums left out", "queries_no_row_dot", ("(dp - dot)", "dp")),
    (
        "P left out",
        "queries_no_p",
        ("ds = p * (dp - dot)", "ds = tl.where(in_k[None, :], dp - dot, 0.0)"),
    ),
    ("P for dS", "queries_p_for_ds", ("ds = p * (dp - dot)", "ds = p")),
    ("P not normalized", "queries_exp", ("tl.exp(s - lse)", "tl.exp(s)")),
    ("base 2", "queries_powers_of_2", ("tl.exp(s - lse)", "tl.exp2(s - lse)")),
    ("not accumulated", "queries_overwrite", ("total += ", "total = ")),
    (
        "last block left out",
        "queries_floor",
        ("range(0, n_keys, block_k)", "range(0, n_keys // block_k * block_k, block_k)"),
    ),
    ("out of bounds read", "queries_unmasked", ("mask=in_k[:, None], other=0.0", "")),
    (
        "program axes exchanged",
        "queries_axes",
        ("block = tl.program_id(0)", "block = tl.program_id(1)"),
        ("head = tl.program_id(1)", "head = tl.program_id(0)"),
    ),
    ("changed its input", "queries_into_q", ("tl.store(dq +", "tl.store(q +")),
    (
        "read too much",
        "queries_do_again",
        (
            "        dp = tl.dot(ot",
            "        ot = tl.load(do + q_at, mask=in_q[:, None], other=0.0)\n"
            "        dp = tl.dot(ot",
        ),
    ),
    (
        "read too much",
        "queries_into_memory",
        (
            "total += tl.dot(ds.to(kt.dtype), kt)",
            "total += tl.dot(ds.to(kt.dtype), kt)\n"
            "        tl.store(dq + q_at, total, mask=in_q[:, None])\n"
            "        total = tl.load(dq + q_at, mask=in_q[:, None], other=0.0).to(tl.float32)",
        ),
    ),
)


# --- 8.8: make it fast (judged where there is a GPU) ----------------------------------------------


def launched(kernel, *options, **more):
    def attention(q, k, v, causal):
        batch, heads, n, d = q.shape
        out, lse = torch.empty_like(q), torch.empty(batch, heads, n, device=q.device)
        block_q, block_k = options or (128, 64)
        grid = (triton.cdiv(n, block_q), batch * heads)
        sizes = (n, n, d**-0.5, d, block_q, block_k)
        kernel[causal][grid](
            q, k, v, out, lse, *sizes, **({"num_warps": 8, "num_stages": 3} | more)
        )
        return out

    return attention


@triton.jit
def fast_forward(q, k, v, out, logsumexp, n_queries, n_keys, scale,
                 d: tl.constexpr, block_q: tl.constexpr, block_k: tl.constexpr):  # fmt: skip
    head = tl.program_id(1)
    rows = tl.program_id(0) * block_q + tl.arange(0, block_q)
    keys, inner = tl.arange(0, block_k), tl.arange(0, d)[None, :]
    q_at = (head * n_queries + rows[:, None]) * d + inner
    k_at = (head * n_keys + keys[:, None]) * d + inner
    qt = tl.load(q + q_at)
    top = tl.full((block_q,), -1e30, tl.float32)
    total = tl.zeros((block_q,), tl.float32)
    acc = tl.zeros((block_q, d), tl.float32)
    for start in range(0, n_keys, block_k):
        s = tl.dot(qt, tl.trans(tl.load(k + start * d + k_at)))
        new_top = tl.maximum(top, scale * LOG2E * tl.max(s, 1))
        p = tl.exp2(scale * LOG2E * s - new_top[:, None])
        kept = tl.exp2(top - new_top)
        total = total * kept + tl.sum(p, 1)
        acc = tl.dot(p.to(out.dtype.element_ty), tl.load(v + start * d + k_at), acc * kept[:, None])
        top = new_top
    tl.store(out + q_at, (acc / total[:, None]).to(out.dtype.element_ty))


@triton.jit
def fast_causal(q, k, v, out, logsumexp, n_queries, n_keys, scale,
                d: tl.constexpr, block_q: tl.constexpr, block_k: tl.constexpr):  # fmt: skip
    head, first = tl.program_id(1), (tl.num_programs(0) - 1 - tl.program_id(0)) * block_q
    rows = first + tl.arange(0, block_q)
    keys, inner = tl.arange(0, block_k), tl.arange(0, d)[None, :]
    q_at = (head * n_queries + rows[:, None]) * d + inner
    k_at = (head * n_keys + keys[:, None]) * d + inner
    qt = tl.load(q + q_at)
    top = tl.full((block_q,), -1e30, tl.float32)
    total = tl.zeros((block_q,), tl.float32)
    acc = tl.zeros((block_q, d), tl.float32)
    for start in range(0, first, block_k):
        s = tl.dot(qt, tl.trans(tl.load(k + start * d + k_at)))
        new_top = tl.maximum(top, scale * LOG2E * tl.max(s, 1))
        p = tl.exp2(scale * LOG2E * s - new_top[:, None])
        kept = tl.exp2(top - new_top)
        total = total * kept + tl.sum(p, 1)
        acc = tl.dot(p.to(out.dtype.element_ty), tl.load(v + start * d + k_at), acc * kept[:, None])
        top = new_top
    for start in range(first, first + block_q, block_k):
        s = tl.dot(qt, tl.trans(tl.load(k + start * d + k_at)))
        s = tl.where(start + keys[None, :] <= rows[:, None], s, -float("inf"))
        new_top = tl.maximum(top, scale * LOG2E * tl.max(s, 1))
        p = tl.exp2(scale * LOG2E * s - new_top[:, None])
        kept = tl.exp2(top - new_top)
        total = total * kept + tl.sum(p, 1)
        acc = tl.dot(p.to(out.dtype.element_ty), tl.load(v + start * d + k_at), acc * kept[:, None])
        top = new_top
    tl.store(out + q_at, (acc / total[:, None]).to(out.dtype.element_ty))


_fast = {False: fast_forward, True: fast_causal}


@right("8.8")
def fast_with_eight_warps(q, k, v, causal):
    return launched(_fast)(q, k, v, causal)


@right("8.8")
def fast_with_wide_blocks(q, k, v, causal):
    return launched(_fast, 128, 128 if q.shape[-1] == 64 else 64)(q, k, v, causal)


@wrong("8.8", cause="torch's attention")
def fast_by_torch(q, k, v, causal):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)


@wrong("8.8", cause="torch's attention")
def fast_by_matmul(q, k, v, causal):
    s = q @ k.mT * q.shape[-1] ** -0.5
    if causal:
        s += torch.full_like(s, -float("inf")).triu(1)
    return s.softmax(-1) @ v


@wrong("8.8", cause="somebody else's attention")
def fast_by_the_course(q, k, v, causal):
    from course_utils.kernels import flash_attention

    return flash_attention(q, k, v, causal=causal)


@wrong("8.8", cause="no kernel launched")
def fast_by_zeros(q, k, v, causal):
    return torch.zeros_like(q)


@wrong("8.8", cause="wrong values")
def fast_and_never_causal(q, k, v, causal):
    return launched({False: fast_forward, True: fast_forward})(q, k, v, causal)


@wrong("8.8", cause="too slow")
def fast_in_small_blocks(q, k, v, causal):
    return launched(_fast, 16, 16, num_warps=1, num_stages=1)(q, k, v, causal)
