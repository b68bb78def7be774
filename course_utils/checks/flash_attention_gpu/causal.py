"""8.5: the causal kernel. The mask shows in the values, blocks that it makes needless in the traffic."""

from collections.abc import Iterator

import numpy as np

from course_utils.attention import keys_seen_by
from course_utils.checks.core import Case, Exercise, Observation, Verdict, failed
from course_utils.checks.flash_attention_gpu.attention_inputs import (
    ITEM,
    attention_case,
)
from course_utils.checks.flash_attention_gpu.attention_wanted import (
    Scores,
    forward_wanted,
    scores,
    stored,
)
from course_utils.checks.flash_attention_gpu.forward import forward_launch
from course_utils.checks.flash_attention_gpu.forward_mistakes import (
    before_forward,
    forward_mistakes,
    half_precision,
)
from course_utils.checks.flash_attention_gpu.kernel_runs import run_kernel
from course_utils.checks.flash_attention_gpu.kernel_task import (
    KernelTask,
    Mistake,
    Moves,
    Wanted,
    rungs,
)


def _cases(seed: int) -> list[Case]:
    half, full = {"dtype": "float16"}, {"dtype": "float32"}
    return rungs(
        [
            attention_case("3 heads, 20 queries, 68 keys", 3, 20, 68, 16, 16, 16, **full),
            attention_case("3 heads, 40 queries and keys", 3, 40, 40, 16, 32, 16, **full),
            attention_case("64 queries and keys, blocks of 16", 1, 64, 64, 16, 16, 16, **half),
            attention_case("70 queries by 32, 70 keys by 16", 1, 70, 70, 32, 32, 16, **half),
            attention_case("70 queries by 16, 70 keys by 32", 1, 70, 70, 16, 16, 32, **half),
            attention_case("32 queries, 33 keys", 1, 32, 33, 16, 16, 16, **half),
            attention_case(
                "75 queries, 40 keys: the first see nothing", 1, 75, 40, 16, 16, 16, **half
            ),
            attention_case("scores of 1,000", 1, 33, 47, 16, 16, 16, **full, size=20.0),
            attention_case(
                "scores of -1,000", 1, 33, 47, 16, 16, 16, **full, size=20.0, kind="negative"
            ),
            attention_case(
                "one key dominates", 1, 20, 256, 16, 16, 16, **half, kind="one dominates"
            ),
            attention_case("150 queries, 200 keys, d = 64", 1, 150, 200, 64, 64, 64, **half),
        ],
        attention_case("", 2, 200, 200, 64, 64, 64, **half)[1],
        [
            attention_case("1,000 queries, 1,100 keys", 4, 1000, 1100, 64, 64, 64, **half),
            attention_case("1,000 queries and keys", 4, 1000, 1000, 64, 64, 64, dtype="bfloat16"),
        ],
        seed,
    )


def _run(answer, case: Case) -> Observation:
    return run_kernel(answer, case, forward_launch)


def _wanted(case: Case) -> Wanted:
    return forward_wanted(case, causal=True)


def _masks(case: Case) -> Iterator[tuple[str, str, np.ndarray]]:
    """(cause, why, what is visible) of the usual other masks."""
    n_queries, n_keys = case.given["n_queries"], case.given["n_keys"]
    block_q, block_k = case.given["blocks"]
    query, key = np.arange(n_queries)[:, None], np.arange(n_keys)[None, :]
    behind = n_keys - n_queries
    last_of_block = np.minimum((query // block_q + 1) * block_q, n_queries) - 1
    first_of_block = key // block_k * block_k
    beyond = (
        "A query was allowed to see {}. The last query sees the last key, and none after its own."
    )
    yield "no mask", "Every query sees every key here.", (key >= 0) & (query >= 0)
    yield ("diagonal block not masked", "Blocks of keys were skipped or taken whole. The block that the "
           "diagonal crosses holds visible and hidden keys.", first_of_block <= last_of_block + behind)  # fmt: skip
    yield ("diagonal block left out", "The blocks that the diagonal crosses were left out. They hold visible "
           "keys as well.", first_of_block + block_k - 1 <= query // block_q * block_q + behind)  # fmt: skip
    yield ("mask off by one", "No query sees its own key here. It does.", key < query + behind)
    loaded = (
        first_of_block <= last_of_block + behind
    )  # where the blocks are skipped as they should be
    after = beyond.format("the key after its own")
    yield "mask off by one", after, key <= query + behind + 1
    yield "mask off by one", after, (key <= query + behind + 1) & loaded
    if behind:
        yield ("aligned at the top left", "The first query sees the first key alone here, as in PyTorch. "
               "Aligned at the bottom right, the last query sees the last key: query i sees keys up to "
               "i + n_keys - n_queries.", key <= query)  # fmt: skip
        yield ("aligned the wrong way", "The difference n_keys - n_queries has the wrong sign.",
               key <= query - behind)  # fmt: skip
    for visible in (key >= query + behind, (key >= query + behind) & loaded):
        yield "mask turned round", "Every query sees the keys from its own on.", visible
    yield ("skipped too early", "The loop ends one key too soon: a block of which the last query sees just the first "
           "key was left out.", (key <= query + behind) & (first_of_block < last_of_block + behind))  # fmt: skip
    yield ("block numbers compared", "The numbers of the blocks were compared, as if both kinds had the same "
           "size. Compare positions of queries and keys.",
           (key // block_k <= query // block_q) & (key <= query + behind))  # fmt: skip
    yield ("skipped too early", "Keys were skipped that a later query of the block still sees. A block of keys "
           "is needless only if even the last query of the block sees none of it.",
           (key <= query + behind) & (first_of_block <= query // block_q * block_q + behind)
           & (key <= query // block_q * block_q + behind))  # fmt: skip


def _mistakes(case: Case) -> Iterator[Mistake]:
    at = scores(case)
    for cause, why, visible in _masks(case):
        yield cause, why, _with_mask(at, visible)
    yield from forward_mistakes(case, causal=True)


def _with_mask(at: Scores, visible: np.ndarray) -> dict[str, np.ndarray]:
    s = np.where(visible, at.s, -np.inf)
    top = np.where(visible.any(axis=1), s.max(axis=-1), 0.0)[..., None]
    p = np.exp(s - top)
    total = p.sum(axis=-1, keepdims=True)
    return {
        "out": (p / np.where(total > 0, total, 1.0)) @ at.v,
        "logsumexp": (np.log(total) + top)[..., 0],
    }


def _before(case: Case, seen: Observation) -> Verdict | None:
    """Rows that see nothing, where the quotient is 0 / 0, and the mean of hidden values comes cheap."""
    empty = max(0, case.given["n_queries"] - case.given["n_keys"])
    if wrong := before_forward(case, seen):
        return wrong
    if wrong := half_precision(case, seen, _wanted(case)):
        return wrong
    if not empty or any((writers < 0).any() for writers in seen.more["writers"].values()):
        return None
    out, logsumexp = seen.value["out"][:, :empty], seen.value["logsumexp"][:, :empty]
    if np.array_equal(out, np.zeros_like(out)) and (logsumexp == -np.inf).all():
        return None
    others = seen.value["out"][:, empty:].astype(np.float64)
    wanted, tolerance = _wanted(case)["out"]
    if not (np.abs(others - wanted[:, empty:]) <= tolerance).all():
        return None  # something larger is wrong
    what = "nan" if np.isnan(out).any() or np.isnan(logsumexp).any() else "neither 0 nor -inf"
    return failed(
        "rows that see nothing",
        f"The first {empty} queries see no key at all. Their out is to be 0 and their logsumexp -inf, and "
        f"here something is {what}. Which of your steps subtracts -inf from -inf, or divides by 0?",
    )


def _moves(case: Case) -> dict[str, Moves]:
    heads, n_queries, n_keys, d = (case.given[k] for k in ("heads", "n_queries", "n_keys", "d"))
    block_q, block_k = case.given["blocks"]
    row_bytes = heads * d * ITEM[case.given["dtype"]]
    seen_keys = [
        keys_seen_by(min(start + block_q, n_queries) - 1, n_queries, n_keys)
        for start in range(0, n_queries, block_q)
    ]
    whole = [min(-(-keys // block_k) * block_k, n_keys) for keys in seen_keys]
    least_q = min(n_queries, n_keys)  # who sees nothing need not be loaded
    keys = Moves(
        (sum(seen_keys) * row_bytes, sum(whole) * row_bytes),
        why="Blocks of keys that no query of the block sees are not loaded. Where does the loop over keys end?",
        cause="blocks not skipped",
    )
    return {
        "q": Moves(
            (least_q * row_bytes, n_queries * row_bytes), why="A block of queries is loaded once."
        ),
        "k": keys,
        "v": keys,
        "out": stored(n_queries * row_bytes),
        "logsumexp": stored(4 * heads * n_queries),
    }


def _judge(case: Case, seen: Observation) -> Verdict:
    """As any kernel; and blocks that were not loaded must not be multiplied either."""
    verdict = TASK.judge(case, seen)
    if not verdict.passed or case.given["rung"] != "interpreter":
        return verdict
    n_queries, n_keys, d = (case.given[name] for name in ("n_queries", "n_keys", "d"))
    block_q, block_k = case.given["blocks"]
    seen_keys = (
        keys_seen_by(min(start + block_q, n_queries) - 1, n_queries, n_keys)
        for start in range(0, n_queries, block_q)
    )
    pairs = case.given["heads"] * sum(-(-keys // block_k) for keys in seen_keys)
    done = sum(
        dot["times"]
        for dot in seen.more["dots"]
        if dot["m"] * dot["n"] * dot["k"] == block_q * block_k * d
    )
    if done <= 2 * pairs * 1.25:
        return verdict
    return failed(
        "blocks not skipped",
        f"{done} tile products were made, and {2 * pairs} are enough: two for each pair of blocks in which any query "
        "sees any key. Lanes that are masked off are not loaded, but multiplied all the same. Where does the "
        "loop over keys end?",
        **verdict.measured,
    )


TASK = KernelTask(
    "flash_causal_kernel", forward_launch, _wanted, _mistakes, _moves, _before,
    "exp of a large score overflows, unless the row's largest so far is subtracted first; "
    "all exp are 0 if that is no score of the row but a 0 of yours, far above them; and -inf - (-inf) is "
    "nan: has a row seen any key yet?",
)  # fmt: skip
EXERCISE = Exercise(
    "8.5", "causal, whole blocks skipped", 2, _cases, _run, _judge, returns_none=True
)
