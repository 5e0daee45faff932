"""The import contracts are real: each kind of violation, planted in a copy of the tree, is found and named."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")

pytestmark = pytest.mark.skipif(not LINT_IMPORTS.exists(), reason="import-linter is not installed")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of everything that the contracts are about."""
    for folder in ("tupletree", "nimbus", "supervisor", "worker", "acker", "drpc_server", "examples", "bench", ".ci"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def lint(tree: Path) -> tuple[int, str]:
    run = subprocess.run(
        ["sh", str(tree / ".ci" / "lint-imports")],
        env={**os.environ, "LINT_IMPORTS": str(LINT_IMPORTS)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return run.returncode, run.stdout + run.stderr


def plant(tree: Path, path: str, statement: str) -> None:
    with (tree / path).open("a") as file:
        file.write(f"\n{statement}\n")


def test_the_tree_as_it_is_keeps_every_contract(tree: Path) -> None:
    status, said = lint(tree)
    assert status == 0, said


@pytest.mark.long
@pytest.mark.parametrize(
    ("path", "statement", "link"),
    [
        ("nimbus/planted.py", "import tupletree.worker", "tupletree.nimbus.planted -> tupletree.worker"),
        ("acker/planted.py", "from tupletree import supervisor", "tupletree.acker.planted -> tupletree.supervisor"),
        ("tupletree/bundle.py", "import tupletree.nimbus", "tupletree.bundle -> tupletree.nimbus"),
        ("worker/planted.py", "import tupletree.cli", "tupletree.worker.planted -> tupletree.cli"),
        ("tupletree/errors.py", "import tupletree.topology", "tupletree.errors -> tupletree.topology"),
        ("tupletree/context.py", "import tupletree.component", "No cycles are allowed in tupletree."),
        (
            "tupletree/_coord/planted.py",
            "import tupletree._daemon.run",
            "tupletree._coord.planted -> tupletree._daemon.run",
        ),
        (
            "acker/hash_table.py",
            "import tupletree.acker.ledger",
            "tupletree.acker.hash_table -> tupletree.acker.ledger",
        ),
    ],
)
def test_a_violation_is_found_and_named(tree: Path, path: str, statement: str, link: str) -> None:
    plant(tree, path, statement)
    status, said = lint(tree)
    assert status == 1
    assert link in said, said
