"""What the attention kernels are given, and with which launch. No value that a kernel is to find is here.

Everything is made in the type of the case and then taken as exact: the oracle (`attention_wanted`) is float64 on
those numbers.
"""

import math

import numpy as np

from course_utils.checks.core import Case
from course_utils.triton_meter import Tensor

ITEM = {"float32": 4, "float16": 2, "bfloat16": 2}  # bytes


def attention_case(
    name: str, heads: int, n_queries: int, n_keys: int, d: int, *blocks: int, **more
) -> tuple[str, dict]:
    """A case's name and what it is given. In `more`: scale, if not 1 / sqrt(d); size, of q's and k's numbers; kind:
    "normal"; "negative", with all scores below 0; "one dominates", see `_one_dominates`.
    """
    given = {"heads": heads, "n_queries": n_queries, "n_keys": n_keys, "d": d, "blocks": blocks}
    given |= {"scale": d**-0.5, "size": 1.0, "dtype": "float16", "kind": "normal"} | more
    return f"{name}, {given['dtype']}" if name else given["dtype"], given


def round_to(values: np.ndarray, dtype: str) -> np.ndarray:
    """Values as numbers of this type. bfloat16 is kept in float32, of which it is the upper half."""
    if dtype != "bfloat16":
        return values.astype(dtype)
    bits = values.astype(np.float32).view(np.uint32)
    bits = bits + 0x7FFF + ((bits >> 16) & 1)  # to the nearest, ties to even
    return (bits & np.uint32(0xFFFF0000)).view(np.float32)


def normal(case: Case, rows: int, stream: int, size: float = 1.0) -> np.ndarray:
    """(heads, rows, d) normal numbers in the case's type, the same for the same case and stream."""
    shape = (case.given["heads"], rows, case.given["d"])
    rng = np.random.default_rng([case.given["seed"], stream, *shape])
    return round_to(size * rng.standard_normal(shape), case.given["dtype"])


def inputs(case: Case) -> dict[str, np.ndarray]:
    """q (heads, n_queries, d), k and v (heads, n_keys, d), in the case's type."""
    if case.given["kind"] == "one dominates":
        return _one_dominates(case)
    size = case.given["size"]
    q, k = (
        normal(case, case.given["n_queries"], 1, size),
        normal(case, case.given["n_keys"], 2, size),
    )
    if case.given["kind"] == "negative":
        q, k = np.abs(q), -np.abs(k)
    return {"q": q, "k": k, "v": normal(case, case.given["n_keys"], 3)}


def _one_dominates(case: Case) -> dict[str, np.ndarray]:
    """The first key has all but a hundredth of every query's weight, the others share it: their parts are each below
    what a float16 sum near 1 can hold, and together well above a rounding. All scores are exact.
    """
    heads, d = case.given["heads"], case.given["d"]
    q, k, v = (np.zeros((heads, case.given[rows], d)) for rows in ("n_queries", "n_keys", "n_keys"))
    q[..., 0], k[:, 0, 0] = 8.0, 9.8125 / (8 * case.given["scale"])
    v[...], v[:, 0] = 0.5, 1.0
    return {name: round_to(x, case.given["dtype"]) for name, x in {"q": q, "k": k, "v": v}.items()}


def as_tensors(case: Case, arrays: dict[str, np.ndarray]) -> dict[str, Tensor]:
    return {name: Tensor(array, case.given["dtype"]) for name, array in arrays.items()}


def sizes(case: Case) -> dict:
    """The numbers after the tensors, as every attention kernel takes them."""
    return {name: case.given[name] for name in ("n_queries", "n_keys", "scale")}


def constexprs(case: Case) -> dict[str, int]:
    block_q, block_k = case.given["blocks"]
    return {"d": case.given["d"], "block_q": block_q, "block_k": block_k}


def query_blocks(case: Case) -> int:
    return math.ceil(case.given["n_queries"] / case.given["blocks"][0])


def key_blocks(case: Case) -> int:
    return math.ceil(case.given["n_keys"] / case.given["blocks"][1])


def backward_inputs(case: Case) -> dict[str, np.ndarray]:
    """q, k, v and dO in the case's type; logsumexp and row_dot in float32."""
    arrays = inputs(case) | {"do": normal(case, case.given["n_queries"], 4)}
    q, k, v, grad_o = (array.astype(np.float64) for array in arrays.values())
    s = case.given["scale"] * q @ k.swapaxes(1, 2)
    top = s.max(axis=-1, keepdims=True)
    logsumexp = top + np.log(np.exp(s - top).sum(axis=-1, keepdims=True))
    row_dot = (np.exp(s - logsumexp) * (grad_o @ v.swapaxes(1, 2))).sum(axis=-1)  # dO . O
    both = {"logsumexp": logsumexp[..., 0], "row_dot": row_dot}
    return arrays | {name: vector.astype(np.float32) for name, vector in both.items()}


def backward_tensors(case: Case) -> dict[str, Tensor]:
    arrays = backward_inputs(case)
    return {
        name: Tensor(array, "float32" if array.ndim == 2 else case.given["dtype"])
        for name, array in arrays.items()
    }
