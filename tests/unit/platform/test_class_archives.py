"""Archives of Java classes: where they are, and how a new one takes the place of older ones."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tupletree import _class_archive


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A Java, as far as looking at the file can tell, and an environment without an archive."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    (tmp_path / "java").touch()
    return str(tmp_path / "java")


def test_other_jars_have_another_archive(java: str) -> None:
    path = _class_archive.path_of("one", java, "1.jar")
    assert path == _class_archive.path_of("one", java, "1.jar")
    assert path != _class_archive.path_of("one", java, "2.jar")


def test_an_archive_that_is_not_there_is_not_used(java: str) -> None:
    assert _class_archive.options(_class_archive.path_of("one", java, "1.jar")) == []


def test_a_new_archive_replaces_those_of_the_same_program(java: str) -> None:
    old, new = (_class_archive.path_of("one", java, jars) for jars in ("1.jar", "2.jar"))
    other = _class_archive.path_of("two", java, "1.jar")
    new.parent.mkdir(parents=True)
    partial = new.parent / "partial"
    for path in old, other, partial:
        path.write_text(path.name)
    _class_archive.keep(partial, new, "one-*.jsa")
    assert {path: path.read_text() for path in new.parent.iterdir()} == {new: "partial", other: other.name}
    assert _class_archive.options(new)[0] == f"-XX:SharedArchiveFile={new}"
