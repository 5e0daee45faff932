"""The documentation site builds strictly; its pages ask no other host, fit a phone, and are legible in both colours."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final, Literal

import pytest
from browser_harness import MIN_CONTRAST, UNHINTED, contrasts, horizontal_excess
from playwright.sync_api import Page, expect

ROOT = Path(__file__).resolve().parents[2]
COLOURS = {"light": "default", "dark": "slate"}  # the names of the theme
PAGES = (
    "index",
    "guides/streams",
    "reference/configuration",
    "reference/api/streams",
    "errors",
    "adr/index",
    "metrics",
)


class Quiet(SimpleHTTPRequestHandler):
    """Serves files, and logs no request."""

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the built site, with a slash at its end."""
    pytest.importorskip("mkdocs")
    directory = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(directory)]
    built = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(directory))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.mark.nightly
@pytest.mark.timeout(900)  # the build, on a busy machine
def test_every_page_can_be_read_in_light_and_dark_and_fits_a_phone(site: str, page: Page) -> None:
    schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
    for name in PAGES:
        for scheme in schemes:
            page.set_viewport_size({"width": 1360, "height": 900})
            page.emulate_media(color_scheme=scheme)
            page.goto(f"{site}{name}.html")
            expect(page.locator("h1")).to_be_visible()
            faint = [one for one in contrasts(page) if one[0] < MIN_CONTRAST and one[1] != "¶"]
            assert faint == [], (name, scheme)
            page.set_viewport_size({"width": 360, "height": 740})
            faint = [one for one in contrasts(page) if one[0] < MIN_CONTRAST and one[1] != "¶"]
            assert faint == [], (name, scheme, "the contents of all pages")
            assert horizontal_excess(page) <= 0, name
            assert page.evaluate(UNHINTED) == [], name
            assert page.evaluate(COVERED) == [], name


# The blocks of code that their button to copy lies over.
COVERED: Final = """
() => [...document.querySelectorAll("pre > .md-code__nav")].filter((button) => {
  const [over, code] = [button, button.parentElement.querySelector("code")].map((one) => one.getBoundingClientRect());
  return over.left < code.right && code.left < over.right && over.top < code.bottom && code.top < over.bottom;
}).map((button) => button.parentElement.textContent.slice(0, 80))
"""


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_pictures_of_the_ui_have_the_colours_of_the_page(site: str, page: Page) -> None:
    schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
    for name in ("index", "ui", "tutorial/operate"):
        page.goto(f"{site}{name}.html")
        for scheme in schemes:
            page.emulate_media(color_scheme=scheme)
            expect(page.locator("body")).to_have_attribute("data-md-color-scheme", COLOURS[scheme])
            shown = [
                one.get_attribute("src") or ""
                for one in page.locator("img[src*='images/ui/']").all()
                if one.is_visible()
            ]
            assert shown, name
            assert all(("-dark.png" in one) == (scheme == "dark") for one in shown), (name, scheme, shown)


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_the_search_finds_guides_before_decisions(site: str, page: Page) -> None:
    page.goto(f"{site}index.html")
    page.locator(".md-search__input").click()
    page.keyboard.type("checkpoint")
    expect(page.locator(".md-search-result__link").first).to_have_attribute("href", re.compile(r"/guides/state\.html"))


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_an_address_without_a_page_is_answered_with_ways_on(site: str, page: Page) -> None:
    page.goto(f"{site}404.html")  # what a host shows for it
    expect(page).to_have_title("Page not found - Tupletree")
    page.locator("article").get_by_role("link", name="quickstart").click()
    expect(page.locator("h1")).to_contain_text("Quickstart")


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_the_search_finds_a_key_and_a_key_in_a_text_leads_to_its_meaning(site: str, page: Page) -> None:
    page.goto(f"{site}index.html")
    page.locator(".md-search__input").click()
    page.keyboard.type("spout.pending")
    expect(page.locator(".md-search-result__item").first).to_be_visible()
    page.goto(f"{site}guides/performance-tuning.html")
    page.locator("a.key", has_text="topology.max.spout.pending").first.click()
    expect(page).to_have_url(f"{site}reference/configuration.html#topology.max.spout.pending")
    expect(page.locator("[id='topology.max.spout.pending']")).to_be_in_viewport()
