"""8.4: the forward kernel. Values at ragged sizes, and the traffic of the loop over queries outside."""

from course_utils.checks.core import Case, Exercise, Observation, Verdict
from course_utils.checks.flash_attention_gpu import attention_inputs as given_by
from course_utils.checks.flash_attention_gpu.attention_inputs import ITEM, attention_case
from course_utils.checks.flash_attention_gpu.attention_wanted import exactly, forward_wanted, stored
from course_utils.checks.flash_attention_gpu.forward_mistakes import (
    before_forward,
    forward_mistakes,
    half_precision,
)
from course_utils.checks.flash_attention_gpu.kernel_runs import run_kernel
from course_utils.checks.flash_attention_gpu.kernel_task import KernelTask, Moves, output, rungs
from course_utils.triton_meter import Launch


def _cases(seed: int) -> list[Case]:
    half, full = {"dtype": "float16"}, {"dtype": "float32"}
    return rungs(
        [
            attention_case("3 heads, 20 queries, 40 keys", 3, 20, 40, 16, 32, 16, **full),
            attention_case("48 queries and keys, square tiles", 1, 48, 48, 16, 16, 16, **half),
            attention_case("40 queries by 16, 70 keys by 32", 2, 40, 70, 32, 16, 32, **half),
            attention_case("a scale of 0.4", 2, 33, 17, 16, 32, 16, **full, scale=0.4),
            attention_case("scores of 1,000", 1, 33, 47, 16, 32, 16, **full, size=20.0),
            attention_case(
                "scores of -1,000", 1, 33, 47, 16, 32, 16, **full, size=20.0, kind="negative"
            ),
            attention_case(
                "one key dominates", 1, 20, 256, 16, 16, 16, **half, kind="one dominates"
            ),
            attention_case("one query, 90 keys", 2, 1, 90, 16, 16, 32, **half),
            attention_case("150 queries, 200 keys, d = 64", 1, 150, 200, 64, 64, 64, **half),
        ],
        attention_case("", 2, 200, 200, 64, 64, 64, **half)[1],
        [
            attention_case("1,000 queries and keys", 4, 1000, 1000, 64, 64, 64, **half),
            attention_case("1,000 queries and keys", 4, 1000, 1000, 64, 64, 64, dtype="bfloat16"),
        ],
        seed,
    )


def forward_launch(case: Case) -> Launch:
    """Both forward kernels' arguments."""
    heads, n_queries, d = (case.given[name] for name in ("heads", "n_queries", "d"))
    arguments = given_by.as_tensors(case, given_by.inputs(case)) | {
        "out": output(heads, n_queries, d, dtype=case.given["dtype"]),
        "logsumexp": output(heads, n_queries),
    }
    grid = (given_by.query_blocks(case), heads)
    return Launch(grid, arguments | given_by.sizes(case), given_by.constexprs(case))


def _run(answer, case: Case) -> Observation:
    return run_kernel(answer, case, forward_launch)


def _moves(case: Case) -> dict[str, Moves]:
    heads, n_queries, n_keys, d = (case.given[k] for k in ("heads", "n_queries", "n_keys", "d"))
    row_bytes = heads * d * ITEM[case.given["dtype"]]
    keys_bytes = given_by.query_blocks(case) * n_keys * row_bytes
    why = "K and V come by once for each block of queries: a tile serves all rows of the block."
    return {
        "q": exactly(n_queries * row_bytes, why="A block of queries is loaded once and stays."),
        "k": exactly(keys_bytes, why=why),
        "v": exactly(keys_bytes, why=why),
        "out": stored(n_queries * row_bytes),
        "logsumexp": stored(4 * heads * n_queries),
    }


def _before(case: Case, seen: Observation) -> Verdict | None:
    return before_forward(case, seen) or half_precision(case, seen, forward_wanted(case))


TASK = KernelTask(
    "flash_forward_kernel", forward_launch, forward_wanted, forward_mistakes, _moves,
    _before, "exp of a large score overflows, unless the row's largest so far is subtracted first; "
    "all exp are 0 if that is no score of the row but a 0 of yours, far above them; and "
    "-inf - (-inf) is nan.",
)  # fmt: skip
EXERCISE = Exercise("8.4", "the forward kernel", 4, _cases, _run, TASK.judge, returns_none=True)
