"""Where the archive of Spark's classes is, and when it is used."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tupletree.spark.class_archive import archive, options
from tupletree.spark.session import settings


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Java, as far as looking at the file can tell, and an environment without an archive."""
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    return java


def test_another_java_is_another_archive(java: Path) -> None:
    first = archive()
    assert first == archive()
    os.utime(java, (1, 1))
    assert first != archive()


def test_without_java_there_is_none(java: Path) -> None:
    java.unlink()
    assert archive() is None
    assert options() == ""


def test_it_is_used_once_it_is_there(java: Path) -> None:
    assert options() == ""
    assert "SharedArchiveFile" not in settings({})["spark.driver.defaultJavaOptions"]
    path = archive()
    assert path is not None
    path.parent.mkdir(parents=True)
    path.touch()
    assert f"-XX:SharedArchiveFile={path} " in settings({})["spark.driver.defaultJavaOptions"]
