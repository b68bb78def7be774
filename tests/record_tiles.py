"""Record the runs that `course_utils.widgets.tiles` shows: python -m tests.record_tiles

The programs are answers to exercises, so they and this stand beside the tests; the course carries what they
did. A test holds the stored records against fresh ones.
"""

import json
from collections.abc import Callable, Iterator

import numpy as np

from course_utils.attention.traffic import (
    Traffic,
    keys_outside_traffic,
    queries_outside_traffic,
    tiled_matmul_traffic,
)
from course_utils.hierarchy import HBM, SRAM
from course_utils.widgets import tiles
from course_utils.widgets.packed_events import pack
from tests.attention_on_chip import flash_keys_outside, flash_queries_outside, tiled_matmul

ROOMY = 10**6  # bytes: nothing overflows; the widget says at which capacity it would
Run = tuple[
    str, Traffic, Callable[[int], SRAM]
]  # key, closed form, the run on a chip of so many bytes


def product_runs() -> Iterator[Run]:
    (m, k), (_, n) = tiles.PRODUCT["A"], tiles.PRODUCT["B"]

    def run(tile: int, capacity_bytes: int) -> SRAM:
        hbm = HBM()
        A, B = (hbm.array(np.ones(tiles.PRODUCT[name]), name) for name in "AB")
        C = hbm.empty((m, n), name="C")
        with SRAM(capacity_bytes, hbm, record=True) as sram:
            tiled_matmul(sram, A, B, C, tile, tile, tile)
        return sram

    for tile in tiles.TILES:
        formula = tiled_matmul_traffic(m, n, k, tile, tile)
        yield f"{tile}", formula, lambda capacity, tile=tile: run(tile, capacity)


def attention_runs() -> Iterator[Run]:
    n, d = tiles.ATTENTION["Q"]
    random = np.random.default_rng(7)
    inputs = {name: random.standard_normal((n, d)) for name in "QKV"}

    def run(order: str, is_causal: bool, block_q: int, block_k: int, capacity_bytes: int) -> SRAM:
        hbm = HBM()
        arrays = [hbm.array(values, name) for name, values in inputs.items()]
        arrays.append(hbm.zeros((n, d), name="O"))
        if order == "keys":
            arrays += [hbm.zeros(n, name="row_sums"), hbm.full(n, -np.inf, name="row_maxima")]
            program = flash_keys_outside
        else:
            arrays.append(hbm.empty(n, name="logsumexp"))
            program = flash_queries_outside
        with SRAM(capacity_bytes, hbm, record=True) as sram:
            program(sram, *arrays, block_q, block_k, d**-0.5, causal=is_causal)
        return sram

    closed_forms = {"keys": keys_outside_traffic, "queries": queries_outside_traffic}
    for order, closed_form in closed_forms.items():
        for mask in tiles.MASKS:
            for block_q in tiles.BLOCKS:
                for block_k in tiles.BLOCKS:
                    setting = order, mask == "causal", block_q, block_k
                    formula = closed_form(n, n, d, block_q, block_k, causal=setting[1])
                    key = f"{order}/{mask}/{block_q}/{block_k}"
                    yield key, formula, lambda capacity, setting=setting: run(*setting, capacity)


RECORDED = {"tiled_product": product_runs, "flash_attention": attention_runs}


def record(name: str) -> dict:
    """{"subjects": [...], "runs": {key: codes}}, as the trace's file holds it."""
    subjects: dict = {}
    runs = {key: pack(run(ROOMY).events, subjects) for key, _, run in RECORDED[name]()}
    return {"subjects": list(subjects), "runs": runs}


def write(name: str) -> None:
    """The record as JSON, a line a run."""
    fresh = record(name)
    short = {"separators": (",", ":")}
    runs = ",\n".join(f'"{key}":{json.dumps(run, **short)}' for key, run in fresh["runs"].items())
    subjects = json.dumps(fresh["subjects"], **short)
    text = f'{{"subjects":{subjects},\n"runs":{{\n{runs}}}}}\n'
    (tiles.TRACES / f"{name}.json").write_text(text, "utf-8")


if __name__ == "__main__":
    for each in RECORDED:
        write(each)
