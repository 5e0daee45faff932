"""Programs in notebooks: the example runs, and a kernel shows, interrupts and stops programs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager, start_new_kernel

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "notebooks"
TIMEOUT_S = 120
FOREVER = """
from itertools import count
from tupletree.streams import StreamBuilder
forever = StreamBuilder()
forever.source(lambda: iter(count()), name="numbers").key_by(lambda number: number % 10).count(name="digits")
"""


def outputs(cell: Any) -> list[dict[str, str]]:
    """The data of a cell's outputs, by type."""
    return [output["data"] for output in cell.outputs if "data" in output]


def test_the_example_runs_from_its_first_cell_to_its_last(tmp_path: Path) -> None:
    notebook = nbformat.read(EXAMPLES / "streams.ipynb", as_version=4)
    place = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=TIMEOUT_S, kernel_name="python3", resources=place).execute()
    by_line = {cell.source.splitlines()[-1]: outputs(cell) for cell in notebook.cells if cell.cell_type == "code"}
    assert "<svg " in by_line["builder"][0]["text/html"]
    assert by_line["words.collect(3)"][0]["text/plain"] == "['to', 'be', 'or']"
    assert "'to': 2" in by_line["dict(counts.items().collect(100))"][0]["text/plain"]
    live = next(shown for shown in by_line.values() if "lengths" in str(shown))[0]
    assert live["text/plain"].startswith("ended after ")
    assert "  lines: 10,000 out, " in live["text/plain"]
    assert "<svg " in live["text/html"] and "<td>10,000</td>" in live["text/html"]
    [stopped] = by_line["running"]
    assert stopped["text/plain"].startswith("stopped after ")
    assert by_line['whole.counts["split"].emitted'][-1]["text/plain"] == "1000"


class Kernel:
    """A kernel, as the page of a notebook uses it."""

    def __init__(self, manager: KernelManager, client: BlockingKernelClient) -> None:
        self._manager = manager
        self._client = client

    def run(self, code: str, when_shown: Callable[[str], bool] = lambda text: False) -> tuple[str, list[str]]:
        """Run a cell; return an error's message or "", and the texts of its outputs, in order.

        Pictures of other cells are left out: a program in the background updates them during any cell. When
        ``when_shown`` is true for an output, the kernel is interrupted, as by the notebook's stop button.
        """
        asked = self._client.execute(code)
        texts, error = [], ""
        shown: set[str | None] = {None}
        while True:
            message = self._client.get_iopub_msg(timeout=TIMEOUT_S)
            kind, content = message["msg_type"], message["content"]
            if message["parent_header"].get("msg_id") != asked:
                continue
            if kind == "status" and content["execution_state"] == "idle":
                return error, texts
            if content.get("name") == "stderr" and content["text"].startswith("UsageError: "):
                error = content["text"].rstrip("\n")
            if kind == "error":
                error = f"{content['ename']}: {content['evalue']}"
            display = content.get("transient", {}).get("display_id")
            if kind == "display_data":
                shown.add(display)
            if "data" in content and display in shown:
                texts.append(content["data"]["text/plain"])
                if when_shown(texts[-1]):
                    self._manager.interrupt_kernel()


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    manager, client = start_new_kernel(kernel_name="python3", startup_timeout=TIMEOUT_S)
    kernel = Kernel(manager, client)
    try:
        assert kernel.run("%load_ext tupletree.notebook")[0] == ""
        yield kernel
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def test_an_interrupt_ends_a_program_and_the_cell_without_an_error(kernel: Kernel) -> None:
    running: list[str] = []

    def is_second_picture(text: str) -> bool:
        is_running = text.startswith("running for ")
        running.extend([text] * is_running)
        return is_running and len(running) == 2  # not at the picture of the end, too

    error, texts = kernel.run(f"%%tupletree endless{FOREVER}", is_second_picture)
    assert error == ""
    assert texts[0].startswith("not started")
    assert re.search(r"\n  numbers: [\d,]+ out, [\d,]+/s\n", running[1])
    assert texts[-1].startswith("stopped after ")
    assert kernel.run("endless.is_running")[1] == ["False"]


def test_in_the_background_other_cells_run_meanwhile_and_the_name_stops_the_program(kernel: Kernel) -> None:
    assert kernel.run(f"%%tupletree numbers --background{FOREVER}")[0] == ""
    assert kernel.run("first = numbers; first.is_running")[1] == ["True"]
    assert kernel.run(f"%%tupletree numbers --background{FOREVER}")[0] == ""
    assert kernel.run("first.is_running, numbers.is_running")[1] == ["(False, True)"]
    assert kernel.run("numbers.stop(); numbers.is_running")[1] == ["False"]


def test_what_a_component_raises_ends_the_cell_and_errors_are_shown(kernel: Kernel) -> None:
    error, texts = kernel.run(
        "%%tupletree\nfrom tupletree.streams import StreamBuilder\nbroken = StreamBuilder()\n"
        "broken.source([1, 0], name='divisors').map(lambda number: 1 / number).print()"
    )
    assert "ZeroDivisionError" in error
    assert texts[-1].startswith("failed after ") and "ZeroDivisionError: division by zero" in texts[-1]


@pytest.mark.parametrize(
    ("cell", "refusal"),
    [
        ("%%tupletree\n1 + 1", "makes no StreamBuilder, TopologyBuilder or Topology: write the program"),
        (
            "%%tupletree\nfrom tupletree.streams import StreamBuilder\na, b = StreamBuilder(), StreamBuilder()",
            "makes several programs (a, b): write the program",
        ),
        ("%%tupletree\nfrom tupletree.streams import StreamBuilder\nStreamBuilder()", "the program has no source"),
        ("%%tupletree --background\n1", "--background needs a NAME"),
        ("%%tupletree --second 5\n1", "unrecognized arguments: --second; usage: %%tupletree [NAME]"),
    ],
)
def test_a_cell_without_a_program_is_refused_in_one_sentence(kernel: Kernel, cell: str, refusal: str) -> None:
    [error, texts] = kernel.run(cell)
    assert error.startswith("UsageError: ") and refusal in error and "\n" not in error
    assert texts == []


def test_an_exception_of_the_cell_is_that_of_the_cell(kernel: Kernel) -> None:
    assert kernel.run("%%tupletree\n1 / 0")[0] == "ZeroDivisionError: division by zero"
