"""Finding Java 17 or newer."""

from __future__ import annotations

import pathlib

import pytest

from tupletree._devcluster import java
from tupletree._devcluster.java import find_java, java_version, zookeeper_class_path
from tupletree.errors import UsageError


def make_java(home: pathlib.Path, version: str) -> str:
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return str(program)


@pytest.mark.parametrize(("version", "feature"), [("1.8.0_402", 8), ("11.0.2", 11), ("17.0.15", 17), ("25", 25)])
def test_versions_old_and_new_style(tmp_path: pathlib.Path, version: str, feature: int) -> None:
    assert java_version(make_java(tmp_path, version)) == feature


def test_a_program_without_release_file_is_asked(tmp_path: pathlib.Path) -> None:
    program = tmp_path / "java"
    program.write_text("#!/bin/sh\necho 'openjdk version \"21.0.1\" 2023-10-17' >&2\n")
    program.chmod(0o755)
    assert java_version(str(program)) == 21


def test_java_home_comes_first_unless_it_is_too_old(tmp_path: pathlib.Path) -> None:
    new, old = make_java(tmp_path / "new", "21.0.1"), make_java(tmp_path / "old", "11.0.2")
    assert find_java({"JAVA_HOME": str(tmp_path / "new"), "PATH": ""}) == new
    assert find_java({"JAVA_HOME": str(tmp_path / "old"), "PATH": str(tmp_path / "new" / "bin")}) == new
    assert java_version(old) == 11


def test_no_java_is_one_sentence_with_the_remedy(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_INSTALLED", str(tmp_path / "*" / "bin" / "java"))
    with pytest.raises(UsageError) as raised:
        find_java({"PATH": str(tmp_path)})
    assert str(raised.value) == java.REMEDY
    assert "apt-get install openjdk-17-jre-headless" in str(raised.value)
    make_java(tmp_path / "old", "11.0.2")
    with pytest.raises(UsageError, match=r"old/bin/java is Java 11\)$"):
        find_java({"PATH": ""})


def test_the_class_path_holds_zookeeper_and_little_else() -> None:
    jars = zookeeper_class_path().split(":")
    assert any("/zookeeper-3" in jar for jar in jars)
    assert len(jars) < 60
