"""Words from notebooks on a page: a lesson's title, and answers in the Markdown that students write.

A page of ours loads nothing, so there is no Markdown or MathJax on it. What people use in three sentences
(emphasis, code, a list, a formula of a few letters) is turned into harmless HTML here; the rest stays as
it was typed.
"""

import re
from functools import cache
from pathlib import Path

from course_utils.authoring.files import ROOT, stored_notebook
from course_utils.checks.show import code_marks
from course_utils.grading import pages

ITEM = re.compile(r"\s{0,3}(?:[-*+]|\d{1,2}[.)])\s+(.*)")
STRONG = re.compile(r"\*\*(?=[^\s*])([^*]{1,300})(?<=\S)\*\*")
EMPHASIS = re.compile(r"(?<![\w*])\*(?=[^\s*])([^*]{1,300})(?<=\S)\*(?![\w*])")
FORMULA = re.compile(r"\$\$?(?=[^\s$])([^$\n]{1,300})(?<=\S)\$\$?(?!\d)")
FRACTION = re.compile(r"\\[dt]?frac\{([^{}]{1,80})\}\{([^{}]{1,80})\}")
RAISED = re.compile(r"([_^])(?:\{([^{}]{1,80})\}|(\w))")
TWICE = re.compile(r"\((-?[\d,]+ bytes) \(([^()]{1,20})\)")  # a bracket in brackets
SIGNS = {
    "times": "\u00d7", "cdot": "\u00b7", "le": "\u2264", "leq": "\u2264", "ge": "\u2265", "geq": "\u2265",
    "ne": "\u2260", "neq": "\u2260", "approx": "\u2248", "to": "\u2192", "rightarrow": "\u2192",
    "sqrt": "\u221a", "sum": "\u2211", "infty": "\u221e", "partial": "\u2202", "in": "\u2208",
    "alpha": "\u03b1", "beta": "\u03b2", "theta": "\u03b8", "Theta": "\u0398", "sigma": "\u03c3",
    "lambda": "\u03bb", "mu": "\u03bc", "ell": "\u2113", "top": "\u22a4", "ldots": "...", "dots": "...",
    "log": "log", "exp": "exp", "max": "max", "min": "min", "left": "", "right": "", "mathrm": "", "text": "",
}  # fmt: skip


@cache
def lesson_title(notebook: str, root: Path = ROOT) -> str:
    """`02 requires_grad: gradients that nobody reads`; the notebook's own name where it is not here."""
    try:
        cells = stored_notebook(root / "notebooks" / f"{notebook}.ipynb")["cells"]
    except (OSError, ValueError):
        return notebook
    first = cells[0]["source"].partition("\n")[0] if cells else ""
    return first.removeprefix("# ").strip() or notebook


def rendered(answer: str) -> str:
    """An answer in words as HTML: paragraphs and lists; every character of it made harmless first."""
    parts = []
    for block in re.split(r"\n\s*\n", pages.text(answer)):
        lines, items = [], []
        for line in block.split("\n"):
            if item := ITEM.fullmatch(line):
                items.append(item[1])
            elif items:
                items[-1] += f" {line}"
            else:
                lines.append(line)
        parts += [f"<p>{inline(' '.join(lines))}</p>"] if any(map(str.strip, lines)) else []
        parts += [f"<ul>{''.join(f'<li>{inline(each)}</li>' for each in items)}</ul>"] * bool(items)
    return "".join(parts)


def inline(line: str) -> str:
    """Emphasis, formulas and code in a text that is escaped already."""
    pieces = line.split("`")
    if len(pieces) % 2 == 0:  # a backtick alone is a backtick
        pieces[-2:] = [f"{pieces[-2]}`{pieces[-1]}"]
    return "".join(
        f"<code>{piece}</code>" if at % 2 else marked(piece) for at, piece in enumerate(pieces)
    )


def marked(piece: str) -> str:
    held = []

    def aside(found: re.Match) -> str:
        held.append(f'<i class="formula">{formula(found[1])}</i>')
        return f"\x00{len(held) - 1}\x00"

    piece = FORMULA.sub(aside, piece)
    piece = EMPHASIS.sub(r"<em>\1</em>", STRONG.sub(r"<strong>\1</strong>", piece))
    return re.sub("\x00(\\d+)\x00", lambda found: held[int(found[1])], piece)


def formula(inner: str) -> str:
    """A formula in LaTeX as far as letters, signs, fractions, indices and powers go."""
    inner = FRACTION.sub(lambda found: "/".join(map(bracketed, found.groups())), inner)
    inner = re.sub(r"\\([A-Za-z]+)", lambda found: SIGNS.get(found[1], found[0]), inner)
    inner = re.sub(r"\\([,;!{} ])", " ", inner)

    def moved(found: re.Match) -> str:
        tag = "sub" if found[1] == "_" else "sup"
        return f"<{tag}>{found[2] or found[3]}</{tag}>"

    return RAISED.sub(moved, inner).replace("{", "").replace("}", "")


def bracketed(part: str) -> str:
    return part if part.isalnum() else f"({part})"


def without_nesting(told: str) -> str:
    """(8,000,000 bytes, 8.00 MB) for a bracket in a bracket."""
    return TWICE.sub(r"(\1, \2", told)


def diagnosis(told: str) -> str:
    """What a check said, as HTML: code between backticks, and no bracket in a bracket."""
    return code_marks(pages.text(without_nesting(told)))
