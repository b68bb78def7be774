"""How large a block is, by how many warps it is worked on, and how many tiles are loaded ahead.

The choice decides the speed, and nothing else. That for sm_90 in 16 bits, D = 64 and 128, was found by
measuring on one H200; the others were chosen so that the compiler keeps everything in registers, or
nearly. Nothing is tuned while a program runs, so equal inputs always meet equal blocks, and give the
same bits.

What limits a block is the fast memory of a multiprocessor, as the M of lesson 07: the tiles that stay,
and `num_stages` times the tiles that come by. One block may have 227 KiB of it on sm_90, 163 on sm_80,
99 on sm_86, sm_89 and sm_120.
"""

from typing import NamedTuple

__all__ = ["Blocks", "blocks_for", "shared_bytes"]


class Blocks(NamedTuple):
    """A choice for one kernel: rows of a block of queries and of keys, warps, stages of loading."""

    block_q: int
    block_k: int
    num_warps: int
    num_stages: int


# kernel -> bits of a number -> D, rounded up -> blocks
HOPPER = {
    "forward": {
        16: {64: Blocks(64, 64, 4, 3), 128: Blocks(128, 128, 8, 3), 256: Blocks(128, 64, 8, 2)},
        32: {64: Blocks(64, 32, 4, 2), 128: Blocks(32, 16, 4, 2), 256: Blocks(32, 16, 4, 2)},
    },
    "queries": {
        16: {64: Blocks(64, 64, 4, 3), 128: Blocks(128, 32, 8, 3), 256: Blocks(64, 32, 4, 3)},
        32: {64: Blocks(64, 32, 4, 2), 128: Blocks(16, 32, 4, 2), 256: Blocks(16, 32, 8, 1)},
    },
    "keys": {
        16: {64: Blocks(64, 64, 4, 3), 128: Blocks(64, 128, 8, 3), 256: Blocks(64, 64, 8, 1)},
        32: {64: Blocks(32, 32, 4, 2), 128: Blocks(32, 32, 4, 2), 256: Blocks(32, 16, 8, 1)},
    },
}
OTHERS = {
    "forward": {
        16: {64: Blocks(128, 64, 4, 3), 128: Blocks(128, 64, 8, 3), 256: Blocks(64, 64, 8, 2)},
        32: HOPPER["forward"][32],
    },
    "queries": {
        16: {64: Blocks(64, 32, 4, 3), 128: Blocks(64, 64, 8, 2), 256: Blocks(64, 32, 8, 2)},
        32: HOPPER["queries"][32],
    },
    "keys": {
        16: {64: Blocks(32, 64, 4, 3), 128: Blocks(64, 64, 8, 2), 256: Blocks(32, 32, 8, 2)},
        32: HOPPER["keys"][32],
    },
}

# Forward, D = 64, on Hopper: two small blocks a multiprocessor hide each other's waiting, but K and V come
# by twice as often. Over so many keys that costs more than it gains.
LONG_KEYS, LONG_BLOCKS = 8192, Blocks(128, 64, 8, 3)


def blocks_for(
    kernel: str, block_d: int, itemsize: int, n_keys: int, *, hopper: bool, limit_bytes: int
) -> Blocks:
    """The blocks for "forward", "queries" or "keys" on a device that lends `limit_bytes` to a block.

    block_d: D, rounded up to a power of two. Where the choice of the table does not fit, fewer tiles are
    loaded ahead, then those that come by are halved.
    """
    blocks = (HOPPER if hopper else OTHERS)[kernel][8 * itemsize][max(64, block_d)]
    if hopper and kernel == "forward" and itemsize == 2 and block_d <= 64 and n_keys > LONG_KEYS:
        blocks = LONG_BLOCKS
    while shared_bytes(kernel, blocks, block_d, itemsize) > limit_bytes:
        if blocks.num_stages > 1:
            blocks = blocks._replace(num_stages=blocks.num_stages - 1)
        elif kernel == "keys":
            blocks = blocks._replace(block_q=blocks.block_q // 2)
        else:
            blocks = blocks._replace(block_k=blocks.block_k // 2)
    return blocks


def shared_bytes(kernel: str, blocks: Blocks, block_d: int, itemsize: int) -> int:
    """The most shared memory that a kernel takes: what stays, and what comes by in every stage."""
    block_q, block_k, _, stages = blocks
    row = block_d * itemsize
    if kernel == "forward":  # q stays; k, v come by
        return (block_q + stages * 2 * block_k) * row
    if kernel == "queries":  # q, do stay; k, v come by
        return (2 * block_q + stages * 2 * block_k) * row
    # k, v stay; q, do come by, with logsumexp and row_dot in float32
    return (2 * block_k + stages * 2 * block_q) * row + stages * 2 * block_q * 4
