"""The site in a browser: nothing from another host, no fault that shuts somebody out, widgets alive."""

import functools
import http.server
import re
import threading
from pathlib import Path

import pytest

from course_utils.cli import ROOT
from course_utils.site.build import build
from tests.browser import widgets
from tests.browser.watching import faults, listen

PAGES = ["index", *sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))]
PHONE = {"viewport": {"width": 420, "height": 900}, "has_touch": True, "is_mobile": True}
LOOKS = {"light": {"color_scheme": "light"}, "dark on a phone": {"color_scheme": "dark", **PHONE}}
LOUD = "03_rematerialization"  # a timeline that plays, and a playground
LONGEST_NEWS = 160  # characters: ten seconds of speech
FONTS = "document.fonts.ready.then(all => [...all].every(font => font.status !== 'error'))"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments) -> None:
        pass


@pytest.fixture(scope="session")
def folder(chromium, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("site") / "site"
    build(out, ROOT)
    return out


@pytest.fixture(scope="session")
def host(folder) -> str:
    """The site's own host, until the tests are done."""
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(params=LOOKS)
def page(request, chromium):
    context = chromium.new_context(**LOOKS[request.param])
    yield context.new_page()
    context.close()


@pytest.mark.timeout(240)  # the first one waits for the site
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_sound(page, host, name) -> None:
    heard = listen(page, host)
    page.goto(f"http://{host}/{name}.html")
    page.wait_for_timeout(100)
    slots, alive = page.locator(".course-widget-slot"), page.locator(".course-frame")
    assert alive.count() == slots.count()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "too wide"
    assert page.evaluate(FONTS)
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(el => el.id)")
    assert len(ids) == len(set(ids))
    assert page.evaluate("[...document.images].every(image => image.complete && image.alt)")
    assert faults(page) == []
    assert heard.errors == [] and heard.strangers == []


def test_widgets_answer(page, host, folder) -> None:
    """Every kind of widget, once, by its slider's keys and its buttons; on a phone by touch."""
    heard, seen = listen(page, host), set()
    touch = page.evaluate("matchMedia('(pointer: coarse)').matches")
    for name in PAGES:
        kinds = re.findall(r'data-script="(\w+)"', (folder / f"{name}.html").read_text("utf-8"))
        if seen >= set(kinds):
            continue
        page.goto(f"http://{host}/{name}.html")
        for slot in page.query_selector_all(".course-widget-slot"):
            kind, widget = slot.get_attribute("data-script"), slot.query_selector(".course-widget")
            if kind in seen:
                continue
            seen.add(kind)
            assert widgets.unanswered(page, widget, touch) == [], kind
            median = widgets.step_milliseconds(widget)
            assert median < widgets.STEP_LIMIT_MILLISECONDS, f"{kind}: {median:.1f} ms a step"
    assert seen == {path.stem for path in (folder / "widgets").glob("*.js")}
    assert heard.errors == [] and heard.strangers == []


def test_widgets_speak_when_asked_and_briefly(chromium, host) -> None:
    """Not when a page opens, not at every step while it plays, and not what the slider has said."""
    page = chromium.new_page()
    page.goto(f"http://{host}/{LOUD}.html")
    page.wait_for_timeout(widgets.REST_MILLISECONDS)
    said = "[...document.querySelectorAll('.course-live')].map(line => line.textContent).join('')"
    assert page.evaluate(said) == ""
    widget = page.query_selector(".course-widget:has(button:text-is('Play'))")
    for name in ("Play", "Pause"):
        assert widgets.live_text(page, widget) == ""
        widget.query_selector(f"button:text-is('{name}')").click()
        page.wait_for_timeout(700)  # a step, at least
    steps = widgets.live_text(page, widget)
    assert steps.startswith("Step ") and len(steps) < LONGEST_NEWS
    widgets.longest_range(widget).focus()
    page.keyboard.press("ArrowRight")
    assert not widgets.live_text(page, widget).startswith("Step ")
    page.keyboard.press("End")
    assert widget.query_selector("button:text-is('Next')").get_attribute("aria-disabled") == "true"
    page.close()


def test_a_button_of_the_playground_is_called_what_it_shows(chromium, host) -> None:
    """And the schedule can be read as a list, in the order of its computations."""
    page = chromium.new_page()
    page.goto(f"http://{host}/{LOUD}.html")
    node, listed = page.locator(".course-node").first, page.locator(".course-schedule").first
    for state in ("kept", "gone"):
        assert state in node.get_attribute("aria-label") and state in node.text_content()
        node.click()
    assert "again" not in listed.text_content()
    page.locator("button:text-is('Discard all')").first.click()
    assert listed.locator("li").first.text_content() == "z1" and "again" in listed.text_content()
    page.close()


def first_page_with_widgets(folder: Path) -> Path:
    for name in PAGES:
        path = folder / f"{name}.html"
        if "course-widget-slot" in path.read_text("utf-8"):
            return path
    raise AssertionError("no page has a widget")


def test_a_figure_stands_in_for_a_widget(chromium, folder) -> None:
    """Without scripts, on paper, and when asked for. Opened from the disk: no server is needed."""
    address = first_page_with_widgets(folder).as_uri()
    for scripts in (True, False):
        context = chromium.new_context(java_script_enabled=scripts)
        page = context.new_page()
        page.goto(address)
        figure = page.locator("[data-course-fallback]").first
        assert figure.is_visible() is not scripts
        if scripts:
            toggle = page.locator(".course-fallback-toggle").first
            toggle.click()
            assert figure.is_visible() and toggle.get_attribute("aria-expanded") == "true"
            assert toggle.inner_text().startswith("Hide")
            assert page.evaluate("!!document.activeElement.querySelector('[data-course-fallback]')")
            toggle.click()
            assert not figure.is_visible() and toggle.is_visible()
            page.emulate_media(media="print")
            assert figure.is_visible() and not page.locator(".course-widget").first.is_visible()
        context.close()


def test_paper_shows_everything(chromium, host) -> None:
    """Hints and tables are opened for the printer, and closed again; nothing is cut off; paper is white."""
    page = chromium.new_page(viewport={"width": 700, "height": 900}, color_scheme="dark")
    page.goto(f"http://{host}/{PAGES[1]}.html")
    page.emulate_media(media="print")
    opened = "[...document.querySelectorAll('main details')].every(part => part.open)"
    assert not page.evaluate(opened)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(opened)
    cut_off = "[...document.querySelectorAll('main pre')].some(p => p.scrollWidth > p.clientWidth)"
    assert not page.evaluate(cut_off)
    body = "getComputedStyle(document.body)"
    assert page.evaluate(f"{body}.backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate(f"{body}.color") == "rgb(0, 0, 0)"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert not page.evaluate(opened)
    page.close()


def test_the_way_through_the_course(chromium, host) -> None:
    """From the contents to the first lesson, on to the next, and to a section, with the keyboard alone."""
    page = chromium.new_page(viewport={"width": 1440, "height": 900})
    page.goto(f"http://{host}/")
    for link, name in (("ol.lessons a", PAGES[1]), ('a[rel="next"]', PAGES[2])):
        page.locator(link).first.focus()
        page.keyboard.press("Enter")
        page.wait_for_url(f"**/{name}.html")
    page.locator(".sections a").last.focus()
    page.keyboard.press("Enter")
    anchor = page.evaluate("decodeURIComponent(location.hash.slice(1))")
    assert anchor and page.locator(f"h2[id='{anchor}']").is_visible()
    page.close()
