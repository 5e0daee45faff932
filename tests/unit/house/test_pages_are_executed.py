"""Every Python block of the documentation is executed by a test: a page with such blocks is named by one."""

from __future__ import annotations

import ast
import re

import pytest
from document_blocks import DOCS, Block, blocks_of

ROOT = DOCS.parent
AS_A_READER = {
    "tests/integration/documents/test_quickstart.py": ("quickstart.md",),
    "tests/integration/documents/test_tutorial.py": ("tutorial/*.md",),
    "tests/integration/spark/test_savepoints_guide.py": ("guides/savepoints.md",),
}
"""Tests that save a page's blocks as files, by their titles, and run them by the page's commands."""
IN_ONE_NAMESPACE = {
    "tests/integration/connectors/test_connector_guides.py": ("guides/connectors.md", "guides/connectors/*.md"),
    "tests/integration/documents/test_core_guide.py": ("guides/core.md",),
    "tests/integration/documents/test_guides.py": (
        "guides/async.md",
        "guides/combining.md",
        "guides/coming-from.md",
        "guides/hooks.md",
        "guides/multilang.md",
        "guides/retries.md",
        "guides/state.md",
        "guides/state-providers.md",
        "guides/transactions.md",
        "guides/values.md",
        "guides/windows.md",
    ),
    "tests/integration/semantics/test_local_blobs.py": ("guides/blobs.md",),
    "tests/integration/drpc/test_drpc_guide.py": ("guides/drpc.md",),
    "tests/integration/trees/test_trees_guide.py": ("guides/trees.md",),
    "tests/integration/documents/test_guides_on_a_cluster.py": ("guides/client.md", "guides/state.md"),
    "tests/integration/multilang/test_multilang.py": ("guides/multilang.md",),
    "tests/integration/spark/test_pipelines_guide.py": ("guides/pipelines.md",),
    "tests/unit/house/test_joins_guide.py": ("guides/joins.md",),
    "tests/unit/house/test_keyed_guide.py": ("guides/keyed.md", "guides/keyed-windows.md"),
    "tests/unit/house/test_site_pages.py": (
        "index.md",
        "exactly-once.md",
        "errors.md",
        "guides/performance-tuning.md",
        "guides/scheduling.md",
        "guides/sizing.md",
    ),
    "tests/unit/house/test_streams_and_spark_guide.py": ("guides/streams-and-spark.md",),
    "tests/unit/house/test_streams_guide.py": ("guides/streams.md", "guides/coming-from.md"),
    "tests/unit/house/test_testing_examples.py": ("guides/testing.md",),
    "tests/unit/library/test_flux.py": ("guides/flux.md",),
}
"""Tests that execute a page's blocks."""
NOT_EXECUTED: dict[str, str] = {}
"""Pages with Python blocks that no test executes, and why."""
OF_OTHERS = ("bytewax", "Quix Streams", "Faust", "PyFlink", "streamparse")
"""Parts of guides/coming-from.md with programs of other systems, which are not installed."""


def python_of(page: str) -> list[Block]:
    """Return the blocks of Python of a page."""
    return [block for block in blocks_of(DOCS / page) if block.kind == "python"]


PAGES = [
    page
    for page in sorted(str(path.relative_to(DOCS)) for path in DOCS.glob("**/*.md"))
    if not page.startswith("adr/") and "```python" in (DOCS / page).read_text()
]


def pages_of(tests: dict[str, tuple[str, ...]]) -> set[str]:
    """Return the pages that tests name."""
    patterns = [pattern for found in tests.values() for pattern in found]
    return {str(path.relative_to(DOCS)) for pattern in patterns for path in DOCS.glob(pattern)}


def test_every_page_with_python_is_executed_or_has_a_reason() -> None:
    executed = pages_of(AS_A_READER) | pages_of(IN_ONE_NAMESPACE)
    assert [page for page in PAGES if page not in executed | NOT_EXECUTED.keys()] == [], "add a test that executes it"
    assert executed & NOT_EXECUTED.keys() == set()
    assert all(page in PAGES for page in NOT_EXECUTED)


@pytest.mark.parametrize(("test", "patterns"), [*AS_A_READER.items(), *IN_ONE_NAMESPACE.items()])
def test_the_test_of_a_page_names_it(test: str, patterns: tuple[str, ...]) -> None:
    constants = {
        node.value
        for node in ast.walk(ast.parse((ROOT / test).read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    for pattern in patterns:
        assert list(DOCS.glob(pattern)), f"there is no page {pattern}"
        assert {pattern, pattern.rpartition("/")[2]} & constants, f"{test} does not name {pattern}"


@pytest.mark.parametrize("page", PAGES)
def test_no_block_of_a_page_is_left_out(page: str) -> None:
    blocks = python_of(page)
    assert (DOCS / page).read_text().count("```python") == len(blocks), (
        "a block in a list or with other words is not found"
    )
    have_titles = {bool(block.title) for block in blocks}
    assert have_titles == {page in pages_of(AS_A_READER)}, "a block is saved as a file where it has a title"


def test_programs_of_ours_beside_those_of_others_are_in_executed_parts() -> None:
    head, *parts = re.split(r"^## ", (DOCS / "guides" / "coming-from.md").read_text(), flags=re.MULTILINE)
    assert "import StreamBuilder" in head
    assert {part.partition("\n")[0] for part in parts} == {*OF_OTHERS, "Kafka Streams", "Storm"}
    for part in parts:
        if part.startswith(OF_OTHERS):
            assert "tupletree" not in "".join(re.findall(r"^```python\n(.*?)^```", part, re.DOTALL | re.MULTILINE))
