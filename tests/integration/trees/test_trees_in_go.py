"""A client in Go, by the wire contract alone: it settles children of Python's trees, and begins trees of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from trees_harness import TreesAcker

from tupletree.trees import OutcomeKind, TreeClient

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "examples" / "trees-go"
GUIDE = ROOT / "docs" / "guides" / "trees.md"

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(400),  # Go compiles its standard library
    pytest.mark.skipif(shutil.which("go") is None, reason="there is no go on this machine"),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("go")
    caches = {"GOCACHE": str(place / "cache"), "GOFLAGS": "", "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
    (command,) = [line for line in GUIDE.read_text().splitlines() if line.strip().startswith("go build ")]
    words = command.replace("/tmp/trees", str(place / "trees")).split()
    subprocess.run(words, cwd=ROOT, env={**os.environ, **caches}, check=True, timeout=300)
    return place / "trees"


def test_go_settles_children_and_begins_trees(
    program: Path, acker: TreesAcker, client: Callable[..., TreeClient]
) -> None:
    assert len((SOURCE / "main.go").read_text().splitlines()) < 200
    trees = client()
    command = [str(program), "-acker", acker.address, "-namespace", "orders"]

    done, failed, other = trees.begin(), trees.begin(), trees.begin()
    lines = [done.child(), done.child(), f"{failed.child()} out of stock", "tt1.acker-1.0.orders", other.child()]
    told = subprocess.run(
        [*command, "settle"], input="\n".join(lines), check=True, capture_output=True, text=True, timeout=30
    )
    assert "passed over: tt1.acker-1.0.orders is not a child" in told.stderr
    assert done.wait(10).is_done
    assert failed.wait(10) == (OutcomeKind.FAILED, "out of stock")
    assert other.wait(10).is_done

    with subprocess.Popen([*command, "begin", "3"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(3):
            trees.child(process.stdout.readline().strip()).ack()
        assert process.stdout.read() == "done\n"

    refused = subprocess.run(
        [*command[:-1], "nobody", "begin", "1"], check=False, capture_output=True, text=True, timeout=30
    )
    assert refused.returncode == 1
    assert "there is no namespace 'nobody' at this acker" in refused.stderr
