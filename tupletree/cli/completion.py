"""``tupletree completion``, and how names are completed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from tupletree.cli.options import json_option
from tupletree.cli.output import print_json

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_TUPLETREE_COMPLETE"
_DEADLINE_S = 2.0  # for the cluster; usually it takes some hundredths


@click.command("completion")
@click.argument("shell", type=click.Choice(_SHELLS), required=False)
@json_option
def command(shell: str | None, as_json: bool) -> None:
    """Print what makes a shell complete commands, options and the names of running topologies.

    Without SHELL it is that of $SHELL. Names are asked of the cluster that the options or the configuration name; if
    it does not answer within two seconds there are none.

    \b
    Examples:
      eval "$(tupletree completion bash)"                 for this shell; in ~/.bashrc for every one
      tupletree completion zsh > ~/.zfunc/_tupletree      with ~/.zfunc in $fpath
      tupletree completion fish > ~/.config/fish/completions/tupletree.fish
    """
    from click.shell_completion import get_completion_class

    from tupletree.cli.main import cli

    name = shell or os.path.basename(os.environ.get("SHELL", ""))
    if name not in _SHELLS:
        raise click.UsageError(f"there is completion for {', '.join(_SHELLS)}, not for '{name}'.")
    found = get_completion_class(name)
    assert found is not None
    script = found.source_template % found(cli, {}, "tupletree", _VARIABLE).source_vars()
    if as_json:
        print_json({"shell": name, "script": script})
    else:
        click.echo(script)


def complete_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names of running topologies that begin so; none if the cluster does not say soon. Never raises."""
    import logging
    from queue import Empty, SimpleQueue
    from threading import Thread

    from click.shell_completion import CompletionItem

    from tupletree.client import NimbusClient  # here, as it takes a while
    from tupletree.config import load

    answer: SimpleQueue[list[str]] = SimpleQueue()

    def ask() -> None:
        try:
            given = ctx.params
            overrides = tuple(given.get("overrides") or ())
            conf = load(given.get("conf_path"), overrides)
            with NimbusClient(given.get("seeds"), conf, leader_timeout_s=0.0) as client:
                answer.put([summary.record.name for summary in client.list()])
        except Exception:  # whatever it is, a prompt is no place to say it
            answer.put([])

    logging.disable(logging.CRITICAL)
    Thread(target=ask, daemon=True).start()
    try:
        names = answer.get(timeout=_DEADLINE_S)
    except Empty:
        names = []
    already = ctx.params.get("names") or ()
    return [CompletionItem(name) for name in names if name.startswith(incomplete) and name not in already]
