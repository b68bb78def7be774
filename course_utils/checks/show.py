"""A verdict as text and as HTML. Colour is never the only sign: a mark and a word go with it."""

import sys
from html import escape

from course_utils.checks.core import Measure, Status, Verdict
from course_utils.checks.judging import say

MARKS = {
    Status.PASSED: "\N{CHECK MARK}",
    Status.FAILED: "\N{MULTIPLICATION X}",
    Status.NOT_ATTEMPTED: "\N{WHITE CIRCLE}",
    Status.NOT_VERIFIABLE: "?",
}
# JupyterLab's own colours follow its light and dark themes; the second is for pages without them.
COLOURS = {
    Status.PASSED: "var(--jp-success-color0, #1b7a3d)",
    Status.FAILED: "var(--jp-error-color0, #b3261e)",
    Status.NOT_ATTEMPTED: "var(--jp-ui-font-color2, #5f6368)",
    Status.NOT_VERIFIABLE: "var(--jp-ui-font-color2, #5f6368)",
}


def show(verdict: Verdict) -> None:
    """Show it in a notebook; print it anywhere else."""
    if in_kernel():
        from IPython.display import display

        display({"text/plain": as_text(verdict), "text/html": as_html(verdict)}, raw=True)
    else:
        print(as_text(verdict))


def as_text(verdict: Verdict) -> str:
    lines = [f"{MARKS[verdict.status]} {_headline(verdict)}"]
    if verdict.diagnosis:
        lines.append(f"  {verdict.diagnosis}")
    if verdict.case and verdict.status is Status.FAILED:
        lines.append(f"  (case: {verdict.case})")
    lines += [f"  {name}: {_measure_text(measure)}" for name, measure in verdict.measured.items()]
    return "\n".join(lines)


def as_html(verdict: Verdict) -> str:
    colour = COLOURS[verdict.status]
    parts = [
        f'<div role="status" style="border-left: 4px solid {colour}; padding: 0.3em 0.8em; max-width: 52em">',
        f'<strong style="color: {colour}">{MARKS[verdict.status]} {escape(_headline(verdict))}</strong>',
    ]
    if verdict.diagnosis:
        parts.append(
            f'<div style="margin-top: 0.3em">{code_marks(escape(verdict.diagnosis))}</div>'
        )
    if verdict.case and verdict.status is Status.FAILED:
        parts.append(f'<div style="opacity: 0.8">case: {escape(verdict.case)}</div>')
    if verdict.measured:
        parts.append('<table style="margin: 0.4em 0 0"><thead><tr>')
        parts += [
            f'<th scope="col" style="text-align: left">{head}</th>'
            for head in ("measured", "", "allowed")
        ]
        parts.append("</tr></thead><tbody>")
        for name, measure in verdict.measured.items():
            cells = (escape(name), say(measure.value, measure.unit), _allowed(measure))
            parts.append(
                "<tr>"
                + "".join(f'<td style="text-align: left">{cell}</td>' for cell in cells)
                + "</tr>"
            )
        parts.append("</tbody></table>")
    return "".join(parts) + "</div>"


def _headline(verdict: Verdict) -> str:
    name = f"Exercise {verdict.exercise}: " if verdict.exercise else ""
    return f"{name}{verdict.status}"


def _measure_text(measure: Measure) -> str:
    allowed = _allowed(measure)
    return say(measure.value, measure.unit) + (f"; allowed: {allowed}" if allowed else "")


def _allowed(measure: Measure) -> str:
    words = []
    if measure.at_least:
        words.append(f"at least {say(measure.at_least, measure.unit)}")
    if measure.at_most is not None:
        words.append(f"at most {say(measure.at_most, measure.unit)}")
    return ", ".join(words)


def code_marks(text: str) -> str:
    """`code` between backticks, as HTML."""
    parts = text.split("`")
    return "".join(f"<code>{part}</code>" if i % 2 else part for i, part in enumerate(parts))


def in_kernel() -> bool:
    """Whether this runs in a notebook's kernel, where HTML can be shown."""

    if "IPython" not in sys.modules:
        return False
    from IPython import get_ipython

    return getattr(get_ipython(), "kernel", None) is not None
