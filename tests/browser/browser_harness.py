"""What the browser tests share: where Chromium is, what a page may do, how views are addressed and measured."""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import quote, urlsplit

from playwright.sync_api import ConsoleMessage, FloatRect, Locator, Page, Request

from tupletree.testing import DevCluster

ARGUMENTS: Final = (
    "--headless=new",
    "--no-sandbox",  # tests may run as root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WAIT_MS: Final = 30_000.0
MIN_CONTRAST: Final = 4.5  # of text with what is behind it
TALLEST: Final = 1030  # of a picture for the documents, so that it has about 150 KB


def chromium_path() -> str | None:
    """TUPLETREE_CHROMIUM, or Debian's Chromium, if there is one."""
    return os.environ.get("TUPLETREE_CHROMIUM") or shutil.which("chromium")


class Watched:
    """A page, and what it did that no page of ours should do."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.problems: list[str] = []
        self.foreign: list[str] = []
        self.posts: list[str] = []
        page.set_default_timeout(WAIT_MS)
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("request", self._asked)

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.problems.append(message.text)

    def _asked(self, request: Request) -> None:
        if request.method == "POST":
            self.posts.append(urlsplit(request.url).path.partition("/api/v1/")[2])
        if urlsplit(request.url).hostname not in {"127.0.0.1", None}:
            self.foreign.append(request.url)


def http_port(cluster: DevCluster, index: int = 0) -> int:
    """The HTTP port of a nimbus, in the order they were started."""
    return [one.http_port for one in cluster.processes if one.role == "nimbus"][index]


def address(cluster: DevCluster, *parts: str, index: int = 0) -> str:
    """The address of a view: ``address(cluster, "topology", id)``."""
    view = "/".join(quote(part, safe="") for part in parts)
    return f"http://127.0.0.1:{http_port(cluster, index)}/#/{view}"


def api(cluster: DevCluster, path: str) -> Any:
    """The JSON of a path below /api/v1."""
    with urllib.request.urlopen(f"http://127.0.0.1:{http_port(cluster)}/api/v1/{path}", timeout=10) as answer:
        return json.load(answer)


def topology_id(cluster: DevCluster, name: str) -> str:
    return next(one.record.id for one in cluster.client.list() if one.record.name == name)


def shot(page: Page, directory: str | None, name: str) -> None:
    """Pictures of the page for the documents, in light and dark, no taller than they bear; none without a directory."""
    if directory is None:
        return
    Path(directory).mkdir(parents=True, exist_ok=True)
    page.mouse.move(0, 0)
    height = min(
        TALLEST, int(page.evaluate("Math.ceil(document.querySelector('.foot').getBoundingClientRect().bottom)"))
    )
    clip: FloatRect = {"x": 0, "y": 0, "width": 1280, "height": height}
    schemes: tuple[tuple[Literal["dark", "light"], str], ...] = (("dark", "-dark"), ("light", ""))
    for scheme, suffix in schemes:
        page.emulate_media(color_scheme=scheme)
        page.screenshot(path=f"{directory}/{name}{suffix}.png", full_page=True, clip=clip)


def horizontal_excess(page: Page) -> int:
    """By how many pixels the page is wider than what is seen of it."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


# What is wider than it shows and has no shades at its edges, which say so.
UNHINTED: Final = """
() => [...document.querySelectorAll("article *, main:not(:has(article)) *")].filter((one) => {
  const style = getComputedStyle(one);
  const scrolls = ["auto", "scroll"].includes(style.overflowX) && one.scrollWidth > one.clientWidth + 1;
  const hinted = style.backgroundAttachment.includes("local") && style.backgroundAttachment.includes("scroll");
  return scrolls && !hinted && one.checkVisibility() && one.clientWidth > 0;
}).map((one) => one.outerHTML.slice(0, 80))
"""


# The figures of a page by label, the column of a table named so, and the figures of the charts, all of one moment.
SHOWN: Final = """
(column) => {
  const texts = (found) => [...found].map((one) => one.textContent);
  const heads = texts(document.querySelectorAll("[aria-label='Table: Topologies'] thead th"));
  const at = heads.findIndex((one) => one.startsWith(column));
  return {
    figures: Object.fromEntries([...document.querySelectorAll(".figures > div")].map((one) => texts(one.children))),
    column: texts(document.querySelectorAll(`[aria-label='Table: Topologies'] tbody tr > :nth-child(${at + 1})`)),
    charts: Object.fromEntries([...document.querySelectorAll(".legend-entry")].map(
      (one) => [one.querySelector("b").previousSibling.textContent, one.querySelector("b").textContent])),
  };
}
"""

# The distance of each label of the drawing from the nearest point of its line.
LABELS_OFF: Final = """
() => [...document.querySelectorAll(".graph .stream")].map((stream) => {
  const path = stream.querySelector("path");
  const text = stream.querySelector("text");
  const length = path.getTotalLength();
  const far = (point) => Math.hypot(point.x - text.getAttribute("x"), point.y - text.getAttribute("y"));
  return Math.min(...Array.from({length: 401}, (_, at) => far(path.getPointAtLength(length * at / 400))));
})
"""

# The figures, and labels of figures, that are not seen whole.
CLIPPED: Final = """
() => [...document.querySelectorAll(".figures :is(dt, dd)")].filter((one) => one.scrollWidth > one.clientWidth + 1)
  .map((one) => one.textContent)
"""

# The contrast of text with what is behind it, as WCAG computes it, for every element that shows text of its own.
CONTRASTS: Final = """
() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgba = (text) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = text;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => [0, 1, 2].map((at) => top[at] * top[3] + below[at] * (1 - top[3])).concat(1);
  const behind = (element) => {
    const layers = [];
    for (let one = element; one; one = one.parentElement) layers.push(rgba(getComputedStyle(one).backgroundColor));
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
  };
  const light = (colour) => {
    const [r, g, b] = colour.slice(0, 3).map((part) => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!own || element.closest("svg, .hidden, .skip, option") || !element.checkVisibility()) continue;
    const below = behind(element);
    const text = over(rgba(getComputedStyle(element).color), below);
    const [lower, upper] = [light(text), light(below)].sort((a, b) => a - b);
    found.push([(upper + 0.05) / (lower + 0.05), element.textContent.trim().slice(0, 40), element.className]);
  }
  return found.sort((a, b) => a[0] - b[0]);
}
"""


def contrasts(page: Page) -> list[tuple[float, str, str]]:
    """Contrast ratio, text and class of every element with text, the least first."""
    return [(float(ratio), str(text), str(name)) for ratio, text, name in page.evaluate(CONTRASTS)]


@contextmanager
def growing(text: Path) -> Iterator[None]:
    """A text that grows by some lines five times a second, so that transactions go on and do not take a processor."""
    is_over = threading.Event()

    def grow() -> None:
        while not is_over.wait(0.2):
            with text.open("a") as file:
                file.write("the quick brown fox\n" * 3)

    grower = threading.Thread(target=grow, daemon=True)
    grower.start()
    try:
        yield
    finally:
        is_over.set()
        grower.join()


def table(page: Page, caption: str) -> Locator:
    return page.get_by_role("region", name=f"Table: {caption}", exact=True)


def row(page: Page, caption: str, first: str) -> Locator:
    """A row of a table, by what stands in its first cell."""
    return (
        table(page, caption)
        .locator("tbody tr")
        .filter(has=page.locator("th").filter(has_text=re.compile(f"^{re.escape(first)}$")))
    )
