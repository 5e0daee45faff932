"""``tupletree logs``."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from tupletree.cli.options import client_options, json_option
from tupletree.cli.output import print_json
from tupletree.errors import TupletreeError, UnavailableError, UsageError

if TYPE_CHECKING:
    from tupletree.client import NimbusClient
    from tupletree.v1 import nimbus_pb2

_BYTES_A_LINE: Final = 400  # a generous guess: more is read than is shown
_LEAST_BYTES: Final = 64 * 1024


class _Source(NamedTuple):
    """One worker's log."""

    worker: str  # host:port
    port: int
    supervisor: str  # address


@click.command("logs")
@click.argument("name")
@click.option("--worker", metavar="[HOST:]PORT", help="Only the worker in this slot.")
@click.option("-m", "--component", help="Only workers that run tasks of this component.")
@click.option(
    "-n", "--lines", type=click.IntRange(min=0), default=20, show_default=True, help="Lines of each log to begin with."
)
@click.option("-f", "--follow", is_flag=True, help="Go on with what is written, until interrupted.")
@json_option
@client_options
def command(
    client: NimbusClient, name: str, worker: str | None, component: str | None, lines: int, follow: bool, as_json: bool
) -> None:
    """Show or follow the logs of a topology's workers, through the supervisors of their machines.

    With several workers each line begins with the one it is from. With --json each line is an object.

    \b
    Examples:
      tupletree logs word_count --follow
      tupletree logs word_count --worker 6700 --lines 200
    """
    reply = client.describe(name)
    sources = _sources(client, reply, worker, component)
    topology_id = reply.summary.record.id
    width = max(len(source.worker) for source in sources) if len(sources) > 1 else 0

    def show(source: _Source, line: str) -> None:
        if as_json:
            print_json({"worker": source.worker, "line": line})
        else:
            click.echo(f"{source.worker:{width}} | {line}" if width else line)

    offsets = {source: _show_end(client, topology_id, source, lines, show) for source in sources}
    if follow:
        _follow(client, topology_id, offsets, show)


def _sources(
    client: NimbusClient, reply: nimbus_pb2.DescribeTopologyReply, worker: str | None, component: str | None
) -> list[_Source]:
    """The logs to show, in the order of hosts and ports."""
    known = {spec.id for spec in reply.spec.components}
    if component is not None and component not in known:
        raise UsageError(f"topology '{reply.summary.record.name}' has no component '{component}'")
    tasks = _tasks_of(reply, component)
    addresses = {s.presence.id: f"{s.presence.host}:{s.presence.grpc_port}" for s in client.cluster().supervisors}
    sources = []
    for assigned in reply.assignment.workers:
        place = f"{assigned.host}:{assigned.port}"
        if worker is not None and worker not in (place, str(assigned.port)):
            continue
        if not any(r.first_task <= task <= r.last_task for r in assigned.executors for task in tasks):
            continue
        if assigned.supervisor_id not in addresses:
            raise UnavailableError(f"the supervisor of worker {place} is not there")
        sources.append(_Source(place, assigned.port, addresses[assigned.supervisor_id]))
    if not sources:
        places = ", ".join(f"{a.host}:{a.port}" for a in reply.assignment.workers) or "no worker yet"
        raise UsageError(f"no such worker of topology '{reply.summary.record.name}'; it has {places}")
    return sorted(sources)


def _tasks_of(reply: nimbus_pb2.DescribeTopologyReply, component: str | None) -> set[int]:
    from tupletree.parallelism import task_ranges

    ranges = task_ranges(reply.summary.record.tasks)
    wanted = [ids for name, ids in ranges.items() if component in (None, name)]
    return {task for ids in wanted for task in ids}


def _show_end(
    client: NimbusClient, topology_id: str, source: _Source, lines: int, show: Callable[[_Source, str], None]
) -> int:
    """Show the last lines of a log; return the offset of its end."""
    data, end = b"", 0
    last_bytes = max(_LEAST_BYTES, lines * _BYTES_A_LINE)
    for reply in client.tail_log(source.supervisor, topology_id, source.port, last_bytes=last_bytes):
        data += reply.data
        end = reply.offset + len(reply.data)
    whole, _, rest = data.rpartition(b"\n")
    for line in whole.splitlines()[-lines:] if lines and whole else []:
        show(source, line.decode(errors="replace"))
    return end - len(rest)


def _follow(
    client: NimbusClient, topology_id: str, offsets: dict[_Source, int], show: Callable[[_Source, str], None]
) -> None:
    """Show lines as they are written, until interrupted or until every log has ended. Threads meet at the queue."""
    arrived: queue.SimpleQueue[tuple[_Source, str | TupletreeError | None]] = queue.SimpleQueue()

    def read(source: _Source, offset: int) -> None:
        rest = b""
        try:
            for reply in client.tail_log(source.supervisor, topology_id, source.port, offset=offset, follow=True):
                *whole, rest = (rest + reply.data).split(b"\n")
                for line in whole:
                    arrived.put((source, line.decode(errors="replace")))
            arrived.put((source, None))
        except TupletreeError as error:
            arrived.put((source, error))

    for source, offset in offsets.items():
        threading.Thread(target=read, args=(source, offset), daemon=True).start()
    left = len(offsets)
    failure: TupletreeError | None = None
    try:
        while left:
            source, event = arrived.get()
            if isinstance(event, str):
                show(source, event)
                continue
            left -= 1
            failure = event or failure
    except KeyboardInterrupt:
        return
    if failure is not None:
        raise failure
