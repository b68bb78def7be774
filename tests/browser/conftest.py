"""A browser for all of a worker's tests; without one they are skipped, or fail where it is required."""

import os
from collections.abc import Iterator

import pytest

from course_utils.hardware import browser_path
from tests.browser.lab import close_all

REQUIRED = "COURSE_REQUIRE_BROWSER"  # set where tests must not be skipped
QUIET = [  # it asks nobody for anything of its own accord
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
]


@pytest.fixture(scope="session")
def chromium() -> Iterator:
    """Playwright's handle of the system's own Chromium."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return absent("playwright is not installed")
    path = browser_path()
    if path is None:
        return absent("no Chromium on this machine")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=QUIET)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def one_page(chromium) -> Iterator:
    """One for all lessons: JupyterLab takes as long to start as a lesson takes to open."""
    context = chromium.new_context(viewport={"width": 1440, "height": 1000}, has_touch=True)
    yield context.new_page()
    context.close()


@pytest.fixture
def lab_page(one_page) -> Iterator:
    yield one_page
    close_all(one_page)


def absent(what: str) -> None:
    if os.environ.get(REQUIRED):
        pytest.fail(f"{what}, and {REQUIRED} asks for it", pytrace=False)
    pytest.skip(f"{what}: the browser tests need it")
