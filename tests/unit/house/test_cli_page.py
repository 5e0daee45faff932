"""docs/cli.md names every command and every option."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tupletree.cli.main import cli

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "cli.md").read_text()
HEADINGS = " ".join(re.findall(r"^### (.*)$", PAGE, re.MULTILINE))


def commands(name: str = "", command: click.Command = cli) -> Iterator[tuple[str, click.Command]]:
    """Every command with its whole name."""
    if not isinstance(command, click.Group):
        yield name, command
        return
    context = click.Context(command)
    for inner in command.list_commands(context):
        found = command.get_command(context, inner)
        assert found is not None
        yield from commands(f"{name} {inner}".strip(), found)


@pytest.mark.parametrize(("name", "command"), list(commands()), ids=[name for name, _ in commands()])
def test_every_command_and_option_is_on_the_page(name: str, command: click.Command) -> None:
    assert re.search(rf"(?<![\w-]){name.split(maxsplit=1)[0]}(?![\w-])", HEADINGS), f"no heading names {name}"
    assert re.search(rf"(?<![\w-]){name}(?![\w-])", PAGE), name
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            longest = max(parameter.opts, key=len)
            wanted = [longest, *parameter.secondary_opts]
            assert any(re.search(rf"(?<![\w-]){re.escape(one)}(?![\w-])", PAGE) for one in wanted), f"{name} {longest}"


@pytest.mark.parametrize(("name", "command"), list(commands()), ids=[name for name, _ in commands()])
def test_every_command_explains_itself(name: str, command: click.Command) -> None:
    if name in ("nimbus", "supervisor", "acker", "drpc"):  # their own argparse does
        return
    assert (command.help or "").strip(), name
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{name} {parameter.opts}"
