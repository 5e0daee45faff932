"""``tupletree completion``."""

from __future__ import annotations

import os

import click

from tupletree.cli.options import json_option
from tupletree.cli.output import print_json

_SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_TUPLETREE_COMPLETE"


@click.command("completion")
@click.argument("shell", type=click.Choice(_SHELLS), required=False)
@json_option
def command(shell: str | None, as_json: bool) -> None:
    """Print a script that makes a shell complete commands, options, topologies and their components.

    Default for SHELL: the shell in $SHELL. The script gets the names from the configured cluster. If the cluster does
    not answer within two seconds, no names are completed.

    \b
    Examples:
      eval "$(tupletree completion bash)"                 for this shell; in ~/.bashrc for all
      tupletree completion zsh > ~/.zfunc/_tupletree      with ~/.zfunc in $fpath
      tupletree completion fish > ~/.config/fish/completions/tupletree.fish
    """
    from click.shell_completion import get_completion_class

    from tupletree.cli.main import cli

    name = shell or os.path.basename(os.environ.get("SHELL", ""))
    if name not in _SHELLS:
        raise click.UsageError(f"completion exists for {', '.join(_SHELLS)}, not for '{name}'.")
    found = get_completion_class(name)
    assert found is not None
    script = found.source_template % found(cli, {}, "tupletree", _VARIABLE).source_vars()
    if as_json:
        print_json({"shell": name, "script": script})
    else:
        click.echo(script)
