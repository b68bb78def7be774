"""Tiles in motion: step through a product or an attention on the counting memory, and watch what crosses.

What a program moves is decided by what it keeps. The drawing shows both at once: which tiles are on chip, against
its capacity, and what crosses, against the closed form. Everything drawn comes from recorded events. A run
needs no particular capacity, it only needs enough: so one record serves every capacity, and where a chip would
be too small the drawing stops as the chip does, at the first event that goes beyond it.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace

from course_utils import flash_plots, tiling_plots
from course_utils.attention import traffic
from course_utils.hierarchy import SRAM, Event
from course_utils.widgets.base import show, table
from course_utils.widgets.packed_events import pack, unpack
from course_utils.widgets.tile_places import is_product, place_matrices

__all__ = ["motion_data", "step_through_flash", "step_through_product", "tiles_in_motion"]

TRACES = Path(__file__).with_name("traces")
EVENTS_AT_MOST = 6000  # of one's own run: later ones are left out

PRODUCT = {"A": (24, 40), "B": (40, 32), "C": (24, 32)}
TILES = (8, 10, 12, 16, 20, 24, 40)
PRODUCT_CAPACITIES = (1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576)

ATTENTION = {"Q": (48, 16), "K": (48, 16), "V": (48, 16), "O": (48, 16)}
VECTORS = {"row_sums": (48,), "row_maxima": (48,), "logsumexp": (48,)}
BLOCKS = (8, 16, 32, 48)
ORDERS = {"keys": "keys (Algorithm 1)", "queries": "queries"}
MASKS = {"no": "every key", "causal": "keys up to its own (causal)"}
ATTENTION_CAPACITIES = (4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152)


def tiles_in_motion(
    chip: SRAM,
    title: str = "Your run",
    formula: traffic.Traffic | None = None,
    at: Sequence[int] = range(8),
) -> None:
    """Show your own recorded run: of a product (A, B, C), or of an attention (Q, K, V, O).

    chip: an SRAM made with `record=True`, after its program. formula: the closed form to meet, in bytes.
    at: which moments of a product the figure in its stead shows. Raises ValueError for any other run.
    """
    events = chip.events
    if not events:
        raise ValueError("nothing was recorded: make the chip with SRAM(..., record=True)")
    shapes = _shapes(events)
    if not (is_product(shapes) or {"Q", "K"} <= set(shapes)):
        raise ValueError(
            f"no product of A and B, and no attention: the run moved {', '.join(shapes)}"
        )
    subjects: dict = {}
    runs = {"": pack(events[:EVENTS_AT_MOST], subjects)}
    cut = len(events) - EVENTS_AT_MOST
    data = motion_data(shapes, list(subjects), runs, {"": formula} if formula else {})
    data |= {"title": title, "capacities": [], "capacity": chip.capacity_bytes}
    if cut > 0:
        data["note"] = f"The first {EVENTS_AT_MOST:,} events of {len(events):,}."
    rows = [_row(title, events, formula)]
    show("tiles_in_motion", data, lambda: _figure([chip], [title], shapes, at), _table(title, rows))


def step_through_product() -> None:
    """Show a tiled product, recorded, with the tile and the capacity as sliders."""
    data, title = product_data(), "A tiled product, 24 x 40 times 40 x 32"
    every = _events(data)
    rows = [_row(f"{tile} x {tile}", every[f"{tile}"], _formula(data, f"{tile}")) for tile in TILES]
    chip = SimpleNamespace(events=every["16"], capacity_bytes=6144)
    show(
        "tiles_in_motion",
        data | {"title": title},
        lambda: _figure([chip], ["Tiles of 16 x 16"], PRODUCT, range(8)),
        _table(title, rows, "tile"),
    )


def step_through_flash() -> None:
    """Show FlashAttention, recorded: the order of its loops, blocks, mask and capacity to choose."""
    data, title = flash_data(), "FlashAttention, 48 queries and 48 keys of 16 numbers"
    every = _events(data)
    keys = {order: f"{order}/no/16/16" for order in ORDERS}
    rows = [
        _row(f"{ORDERS[order]} outside, {MASKS[mask]}, {q} x {k}", every[key], _formula(data, key))
        for key in every
        for order, mask, q, k in [key.split("/")]
        if q == k and (mask == "no" or q == "16")
    ]
    told = f"{title}: {len(rows)} of the {len(every)} runs to choose from"
    chips = [SimpleNamespace(events=every[key]) for key in keys.values()]
    show(
        "tiles_in_motion",
        data | {"title": title},
        lambda: _figure(chips, [f"{ORDERS[order]} outside" for order in keys], ATTENTION, ()),
        _table(told, rows, "run (block of queries x block of keys)"),
    )


def product_data() -> dict:
    """The recorded products: a run for each tile, "16" being of 16 x 16."""
    (m, k), (_, n) = PRODUCT["A"], PRODUCT["B"]
    formulas = {f"{tile}": traffic.tiled_matmul_traffic(m, n, k, tile, tile) for tile in TILES}
    tile = {"label": "Size of a tile", "values": TILES, "words": "{} x {}", "start": "16"}
    return motion_data(PRODUCT, **_recorded("tiled_product"), formulas=formulas) | {
        "controls": [tile],
        "capacities": PRODUCT_CAPACITIES,
        "capacity": 6144,
    }


def flash_data() -> dict:
    """The recorded attentions: "keys/causal/16/32" has the loop over keys outside, and these blocks."""
    n, d = ATTENTION["Q"]
    closed_forms = {
        "keys": traffic.keys_outside_traffic,
        "queries": traffic.queries_outside_traffic,
    }
    record, formulas = _recorded("flash_attention"), {}
    for key in record["runs"]:
        order, mask, *blocks = key.split("/")
        formulas[key] = closed_forms[order](n, n, d, *map(int, blocks), causal=mask == "causal")
    size = {"values": BLOCKS, "words": "{}", "start": "16"}
    return motion_data(ATTENTION | VECTORS, **record, formulas=formulas) | {
        "controls": [
            {"label": "Loop outside", "options": ORDERS, "start": "keys"},
            {"label": "A query sees", "options": MASKS, "start": "no"},
            size | {"label": "Queries in a block"},
            size | {"label": "Keys in a block"},
        ],
        "capacities": ATTENTION_CAPACITIES,
        "capacity": 16384,
    }


def motion_data(
    shapes: Mapping[str, tuple[int, ...]],
    subjects: Sequence,
    runs: Mapping[str, list[int]],
    formulas: Mapping[str, traffic.Traffic],
) -> dict:
    """What the script reads: arrays in HBM and their places, packed runs, and their closed forms in bytes.

    A run's key joins the values of the controls by "/". formulas: may lack a run, which then has no second bar.
    """
    moved = [_moved(unpack(codes, subjects)) for codes in runs.values()]
    return {
        "arrays": shapes,
        **place_matrices(shapes),
        "subjects": subjects,
        "runs": runs,
        "formulas": formulas,
        "most": max([*moved, *(sum(formula) for formula in formulas.values()), 1]),
        "controls": [],
        "note": "",
    }


@cache
def _recorded(name: str) -> dict:
    return json.loads((TRACES / f"{name}.json").read_text("utf-8"))


def _events(data: dict) -> dict[str, list[Event]]:
    return {key: list(unpack(codes, data["subjects"])) for key, codes in data["runs"].items()}


def _formula(data: dict, key: str) -> traffic.Traffic:
    return traffic.Traffic(*data["formulas"][key])


def _shapes(events: Sequence[Event]) -> dict[str, tuple[int, ...]]:
    """The arrays that a run moved, as far as it went into them, in the order of their letters."""
    shapes: dict[str, tuple[int, ...]] = {}
    for event in events:
        if event.box and event.kind != "free":
            stops = tuple(stop for _, stop in event.box)
            shapes[event.name] = tuple(map(max, stops, shapes.get(event.name, stops)))
    return {
        name: shapes[name]
        for name in sorted(shapes, key=lambda name: ("ABCQKVSPO" + name).index(name))
    }


def _figure(chips: Sequence, titles: Sequence[str], shapes: Mapping, at: Sequence[int]) -> None:
    if is_product(shapes):
        (m, k), n, chip = shapes["A"], shapes["B"][1], chips[0]
        tiling_plots.tile_frames(chip.events, (m, n, k), chip.capacity_bytes, at, titles[0])
    else:
        flash_plots.tiles_in_time(*chips, titles=titles)


def _row(name: str, events: Sequence[Event], formula: traffic.Traffic | None) -> list[object]:
    """A run in figures, as `_table` heads them."""
    loads, stores = ([e.nbytes for e in events if e.kind == kind] for kind in ("load", "store"))
    figures = [len(loads), len(stores), sum(loads), sum(stores), _moved(events)]
    figures += [formula.bytes_moved if formula else "", max(e.live_bytes for e in events)]
    return [name, *(f"{figure:,}" if figure != "" else "" for figure in figures)]


def _moved(events: Iterable[Event]) -> int:
    return sum(event.nbytes for event in events if event.kind in ("load", "store"))


def _table(title: str, rows: list[list[object]], what: str = "run") -> str:
    heads = [what, "loads", "stores", "bytes read", "bytes written", "bytes moved", "closed form"]
    return table(title, [*heads, "most bytes on chip"], rows)
