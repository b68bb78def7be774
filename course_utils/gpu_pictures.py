"""The drawings of lesson 08: blocks on multiprocessors, a warp's reads, work that nobody asked for, code.

How a GPU executes is a matter of counting by 32: what these draw is counted here, not measured, so they
look the same on every machine. Code in CUDA C++ is shown from the very files that are compiled.
"""

from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from IPython.display import Code, display
from matplotlib.patches import Rectangle

from course_utils.plots import STYLE, show_figure

WARP, SECTOR_BYTES = 32, 32
CUDA = Path(__file__).parent / "kernels" / "cuda"


def sectors_of_a_warp(stride_bytes: int, number_bytes: int = 4) -> list[int]:
    """The 32-byte sectors that a warp's 32 reads touch, thread i reading at i * stride_bytes."""
    read = (
        byte // SECTOR_BYTES
        for thread in range(WARP)
        for byte in range(thread * stride_bytes, thread * stride_bytes + number_bytes)
    )
    return sorted(set(read))


def warp_reads(strides: Sequence[int], number_bytes: int = 4) -> None:
    """Draw the memory that a warp reads from, a row a stride: what it uses, and what crosses with it.

    strides: distances between the numbers of neighbouring threads, in numbers. Source: GN-21.
    """
    end = (WARP - 1) * max(strides) * number_bytes + SECTOR_BYTES
    told = []
    with plt.style.context(STYLE):
        figure, axis = plt.subplots(figsize=(8, 0.9 + 0.55 * len(strides)))
        for row, stride in enumerate(strides):
            sectors = sectors_of_a_warp(stride * number_bytes, number_bytes)
            for sector in sectors:
                _box(axis, sector * SECTOR_BYTES, row - 0.35, SECTOR_BYTES, 0.7, "C1", "", 0.45)
            for thread in range(WARP):
                at = thread * stride * number_bytes
                _box(axis, at, row - 0.35, number_bytes, 0.7, "C0", "", 1.0, edge="none")
            crossed = len(sectors) * SECTOR_BYTES
            axis.text(end * 1.01, row, f"{crossed:,} bytes", va="center", fontsize=9)
            told.append(f"stride {stride}: {len(sectors)} sectors, {crossed:,} bytes")
        axis.set(xlim=(0, end), ylim=(len(strides) - 0.4, -0.6), xlabel="address (bytes)")
        axis.set_yticks(range(len(strides)), [f"every {_ordinal(s)}number" for s in strides])
        axis.tick_params(axis="y", length=0)
        asked = WARP * number_bytes
        axis.set_title(f"Dark: the {asked} bytes a warp asks for. Pale: what comes with them")
    words = (
        f"What crosses when the 32 threads of a warp read {number_bytes} bytes each, by stride. "
    )
    show_figure(figure, words + "; ".join(told) + ".")


def _ordinal(stride: int) -> str:
    return {1: "", 2: "2nd ", 3: "3rd "}.get(stride, f"{stride}th ")


def blocks_in_waves(blocks: int, multiprocessors: int) -> None:
    """Draw blocks of equal work, one at a time on each multiprocessor: who works when, and who waits."""
    waves = -(-blocks // multiprocessors)
    idle = waves * multiprocessors - blocks
    with plt.style.context(STYLE):
        figure, axis = plt.subplots(
            figsize=(1.6 + 1.5 * min(waves, 5), 0.8 + 0.3 * multiprocessors)
        )
        for slot in range(waves * multiprocessors):
            wave, row = divmod(slot, multiprocessors)
            look = ("C0", "", 0.8) if slot < blocks else ("0.92", "////", 1.0)
            _box(axis, wave, row + 0.08, 0.97, 0.84, *look)
            word = f"block {slot}" if slot < blocks else "idle"
            colour = "white" if slot < blocks else "0.3"
            axis.text(
                wave + 0.485, row + 0.5, word, color=colour, ha="center", va="center", fontsize=8
            )
        axis.set(xlim=(0, waves), ylim=(multiprocessors, 0), xlabel="time, in blocks")
        axis.set_xticks(range(waves + 1))
        axis.set_yticks(
            np.arange(multiprocessors) + 0.5, [f"SM {i}" for i in range(multiprocessors)]
        )
        axis.tick_params(axis="y", length=0)
    show_figure(
        figure,
        f"{blocks} blocks on {multiprocessors} multiprocessors take {waves} waves; in the last one "
        f"{idle} of {multiprocessors} are idle.",
    )


def useful_share(n: int, tile: int, multiprocessors: int | None = None) -> float:
    """The part of the work on an n x n result that was asked for, in square tiles, a block a tile.

    With `multiprocessors`, idle ones in the last wave count as work too, one block a multiprocessor.
    """
    tiles = (-(-n // tile)) ** 2
    if multiprocessors:
        tiles = -(-tiles // multiprocessors) * multiprocessors
    return n * n / (tiles * tile * tile)


def quantization(largest: int, tile: int, multiprocessors: int) -> None:
    """Draw `useful_share` over n: of the tiles alone, and of whole waves of tiles. Source: GN-24."""
    sizes = np.arange(16, largest + 1)  # each one: a tooth begins right after a multiple of the tile
    shares = {
        f"tiles of {tile}": [useful_share(int(n), tile) for n in sizes],
        f"and waves of {multiprocessors}": [useful_share(int(n), tile, multiprocessors) for n in sizes],
    }  # fmt: skip
    with plt.style.context(STYLE):
        figure, axis = plt.subplots(figsize=(8, 3.6))
        for (name, share), style in zip(shares.items(), ("--", "-")):
            axis.plot(sizes, np.multiply(share, 100), style, linewidth=1.4, label=name)
        axis.set(
            xlabel="N (rows and columns of the result)", ylabel="useful work (%)", ylim=(0, 102),
            xlim=(0, largest), title="Work that was asked for, of all that is done",
        )  # fmt: skip
        axis.grid(True, alpha=0.25)
        axis.legend(loc="lower right")
    told = [
        f"{name}: " + ", ".join(f"{share[i]:.0%} at {sizes[i]:,}" for i in range(0, len(sizes), len(sizes) // 5))
        for name, share in shares.items()
    ]  # fmt: skip
    show_figure(
        figure, "Share of useful work over N, in saw teeth that rise. " + "; ".join(told) + "."
    )


def _box(axis, left, bottom, width, height, colour, hatch, alpha, edge="white") -> None:
    axis.add_patch(
        Rectangle(
            (left, bottom), width, height, facecolor=colour, hatch=hatch, alpha=alpha,
            edgecolor=edge, linewidth=0.5,
        )
    )  # fmt: skip


# --- code ---------------------------------------------------------------------------------------


def cuda_lines(file: str, first: str, last: str) -> str:
    """The lines of a CUDA C++ file from the one that contains `first` to the next that contains `last`.

    Raises ValueError where one of them is not there.
    """
    lines = (CUDA / file).read_text(encoding="utf-8").splitlines()
    start = next((i for i, line in enumerate(lines) if first in line), None)
    stop = next((i for i, line in enumerate(lines) if last in line and i >= (start or 0)), None)
    if start is None or stop is None:
        raise ValueError(f"{file} has no line with {first if start is None else last!r}")
    margin = min(len(line) - len(line.lstrip()) for line in lines[start : stop + 1] if line.strip())
    return "\n".join(line[margin:] for line in lines[start : stop + 1])


def show_cuda(file: str, first: str, last: str) -> None:
    """Show a part of a CUDA C++ file of `course_utils/kernels/cuda`, as it is compiled."""
    display(Code(cuda_lines(file, first, last), language="cuda"))
