"""torch's own saving against what lesson 04 predicts of it, to the byte."""

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from course_utils.torch_memory import saved_bytes, torch_peak_bytes
from course_utils.torch_remat import (
    Block,
    block_saved_bytes,
    forget_gradients,
    train,
    transformer,
)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("batch, tokens, width, heads", [(1, 64, 32, 4), (3, 40, 48, 2)])
def test_a_block_saves_what_is_listed(activation, batch, tokens, width, heads):
    blocks = transformer(2, width, heads, activation)
    x = torch.randn(batch, tokens, width, requires_grad=True)
    listed = sum(block_saved_bytes(tokens, width, heads, activation, batch).values())
    saved = saved_bytes(lambda: blocks[1](blocks[0](x)), blocks.parameters())
    assert saved == 2 * listed


def test_a_checkpointed_block_saves_its_input_and_a_checkpointed_core_all_but_the_matrices():
    tokens, width, heads = 64, 32, 4
    (block,) = transformer(1, width, heads)
    x = torch.randn(1, tokens, width, requires_grad=True)

    def saved(forward):
        return saved_bytes(forward, block.parameters())

    assert saved(lambda: checkpoint(block, x, use_reentrant=False)) == 4 * tokens * width
    whole = saved(lambda: block(x))
    block.checkpoint_core = True
    assert whole - saved(lambda: block(x)) == 4 * heads * tokens**2


def test_checkpointing_the_core_changes_no_gradient():
    x = torch.randn(2, 24, 32, requires_grad=True)
    gradients = []
    for checkpoint_core in (False, True):
        blocks = transformer(2, 32, 4)
        for block in blocks:
            block.checkpoint_core = checkpoint_core
        forget_gradients(blocks, x)
        train(x, torch.nn.Sequential(*blocks))
        gradients.append([tensor.grad.clone() for tensor in (x, *blocks.parameters())])
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(*gradients))


def test_the_block_is_torchs_own_attention():
    block = Block(32, 4)
    q, k, v = torch.randn(3, 1, 4, 10, 8)
    theirs = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    assert torch.allclose(block.core(q, k, v), theirs, atol=1e-6)


def test_forgotten_gradients_count_in_the_next_peak():
    blocks, x = transformer(1, 64, 2), torch.randn(1, 16, 64, requires_grad=True)
    peaks = []
    for _ in range(2):
        forget_gradients(blocks, x)
        peaks.append(torch_peak_bytes(lambda: train(x, blocks[0])))
    weight_bytes = sum(4 * parameter.numel() for parameter in blocks.parameters())
    assert peaks[0] == peaks[1] > weight_bytes
