"""Pages of the site that are made from the code, and the entries of its navigation that are folders.

A hook of mkdocs (mkdocs.yml). The generated pages are those below reference/: they exist on the site only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from api import api_pages
from configuration import configuration_page
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

DOCS = Path(__file__).resolve().parents[2] / "docs"
INDEXES = ("index.md", "README.md")
GENERATED = {**api_pages(), "reference/configuration.md": configuration_page()}


def pages_of(folder: str) -> list[str]:
    """Return the pages of a folder that ends with a slash: the index, then the others in its order, or by name."""
    texts = {path.relative_to(DOCS).as_posix(): path.read_text() for path in sorted((DOCS / folder).glob("*.md"))}
    texts |= {name: text for name, text in GENERATED.items() if name.startswith(folder)}
    contents = next((text for name, text in texts.items() if name.endswith(INDEXES)), "")
    pages = [name for name in texts if "/" not in name[len(folder) :]]
    return sorted(pages, key=lambda name: (not name.endswith(INDEXES), contents.find(f"({name[len(folder) :]})")))


def expanded(entry: Any) -> list[Any]:
    """Return an entry of the navigation with its folders as lists of pages; an empty list if there is no page."""
    if isinstance(entry, dict):
        ((title, inner),) = entry.items()
        if isinstance(inner, str) and not inner.endswith("/"):
            return [{title: page} for page in expanded(inner)]
        pages = expanded(inner)
        return [{title: pages}] if pages else []
    if isinstance(entry, list):
        return [page for inner in entry for page in expanded(inner)]
    if entry.endswith("/"):
        return list(pages_of(entry))
    return [entry] if entry in GENERATED or (DOCS / entry).exists() else []


def on_config(config: MkDocsConfig) -> None:
    config.nav = expanded(config.nav)


def on_files(files: Files, config: MkDocsConfig) -> None:
    for name, text in GENERATED.items():
        files.append(File.generated(config, name, content=text))
