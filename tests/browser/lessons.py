"""Opens a lesson in JupyterLab, runs it, and says what must hold then."""

from pathlib import Path

from tests.browser import widgets
from tests.browser.lab import Notebook
from tests.browser.watching import faults, listen

ALL_SHOWN = """() => document.querySelectorAll('.course-widget').length
  === document.querySelectorAll('[data-course-fallback]').length"""
WITHOUT = {"00_start_here"}  # all other lessons have widgets
THEMES = {"JupyterLab Dark", "JupyterLab Light"}


def runs_soundly(page, host: str, path: Path) -> None:
    """From top to bottom, without an error; its widgets answer; no other host is asked for anything."""
    heard = listen(page, host)
    notebook = Notebook(page, host, f"{path.parent.name}-{path.name}")
    notebook.open()
    notebook.run()
    assert notebook.errors() == []
    assert notebook.unrun() == 0
    page.wait_for_function(ALL_SHOWN)  # one for every figure that a widget stands for
    shown = page.query_selector_all(".course-widget")
    assert bool(shown) == (path.stem not in WITHOUT)
    for widget in shown:
        answers(page, widget)
    ids = page.evaluate("[...document.querySelectorAll('.course-widget [id]')].map(el => el.id)")
    assert len(ids) == len(set(ids))
    if shown:
        assert faults(page, ".course-widget") == [], notebook.theme
        notebook.wear(*THEMES - {notebook.theme})  # the next lesson begins with this one
        assert faults(page, ".course-widget") == [], notebook.theme
        assert "widgets" not in notebook.saved()["metadata"]
    assert heard.errors == [] and heard.strangers == []


def answers(page, widget) -> None:
    """By mouse, by touch, by keys, quickly, and without moving on to JupyterLab's next cell."""
    cell = "document.querySelector('.jp-Cell.jp-mod-active')?.dataset.windowedListIndex"
    widgets.longest_range(widget).focus()
    active = page.evaluate(cell)
    silent = widgets.unanswered(page, widget, False, True)
    assert silent == [], (widget.inner_text()[:60], silent)
    assert page.evaluate(cell) == active
    assert widgets.step_milliseconds(widget) < widgets.STEP_LIMIT_MILLISECONDS
