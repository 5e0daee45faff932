"""``tupletree rebalance``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tupletree.cli.options import client_options, complete_components, json_option, name_argument, wait_option
from tupletree.cli.record import print_records

if TYPE_CHECKING:
    from tupletree.client import NimbusClient, TopologyRecord


@click.command("rebalance")
@name_argument
@click.option("-n", "--workers", type=click.IntRange(min=1), help="Worker processes wanted; default: unchanged.")
@click.option(
    "-e",
    "--executors",
    multiple=True,
    metavar="COMPONENT=N",
    shell_complete=complete_components,
    help="Executors of a component; may be repeated.",
)
@click.option(
    "-t",
    "--tasks",
    multiple=True,
    metavar="COMPONENT=N",
    shell_complete=complete_components,
    help="Tasks of a component; may be repeated. Its state is divided anew.",
)
@wait_option
@json_option
@client_options
def command(
    client: NimbusClient,
    name: str,
    workers: int | None,
    executors: tuple[str, ...],
    tasks: tuple[str, ...],
    wait_s: float | None,
    as_json: bool,
) -> None:
    """Change workers, executors and tasks of a running topology, and redistribute the executors over the slots.

    Spouts pause until no tuple is in flight, at most for the wait.

    A component cannot have more executors than tasks. When its tasks change, every worker of the topology is replaced,
    and the component's state moves to the new tasks, each entry to the task that its key is now sent to. A component
    with one executor for each task keeps that.

    \b
    Examples:
      tupletree rebalance word_count --workers 4 --executors count=8 --wait 5
      tupletree rebalance word_count --tasks count=8
    """
    executor_counts = dict(_parse("--executors", option) for option in executors)
    task_counts = dict(_parse("--tasks", option) for option in tasks)
    record = client.rebalance(name, wait_s, workers, executor_counts, task_counts)
    print_records([record], as_json)
    if not as_json and (sentence := _ask_shortfall(client, record)):
        click.echo(sentence)


def _ask_shortfall(client: NimbusClient, record: TopologyRecord) -> str:
    cluster = client.cluster()
    own = sum(summary.workers_used for summary in client.list() if summary.record.id == record.id)
    return shortfall(record, own, cluster.slots_used, cluster.slots_total)


def shortfall(record: TopologyRecord, own: int, slots_used: int, slots_total: int) -> str:
    """Return why the topology will have fewer workers than wanted, as far as is known now; else an empty string."""
    pending = record.pending
    wanted = (pending.workers if pending else 0) or record.workers
    executors = sum({**record.executors, **(pending.executors if pending else {})}.values())
    if 0 < executors < wanted:
        return f"{record.name} will have at most {executors} of {wanted} workers: it has {executors} executors"
    free = max(0, slots_total - slots_used)
    if own + free >= wanted:
        return ""
    return (
        f"{record.name} will have {own + free} of {wanted} workers: the cluster has {slots_total} slots, "
        f"{free} of them free; start more supervisors, or ask for fewer workers"
    )


def _parse(what: str, option: str) -> tuple[str, int]:
    component, _, number = option.rpartition("=")
    if not component or not number.isdecimal() or int(number) < 1:
        raise click.UsageError(f"{what} takes COMPONENT=N with N of at least 1, not '{option}'.")
    return component, int(number)
