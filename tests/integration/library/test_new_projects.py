"""``tupletree new``: the project passes its own tests, runs, and is well-formed; nothing that exists is overwritten."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import dockerfile
import pytest
import yaml

from tupletree import config
from tupletree.cli.main import main
from tupletree.cli.new import FACES, MAX_NAME

pytestmark = pytest.mark.long

FILES = {
    ".dockerignore",
    ".github/workflows/test.yml",
    ".gitignore",
    "Dockerfile",
    "README.md",
    "lines.txt",
    "pyproject.toml",
    "tests/test_word_counts.py",
    "tupletree.schema.json",
    "tupletree.yaml",
    "word_counts.py",
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory, in a process that knows no module of a name used here: other tests load topologies."""
    for name in [one for one in sys.modules if one.startswith("words")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [one for one in sys.path if not Path(one, "words.py").exists()])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(directory: Path, *arguments: str) -> str:
    """Run a module of Python in a project; return what it printed."""
    command = [sys.executable, "-m", *arguments]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("face", FACES)
def test_the_tests_of_a_new_project_pass_and_its_topology_runs(here: Path, face: str) -> None:
    assert main(["new", "word-counts", "--face", face]) == 0
    project = here / "word-counts"
    assert "3 passed" in run(project, "pytest", "-q", "-p", "no:cacheprovider")
    results = json.loads(
        run(project, "tupletree", "local", "word_counts.py", "--seconds", "100", "--json").splitlines()[-1]
    )
    [counts] = results["states"]
    assert (results["name"], counts["component"], results["errors"]) == ("word_counts", "count", [])
    assert counts["entries"][:2] == [["to", 4], ["the", 3]]
    run(project, "ruff", "check", "--no-cache", ".")
    run(project, "ruff", "format", "--no-cache", "--check", ".")


@pytest.mark.parametrize("face", FACES)
def test_the_files_of_a_new_project_are_well_formed(here: Path, face: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "word-counts", "--face", face, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    project = here / "word-counts"
    assert set(printed["files"]) == FILES == {str(p.relative_to(project)) for p in project.rglob("*") if p.is_file()}
    texts = {name: (project / name).read_text() for name in FILES}
    assert [name for name, text in texts.items() if "project_name" in text or "project-name" in text] == []
    assert tomllib.loads(texts["pyproject.toml"])["project"]["name"] == "word-counts"
    [*_, command] = dockerfile.parse_string(texts["Dockerfile"])
    assert command.value == ("local", "word_counts.py", "--seconds", "0")
    steps = yaml.safe_load(texts[".github/workflows/test.yml"])["jobs"]["test"]["steps"]
    assert {"run": "tupletree local word_counts.py"} in steps


def test_the_configuration_of_a_new_project_is_accepted_and_names_its_schema(here: Path) -> None:
    assert main(["new", "word-counts"]) == 0
    file = here / "word-counts" / "tupletree.yaml"
    assert config.load_explicit(file, (), {})["topology.workers"] == 1
    modeline = file.read_text().splitlines()[0]
    assert modeline == "# yaml-language-server: $schema=./tupletree.schema.json"
    assert (file.parent / "tupletree.schema.json").read_text() == config.render_schema()


def test_a_name_may_be_a_path(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "projects").mkdir()
    assert main(["new", "projects/words2"]) == 0
    assert capsys.readouterr().out.endswith(
        "Now:\n  cd projects/words2\n  tupletree local words2.py\n  pip install pytest && python -m pytest\n"
    )
    assert (here / "projects" / "words2" / "words2.py").is_file()


def test_nothing_is_overwritten(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = here / "words"
    kept.write_text("mine")
    assert main(["new", "words"]) == 2
    assert capsys.readouterr().err == "tupletree: words exists already and is left as it is: choose another name\n"
    assert kept.read_text() == "mine"
    (here / "empty").mkdir()
    assert main(["new", "empty"]) == 2
    assert list((here / "empty").iterdir()) == []


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("1x", "'1x'"),
        ("Words", "'Words'"),
        ("a b", "'a b'"),
        ("a--b", "'a--b'"),
        ("-a", "no such option"),
        ("x" * (MAX_NAME + 1), "lower-case letters"),
        ("json", "cannot be named 'json'"),
        ("click", "cannot be named 'click'"),
        ("class", "cannot be named 'class'"),
        ("tests", "cannot be named 'tests'"),
        ("missing/words", "cannot be created: No such file or directory"),
    ],
)
def test_a_name_that_no_project_can_have_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str], name: str, reason: str
) -> None:
    assert main(["new", name]) == 2
    refusal = capsys.readouterr().err
    assert reason.lower() in refusal.lower() and refusal.count("\n") == 1
    assert list(here.iterdir()) == []


def test_a_project_that_cannot_be_written_leaves_nothing_behind(here: Path) -> None:
    limited = f"ulimit -f 8; exec '{sys.executable}' -m tupletree new words"  # the schema is longer than 8 blocks
    done = subprocess.run(["sh", "-c", limited], cwd=here, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "tupletree: the project's files cannot be written to words: File too large\n"
    assert list(here.iterdir()) == []
