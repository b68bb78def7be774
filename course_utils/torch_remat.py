"""A small real transformer in PyTorch, whose blocks lesson 04 checkpoints, and what it must save.

The lecture counts 12 d T + N_heads T^2 numbers a block (AD1-49). What a block of one's own saves depends on
how it is written, so this one is written out, and `block_saved_bytes` lists what autograd will keep.
"""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    """A pre-norm block: x + attention(norm(x)), then + MLP(norm(x)); the MLP is width, 4 width, width.

    activation: "relu" or "gelu". With `checkpoint_core` the attention of the heads, all that is tokens by
    tokens, is checkpointed: kept are q, k and v, which it is computed from.
    """

    def __init__(self, width: int, heads: int, activation: str = "relu") -> None:
        super().__init__()
        self.heads, self.activation = heads, getattr(functional, activation)
        self.checkpoint_core = False
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def core(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5  # (B, H, T, T)
        return scores.softmax(-1) @ v  # (B, H, T, D)

    def checkpointed_core(self, *qkv: torch.Tensor) -> torch.Tensor:
        return checkpoint(self.core, *qkv, use_reentrant=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        heads = self.qkv(self.norm1(x)).view(batch, tokens, 3, self.heads, width // self.heads)
        q, k, v = heads.permute(2, 0, 3, 1, 4)  # (B, H, T, D) each, in one buffer
        core = self.checkpointed_core if self.checkpoint_core else self.core
        context = core(q, k, v)
        x = x + self.proj(context.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(self.activation(self.up(self.norm2(x))))


def transformer(layers: int, width: int, heads: int, activation: str = "relu") -> nn.ModuleList:
    """So many blocks, in float32, with the same weights every time."""
    torch.manual_seed(0)
    return nn.ModuleList(Block(width, heads, activation) for _ in range(layers))


def block_saved_bytes(
    tokens: int, width: int, heads: int, activation: str = "relu", batch: int = 1
) -> dict[str, int]:
    """What autograd keeps of one block, in bytes of float32, by the step that will read it."""
    row_bytes, matrix_bytes = 4 * batch * tokens, 4 * batch * tokens * width
    kept = {
        "x, for norm1": matrix_bytes,
        "norm1(x), for the weights of Q, K, V": matrix_bytes,
        "Q, K, V": 3 * matrix_bytes,
        "probabilities, for softmax and P V": row_bytes * heads * tokens,
        "heads' output, for the weights of proj": matrix_bytes,
        "x + attention, for norm2": matrix_bytes,
        "norm2, for the weights of up": matrix_bytes,
        "after the activation, for the weights of down": 4 * matrix_bytes,
        "mean and 1/deviation of each row, twice": 4 * row_bytes,
    }
    if activation == "gelu":
        kept["before the activation, for GELU itself"] = 4 * matrix_bytes
    return kept


def train(x: torch.Tensor, forward) -> None:
    """One step: forward, the sum as a loss, backward, which adds to the gradients that are there."""
    forward(x).sum().backward()


def forget_gradients(blocks: nn.Module, x: torch.Tensor) -> None:
    """Drop all gradients, so that the next step makes them anew."""
    for tensor in (x, *blocks.parameters()):
        tensor.grad = None
