"""The pages of the documentation site: programs run, lists are complete, and the checks find what is wrong."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tupletree import errors
from tupletree.config import KEYS

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
PAGES = (
    "index.md",
    "exactly-once.md",
    "errors.md",
    "guides/performance-tuning.md",
    "guides/scheduling.md",
    "guides/deployment.md",
    "guides/sizing.md",
)
BLOCK = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The modules of .ci/site by name, as mkdocs imports them."""
    monkeypatch.syspath_prepend(str(ROOT / ".ci" / "site"))
    before = set(sys.modules)

    def load(name: str) -> ModuleType:
        pytest.importorskip("mkdocs")
        return importlib.import_module(name)

    yield load
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(ROOT / ".ci")):
            del sys.modules[name]


@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_a_page_runs_and_prints_what_follows(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    for code, shown in BLOCK.findall((DOCS / page).read_text()):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, page, "exec"), names)
        if shown:
            assert printed.getvalue() == shown


def test_the_first_program_prints_what_the_front_page_shows(capfd: pytest.CaptureFixture[str]) -> None:
    text = (DOCS / "index.md").read_text()
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(BLOCK.findall(text)[0][0], "index.md", "exec"), names)
    names["builder"].run_local(seconds=60)
    printed = capfd.readouterr().out.splitlines()
    assert len(printed) >= 8
    shown = text.partition("$ tupletree local words.py\n")[2].partition("\n\n")[0]
    assert sorted(line.strip() for line in shown.splitlines()) == sorted(printed[:8])


def test_the_front_page_leads_to_the_first_pages_and_to_every_face() -> None:
    text = (DOCS / "index.md").read_text()
    read_on = re.findall(r"\]\(([^)]+)\)", text.partition("Read on:")[2].partition("\n\n")[0])
    assert read_on[:2] == ["quickstart.md", "tutorial/index.md"]
    rows = re.findall(r"^\| (?!you want|---).+?\|(.+?)\|", text, re.MULTILINE)
    assert len(rows) == 6
    assert [row for row in rows if "](guides/" not in row] == []
    assert "[spouts and bolts](guides/core.md)" in text


@pytest.mark.parametrize("page", PAGES)
def test_figures_of_measurements_stand_on_the_page_of_measurements(page: str) -> None:
    measured = (DOCS / "performance.md").read_text()
    figures = re.findall(r"\b\d{3},\d{3}\b|\b\d,\d{3},\d{3}\b", re.sub(r"`.*?`", "", (DOCS / page).read_text()))
    assert [one for one in figures if one not in measured and not one.endswith("000")] == []


def test_the_latency_budget_is_that_of_the_measurements() -> None:
    tuning = (DOCS / "guides" / "performance-tuning.md").read_text()
    budget = (DOCS / "performance.md").read_text().partition("| load | tuple, per hop")[2].partition("\n\n")[0]
    assert budget and budget in tuning


def test_the_gallery_lists_every_example_once() -> None:
    linked = re.findall(r"\]\(\.\./examples/([\w.-]+)\)", (DOCS / "examples.md").read_text())
    programs = [path.name for path in (ROOT / "examples").glob("[a-z]*") if path.suffix == ".py" or path.is_dir()]
    assert sorted(linked) == sorted(programs)


def test_the_page_of_errors_has_every_type_of_error() -> None:
    text = (DOCS / "errors.md").read_text()
    types = {name for name, found in vars(errors).items() if isinstance(found, type)}
    assert {name for name in types if f"`{name}`" not in text and f"`{name}`s" not in text} == set()


def test_every_public_name_is_on_a_page_of_the_api(site: Any) -> None:
    pages = site("api").api_pages()
    assert "::: tupletree.streams\n" in pages["reference/api/streams.md"]
    assert "::: tupletree.notebook\n" in pages["reference/api/notebook.md"]
    assert "[Bolt][tupletree.Bolt]" in pages["reference/api/index.md"]


def test_a_public_module_without_a_page_is_found(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    api = site("api")
    assert api.uncovered() == []
    assert {"tupletree", "tupletree.transactional.databases", "tupletree.spark.streaming"} <= set(api.exporting())
    assert set(api.exporting()) >= api.INTERNAL
    monkeypatch.setattr(api, "PAGES", [page for page in api.PAGES if page[0] != "notebook"])
    assert api.uncovered() == [
        f"tupletree.notebook.{name}" for name in importlib.import_module("tupletree.notebook").__all__
    ]
    monkeypatch.setattr(api, "INTERNAL", api.INTERNAL - {"tupletree.topology"})
    assert "tupletree.topology.Definition" in api.uncovered()


def test_every_key_is_on_the_page_of_the_configuration(site: Any) -> None:
    page = site("configuration").configuration_page()
    assert [name for name in KEYS if f'<dt id="{name}">' not in page] == []
    assert "a whole number of at least 1 (processes)" in page


def test_a_docstring_becomes_markdown(site: Any) -> None:
    text = (
        "Counts::\n\n    count = 1\n\nThen:\n\n    $ a shell\n\nSee docs/guides/state.md, docs/guides/joins.md#joins.\n"
    )
    made = site("docstrings").as_markdown(text)
    assert made.startswith("Counts:\n\n```python\ncount = 1\n```\n\nThen:\n\n    $ a shell\n")
    assert made.endswith("[guides/state.md](../../guides/state.md), [guides/joins.md](../../guides/joins.md#joins).\n")
    assert site("docstrings").as_markdown("Paged (docs/rest.md).") == "Paged ([rest.md](../../rest.md))."


def test_links_to_the_repository_are_checked_and_lead_to_the_file_host(
    site: Any, caplog: pytest.LogCaptureFixture
) -> None:
    links = site("links")
    url = "https://host.example/project"
    assert links.in_repository("guides/a.md", "../../Makefile", "", url) == f"{url}/blob/main/Makefile"
    assert links.in_repository("a.md", "../deploy", "", url) == f"{url}/tree/main/deploy"
    assert links.in_repository("a.md", "guides/state.md", "", url) is None
    assert links.in_repository("guides/a.md", "../../README.md", "", url) == "../index.md"
    assert not caplog.records
    links.in_repository("a.md", "../no_such.py", "", url)
    links.in_repository("a.md", "../CONTRIBUTING.md", "#no-such-part", url)
    links.in_repository("a.md", "../CONTRIBUTING.md", "#house-rules", url)
    assert [record.getMessage() for record in caplog.records] == [
        "a.md: the link to ../no_such.py leads to no file of the repository",
        "a.md: CONTRIBUTING.md has no heading for the link to ../CONTRIBUTING.md#no-such-part",
    ]


def test_the_built_site_is_checked_for_dead_links_and_other_hosts(site: Any, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<h1 id="top"></h1><a href="b.html#one">b</a><a href="b.html#two">b</a><a href="c.html">c</a>'
        '<a href="#top">a</a><a href="https://other.example/">text</a><script src="https://cdn.example/x.js"></script>'
    )
    (tmp_path / "b.html").write_text('<p>Then:\n2. two</p><p id="one" data-md-component="source"></p>')
    (tmp_path / "404.html").write_text('<a href="/b.html">b</a><a href="/d.html">d</a>')
    (tmp_path / "b2.html").write_text("<li><p>two</p><p>$ tupletree list</p></li>")
    assert site("links").faults(tmp_path) == [
        "404.html: the link to /d.html leads to no page",
        "a.html loads https://cdn.example/x.js from another host",
        "a.html: b.html#two names no anchor of its page",
        "a.html: the link to c.html leads to no page",
        "b.html: Markdown in 'Then:\\n2. two' is shown as text: see its indentation",
        "b.html asks the file host for its stars when it is viewed",
        "b2.html: Markdown in '$ tupletree list' is shown as text: see its indentation",
    ]


def test_only_the_page_for_no_page_names_the_path_at_which_the_site_is_served(site: Any, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<a href="/project/b.html">b</a><a href="b.html">b</a>')
    (tmp_path / "b.html").write_text("<p>b</p>")
    (tmp_path / "404.html").write_text('<a href="/project/b.html">b</a><a href="/b.html">b</a>')
    assert site("links").faults(tmp_path, "/project/") == [
        "404.html: the link to /b.html leads to no page",
        "a.html: the link to /project/b.html leads to no page",
    ]


def test_a_link_named_by_a_file_is_named_by_the_title_of_its_page(site: Any) -> None:
    titles = {"guides/state.html": "Durable state", "index.html": "What it is"}
    html = (
        '<a href="state.html#a-state">state.md</a> <a href="state.html">the state</a> <a href="no.html">no.md</a> '
        '<a href="../index.html">docs/index.md</a>'
    )
    assert site("links").with_titles(html, "guides/core.html", titles) == (
        '<a href="state.html#a-state">Durable state</a> <a href="state.html">the state</a> <a href="no.html">no.md</a> '
        '<a href="../index.html">What it is</a>'
    )


def test_an_option_stays_in_one_line_with_its_dashes(site: Any) -> None:
    links = site("links")
    html = links.with_whole_options("<p><code>kill -9 --wait=2 a-b</code></p><pre><code>-x</code></pre>")
    assert html == ('<p><code>kill -9 <span class="option">--wait</span>=2 a-b</code></p><pre><code>-x</code></pre>')


def test_the_glossary_is_in_the_order_of_the_alphabet() -> None:
    nouns = re.findall(r"^\| \*\*(.+?)\*\* \|", (DOCS / "glossary.md").read_text(), re.MULTILINE)
    assert len(nouns) > 50
    assert nouns == sorted(nouns, key=str.lower)
