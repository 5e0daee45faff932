"""Documents name only configuration keys, metrics, files, commands and options that exist."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tupletree.cli.main import cli
from tupletree.config.keys import FREE_FAMILIES, KEYS

ROOT = Path(__file__).resolve().parents[3]
PLACES = ("README.md", "CONTRIBUTING.md", "docs/**/*.md", "bench/**/*.md", "deploy/**/*.md", "examples/**/*.md")
DOCUMENTS = sorted(path for place in PLACES for path in ROOT.glob(place))
SOURCES = "\n".join(
    (ROOT / name).read_text()
    for name in subprocess.check_output(["git", "ls-files", "*.py"], cwd=ROOT, text=True).splitlines()
    if not name.startswith("tests/")
)
FAMILIES = "|".join(sorted({key.family for key in KEYS.values()} - FREE_FAMILIES))
KEY = re.compile(rf"((?:{FAMILIES})\.[a-z_.]+[a-z])(?!\w)")
METRICS = set(re.findall(r"^\| `(tupletree_\w+)`", (ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE))
TABLES = re.compile(r"tupletree_(user|undo|commits$)")  # a user's metrics; tables of sinks
FOLDERS = {path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith((".", "build"))}
DAEMONS = ("nimbus", "supervisor", "acker", "drpc")  # their own argparse reads the options

documents = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))


def quoted(document: Path) -> list[str]:
    """The text between single backticks. The first column of docs/storm.md has Storm's own names."""
    text = document.read_text()
    if document.name == "storm.md":
        text = re.sub(r"^\| .*? \| ", "| ", text, flags=re.MULTILINE)
    return re.findall(r"`([^`\n]+)`", text)


@documents
def test_configuration_keys_exist(document: Path) -> None:
    found = {match[1] for text in quoted(document) if (match := KEY.match(text))}
    events = {name for name in found if f'"{name}"' in SOURCES}
    files = {name for name in found if name.endswith((".py", ".yaml", ".out", ".log", ".proto"))}
    modules = {name for name in found if (ROOT / f"{name.replace('.', '/')}.py").exists()}
    prefixes = {name for name in found if any(key.startswith(f"{name}.") for key in KEYS)}
    assert sorted(found - set(KEYS) - events - files - modules - prefixes) == []


@documents
def test_metrics_exist(document: Path) -> None:
    """A test of the running daemons holds docs/metrics.md to be complete."""
    found = {name for text in quoted(document) for name in re.findall(r"(?<![\w/])tupletree_[a-z_]+[a-z]", text)}
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in found}
    assert sorted(name for name in families - METRICS if not TABLES.match(name)) == []


@documents
def test_files_exist(document: Path) -> None:
    found = {text.rstrip("/") for text in quoted(document) if re.fullmatch(r"[\w.*-]+(/[\w.*-]+)+/?", text)}
    named = {text for text in found if text.partition("/")[0] in FOLDERS}
    assert sorted(text for text in named if not any(ROOT.glob(text))) == []


def invocations(document: Path) -> Iterator[str]:
    """Arguments of the program, in backticks and in indented blocks."""
    blocks = re.findall(r"^ {4,}(?:\$ )?(tupletree [a-z].*)$", document.read_text(), re.MULTILINE)
    for text in [*quoted(document), *blocks]:
        if text.startswith("tupletree ") and not text.endswith(" --help"):
            yield re.split(r" [#|&] |  +", text)[0].removeprefix("tupletree ")


@documents
def test_commands_and_options_exist(document: Path) -> None:
    unknown = []
    for text in invocations(document):
        command: click.Command = cli
        for word in text.split():
            if not isinstance(command, click.Group):
                break
            command = command.get_command(click.Context(command), word) or command
        options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
        named = set() if text.split()[0] in DAEMONS else set(re.findall(r"(?<!\S)--[a-z-]+", text))
        if command is cli or not named <= options:
            unknown.append(text)
    assert unknown == []
