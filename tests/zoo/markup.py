"""Names and text that are programs elsewhere: in a table, in a page, in a terminal."""

from tests.grading_helpers import as_bytes, solved
from tests.zoo import attack, beast

SCRIPT = "<script>alert('grader')</script><img src=x onerror=alert(1)>"


@beast({}, student="=cmd|'-C calc'!A0, \"quoted\"")
def formula_for_a_name() -> bytes:
    """CSV injection: a spreadsheet would run it. Quotes and commas break a careless table."""
    return as_bytes(solved())


@beast({}, student="+1 O'Brien; <b>bold<i> & \u202egnp.exe")
def markup_for_a_name() -> bytes:
    return as_bytes(solved())


attack(
    "2.1",
    kind="markup",
    name="script_in_an_error",
    source=f"def matmul_backward(x, w, output):\n    raise ValueError({SCRIPT!r})\n",
)
attack(
    "2.1",
    kind="markup",
    name="script_for_a_type",
    source=f"def matmul_backward(x, w, output):\n    x.grad = type({SCRIPT!r}, (), {{}})()\n",
)
attack(
    "2.1",
    kind="markup",
    name="terminal_codes_in_an_error",
    source="def matmul_backward(x, w, output):\n    raise ValueError('\\x1b[2J\\x1b]0;owned\\x07\\ud800')\n",
)
