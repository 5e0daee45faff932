"""The files of the web UI: all are installed, what is vendored is as it was published, none runs foreign text."""

from __future__ import annotations

import hashlib
import re
import tomllib
from pathlib import Path

import pytest

import tupletree.nimbus.web

ROOT = Path(__file__).parents[3]
PACKAGE = Path(tupletree.nimbus.web.__file__).parent
STATIC = PACKAGE / "static"
VENDOR = STATIC / "vendor"
FILES = sorted(one for one in STATIC.rglob("*") if one.is_file())
OWN_SCRIPTS = [one for one in FILES if one.suffix == ".js" and VENDOR not in one.parents]

VENDORED_ROW = re.compile(
    r"^\| (\S+) \| (\S+) \(\S+\) \| ([\d.]+) \| MIT, (LICENSE\.\w+) \| ([0-9a-f]{64}) \|$", re.MULTILINE
)


def test_an_installed_package_has_every_file() -> None:
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    installed = {file for pattern in data["tupletree.nimbus.web"] for file in PACKAGE.glob(pattern)}
    assert [file for file in FILES if file not in installed] == []


def test_what_is_vendored_is_as_it_was_published_and_has_its_licence() -> None:
    rows = VENDORED_ROW.findall((VENDOR / "VENDORED.md").read_text())
    for name, _, _, licence, digest in rows:
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == digest, name
        assert "Permission is hereby granted" in (VENDOR / licence).read_text()
    known = {name for row in rows for name in (row[0], row[3])} | {"VENDORED.md"}
    assert {one.name for one in VENDOR.iterdir()} == known


@pytest.mark.parametrize("script", OWN_SCRIPTS, ids=lambda script: script.name)
def test_a_script_inserts_nothing_but_text_and_is_short(script: Path) -> None:
    text = script.read_text()
    ways_around = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc"
    assert re.findall(ways_around, text) == []
    assert len(text.splitlines()) < 400


@pytest.mark.parametrize("file", [one for one in FILES if VENDOR not in one.parents], ids=lambda file: file.name)
def test_nothing_is_loaded_from_elsewhere(file: Path) -> None:
    addresses = re.findall(r"(?:https?:)?//[\w.-]+\.\w{2,}", file.read_text())
    assert set(addresses) <= {"http://www.w3.org"}  # the name of SVG, not an address


@pytest.mark.parametrize("name", ["index.html", "login.html"])
def test_pages_have_no_inline_scripts_or_styles(name: str) -> None:
    text = (STATIC / name).read_text()
    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", text) == []
    for reference in re.findall(r'(?:src|href)="([^"]+)"', text):
        assert (STATIC / reference.lstrip("/")).is_file(), reference
