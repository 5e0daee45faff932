"""The notebook of the tutorial is made of its pages, and shows what they show."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import nbclient
import nbformat
import pytest
from document_blocks import masked

ROOT = Path(__file__).resolve().parents[3]
NOTEBOOK = ROOT / "examples" / "notebooks" / "tutorial.ipynb"
TIMEOUT_S = 120


def test_the_notebook_is_what_the_pages_make() -> None:
    made = subprocess.run(
        [sys.executable, ROOT / ".ci" / "tutorial-notebook"], capture_output=True, text=True, check=True
    )
    assert NOTEBOOK.read_text(encoding="utf-8") == made.stdout, (
        "run: python .ci/tutorial-notebook > examples/notebooks/tutorial.ipynb"
    )


def test_the_files_that_it_links_to_exist() -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    prose = "".join(line for cell in cells if cell["cell_type"] == "markdown" for line in cell["source"])
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", prose)
    assert links
    for link in links:
        assert (NOTEBOOK.parent / link).exists(), link


@pytest.mark.nightly
def test_its_cells_show_what_the_pages_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    shown = [_text(cell) for cell in notebook.cells]
    place = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=TIMEOUT_S, kernel_name="python3", resources=place).execute()
    compared = 0
    for cell, expected in zip(notebook.cells, shown, strict=True):
        if cell.source.startswith("%run "):
            assert "<svg " in cell.outputs[-1]["data"]["text/html"]
        elif cell.source.startswith("%%bash"):
            how = frozenset({"in any order"})  # of two streams, standard output and error
            assert masked(_text(cell), how, str(tmp_path)) == masked(expected, how), cell.source
            compared += bool(expected)
    assert compared >= 8


def _text(cell: nbformat.NotebookNode) -> str:
    """Return what a cell has printed, without the colours that a kernel asks commands for."""
    printed = "".join(output["text"] for output in cell.get("outputs", ()) if output["output_type"] == "stream")
    return re.sub(r"\x1b\[[\d;]*m", "", printed)
