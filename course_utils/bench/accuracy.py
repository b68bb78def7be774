"""How far each rung is from float64, beside PyTorch's own, forward and for each gradient.

Sixteen bits have their own error, and no kernel is free of it. So an error means something beside that of a
kernel which everybody trusts with the same inputs: PyTorch's flash backend in 16 bits, its math backend in
float32. The ladder's rows carry errors of their sizes; here are all number formats, at one size.
"""

from collections.abc import Sequence

import torch

from course_utils.bench.configurations import Configuration
from course_utils.bench.ladder import Step, attempt
from course_utils.bench.rungs import Rung

QUANTITIES = ("o", "dq", "dk", "dv")
TRUSTED = {"float16": "flash", "bfloat16": "flash", "float32": "math"}


def accuracy_configurations() -> list[Configuration]:
    """Eight sequences of 2048 tokens of four heads, in every format, of both depths."""
    return [
        Configuration(2048, d, causal, dtype, tokens=16384, width=4 * d)
        for dtype in ("float16", "bfloat16", "float32")
        for d in (64, 128)
        for causal in (False, True)
    ]


def measure_accuracy(
    rungs: Sequence[Rung],
    step: Step,
    *,
    capability: tuple[int, int],
    memory_bytes: int,
) -> list[dict]:
    """A row for every rung that has this format: errors of O, dQ, dK, dV, and their ratios."""
    configuration = step.configuration
    exact, found, failed = step.exact(), {}, {}
    for rung in rungs:
        if rung.why_not(configuration, capability, memory_bytes):
            continue
        for which in rung.passes:
            attempt(
                (rung.name, which), lambda r=rung, w=which: step.errors(r, w, exact), found, failed
            )
    trusted = TRUSTED[configuration.dtype]
    theirs = [*found.get((trusted, "forward"), []), *found.get((trusted, "backward"), [])]
    rows = []
    for rung in rungs:
        row = {
            "dtype": configuration.dtype,
            "d": configuration.d,
            "causal": configuration.causal,
            "n": configuration.n,
            "rung": rung.name,
        }
        mine = [*found.get((rung.name, "forward"), []), *found.get((rung.name, "backward"), [])]
        if mine:
            row |= dict(zip(QUANTITIES, mine))
            if theirs:
                row["trusted"] = trusted
                row["ratios"] = [ours / their for ours, their in zip(mine, theirs)]
        troubles = [
            f"{which}: {text}"
            for which in rung.passes
            for text in failed.get((rung.name, which), {}).values()
        ]
        if troubles:
            row["failed"] = "; ".join(troubles)
        if mine or troubles:
            rows.append(row)
    return rows


def exact_arithmetic() -> None:
    """float32 products in float32: no tf32, for any rung that leaves the choice to torch."""
    torch.set_float32_matmul_precision("highest")
