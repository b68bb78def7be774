"""What beasts have in common: lesson 02's answers, with room for mischief in front of the honest lines."""

MATMUL = """{before}
def matmul_backward(x, w, output) -> None:
{inside}
    x.grad += output.grad @ w.value.T
    w.grad += x.value.T @ output.grad
"""

# Keeps every activation and every gradient: right values, far over the budget of 2.4.
WASTEFUL = """{before}
def train_step(x, weights, trainable):
{inside}
    zs = [x]
    for w in weights:
        zs.append(zs[-1] @ w)
    gs = [np.ones_like(zs[-1])]
    for w in reversed(weights):
        gs.insert(0, gs[0] @ w.T)
    return [z.T @ g if t else None for z, g, t in zip(zs, gs[1:], trainable)]
"""


def matmul(inside: str, before: str = "") -> str:
    """2.1's answer, right, after `inside`."""
    return MATMUL.format(before=_flush(before), inside=_indented(inside))


def wasteful(inside: str = "", before: str = "") -> str:
    """2.4's answer with right values and too much memory, after `inside`."""
    return WASTEFUL.format(before=_flush(before), inside=_indented(inside))


def escapes(attempt: str) -> str:
    """Lines that say "escaped" if one of the attempts (a function a line block) got through."""
    return matmul(
        "while ATTEMPTS:\n"
        "    attempt = ATTEMPTS.pop()\n"
        "    try:\n"
        "        got = attempt()\n"
        "    except Exception:\n"
        "        continue\n"
        "    raise RuntimeError(f'escaped by {attempt.__name__}: {got!r:.300}')",
        _flush(attempt)
        + "\nATTEMPTS = [value for name, value in list(globals().items()) if name.startswith('try_')]",
    )


def _flush(text: str) -> str:
    from textwrap import dedent

    return dedent(text).strip("\n")


def _indented(text: str) -> str:
    from textwrap import indent

    return indent(_flush(text), "    ")
