"""What the grader's pages share: escaping, one small style, tables and bars.

Names, diagnoses and answers come from students, and some will try to make a page do more than show
them. So every text passes through `text`, a page holds no script and loads nothing, and it says so to
the browser (Content-Security-Policy). A page is one file: it can be sent, printed, read on a phone.
"""

import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path

from course_utils.authoring.files import write_whole
from course_utils.checks.judging import say
from course_utils.checks.show import code_marks

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
# controls, and marks that turn the direction of what follows: a name could rearrange a page with them
UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}(?<!\.)")
DEVICE = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)  # no file on Windows
LONGEST = 20_000  # characters of one text that a page shows
KINDS = {
    "#": "number",
    "~": "long",
    "|": "short",
}  # of a table's columns, by their head's last sign

STYLE = """
:root { color-scheme: light dark; --ink: #1b1b1f; --paper: #fff; --soft: #5f6368; --line: #c9ccd1;
  --good: #1b7a3d; --bad: #b3261e; --open: #80868b; --doubt: #8a5a00; --track: #eceef1; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e6ea; --paper: #17181b; --soft: #a9adb3;
  --line: #44474d; --good: #6fcf97; --bad: #ff8a80; --open: #9aa0a6; --doubt: #f2b950; --track: #2a2c31; } }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 1rem; max-width: 62rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: break-word }
h1 { font-size: 1.5rem; line-height: 1.25 } h2 { font-size: 1.2rem; margin-top: 2rem }
h3 { font-size: 1rem; margin-bottom: .2rem }
section.exercise h2, section.exercise h3 { font-size: 1rem; margin: .3rem 0 }
section.exercise p, article p { margin: .4rem 0 } article h3 { margin-top: .3rem }
section.exercise { border-left: 4px solid var(--open); padding: .1rem 0 .1rem 1rem; margin: 1.2rem 0;
  break-inside: avoid }
section.passed { border-color: var(--good) } section.failed { border-color: var(--bad) }
.soft { color: var(--soft) } .name { unicode-bidi: isolate; font-weight: 600 }
.good { color: var(--good) } .bad { color: var(--bad) } .doubt { color: var(--doubt) }
.wide { overflow-x: auto }
table { border-collapse: collapse; margin: .5rem 0 } caption { text-align: left; color: var(--soft) }
th, td { text-align: left; vertical-align: top; padding: .2rem 1rem .2rem 0;
  border-bottom: 1px solid var(--line) }
th { white-space: nowrap } td.long { min-width: 16rem } td.short { white-space: nowrap }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
pre { background: var(--track); padding: .6rem; overflow-x: auto; font-size: .85rem;
  white-space: pre-wrap }
code { font-size: .9em; overflow-wrap: anywhere } .formula { font-family: Georgia, serif }
.total { font-size: 1.25rem; margin: .5rem 0 }
svg { display: block; width: 100%; max-width: 34rem; height: auto; font: 11px system-ui, sans-serif }
svg .track { fill: var(--track) } svg .good { fill: var(--good) } svg .bad { fill: var(--bad) }
svg .open { fill: var(--open) } svg .doubt { fill: var(--doubt) } svg text { fill: var(--ink) }
svg .mark { stroke: var(--ink); stroke-width: 2 }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(17rem, 1fr)); gap: 1rem }
.cards > article { border: 1px solid var(--line); padding: .5rem .8rem; break-inside: avoid }
@media print { body { max-width: none; font-size: 10pt } a { color: inherit } }
"""


def text(value: object) -> str:
    """A text from anywhere, made harmless for a page: escaped, without controls, not endless."""
    plain = str(value).replace("\r\n", "\n").replace("\r", "\n")
    cut = plain[:LONGEST] + (" ... (cut)" if len(plain) > LONGEST else "")
    readable = cut.encode("utf-8", "replace").decode("utf-8")  # no half characters
    return escape(UNSEEN.sub("\N{REPLACEMENT CHARACTER}", readable), quote=True)


def prose(value: object) -> str:
    """The same, with what stands between backticks as code."""
    return code_marks(text(value))


def person(student: str, names: Mapping[str, str] | None = None) -> str:
    """Who it is: the roster's name, and the name that grades go by where that is another."""
    called = (names or {}).get(student) or student
    also = f' <span class="soft">({text(student)})</span>' if called != student else ""
    return f'<span class="name">{text(called)}</span>{also}'


def page(title: str, body: Iterable[str]) -> str:
    """A whole page. `title` is plain text, `body` is HTML made by this module."""
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{text(title.replace('`', ''))}</title><style>{STYLE}</style></head>",
            f"<body><main><h1>{prose(title)}</h1>",
            *body,
            "</main></body></html>\n",
        ]
    )


def write_page(path: Path, html: str) -> Path:
    """Write a page whole or not at all. Raises CourseError where it cannot be written."""
    write_whole({path: html.encode("utf-8")})
    return path


def table(head: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> str:
    """A table of cells that are HTML already.

    A column whose head ends in `#` holds numbers, in `~` sentences, and in `|` what is not to be broken.
    """
    kinds = [f' class="{KINDS[word[-1:]]}"' if word[-1:] in KINDS else "" for word in head]
    names = [text(word.rstrip("#~|")) for word in head]
    top = "".join(f'<th scope="col"{kind}>{name}</th>' for name, kind in zip(names, kinds))
    body = "".join(
        "<tr>" + "".join(f"<td{k}>{cell}</td>" for cell, k in zip(row, kinds)) + "</tr>"
        for row in rows
    )
    told = f"<caption>{text(caption)}</caption>" if caption else ""
    whole = f"<table>{told}<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
    keys = f'role="group" tabindex="0" aria-label="table: {", ".join(names)}"'  # so that they can scroll it
    return f'<div class="wide" {keys}>{whole}</div>'


def finite(value: object) -> float | None:
    """A number that can be drawn; None for anything else."""
    good = isinstance(value, int | float) and not isinstance(value, bool)
    try:
        return float(value) if good and math.isfinite(value) else None
    except OverflowError:
        return None


def quantity(value: object, unit: str) -> str:
    """A measured number as people read it, as plain text."""
    number = finite(value)
    return "no number" if number is None else say(number, str(unit)[:20])


def allowed(measure: dict) -> str:
    """What was allowed, in words; empty where nothing was said."""
    unit, least, most = (measure.get(name) for name in ("unit", "at_least", "at_most"))
    if finite(least) and finite(least) == finite(most):
        return f"exactly {quantity(least, unit or '')}"
    words = (("at least", least), ("at most", most))
    return ", ".join(
        f"{word} {quantity(limit, unit or '')}" for word, limit in words if finite(limit)
    )


def measure_bar(name: str, measure: dict) -> str:
    """A bar: measured, with lines where the limits are. Empty where there is nothing to compare."""
    value = finite(measure.get("value"))
    limits = {k: finite(measure.get(k)) for k in ("at_least", "at_most")}
    limits = {kind: limit for kind, limit in limits.items() if limit is not None and limit > 0}
    if value is None or value < 0 or not limits:
        return ""
    scale = 380 / (1.1 * max(value, *limits.values()))
    over = value > limits.get("at_most", math.inf) or value < limits.get("at_least", -math.inf)
    told = f"{name}: {quantity(value, measure.get('unit', ''))}; allowed: {allowed(measure)}"
    marks = "".join(
        f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="2" y2="22"'
        + (' stroke-dasharray="3 3"' if kind == "at_least" else "")
        + "/>"
        for kind, limit in limits.items()
        for x in [max(1, limit * scale)]
    )
    width = f"{max(1, value * scale):.1f}"
    return (
        f'<svg viewBox="0 0 382 24" role="img" aria-label="{text(told)}">'
        '<rect class="track" x="0" y="5" width="380" height="14"/>'
        f'<rect class="{"bad" if over else "good"}" x="0" y="5" width="{width}" height="14"/>'
        f"{marks}</svg>"
    )


def parts_bar(parts: dict[str, tuple[int, str]]) -> str:
    """One bar in parts: {word: (count, class)}; the words and counts are read out too."""
    whole = sum(count for count, _ in parts.values())
    told = ", ".join(f"{count} {word}" for word, (count, _) in parts.items() if count)
    drawn, x = "", 0.0
    for count, kind in parts.values():
        width = 380 * count / max(whole, 1)
        drawn += f'<rect class="{kind}" x="{x:.1f}" y="4" width="{width:.1f}" height="14"/>'
        x += width
    return f'<svg viewBox="0 0 382 22" role="img" aria-label="{text(told)}">{drawn}</svg>'


def histogram(counts: Sequence[int], labels: Sequence[str], told: str) -> str:
    """Columns with their counts above and labels below. `told` is its text for who can't see it."""
    top, width = max([*counts, 1]), 380 / max(len(counts), 1)
    drawn = ""
    for at, (count, label) in enumerate(zip(counts, labels)):
        height, x = 80 * count / top, at * width
        middle = f'text-anchor="middle" x="{x + width / 2:.1f}"'
        drawn += (
            f'<rect class="good" x="{x + 1:.1f}" y="{95 - height:.1f}" width="{width - 2:.1f}" '
            f'height="{height:.1f}"/><text {middle} y="108">{text(label)}</text>'
            + (f'<text {middle} y="{91 - height:.1f}">{count}</text>' if count else "")
        )
    return f'<svg viewBox="0 0 382 112" role="img" aria-label="{text(told)}">{drawn}</svg>'


def safe_name(name: str) -> str:
    """A folder's name for a student: theirs where it is plain, else its letters and a short hash."""
    looks_hashed = re.search(r"-[0-9a-f]{8}$", name)  # as what is made below: no two share a folder
    if PLAIN_NAME.fullmatch(name) and not DEVICE.fullmatch(name) and not looks_hashed:
        return name
    letters = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:40] or "student"
    return f"{letters}-{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:8]}"
