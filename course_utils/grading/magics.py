"""IPython's own syntax, taken out: magics, shell lines, a question mark for help.

A `%%time` above an answer or a `!pip install` below it is no Python, but no mistake either. What
installs, times or asks is dropped; what it is put in front of stays. Text that parses is not touched.
"""

import ast
import re

from course_utils.authoring import syntax

KEEPS_BODY = re.compile(
    r"%%(time|timeit|capture|prun|memit|memray_flamegraph|python3?|script python)\b"
)
RUNS_CODE = ("time", "timeit", "prun", "memit")
# IPython goes through a cell's whole text once for each of its magics.
MOST_MAGICS, MOST_WORK = 200, 2 * 10**6
TOO_DEEP = (SyntaxError, ValueError, RecursionError, MemoryError)


def as_python(text: str) -> tuple[str, list[str]]:
    """(the cell as plain Python where it can be had, notes). Line numbers stay. Never raises."""
    above, notes = "", []
    while not parses(text) and (head := text.lstrip("\n").partition("\n")[0]).startswith("%%"):
        if not KEEPS_BODY.match(head):
            return "", [f"a cell for {head.split()[0][:20]} was left out"]
        above += "\n" * (text.index("%") + 1)
        text, notes = text.lstrip("\n").partition("\n")[2], ["a magic was left out"]
        if len(above) > MOST_MAGICS:
            return above + text, notes
    plain, more = without_lines(text)
    return above + plain, notes or more


def without_lines(text: str) -> tuple[str, list[str]]:
    """Text without magics in its lines, where there are not too many of them to be honest."""
    magics = sum(any(mark in line for mark in "!%?") for line in text.split("\n"))
    if parses(text) or magics > MOST_MAGICS or magics * len(text) > MOST_WORK:
        return text, []
    try:
        from IPython.core.inputtransformer2 import TransformerManager

        tree = ast.parse(TransformerManager().transform_cell(text))
        plain = ast.unparse(ast.fix_missing_locations(WithoutMagics().visit(tree)))
    except Exception:  # IPython's transformers raise what they will on text that is no Python
        return text, []
    return plain + "\n", ["a magic was left out"]


def parses(text: str) -> bool:
    try:
        syntax.parse(text)
    except TOO_DEEP:
        return False
    return True


class WithoutMagics(ast.NodeTransformer):
    """Replaces each call of IPython's shell by `None`, or by the code that it was to run."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        shell = getattr(node.func, "value", None)
        if not (isinstance(shell, ast.Call) and getattr(shell.func, "id", "") == "get_ipython"):
            return node
        words = [word.value for word in node.args if isinstance(word, ast.Constant)]
        if node.func.attr == "run_line_magic" and words[0] in RUNS_CODE and len(words) > 1:
            try:
                return ast.parse(re.sub(r"^(-\w+\s*\d*\s+)+", "", words[1]), mode="eval").body
            except TOO_DEEP:
                pass
        return ast.Constant(None)
