"""One Chromium for the browser tests of a run, and a page for each test that must not complain or leave this host."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from browser_harness import ARGUMENTS, WAIT_MS, Watched, chromium_path
from playwright.sync_api import Browser, Page, expect, sync_playwright


@pytest.fixture(scope="package")  # Playwright's event loop runs as long: other folders have loops of their own
def browser() -> Iterator[Browser]:
    path = chromium_path()
    if path is None:
        pytest.skip(
            "there is no Chromium: install Debian's package 'chromium', or name another one in TUPLETREE_CHROMIUM"
        )
    expect.set_options(timeout=WAIT_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        yield browser
        browser.close()


@pytest.fixture
def watched(browser: Browser) -> Iterator[Watched]:
    """A page of 1280 by 900 in light colours. At the end it has complained of nothing and has asked no other host."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    watched = Watched(context.new_page())
    yield watched
    context.close()
    assert watched.problems == []
    assert watched.foreign == []


@pytest.fixture
def page(watched: Watched) -> Page:
    return watched.page


@pytest.fixture(scope="session")
def screenshots() -> str | None:
    """The directory that pictures for the documents go to, if TUPLETREE_SCREENSHOTS names one."""
    return os.environ.get("TUPLETREE_SCREENSHOTS")
