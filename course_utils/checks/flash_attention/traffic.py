"""7.2: what Algorithm 1 moves, as a formula. Wrong formulas are recognized by what they leave out."""

import math
from numbers import Real

import numpy as np

from course_utils.attention import keys_outside_traffic, queries_outside_traffic
from course_utils.checks.core import Case, Exercise, Observation, Verdict, failed, passed
from course_utils.checks.judging import say
from course_utils.checks.observe import observe

_SIZES = [  # n_queries, n_keys, d, block_q, block_k
    (1024, 1024, 64, 32, 256),
    (512, 512, 32, 64, 64),
    (600, 600, 32, 16, 96),
    (100, 900, 16, 30, 70),
    (900, 100, 16, 30, 70),
    (40, 30, 8, 64, 64),
    (1, 1, 1, 1, 1),
]
_NAMES = ("n_queries", "n_keys", "d", "block_q", "block_k")


def _cases(seed: int) -> list[Case]:
    return [
        Case(", ".join(f"{name} = {size}" for name, size in zip(_NAMES, sizes)), {"sizes": sizes})
        for sizes in _SIZES
    ]


def _run(answer, case: Case) -> Observation:
    return observe(answer, *case.given["sizes"])


def _mistakes(n_queries: int, n_keys: int, d: int, block_q: int, block_k: int):
    """(cause, why, numbers read, numbers written) of the usual slips."""
    passes, floor = math.ceil(n_keys / block_k), n_keys // block_k
    exact, q_blocks = n_keys / block_k, math.ceil(n_queries / block_q)
    keys, row = 2 * n_keys * d, n_queries * (2 * d + 2)
    state = n_queries * (d + 2)
    other = queries_outside_traffic(n_queries, n_keys, d, block_q, block_k)
    yield ("last block not counted", "A last block that is smaller makes a pass over the queries as well: "
           "the number of blocks is rounded up.", keys + floor * row, floor * state)  # fmt: skip
    yield ("fraction of a pass", "The number of blocks came out as a fraction. A last block that is smaller "
           "makes a whole pass over the queries.", keys + exact * row, exact * state)  # fmt: skip
    yield ("sums and maxima left out", "These are Q, K, V and O alone. The running sum and maximum of each "
           "row cross as well, at every step.",
           keys + passes * n_queries * 2 * d, passes * n_queries * d)  # fmt: skip
    yield ("output not read back", "O is read as well as written: the step goes on from what the one "
           "before left.", keys + passes * n_queries * (d + 2), passes * state)  # fmt: skip
    yield ("output written once", "O, sums and maxima are written after every block of keys, not only at "
           "the end: on chip there is no room to keep them.", keys + passes * row, state)  # fmt: skip
    yield ("blocks of the wrong loop", "The passes over the queries were counted by the blocks of queries. "
           "Which loop is outside?", keys + q_blocks * row, q_blocks * state)  # fmt: skip
    yield ("keys counted at every step", "K and V were counted for every pair of blocks. Each of their "
           "blocks is loaded before the inner loop, once.",
           q_blocks * keys + passes * row, passes * state)  # fmt: skip
    yield ("one of K and V", "Both K and V are loaded, n_keys rows of d numbers each.",
           keys // 2 + passes * row, passes * state)  # fmt: skip
    yield ("one vector left out", "Two vectors cross, the sums and the maxima: a number of each for every "
           "row.", keys + passes * n_queries * (2 * d + 1), passes * n_queries * (d + 1))  # fmt: skip
    full_rows = q_blocks * block_q
    for full_keys in (n_keys, passes * block_k):
        yield ("blocks counted full", "The last block was counted as large as the others. Only the rows that "
               "there are cross.", 2 * full_keys * d + passes * full_rows * (2 * d + 2),
               passes * full_rows * (d + 2))  # fmt: skip
    yield ("first pass not loaded", "O, sums and maxima are loaded in the first pass too, from what lies in "
           "HBM at the start.", keys + passes * row - state, passes * state)  # fmt: skip
    yield ("queries counted once", "Q was counted once. It comes by again for each block of keys: on chip "
           "there is no room to keep it.",
           keys + n_queries * d + passes * state, passes * state)  # fmt: skip
    yield ("start counted", "That O, sums and maxima lie in HBM at the start was counted as written. Count "
           "what flash_keys_outside itself stores.", keys + passes * row, (passes + 1) * state)  # fmt: skip
    yield ("the other order", "This is the traffic with the loop over queries outside. In Algorithm 1 the "
           "loop over keys is.", other.bytes_read // 8, other.bytes_written // 8)  # fmt: skip


def _as_number(value) -> float | None:
    """A finite number as a float, from a Python or a NumPy number or an array of a single one."""
    if isinstance(value, np.ndarray) and value.shape == () and value.dtype.kind in "iuf":
        value = value.item()
    if not isinstance(value, Real) or isinstance(value, bool | np.bool_):
        return None
    try:
        number = float(value)
    except (OverflowError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _two_numbers(value) -> tuple[float, float] | None:
    if isinstance(value, np.ndarray):
        value = list(value) if value.ndim == 1 and value.dtype.kind in "iuf" else None
    if not isinstance(value, tuple | list) or len(value) != 2:
        return None
    numbers = tuple(map(_as_number, value))
    return None if None in numbers else numbers


def _shown(value) -> str:
    try:
        return str(value)[:60]
    except Exception:  # Python refuses to write out a number of many thousand digits
        return f"a {type(value).__name__}"


def _judge(case: Case, seen: Observation) -> Verdict:
    expected = tuple(keys_outside_traffic(*case.given["sizes"]))
    value = _two_numbers(seen.value)
    if value is None:
        total = _as_number(seen.value)
        return failed(
            "not two numbers",
            f"Expected two numbers, (bytes read, bytes written), got {_shown(seen.value)}."
            + (" That is their sum." if total == sum(expected) else ""),
        )
    if value == expected:
        return passed()

    def alike(numbers: tuple) -> bool:
        return all(math.isclose(a, b, rel_tol=1e-12) for a, b in zip(value, numbers))

    if alike(expected):
        return failed(
            "not a whole number",
            f"Expected {expected}, got {value}: bytes are whole numbers. Which division or power left a "
            "fraction?",
        )
    if expected[0] != expected[1] and alike(expected[::-1]):
        return failed(
            "read and written exchanged", "The two numbers are right, in the wrong order."
        )
    if alike([number / 8 for number in expected]):
        return failed("numbers for bytes", "These are numbers, not bytes: each takes 8 bytes.")
    for cause, why, read, written in _mistakes(*case.given["sizes"]):
        if (8 * read, 8 * written) != expected and alike((8 * read, 8 * written)):
            return failed(cause, why)
    which = [name for name, a, b in zip(("read", "written"), value, expected) if a != b]
    told = " and ".join(which)
    got = ", ".join(say(number) for number, a in zip(value, expected) if number != a)
    wanted = ", ".join(say(a) for number, a in zip(value, expected) if number != a)
    return failed("wrong count", f"What is {told} is wrong: expected {wanted}, got {got}. Go through the "
                  "lines with `load` and `store` in 7.1, and count how often each one runs.")  # fmt: skip


EXERCISE = Exercise("7.2", "its traffic, as a formula", 2, _cases, _run, _judge)
