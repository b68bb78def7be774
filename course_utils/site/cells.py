"""A notebook's cells as HTML: prose with its mathematics, code in colours, outputs, widgets from their data.

Left out are the outputs of checks, of open predictions, and of the list of one's progress: on a page nobody
can answer. What was measured after a prediction is folded, and what waits for an answer says where one gives
it. Pictures become files of their own.
"""

import base64
import hashlib
import json
import re
import struct
from dataclasses import dataclass, field
from functools import cache
from html import escape

from course_utils.site.mathematics import to_mathml
from course_utils.site.outline import slug
from course_utils.widgets.base import RECORD

UNANSWERED = {"check", "predict", "write"}  # roles whose outputs speak to somebody at a keyboard
MEASURED = re.compile(r"Prediction \S+: none made\. Measured: (.+)\.")  # as `measured` says it
WAITS = re.compile(r"Solve exercise (.+) to see this\.")  # as `needs` says it
PROGRESS = re.compile(r"^progress\(", re.M)
BROAD, BROADER = 560, 900  # pixels
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
PICTURE = re.compile(r'<img\b([^>]*?)\bsrc="data:image/png;base64,([^"]+)"([^>]*)>')


@dataclass
class Page:
    """What a page gathers on the way: its pictures, sections, widgets, and anchors in use."""

    files: dict[str, bytes] = field(default_factory=dict)
    sections: list[tuple[str, str]] = field(default_factory=list)  # (anchor, heading as HTML)
    widgets: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)


def cells_html(notebook: dict, page: Page) -> str:
    """All cells after one another; what they need besides goes into `page`."""
    parts = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            parts.append(prose(cell["source"], page))
        elif cell["cell_type"] == "code" and cell["source"].strip():
            parts.append(code(cell["source"]))
            role = cell["metadata"].get("course", {}).get("role")
            if role not in UNANSWERED and not PROGRESS.search(cell["source"]):
                parts += [output_html(output, page) for output in cell["outputs"]]
    return "\n".join(part for part in parts if part)


# ---------------------------------------------------------------- prose


@cache
def _markdown():
    from markdown_it import MarkdownIt
    from mdit_py_plugins.dollarmath import dollarmath_plugin

    def formula(tex: str, options: dict) -> str:
        return to_mathml(tex, display=options["display_mode"])

    def highlight(text: str, language: str, _: str) -> str:
        return coloured(text, language)

    reader = MarkdownIt("commonmark", {"highlight": highlight})
    return reader.enable("table").use(dollarmath_plugin, renderer=formula, double_inline=True)


def prose(text: str, page: Page) -> str:
    """Markdown as HTML, each heading with an anchor; the sections are noted for the page's contents."""
    reader = _markdown()
    tokens = reader.parse(text)
    for heading, inline in zip(tokens, tokens[1:], strict=False):
        if heading.type == "heading_open":
            words = reader.renderer.renderInline(inline.children, reader.options, {})
            anchor = slug(words, page.anchors)
            heading.attrSet("id", anchor)
            if heading.tag == "h2":
                page.sections.append((anchor, words))
    html = reader.renderer.render(tokens, reader.options, {})
    html = (
        tables(html)
        .replace("<table>", '<div class="wide"><table>')
        .replace("</table>", "</table></div>")
        .replace("<pre>", f"<pre{named('Code')}>")
    )
    html = html.replace('<div class="math block">', '<div class="math block wide">')
    # what ends a sentence stays with the formula before it
    html = re.sub(
        r'(<span class="math inline">(?:(?!</span>).)*</span>)((?:[,.;:!?)]|&quot;)+)',
        r'<span class="whole">\1\2</span>',
        html,
    )
    # a displayed formula within a paragraph: a div would end the paragraph
    return re.sub(
        r'<div class="math inline">(.*?)</div>', r'<span class="math block wide">\1</span>', html
    )


def tables(html: str) -> str:
    """Tables whose empty heads are cells like any other; below one that leads a row, cells are the rows' names.

    A row of heads that are all empty is left out.
    """

    def mended(match: re.Match) -> str:
        table = match[0]
        first_head = re.search(r"<th\b[^>]*>(.*?)</th>", table, re.S)
        if first_head and not first_head[1].strip():
            table = re.sub(
                r"(<tr>\s*)<td\b([^>]*)>(.*?)</td>",
                r'\1<th scope="row"\2>\3</th>',
                table,
                flags=re.S,
            )
        table = re.sub(r'<th(?: scope="col")?([^>]*)></th>', r"<td\1></td>", table)
        return re.sub(r"<thead>(?:(?!</thead>|<th\b).)*</thead>\s*", "", table, flags=re.S)

    return re.sub(r"<table\b.*?</table>", mended, html, flags=re.S)


def named(what: str) -> str:
    """A name for what is only seen to be code, or an output."""
    return f' role="group" aria-label="{escape(what)}"'


# ---------------------------------------------------------------- code


def code(text: str, kind: str = "code", name: str = "Code") -> str:
    return f'<pre class="{kind} wide"{named(name)}><code>{coloured(text, "python")}</code></pre>'


def source_name(text: str) -> str:
    """What a piece of source code defines first."""
    found = re.search(r"^(?:def|class) (\w+)", text, re.M)
    return f"Source of {found[1]}" if found else "Source"


def coloured(text: str, language: str) -> str:
    """Code in spans that the style sheet colours; a language that is unknown stays plain."""
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        lexer = get_lexer_by_name(language or "text", stripnl=False, ensurenl=False)
    except ClassNotFound:
        return escape(text)
    return highlight(text, lexer, HtmlFormatter(nowrap=True))


# ---------------------------------------------------------------- outputs


def output_html(output: dict, page: Page) -> str:
    """One output. Of several forms of it, the richest that a page can show."""
    if output["output_type"] == "stream":
        return plain(joined(output["text"]))
    data = output.get("data", {})
    if told := for_a_page(joined(data.get("text/plain", ""))):
        return told
    if RECORD in data:
        return widget(data[RECORD], page)
    if "text/latex" in data and "text/plain" in data:  # source code, for our own colours
        text = joined(data["text/plain"])
        return code(text, "code output", source_name(text))
    if "text/html" in data:
        html = pictures(tables(joined(data["text/html"])), page)
        return f'<div class="output wide">{html}</div>'
    if "text/plain" in data:
        return plain(joined(data["text/plain"]))
    return ""


def for_a_page(text: str) -> str:
    """In place of words to somebody who has a kernel; "" for all other outputs."""
    if found := MEASURED.fullmatch(text.strip()):
        return f"<details><summary>What was measured</summary>{escape(found[1])}</details>"
    if found := WAITS.fullmatch(text.strip()):
        return (
            f'<p class="waits"><em>What your own answer to exercise {escape(found[1])} does stands here in the '
            "notebook.</em></p>"
        )
    return ""


def joined(text: str | list[str]) -> str:
    return "".join(text) if isinstance(text, list) else text


def plain(text: str) -> str:
    return (
        f'<pre class="output wide"{named("Output")}>{escape(COLOUR.sub("", text).rstrip())}</pre>'
    )


def widget(record: dict, page: Page) -> str:
    """A place for a widget, with its data: site.js draws them with the widget's own script."""
    if record["script"] not in page.widgets:
        page.widgets.append(record["script"])
    state = json.dumps(record["state"] | {"data": record["data"]}, separators=(",", ":"))
    inert = state.replace("<", "\\u003c")  # nothing in it can end the element
    return (
        f'<div class="course-widget-slot" data-script="{escape(record["script"])}">'
        f'<script type="application/json">{inert}</script></div>'
    )


def pictures(html: str, page: Page) -> str:
    """HTML whose inline PNG images have become files, with their size said beforehand."""

    def moved(match: re.Match) -> str:
        before, encoded, after = match.groups()
        image = base64.b64decode(encoded)
        width, height = struct.unpack(">II", image[16:24])
        name = f"images/{hashlib.sha256(image).hexdigest()[:16]}.png"
        page.files[name] = image
        rest = re.sub(r' style="[^"]*"', "", before + after)
        # on a phone: to be scrolled, not shrunk
        broad = f' class="broad{"er" * (width > BROADER)}"' if width > BROAD else ""
        return f'<img{broad} src="{name}" width="{width}" height="{height}"{rest}>'

    return PICTURE.sub(moved, html)
