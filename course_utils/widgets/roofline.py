"""The roofline to move under: what a machine lets an operation do, as its sizes grow.

An operation's intensity follows from its sizes; a roof then says how fast it can be at most. Both are laid
down here, for every N and D of two sliders, so that the drawing only looks them up. What was measured stands
beside what is possible, and never moves without a measurement.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from course_utils import tiling_plots
from course_utils.attention import standard_attention_traffic, traffic
from course_utils.widgets.base import show, table

__all__ = ["OPERATIONS", "move_under_roofs", "record_data", "roofline_data", "rungs_under_roof"]

NS = tuple(2**e for e in range(5, 18))
DS = (16, 32, 64, 128, 256)
BLOCK = 64  # queries of a block, where blocks matter
START = 4096, 64  # N, D


class Operation(NamedTuple):
    """What it is called, and its (operations, numbers that cross) for N and D."""

    name: str
    cost: Callable[[int, int], tuple[float, float]]

    def intensity(self, n: int, d: int) -> float:
        """Operations for each number that crosses: divided by the bytes of a number, the intensity."""
        flops, numbers = self.cost(n, d)
        return flops / numbers


def _standard(n: int, d: int) -> tuple[float, float]:
    """Algorithm 0 (L12-46): the square is written and read twice; operations of the two products."""
    return 4 * n * n * d, standard_attention_traffic(n, n, d, BLOCK, itemsize=1).bytes_moved


def _flash(n: int, d: int) -> tuple[float, float]:
    """FlashAttention with the queries outside (Dao 2023); operations of the two products."""
    moved = traffic.queries_outside_traffic(
        n, n, d, BLOCK, BLOCK, itemsize=1
    )  # 07's: 06 goes without
    return 4 * n * n * d, moved.bytes_moved


OPERATIONS = {
    "product": Operation("product, N x N times N x N", lambda n, d: (2 * n**3, 3 * n * n)),
    "scores": Operation("scores QK^T, N x D times D x N", lambda n, d: (2 * n * n * d, 2 * n * d + n * n)),
    "kernels": Operation(  # GN-11, GN-12, with mask and dropout
        "attention, kernel by kernel", lambda n, d: ((4 * d + 6) * n * n, 4 * n * d + 7 * n * n)
    ),
    "standard": Operation("standard attention (Algorithm 0)", _standard),
    "flash": Operation(f"FlashAttention, {BLOCK} queries a block", _flash),
}  # fmt: skip


def move_under_roofs(
    roofs: Mapping[str, tuple[float, float]],
    points: Mapping[str, tuple[float, float]],
    marks: Mapping[str, float] | None = None,
    title: str = "",
    operations: Sequence[str] = ("product", "scores", "kernels"),
) -> None:
    """Show operations under roofs, with sliders for N and D; in its stead `tiling_plots.roofline`.

    roofs: name -> (operations a second, bytes a second). points: name -> (intensity, operations a second),
    measured under the first roof. marks, title: of the figure. operations: names of OPERATIONS.
    """
    data = roofline_data(roofs, points, operations)
    _show(data, lambda: tiling_plots.roofline(roofs, points, marks, title), itemsize=2)


def rungs_under_roof(record, figure: Callable[[object], None]) -> None:
    """Show recorded rungs under their machine's roof, a size at a time; figure(record) stands in its stead.

    record: a `course_utils.recorded.Recorded`.
    """
    _show(record_data(record), lambda: figure(record), itemsize=2)


def roofline_data(
    roofs: Mapping[str, tuple[float, float]],
    points: Mapping[str, tuple[float, float]],
    operations: Sequence[str],
    ns: Sequence[int] = NS,
    ds: Sequence[int] = DS,
    itemsizes: Sequence[int] = (2, 4),
) -> dict:
    """What the script reads: roofs, a grid[d][n] of operations a number for each operation, measured points."""
    measured = [{"name": name, "at": at, "flops": rate} for name, (at, rate) in points.items()]
    return {
        "source": "",
        "roofs": [
            {"name": name, "flops": flops, "bytes": rate, "measured": [] if i else measured}
            for i, (name, (flops, rate)) in enumerate(roofs.items())
        ],
        "ns": list(ns),
        "ds": list(ds),
        "itemsizes": list(itemsizes),
        "start": [_nearest(ns, START[0]), _nearest(ds, START[1])],
        "operations": [
            {
                "name": OPERATIONS[name].name,
                "grid": [[_digits(OPERATIONS[name].intensity(n, d)) for n in ns] for d in ds],
            }
            for name in operations
        ],
        "rungs": {},
    }


def record_data(record) -> dict:
    """The same for a record: the forward pass without a mask, "n/d" -> rungs, null where nothing is known."""
    sizes = {(m.n, m.d) for m in record.measurements if m.passes == "forward" and not m.causal}
    ns, ds = (sorted({size[i] for size in sizes}) or list(START[i : i + 1]) for i in (0, 1))
    roof = {record.machine: (record.matmul_tflops * 1e12, record.copy_tb_per_second * 1e12)}
    data = roofline_data(roof, {}, ("product", "standard", "flash"), ns, ds, itemsizes=(2,))
    for d in ds:
        for rung, row in record.ladder(d=d).items():
            for n, m in row.items():
                data["rungs"].setdefault(f"{n}/{d}", []).append(_rung(record.titles[rung], m))
    return data | {"source": record.machine_line}


def _rung(name: str, m) -> dict:
    """One measurement: intensity from the bytes of its blocks, null where they are not known."""
    if m.reason:
        return {"name": name, "at": None, "flops": None, "reason": m.reason}
    operations = m.tflops * 1e12 * m.ms / 1e3
    at = _digits(operations / m.traffic_bytes) if m.traffic_bytes else None
    return {"name": name, "at": at, "flops": _digits(m.tflops * 1e12)}


def _show(data: dict, figure: Callable[[], None], itemsize: int) -> None:
    """With a table of what each roof lets each operation do, at a few sizes."""
    n_at, d_at = data["start"]
    heads = [
        "operation",
        "N",
        "operations a byte",
        *(f"{r['name']}: at most" for r in data["roofs"]),
    ]
    rows = []
    for operation in data["operations"]:
        for i in sorted({0, n_at, len(data["ns"]) - 1}):
            at = operation["grid"][d_at][i] / itemsize
            most = [min(roof["flops"], at * roof["bytes"]) for roof in data["roofs"]]
            told = [f"{rate / 1e12:.3g} TFLOP/s" for rate in most]
            rows.append([operation["name"], f"{data['ns'][i]:,}", f"{at:.3g}", *told])
    for rung in data["rungs"].get(f"{data['ns'][n_at]}/{data['ds'][d_at]}", ()):
        at = "unknown" if rung["at"] is None else f"{rung['at']:.3g}"
        rate = rung.get("reason") or f"measured: {rung['flops'] / 1e12:.3g} TFLOP/s"
        rows.append([rung["name"], f"{data['ns'][n_at]:,}", at, rate])
    caption = f"What the roof allows at D = {data['ds'][d_at]}, {itemsize} bytes a number"
    show("roofline", data, figure, table(caption, heads, rows))


def _nearest(sizes: Sequence[int], wanted: int) -> int:
    return min(range(len(sizes)), key=lambda i: abs(sizes[i] - wanted))


def _digits(number: float) -> float:
    return float(f"{number:.5g}")
