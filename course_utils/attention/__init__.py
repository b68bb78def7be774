"""Attention as the lessons on IO measure themselves against it: dense values, and exact traffic.

dense    attention and its gradients by the formula, in float64: the oracle
masks    which keys a query sees, and which blocks of a causal mask can be skipped
traffic  bytes that tiled matrix products and the attention algorithms move, in closed form
"""

from course_utils.attention.dense import (
    dense_attention,
    dense_attention_backward,
    forward_error_bound,
)
from course_utils.attention.masks import causal_mask, first_query_that_sees, keys_seen_by
from course_utils.attention.traffic import (
    Traffic,
    backward_traffic,
    keys_outside_traffic,
    matmul_lower_bound_bytes,
    queries_outside_traffic,
    square_tile,
    standard_attention_traffic,
    tiled_matmul_traffic,
)

__all__ = [
    "Traffic",
    "backward_traffic",
    "causal_mask",
    "dense_attention",
    "dense_attention_backward",
    "first_query_that_sees",
    "forward_error_bound",
    "keys_outside_traffic",
    "keys_seen_by",
    "matmul_lower_bound_bytes",
    "queries_outside_traffic",
    "square_tile",
    "standard_attention_traffic",
    "tiled_matmul_traffic",
]
