"""What a widget is: recorded data, a script that draws them, and what stands in its place.

A widget shows nothing on GitHub, in print, or after its kernel is gone. So `show` puts a figure and a table
first. The widget's script hides them while it lives, and a button brings them back; where no widget can show
they are simply there. While the course's notebooks are built (COURSE_STATIC in the environment) the
widget itself is left out, so that no state of it is ever saved. For the site (COURSE_SITE) its data are shown
instead, as an output of their own type: the page draws them with the same script.
"""

import os
import re
from collections.abc import Callable, Sequence
from functools import cache
from html import escape
from pathlib import Path

from IPython.display import display

from course_utils.plots import collect_figures

__all__ = ["RECORD", "SCRIPTS", "script", "show", "style", "table"]

FOLDER = Path(__file__).with_name("js")
RECORD = "application/vnd.course-widget+json"  # the type of a widget's data, for the site
SCRIPTS = {  # name -> title
    "memory_timeline": "Memory timeline",
    "checkpoint_playground": "Checkpoint playground",
    "online_softmax": "Online softmax",
    "roofline": "Roofline",
    "tiles_in_motion": "Tiles in motion",
}


@cache
def script(name: str) -> str:
    """The module of one widget: what all share, then its own. Under 30 kB."""
    return "\n".join((FOLDER / f"{part}.js").read_text("utf-8") for part in ("base", name))


@cache
def style() -> str:
    """The style sheet of all widgets."""
    return (FOLDER / "base.css").read_text("utf-8")


@cache
def _widget_class(name: str):
    """anywidget's class for a script; made when first shown, since it takes half a second to import."""
    import anywidget
    import traitlets

    class CourseWidget(anywidget.AnyWidget):
        _esm = script(name)
        _css = style()
        data = traitlets.Dict().tag(sync=True)
        step = traitlets.Int(0).tag(sync=True)

    CourseWidget.__name__ = name
    return CourseWidget


def show(
    name: str,
    data: dict,
    figure: Callable[[], None],
    rows: str,
    alts: Sequence[str] = (),
    **state,
) -> None:
    """Show a figure with its table, and a widget that takes their place while it lives.

    name: of SCRIPTS. data: plain, as the script reads it. figure: draws and shows the static figure.
    rows: a table as HTML (see `table`). alts: in place of the figures' own words, which need not tell all that
    the table tells. state: initial values of the widget's traits, such as step=3.
    """
    with collect_figures() as figures:
        figure()
    for bundle, alt in zip(figures, alts, strict=bool(alts)):
        html = re.sub(r'alt="[^"]*"', f'alt="{escape(alt)}"', bundle["text/html"], count=1)
        bundle |= {"text/html": html, "text/plain": alt}
    html = "".join(bundle["text/html"] for bundle in figures)
    display(
        figures[0] | {"text/html": f"<div data-course-fallback>{html}{rows}</div>"},
        raw=True,
    )
    if os.environ.get("COURSE_SITE"):
        display({RECORD: {"script": name, "data": data, "state": state}}, raw=True)
    elif not os.environ.get("COURSE_STATIC"):
        display(_widget_class(name)(data=data, **state))


def table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table as HTML, folded away under its caption; the first cell of a row names it."""
    head = "".join(f'<th scope="col">{escape(str(text))}</th>' for text in heads)
    body = "".join(
        "<tr>"
        + f'<th scope="row">{escape(str(row[0]))}</th>'
        + "".join(f"<td>{escape(str(cell))}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    return (
        f"<details><summary>{escape(caption)}, as a table</summary>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></details>"
    )
