"""8.3: a block's budget by hand: shared memory, accumulators in registers, blocks on a multiprocessor.

The rules, as the lesson states them. A block of a flash forward kernel has 32 * warps threads.

- Shared memory: the tile of Q (block_q, d) once; a tile of K and one of V, each (block_k, d), `stages` times
  over, so that the next are on their way while these are worked on. Every number takes `number_bytes`.
- Accumulators: the scores S (block_q, block_k) and the output O (block_q, d), in float32: a 32-bit register a
  number, spread evenly over the block's threads and rounded up to whole registers a thread.
- Blocks that fit on one multiprocessor at the same time. It has 228 KiB of shared memory (KiB: 1,024 bytes),
  and each block costs 1 KiB more than it uses, so that one block may use at most 227 KiB; 65,536 registers;
  room for 2,048 threads and for 32 blocks. A thread takes its accumulators + 64 registers (addresses, running
  maxima and sums, whatever else). A thread that would need more than 255 spills, and such a block is not to
  run: 0 blocks. 0 as well where even one block has too much shared memory, or too many registers.

These are the limits of an H100 (compute capability 9.0; CUDA C++ Programming Guide, "Compute Capabilities").
Registers are really handed out in small units; here they are not.
"""

import math
from numbers import Integral

import numpy as np

from course_utils.checks.core import Case, Exercise, Observation, Verdict, failed, passed
from course_utils.checks.observe import observe

KIB = 1024
SHARED_BYTES, RESERVED_BYTES = 228 * KIB, KIB
REGISTERS, THREADS, BLOCKS = 65_536, 2_048, 32
OTHER_REGISTERS, MOST_REGISTERS = 64, 255

_NAMES = ("shared memory", "accumulators", "blocks")
_SIZES = [  # block_q, block_k, d, warps, then stages and number_bytes where they are given
    (128, 48, 16, 4, 3),
    (80, 48, 40, 3, 3),
    (16, 20, 20, 3, 2, 4),
    (128, 128, 64, 8),
    (64, 32, 64, 4),
    (128, 64, 128, 8, 3),
    (40, 104, 128, 4),
    (64, 64, 64, 4, 2, 4),
    (16, 16, 16, 1),
    (64, 64, 128, 1),
    (128, 128, 64, 4),
    (128, 64, 128, 4),
    (32, 127, 64, 1),
    (12, 224, 128, 4),
    (128, 128, 128, 8, 4),
    (128, 64, 128, 16, 4),
    (16, 32, 128, 16, 4, 1),
    (128, 128, 128, 16),
]


def block_budget(block_q, block_k, d, warps, stages=2, number_bytes=2) -> tuple[int, int, int]:
    """(shared bytes, accumulator registers a thread, blocks on a multiprocessor)."""
    shared_bytes = (block_q * d + 2 * stages * block_k * d) * number_bytes
    threads = 32 * warps
    accumulators = math.ceil((block_q * block_k + block_q * d) / threads)
    return shared_bytes, accumulators, _resident(shared_bytes, accumulators, threads)


def _resident(shared_bytes: int, accumulators: int, threads: int, **slip: int) -> int:
    """Blocks that fit; `slip` changes one of the rules, as mistakes do."""
    registers = accumulators + slip.get("others", OTHER_REGISTERS)
    if registers > slip.get("most", MOST_REGISTERS):
        return 0
    limits = [
        slip.get("shared", SHARED_BYTES)
        // max(1, shared_bytes + slip.get("reserved", RESERVED_BYTES)),
        REGISTERS // max(1, registers * threads),
        THREADS // threads,
        BLOCKS,
    ]
    left_out = slip.get("left_out")
    return min(limit for number, limit in enumerate(limits) if number != left_out)


def _cases(seed: int) -> list[Case]:
    names = ("block_q", "block_k", "d", "warps", "stages", "number_bytes")
    return [
        Case(", ".join(f"{name} = {size}" for name, size in zip(names, sizes)), {"sizes": sizes})
        for sizes in _SIZES
    ]


def _run(answer, case: Case) -> Observation:
    return observe(answer, *case.given["sizes"])


def _shared_slips(block_q, block_k, d, stages, number_bytes):
    """(cause, why, bytes) of the usual slips with shared memory."""
    q, k = block_q * d, block_k * d
    total = q + 2 * stages * k
    yield ("numbers for bytes", "This counts numbers. Each takes number_bytes.", total)
    yield (
        "one of K and V",
        "Both K and V have a tile here, in every stage.",
        (q + stages * k) * number_bytes,
    )
    yield ("stages left out", "K and V lie there `stages` times over: while one pair of tiles is worked on, the "
           "next is on its way.", (q + 2 * k) * number_bytes)  # fmt: skip
    yield ("Q in every stage", "The tile of Q is loaded once and stays. Only K and V come by in stages.",
           stages * (q + 2 * k) * number_bytes)  # fmt: skip
    yield ("Q left out", "The tile of Q lies there as well.", 2 * stages * k * number_bytes)
    yield ("scores in shared memory", "The scores were counted in. Scores and output are accumulators, which "
           "lie in registers.", (total + block_q * block_k) * number_bytes)  # fmt: skip
    yield ("output in shared memory", "O was counted in. Scores and output are accumulators, which lie in "
           "registers.", (total + q) * number_bytes)  # fmt: skip
    yield ("block sizes exchanged", "Q's tile has block_q rows, those of K and V have block_k.",
           (k + 2 * stages * q) * number_bytes)  # fmt: skip
    yield ("reserved bytes counted", "The reserved KiB is no memory of the block's: it counts when the blocks on "
           "a multiprocessor are counted.", total * number_bytes + RESERVED_BYTES)  # fmt: skip


def _register_slips(block_q, block_k, d, warps, number_bytes):
    """(cause, why, registers) of the usual slips with accumulators."""
    scores, output, threads = block_q * block_k, block_q * d, 32 * warps
    both = scores + output
    yield "rounded down", "Spread evenly it is no whole number: round up.", both // threads
    yield "output left out", "O is an accumulator too, (block_q, d).", math.ceil(scores / threads)
    yield ("scores left out", "S is an accumulator too, (block_q, block_k).",
           math.ceil(output / threads))  # fmt: skip
    yield "warps for threads", "A warp has 32 threads.", math.ceil(both / warps)
    yield "not spread", "That is the whole block. What does one thread hold?", both
    yield ("bytes for registers", "A register holds one float32 whole: count numbers, not bytes.",
           math.ceil(4 * both / threads))  # fmt: skip
    yield ("accumulators in the input's type", "The accumulators are float32 whatever the inputs are: one "
           "register each.", math.ceil(both * number_bytes / (4 * threads)))  # fmt: skip
    yield ("other registers counted", "The other 64 registers are no accumulators: they count when the blocks "
           "on a multiprocessor are counted.", math.ceil(both / threads) + OTHER_REGISTERS)  # fmt: skip
    yield ("rounded twice", "S and O were rounded up one by one. Round their sum.",
           math.ceil(scores / threads) + math.ceil(output / threads))  # fmt: skip


_BLOCK_SLIPS = [
    ("64 left out of the 255", "A thread has 255 registers at most: its accumulators and the 64 others together.",
     {"most": MOST_REGISTERS + OTHER_REGISTERS}),
    ("255 registers refused", "A thread may have 255 registers; with more it spills.", {"most": MOST_REGISTERS - 1}),
    ("227 KiB refused", "One block may use 227 KiB to the last byte: with the 1 KiB beside it, 228 KiB of 1,024 "
     "bytes are full.", {"shared": SHARED_BYTES - RESERVED_BYTES}),
    ("spilling not refused", "A thread has 255 registers at most. A block that needs more spills, and counts as "
     "0 here.", {"most": 10**9}),
    ("other registers left out", "A thread takes 64 registers beside its accumulators.", {"others": 0}),
    ("reserved bytes left out", "Every block costs 1 KiB of shared memory beside what it uses.", {"reserved": 0}),
    ("registers left out", "The registers of all threads of all these blocks are more than 65,536.",
     {"left_out": 1}),
    ("shared memory left out", "The shared memory of all these blocks is more than 228 KiB.", {"left_out": 0}),
]  # fmt: skip


def _whole(value) -> int | None:
    if isinstance(value, np.ndarray) and value.shape == () and value.dtype.kind in "iu":
        value = value.item()
    is_whole = isinstance(value, Integral) and not isinstance(value, bool | np.bool_)
    if isinstance(value, float | np.floating) and math.isfinite(value) and value == int(value):
        return int(value)
    return int(value) if is_whole else None


def _shown(value) -> str:
    try:
        return repr(value)[:60]
    except Exception:
        return f"a {type(value).__name__}"


def _judge(case: Case, seen: Observation) -> Verdict:
    sizes = case.given["sizes"]
    block_q, block_k, d, warps = sizes[:4]
    stages, number_bytes = (*sizes[4:], 2, 2)[:2] if len(sizes) == 4 else (*sizes[4:], 2)[:2]
    expected = block_budget(*sizes)
    value = seen.value
    if isinstance(value, np.ndarray) and value.ndim == 1:
        value = value.tolist()
    if not isinstance(value, tuple | list) or len(value) != 3:
        return failed("not three numbers", "Expected three numbers (shared bytes, accumulator registers a "
                      f"thread, blocks), got {_shown(seen.value)}.")  # fmt: skip
    numbers = tuple(map(_whole, value))
    if None in numbers:
        which = _NAMES[numbers.index(None)]
        return failed("not a whole number", f"Expected a whole number for {which}, got "
                      f"{_shown(value[numbers.index(None)])}.")  # fmt: skip
    shared_bytes, accumulators, blocks = numbers
    if shared_bytes != expected[0]:
        slips = _shared_slips(block_q, block_k, d, stages, number_bytes)
        return _named(slips, shared_bytes, expected[0], "shared memory", " bytes")
    if accumulators != expected[1]:
        slips = _register_slips(block_q, block_k, d, warps, number_bytes)
        return _named(slips, accumulators, expected[1], "the accumulators", " registers a thread")
    slips = ((cause, why, _resident(*expected[:2], 32 * warps, **slip))
             for cause, why, slip in _BLOCK_SLIPS)  # fmt: skip
    return (
        passed() if blocks == expected[2] else _named(slips, blocks, expected[2], "the blocks", "")
    )


def _named(slips, got: int, expected: int, what: str, unit: str) -> Verdict:
    for cause, why, twin in slips:
        if twin == got != expected:
            return failed(cause, f"For {what} you give {got:,}{unit}. {why}")
    return failed(
        f"wrong {what.removeprefix('the ')}",
        f"For {what} expected {expected:,}{unit}, got {got:,}. Go through the rules one by one.",
    )


EXERCISE = Exercise("8.3", "a block's budget, by hand", 2, _cases, _run, _judge)
