"""Which keys a query may see in causal attention, and so which blocks need not be loaded.

With as many queries as keys there is one answer: query i sees keys 0 to i. With fewer queries there are
two. We align the mask at the bottom right: the queries are the *last* ones of the sequence, as when text
is generated and the earlier keys lie in a cache, and the last query sees every key. FlashAttention does so
since version 2.1. PyTorch's `is_causal=True` aligns at the top left; give it a mask to compare.

With more queries than keys, the first n_queries - n_keys of them see nothing at all. What attention is
then, `dense` says.
"""

import numpy as np


def causal_mask(n_queries: int, n_keys: int) -> np.ndarray:
    """True where query i sees key j: j <= i + n_keys - n_queries. Shape (n_queries, n_keys)."""
    query = np.arange(n_queries)[:, None]
    key = np.arange(n_keys)[None, :]
    return key <= query + n_keys - n_queries


def keys_seen_by(query: int, n_queries: int, n_keys: int) -> int:
    """How many keys this query sees: always the first so many. The later a query, the more."""
    return min(max(query + 1 + n_keys - n_queries, 0), n_keys)


def first_query_that_sees(key: int, n_queries: int, n_keys: int) -> int:
    """The first query that sees this key; all later ones do too. 0 where every query does."""
    return max(key - (n_keys - n_queries), 0)
