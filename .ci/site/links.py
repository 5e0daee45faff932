"""Links of the site: to files of the repository, to configuration keys, and their check after the build.

A hook of mkdocs (mkdocs.yml). A warning fails the build, which is strict.
"""

from __future__ import annotations

import logging
import posixpath
import re
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from jinja2 import Environment
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page
from pymdownx.slugs import slugify

from tupletree.config import KEYS

LOG: Final = logging.getLogger("mkdocs.hooks.links")
ROOT: Final = Path(__file__).resolve().parents[2]
BRANCH: Final = "main"
# A search finds first what explains, and a key by its name.
BOOSTS: Final = {"guides/": 3, "tutorial/": 2, "reference/configuration": 8, "performance.md": 0.3, "adr/": 0.2}
LINK: Final = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s#]+)(#[^)\s]*)?(?=\))")
HEADING: Final = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
KEY: Final = re.compile(rf"(?<!>)<code>({'|'.join(map(re.escape, KEYS))})</code>(?!</a>)")
PAGES_OF: Final = {"README.md": "index.md", "deploy/conf/tupletree.yaml": "reference/configuration.md"}
PARAGRAPH: Final = re.compile(r"<p>(.*?)</p>", re.DOTALL)
CODE: Final = re.compile(r"(?<!<pre>)(<code>)([^<]*)(?=</code>)")
OPTION: Final = re.compile(r"(?<![\w-])--?[a-zA-Z][\w-]*")
UNREAD: Final = re.compile(r"^(?:\d+\. |[*|-] |```|\$ )|\]\(", re.MULTILINE)  # Markdown that was not read as such
NAMED: Final = re.compile(r'<a href="([^":#]+\.html)(#[^"]*)?">(?:[\w/.-]+/)?[\w-]+\.md(?:#[\w-]+)?</a>')
LOADING: Final = {("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src")}


def anchors_of(document: Path) -> set[str]:
    """Return the anchors of the headings of a Markdown file, as the file host makes them."""
    slug = slugify(case="lower")
    return {slug(re.sub(r"[`*]", "", title), "-") for title in HEADING.findall(document.read_text())}


def in_repository(page: str, target: str, anchor: str, repo_url: str) -> str | None:
    """Return the address of what a link to a file outside docs/ leads to; None if the link stays within docs/.

    That is the page of the site that has the file's content, or the file at the file host.
    """
    folder = posixpath.dirname(page)
    path = posixpath.normpath(posixpath.join("docs", folder, target))
    if path == "docs" or path.startswith("docs/"):
        return None
    if path in PAGES_OF and not anchor:
        return posixpath.relpath(PAGES_OF[path], folder or ".")
    file = ROOT / path
    if not file.exists():
        LOG.warning("%s: the link to %s leads to no file of the repository", page, target)
    elif anchor and file.suffix == ".md" and anchor[1:] not in anchors_of(file):
        LOG.warning("%s: %s has no heading for the link to %s%s", page, path, target, anchor)
    return f"{repo_url.rstrip('/')}/{'tree' if file.is_dir() else 'blob'}/{BRANCH}/{path}{anchor}"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    page.meta["search"] = {"boost": next((by for name, by in BOOSTS.items() if page.file.src_uri.startswith(name)), 1)}

    def rewritten(match: re.Match[str]) -> str:
        address = in_repository(page.file.src_uri, match[1], match[2] or "", config.repo_url or "")
        return match[0] if address is None else address

    return LINK.sub(rewritten, markdown)


def with_whole_options(html: str) -> str:
    """Return the HTML with the options in inline code marked, so that no line ends after their dashes."""
    return CODE.sub(lambda found: found[1] + OPTION.sub(r'<span class="option">\g<0></span>', found[2]), html)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Link each configuration key in the text to its description, and keep each option of a command in one line."""
    html = with_whole_options(html)
    if page.file.src_uri == "reference/configuration.md":
        return html
    base = posixpath.relpath("reference/configuration.html", posixpath.dirname(page.file.dest_uri) or ".")
    return KEY.sub(rf'<a class="key" href="{base}#\1"><code>\1</code></a>', html)


def with_titles(html: str, page: str, titles: Mapping[str, str]) -> str:
    """Return the HTML of a page with titles in the place of file names, where these are the text of a link.

    ``titles``: the titles of the pages by their addresses within the site.
    """

    def titled(match: re.Match[str]) -> str:
        title = titles.get(posixpath.normpath(posixpath.join(posixpath.dirname(page), match[1])))
        return match[0] if title is None else f'<a href="{match[1]}{match[2] or ""}">{title}</a>'

    return NAMED.sub(titled, html)


def on_env(env: Environment, config: MkDocsConfig, files: Files) -> Environment:
    """Name pages by their titles, which are all known here."""
    pages = [file.page for file in files.documentation_pages() if file.page is not None]
    titles = {page.file.dest_uri: str(page.title) for page in pages}
    for page in pages:
        page.content = with_titles(page.content or "", page.file.dest_uri, titles)
    return env


class Built(HTMLParser):
    """A built page: its anchors, the addresses that it links to, and those that a browser loads with it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.unread = [one for one in PARAGRAPH.findall(text) if UNREAD.search(one)]
        self.asks_for_stars = 'data-md-component="source"' in text
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is None:
                continue
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)
            elif (tag, name) in LOADING or (tag == "link" and name == "href" and dict(attrs).get("rel") != "canonical"):
                self.loaded.add(value)
            elif tag == "a" and name == "href":
                self.links.add(value)


def faults(site: Path, root: str = "/") -> list[str]:
    """Return a sentence for each dead link within the site, and for each file that another host would have to serve.

    ``root``: the path at which the site is served. Only the page 404.html is shown at any depth and names it.
    """
    pages = {path: Built(path.read_text()) for path in sorted(site.rglob("*.html"))}
    found = []
    for path, built in pages.items():
        name = path.relative_to(site).as_posix()
        found += [f"{name} loads {one} from another host" for one in built.loaded if urlsplit(one).netloc]
        found += [f"{name}: Markdown in {one[:60]!r} is shown as text: see its indentation" for one in built.unread]
        if built.asks_for_stars:
            found.append(f"{name} asks the file host for its stars when it is viewed")
        for link in sorted(built.links | built.loaded):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            inner = unquote(parts.path)
            base, inner = (site, inner.removeprefix(root)) if path.name == "404.html" else (path.parent, inner)
            target = (base / inner).resolve() if parts.path else path  # from another root: not a page of the site
            target = target / "index.html" if target.is_dir() else target
            if not (target.is_relative_to(site) and target.exists()):
                found.append(f"{name}: the link to {link} leads to no page")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                found.append(f"{name}: {link} names no anchor of its page")
    return found


def on_post_build(config: MkDocsConfig, **kwargs: Any) -> None:
    for fault in faults(Path(config.site_dir).resolve(), urlsplit(config.site_url or "/").path):
        LOG.warning("%s", fault)
