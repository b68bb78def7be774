"""What the usual slips of attention row by row give: each is dense attention with one thing wrong.

The judge of 5.5 compares an answer with them: one that shows the same numbers has very likely made the
same slip, and can be told so by name.
"""

from collections.abc import Iterator

import numpy as np

from course_utils.checks.online_softmax.oracle import whole_rows

INF = float("inf")


def attention(q, k, v, last_seen: int | None = None) -> np.ndarray:
    """Dense attention in float64; row t sees the columns up to t + last_seen (None: all)."""
    scores = q @ k.T
    if last_seen is not None:
        scores[~np.tri(len(q), k=last_seen, dtype=bool)] = -INF
    return whole_rows(scores, v).output


def mistakes(q, k, v, causal: bool) -> Iterator[tuple[str, str, list]]:
    """(cause, why, [what it gives]) of the usual slips, in the order in which they are looked for."""
    last_seen = 0 if causal else None
    scores = q @ k.T
    seen = np.tri(len(q), dtype=bool) if causal else np.ones(scores.shape, dtype=bool)
    masked = np.where(seen, np.exp(scores), 0)
    if causal:
        yield from _of_the_mask(q, k, v, scores, seen)
    else:
        yield (
            "mask without causal",
            "Row t sees the tokens 0 to t only. That is for causal=True; here each row sees all tokens.",
            [attention(q, k, v, last_seen=0)],
        )
    yield (
        "scaled scores",
        "The scores were divided by the root of d. Here the scale is in q already.",
        [attention(q / np.sqrt(q.shape[1]), k, v, last_seen)],
    )
    if np.isposinf(np.exp(scores)).any():
        why = "This is what exp of the scores themselves gives, and it overflows."
        yield "no maximum subtracted", why, [masked / masked.sum(axis=1, keepdims=True) @ v]
        yield "no maximum subtracted", why, [np.array([row / row.sum() @ v for row in masked])]
    yield from _of_the_maximum(v, scores, seen)
    yield (
        "not divided by the sum",
        "These are sums of exponentials times values. The row's sum of exponentials is missing.",
        [whole_rows(np.where(seen, scores, -INF), v).weighted],
    )
    yield "not divided by the sum", "exp(scores) v: the row's sum is missing.", [masked @ v]
    if not causal:
        yield (
            "queries and keys exchanged",
            "Row t came out as a mean over the queries, for key t.",
            [attention(k, q, v)],
        )


def _of_the_mask(q, k, v, scores, seen):
    n = len(q)
    for number in (-10.0, -100.0, -1e3, -1e4, -1e5) if n <= 100 else ():
        for stand_in in (np.where(seen, scores, number), np.where(seen, scores, scores + number)):
            yield (
                "masked with a number",
                "The masked scores were set to a number, or a number was added to them, and they are still "
                "not below all others. Any finite number is too high for some scores: -inf never is.",
                [whole_rows(stand_in, v).output],
            )
    yield (
        "mask ignored",
        "With causal=True every row still sees every token. Row t sees the tokens 0 to t.",
        [attention(q, k, v)],
    )
    for off in (-1, 1):
        fault = "its own token is missing" if off < 0 else "it sees one token of the future"
        why = f"The mask is off by one: row t sees the tokens 0 to t, and here {fault}."
        output = attention(q, k, v, last_seen=off)
        yield "mask off by one", why, [output]
        if off < 0:
            output[0] = np.nan
            yield "mask off by one", why, [output]
    unmasked = np.exp(scores - scores.max(axis=1, keepdims=True))
    yield (
        "masked after the sum",
        "The masked probabilities were set to zero after the row had been divided by its sum: what "
        "remains does not add up to 1.",
        [np.tril(unmasked / unmasked.sum(axis=1, keepdims=True)) @ v],
    )
    yield (
        "mask the wrong way",
        "Each row sees its own token and the future. Row t sees the tokens 0 to t.",
        [whole_rows(np.where(seen.T, scores, -INF), v).output],
    )
    if np.abs(scores).max() < 100:
        yield (
            "masked with 0",
            "The masked scores were set to 0, not to -inf. exp(0) is 1: such tokens still count.",
            [whole_rows(np.tril(scores), v).output],
        )
    for tile in (2, 4, 8, 10, 16, 20, 32, 50, 64):
        if 1 < tile < n <= 100:
            local = np.arange(n) <= np.arange(n)[:, None] % tile
            yield (
                "mask counts from the block",
                f"The mask begins anew every {tile} rows. Row t sees the tokens 0 to t, with t counted from "
                "the first of all rows.",
                [whole_rows(np.where(local, scores, -INF), v).output],
            )


def _of_the_maximum(v, scores, seen):
    """Counted from something that may be far above a row's largest score: all exponentials are 0."""
    kept = np.where(seen, scores, -INF)
    n, own = len(scores), kept.max(axis=1)
    origins = [
        (
            "maximum before the mask",
            "The maximum was taken over scores that the row does not see.",
            scores.max(axis=1),
        ),
        (
            "maximum not below 0",
            "What was subtracted is never below 0, and this row's scores are.",
            np.maximum(own, 0),
        ),
    ]
    for tile in (2, 4, 8, 16, 32, 64, n):
        if tile <= n <= 100:
            shared = np.repeat([own[i : i + tile].max() for i in range(0, n, tile)], tile)[:n]
            why = "Several rows share one maximum, and this row's scores are far below it."
            origins.append(("one maximum for several rows", why, shared))
    for cause, why, origin in origins:
        weights = np.exp(kept - origin[:, None])
        bare = weights @ v / weights.sum(axis=1, keepdims=True)
        for output in (bare, np.nan_to_num(bare)):
            yield cause, f"{why} All its exponentials are then 0, and so is their sum.", [output]
