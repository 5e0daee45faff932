"""What was compiled is used where it fits its sources and nowhere else; and there is always plain Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tupletree import _compiled

ROOT = Path(__file__).parents[3]


def run(code: str, **variables: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "TUPLETREE_PURE"} | variables
    process = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    return process.stdout.strip()


def copy(directory: Path) -> Path:
    """The part of the checkout that decides, with whatever was compiled, as it would be installed in ``directory``."""
    for module in _compiled.MODULES:
        source = _compiled.source_of(module)
        place = directory / f"{module.replace('.', '/')}.py"
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, place)
        shutil.copy(source.with_suffix(".pxd"), place.with_suffix(".pxd"))
    shutil.copytree(_compiled.DIRECTORY, directory / "tupletree" / "_compiled")
    return directory / "tupletree" / "_compiled" / "__init__.py"


def choice(module: Path) -> str:
    """What a new process would choose there."""
    return run(
        "import importlib.util, sys\n"
        f"spec = importlib.util.spec_from_file_location('_compiled', {str(module)!r})\n"
        "module = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        "print(module.CHOICE)"
    )


def test_the_environment_may_ask_for_plain_python() -> None:
    code = "import tupletree.worker.core.task as tasks; print(tasks.__file__)"
    assert run(code, TUPLETREE_PURE="1").endswith("worker/core/task.py")
    assert run(code, TUPLETREE_PURE="0") == run(code)


def test_a_changed_source_is_never_run_in_its_old_form(tmp_path: Path) -> None:
    module = copy(tmp_path)
    if not (module.parent / _compiled.DIGEST).exists():  # no compiler here: as if there had been one
        (module.parent / _compiled.DIGEST).write_text(_compiled.digest())
        for name in _compiled.MODULES:
            (module.parent / (name.rpartition(".")[2] + _compiled.EXTENSION_SUFFIXES[0])).touch()
    assert choice(module) == "compiled"
    source = tmp_path / "tupletree" / "tuples.pxd"
    source.write_text(source.read_text() + "\n")
    assert "sources have changed" in choice(module)


@pytest.mark.parametrize("lost", [_compiled.DIGEST, "bolt_task" + _compiled.EXTENSION_SUFFIXES[0]])
def test_it_is_all_of_them_or_none(tmp_path: Path, lost: str) -> None:
    module = copy(tmp_path)
    (module.parent / lost).unlink(missing_ok=True)
    assert "plain Python (nothing was compiled" in choice(module)


def test_what_another_interpreter_compiled_from_these_sources_says_nothing_of_our_modules(tmp_path: Path) -> None:
    module = copy(tmp_path)
    (module.parent / _compiled.DIGEST).unlink(missing_ok=True)
    (module.parent / "SOURCES-cpython-399").write_text(_compiled.digest())
    assert "plain Python (nothing was compiled" in choice(module)


def test_every_definition_file_stands_beside_a_module_that_is_compiled() -> None:
    definitions = {path for folder in ("tupletree", "worker", "acker") for path in (ROOT / folder).rglob("*.pxd")}
    assert definitions == {_compiled.source_of(module).with_suffix(".pxd") for module in _compiled.MODULES}


def test_every_definition_file_is_installed_since_without_one_nothing_compiled_is_used() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    data = project["tool"]["setuptools"]["package-data"]
    assert [module for module in _compiled.MODULES if "*.pxd" not in data.get(module.rpartition(".")[0], [])] == []


def test_daemons_are_told_to_run_plain_python_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from tupletree._devcluster import daemon

    monkeypatch.setenv("TUPLETREE_PURE", "1")
    monkeypatch.setenv("TUPLETREE_CONF", "elsewhere")
    assert daemon._environment().get("TUPLETREE_PURE") == "1"
    assert "TUPLETREE_CONF" not in daemon._environment()
