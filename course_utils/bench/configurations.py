"""The sizes at which the ladder is climbed.

Tokens in the batch and numbers in a token stay the same, so that every size has as many inputs: 16384
tokens of 2048 numbers, as in FlashAttention's papers. What changes is how long a sequence is, and so how
much of the work is attention's square.
"""

from dataclasses import dataclass

from course_utils.gpu_timing import attention_bytes, attention_flops

TOKENS, WIDTH = 16384, 2048  # batch * n, heads * d
LENGTHS = (2048, 4096, 8192, 16384, 1024, 512)  # what matters most first, should time run out
QUICK_LENGTHS = (4096, 16384, 1024)
DEPTHS = (64, 128)


@dataclass(frozen=True)
class Configuration:
    """One size: n queries and keys, heads of d numbers, causal or not."""

    n: int
    d: int
    causal: bool
    dtype: str = "bfloat16"
    tokens: int = TOKENS
    width: int = WIDTH

    @property
    def batch(self) -> int:
        return self.tokens // self.n

    @property
    def heads(self) -> int:
        return self.width // self.d

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return self.batch, self.heads, self.n, self.d

    @property
    def scores(self) -> int:
        """How many scores the whole batch has: the square, times batch and heads."""
        return self.batch * self.heads * self.n * self.n

    def flops(self, backward: bool) -> float:
        heads = self.batch * self.heads
        return attention_flops(self.n, self.d, heads, causal=self.causal, backward=backward)

    def least_bytes(self, backward: bool) -> int:
        return attention_bytes(self.n, self.d, self.batch * self.heads, backward=backward)

    def __str__(self) -> str:
        return f"N = {self.n}, D = {self.d}, {'causal' if self.causal else 'not causal'}"


def ladder_configurations(quick: bool, dtype: str = "bfloat16") -> list[Configuration]:
    """All sizes of a full run, or those of a quick one."""
    lengths = QUICK_LENGTHS if quick else LENGTHS
    return [
        Configuration(n, d, causal, dtype)
        for n in lengths
        for d in DEPTHS
        for causal in (False, True)
    ]
