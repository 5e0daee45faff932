"""The ``tupletree`` command: its subcommands, and their exit statuses.

A subcommand's module is imported when it runs, so that ``tupletree --help`` is quick.

Exit status: 0 done; 1 the cluster could not do it; 2 the request was wrong; 130 interrupted. ``health`` exits with its
verdict: 0 healthy, 1 degraded, 2 down. A failure prints one sentence on standard error; ``TUPLETREE_TRACEBACK=1`` adds
the traceback.
"""

from __future__ import annotations

import difflib
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from tupletree.errors import NoNimbusError, TupletreeError, UsageError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class _Entry(NamedTuple):
    module: str
    summary: str


_SECTIONS: Final[dict[str, dict[str, _Entry]]] = {
    "Getting started": {
        "new": _Entry("tupletree.cli.new", "Create a project: a topology, its tests, its configuration."),
        "import-streamparse": _Entry(
            "tupletree.cli.import_streamparse", "Turn a streamparse project into one of ours."
        ),
        "local": _Entry("tupletree.cli.local", "Run a topology in this process, without a cluster."),
        "dev": _Entry("tupletree.cli.dev", "Run a whole cluster on this machine, for development."),
        "doctor": _Entry("tupletree.cli.doctor", "Check this machine: what is missing, and what to do."),
    },
    "Topologies": {
        "submit": _Entry("tupletree.cli.submit", "Upload a topology to the cluster and start it."),
        "list": _Entry("tupletree.cli.list", "Show the topologies of the cluster."),
        "history": _Entry("tupletree.cli.history", "Show the topologies that were removed."),
        "describe": _Entry("tupletree.cli.describe", "Show one topology: components, workers, errors."),
        "monitor": _Entry("tupletree.cli.monitor", "Watch rates, latencies and pending tuples live."),
        "errors": _Entry("tupletree.cli.errors", "Show the newest errors of a topology's components."),
        "logs": _Entry("tupletree.cli.logs", "Show, follow or search the logs of a topology's workers."),
        "activate": _Entry("tupletree.cli.activate", "Resume a deactivated topology's spouts."),
        "deactivate": _Entry("tupletree.cli.deactivate", "Stop a topology's spouts; its bolts keep running."),
        "update": _Entry("tupletree.cli.update", "Let a topology go on with other code."),
        "rollback": _Entry("tupletree.cli.update", "Go back to what ran before an update."),
        "autoscale": _Entry("tupletree.cli.autoscale", "Show how a topology would be scaled by its load, and why."),
        "rebalance": _Entry("tupletree.cli.rebalance", "Change workers and executors, and redistribute them."),
        "kill": _Entry("tupletree.cli.kill", "Stop topologies and remove them."),
        "dead-letters": _Entry("tupletree.cli.dead_letters", "Show, replay and drop messages that were given up."),
        "savepoint": _Entry("tupletree.cli.savepoint", "Write all states and positions to files."),
        "blob": _Entry("tupletree.cli.blob", "Store files for workers, and update them."),
        "state": _Entry("tupletree.cli.state", "Show, export or change values of a stateful component."),
        "restart-worker": _Entry("tupletree.cli.restart_worker", "Restart one worker of a topology."),
    },
    "Debugging a running topology": {
        "log-level": _Entry("tupletree.cli.log_level", "Change levels of loggers in the workers."),
        "debug": _Entry("tupletree.cli.debug", "Show sampled tuples that a component emits, live."),
        "trace": _Entry("tupletree.cli.trace", "Trace a tuple tree hop by hop, with timings."),
        "profile": _Entry("tupletree.cli.profile", "Profile a worker; write a flame graph."),
    },
    "Cluster": {
        "health": _Entry("tupletree.cli.health", "Report whether the cluster is healthy, and why not."),
        "cluster": _Entry("tupletree.cli.cluster", "Run supervisors and ackers on a Spark cluster."),
        "ui": _Entry("tupletree.cli.ui", "Print the address of the web UI, or open it."),
        "metrics": _Entry("tupletree.cli.metrics", "Send all metrics to OpenTelemetry or statsd."),
        "supervisors": _Entry("tupletree.cli.supervisors", "Show every supervisor, its slots and its resources."),
        "ackers": _Entry("tupletree.cli.ackers", "Show every acker service and the ledgers it serves."),
        "trees": _Entry("tupletree.cli.namespaces", "Show the namespaces of trees, with their quotas."),
        "transactions": _Entry("tupletree.cli.transactions", "Show the progress of transactional topologies."),
        "checkpoints": _Entry("tupletree.cli.checkpoints", "Show the last checkpoint of stateful topologies."),
        "config": _Entry("tupletree.cli.config", "Explain configuration keys and show their values."),
        "certs": _Entry("tupletree.cli.certs", "Create a cluster's certificates and secret, for a trial."),
        "token": _Entry("tupletree.cli.certs", "Issue and inspect tokens for users."),
        "version": _Entry("tupletree.cli.version", "Print the versions here and in the cluster."),
        "completion": _Entry("tupletree.cli.completion", "Print a shell's completion script."),
    },
    "Daemons (each runs in the foreground until it gets SIGTERM)": {
        "zookeeper": _Entry("tupletree.cli.zookeeper", "Run a ZooKeeper server, for development."),
        "nimbus": _Entry("tupletree.cli.daemons", "Run the cluster's coordinator."),
        "supervisor": _Entry("tupletree.cli.daemons", "Run the daemon that manages this machine's workers."),
        "acker": _Entry("tupletree.cli.daemons", "Run a service that tracks tuple trees."),
        "drpc": _Entry("tupletree.cli.daemons", "Run a server through which callers ask topologies."),
    },
}
_ENTRIES: Final = {name: entry for section in _SECTIONS.values() for name, entry in section.items()}


class _LazyGroup(click.Group):
    """A group that imports a subcommand's module only when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_ENTRIES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = _ENTRIES.get(cmd_name)
        return _find_command(cmd_name, entry.module) if entry else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in _ENTRIES and not name.startswith("-"):
            nearest = difflib.get_close_matches(name, _ENTRIES, n=1)
            hint = f"; did you mean '{nearest[0]}'?" if nearest else "."
            raise click.UsageError(f"there is no command '{name}'{hint}", ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete commands, without importing their modules, and the options of ``tupletree`` itself."""
        from click.shell_completion import CompletionItem

        found = [
            CompletionItem(name, help=entry.summary) for name, entry in _ENTRIES.items() if name.startswith(incomplete)
        ]
        return found if found or not incomplete.startswith("-") else click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, entries in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, entry.summary) for name, entry in entries.items()])


def _find_command(name: str, module_name: str) -> click.Command:
    """Return a module's click command ``name`` or ``command``, or else a command that runs its ``main(argv)``."""
    module = import_module(module_name)
    for attribute in (name, "command"):
        found = getattr(module, attribute, None)
        if isinstance(found, click.Command):
            return found
    return pass_through(name, module_name)


def pass_through(name: str, module_name: str) -> click.Command:
    """Return a command that passes all its arguments to a module's ``main(argv) -> int``."""

    def run(argv: tuple[str, ...]) -> int:
        status: int | None = import_module(module_name).main(list(argv))
        return status or 0

    return click.Command(
        name,
        callback=run,
        params=[click.Argument(["argv"], nargs=-1, type=click.UNPROCESSED)],
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    )


@click.group(
    cls=_LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="'tupletree COMMAND --help' explains a command and shows examples.",
)
@click.version_option(package_name="tupletree", prog_name="tupletree")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Tupletree: stream processing with every tuple tree tracked.

    \b
    Try it on this machine:
      tupletree new words && cd words     a project: a topology, its test, a configuration
      tupletree local words.py            runs it in this process
      tupletree dev                       a whole cluster; leave it running
      tupletree submit words.py           in another terminal
      tupletree monitor words
      tupletree kill words --wait 0
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status. Never raises and never prints a traceback unless asked to."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    try:
        status = cli.main(args=None if argv is None else list(argv), prog_name="tupletree", standalone_mode=False)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except BrokenPipeError:
        # The reader closed the pipe: nothing may be written to it any more, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (KeyboardInterrupt, click.Abort):
        return 130
    except Exception as error:
        if os.environ.get("TUPLETREE_TRACEBACK"):
            traceback.print_exc()
        return _report(error)


def _report(error: Exception) -> int:
    """Say what went wrong in one sentence and return the exit status."""
    status = 1
    match error:
        case click.UsageError():
            where = error.ctx.command_path if error.ctx else "tupletree"
            sentence, status = f"{_one_line(error.format_message())} Try '{where} --help'.", 2
        case click.ClickException():
            sentence, status = _one_line(error.format_message()), error.exit_code
        case UsageError():
            sentence, status = _one_line(str(error)), 2
        case NoNimbusError() if str(error).endswith("connection refused"):
            sentence = f"{_one_line(str(error))}; is a cluster running? 'tupletree dev' starts one on this machine"
        case TupletreeError():
            sentence = _one_line(str(error))
        case _:
            sentence = _one_line(f"internal error: {type(error).__name__}: {error}")
    click.echo(f"tupletree: {sentence}", err=True)
    return status


def _one_line(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    sys.exit(main())
