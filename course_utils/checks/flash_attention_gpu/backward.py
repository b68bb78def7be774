"""8.6 and 8.7: the backward pass in two kernels: dK and dV by blocks of keys, dQ by blocks of queries."""

from course_utils.checks.core import Case, Exercise, Observation, Verdict
from course_utils.checks.flash_attention_gpu import attention_inputs as given_by
from course_utils.checks.flash_attention_gpu.attention_inputs import ITEM, attention_case
from course_utils.checks.flash_attention_gpu.attention_wanted import (
    backward_wanted,
    exactly,
    stored,
)
from course_utils.checks.flash_attention_gpu.backward_mistakes import backward_mistakes
from course_utils.checks.flash_attention_gpu.forward_mistakes import exchanged_axes
from course_utils.checks.flash_attention_gpu.kernel_runs import run_kernel
from course_utils.checks.flash_attention_gpu.kernel_task import (
    KernelTask,
    Moves,
    Wanted,
    output,
    rungs,
)
from course_utils.triton_meter import Launch

_NOT_FINITE = "P is exp(score - logsumexp), at most 1: what takes part that is no query and no key?"


def _cases(seed: int) -> list[Case]:
    half, full = {"dtype": "float16"}, {"dtype": "float32"}
    return rungs(
        [
            attention_case("3 heads, 20 queries, 12 keys", 3, 20, 12, 16, 32, 16, **full),
            attention_case("48 queries and keys, square tiles", 1, 48, 48, 16, 16, 16, **half),
            attention_case("40 queries by 16, 70 keys by 32", 2, 40, 70, 32, 16, 32, **half),
            attention_case("a scale of 0.4", 2, 33, 17, 16, 32, 16, **full, scale=0.4),
            attention_case("large scores", 1, 37, 29, 16, 16, 16, **full, size=6.0),
            attention_case("130 queries, 150 keys, d = 64", 1, 130, 150, 64, 64, 64, **half),
        ],
        attention_case("", 2, 130, 130, 64, 64, 64, **half)[1],
        [
            attention_case("1,000 queries and keys", 4, 1000, 1000, 64, 64, 64, **half),
            attention_case("1,000 queries and keys", 4, 1000, 1000, 64, 64, 64, dtype="bfloat16"),
        ],
        seed,
    )


def _launch(case: Case, outputs: dict[str, str], blocks: int) -> Launch:
    """outputs: gradient -> "n_keys" or "n_queries", its rows."""
    heads, d, dtype = (case.given[name] for name in ("heads", "d", "dtype"))
    made = {name: output(heads, case.given[rows], d, dtype=dtype) for name, rows in outputs.items()}
    arguments = given_by.backward_tensors(case) | made | given_by.sizes(case)
    return Launch((blocks, heads), arguments, given_by.constexprs(case))


def _keys_launch(case: Case) -> Launch:
    return _launch(case, {"dk": "n_keys", "dv": "n_keys"}, given_by.key_blocks(case))


def _queries_launch(case: Case) -> Launch:
    return _launch(case, {"dq": "n_queries"}, given_by.query_blocks(case))


def _run_keys(answer, case: Case) -> Observation:
    return run_kernel(answer, case, _keys_launch)


def _run_queries(answer, case: Case) -> Observation:
    return run_kernel(answer, case, _queries_launch)


def _keys_wanted(case: Case) -> Wanted:
    wanted = backward_wanted(case)
    return {
        name: wanted[name] for name in ("dv", "dk")
    }  # dv needs P alone: what is wrong there is in dk


def _queries_wanted(case: Case) -> Wanted:
    return {"dq": backward_wanted(case)["dq"]}


def _bytes(case: Case) -> tuple[int, int, int]:
    """Bytes of one of q, do, dq; of one of k, v, dk, dv; of logsumexp or row_dot."""
    heads, n_queries, n_keys, d = (case.given[k] for k in ("heads", "n_queries", "n_keys", "d"))
    item = ITEM[case.given["dtype"]]
    return heads * n_queries * d * item, heads * n_keys * d * item, 4 * heads * n_queries


def _keys_moves(case: Case) -> dict[str, Moves]:
    queries_bytes, keys_bytes, vector_bytes = _bytes(case)
    blocks = given_by.key_blocks(case)
    why = "Queries come by once for each block of keys."
    moves = {name: exactly(blocks * queries_bytes, why=why) for name in ("q", "do")}
    moves |= {
        name: exactly(blocks * vector_bytes, why=why + " A vector has one number a row.")
        for name in ("logsumexp", "row_dot")
    }
    stays = "The block of keys is the program's own: its K and V are loaded once, before the loop."
    moves |= {name: exactly(keys_bytes, why=stays) for name in ("k", "v")}
    return moves | {name: stored(keys_bytes) for name in ("dk", "dv")}


def _queries_moves(case: Case) -> dict[str, Moves]:
    queries_bytes, keys_bytes, vector_bytes = _bytes(case)
    blocks = given_by.query_blocks(case)
    stays = "The block of queries is the program's own, and loaded once, before the loop."
    moves = {name: exactly(queries_bytes, why=stays) for name in ("q", "do")}
    moves |= {
        name: exactly(vector_bytes, why=stays + " A vector has one number a row.")
        for name in ("logsumexp", "row_dot")
    }
    why = "Keys come by once for each block of queries."
    moves |= {name: exactly(blocks * keys_bytes, why=why) for name in ("k", "v")}
    return moves | {"dq": stored(queries_bytes)}


def _keys_before(case: Case, seen: Observation) -> Verdict | None:
    return exchanged_axes(case, seen, given_by.key_blocks(case))


def _queries_before(case: Case, seen: Observation) -> Verdict | None:
    return exchanged_axes(case, seen, given_by.query_blocks(case))


KEYS = KernelTask(
    "flash_backward_keys_kernel", _keys_launch, _keys_wanted, backward_mistakes, _keys_moves,
    _keys_before, _NOT_FINITE,
)  # fmt: skip
QUERIES = KernelTask(
    "flash_backward_queries_kernel", _queries_launch, _queries_wanted, backward_mistakes, _queries_moves,
    _queries_before, _NOT_FINITE,
)  # fmt: skip
KEYS_EXERCISE = Exercise(
    "8.6", "backward: dK and dV", 3, _cases, _run_keys, KEYS.judge, returns_none=True, optional=True
)
QUERIES_EXERCISE = Exercise(
    "8.7", "backward: dQ", 2, _cases, _run_queries, QUERIES.judge, returns_none=True, optional=True
)
