"""Which program takes which block of which head: an order that keeps the L2 warm and ends together.

Programs start in the order of their numbers, as multiprocessors get free. All blocks of one head need the
same K and V, so they should run together, while these are in the L2 cache: one head after the other. But
in causal attention blocks differ in work, and the long ones should start first, of *all* heads: else the
last head's long block runs on alone. So there it is a few heads at a time, as many as the L2 holds the K
and V of, and among these all first blocks, then all second ones, and so on.
"""

from course_utils.triton_here import tl, triton

__all__ = ["block_and_head", "heads_together"]

L2_SHARE_BYTES = 16 * 2**20


@triton.jit
def block_and_head(n_blocks, n_heads, together):
    """This program's block and head, of n_blocks * n_heads programs; `together` heads at a time."""
    program = tl.program_id(0)
    first_head = program // (n_blocks * together) * together
    there = tl.minimum(together, n_heads - first_head)  # the last few may be fewer
    program = program - first_head * n_blocks
    return program // there, first_head + program % there


def heads_together(x, n_heads: int, causal: bool) -> int:
    """How many heads at a time: causal, as many as have room in the L2, of x (B, H, N, D) and a twin."""
    if not causal:
        return 1
    bytes_of_a_head = 2 * x.shape[2] * x.shape[3] * x.element_size()
    return max(1, min(n_heads, L2_SHARE_BYTES // bytes_of_a_head))
