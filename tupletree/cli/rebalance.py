"""``tupletree rebalance``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tupletree.cli.options import client_options, complete_components, json_option, name_argument
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
    "-w",
    "--wait",
    "wait_s",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Maximum wait for tuples in flight; default: the topology's message timeout.",
)
@json_option
@client_options
def command(
    client: NimbusClient,
    name: str,
    workers: int | None,
    executors: tuple[str, ...],
    wait_s: float | None,
    as_json: bool,
) -> None:
    """Change workers and executors of a running topology, and redistribute them over the slots.

    Spouts pause until no tuple is in flight, at most for the wait.

    The number of tasks is fixed when a topology is submitted; a component cannot have more executors than tasks.

    \b
    Example:
      tupletree rebalance word_count --workers 4 --executors count=8 --wait 5
    """
    counts = dict(_parse(option) for option in executors)
    record = client.rebalance(name, wait_s, workers, counts)
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


def _parse(option: str) -> tuple[str, int]:
    component, _, number = option.rpartition("=")
    if not component or not number.isdecimal() or int(number) < 1:
        raise click.UsageError(f"--executors takes COMPONENT=N with N of at least 1, not '{option}'.")
    return component, int(number)
