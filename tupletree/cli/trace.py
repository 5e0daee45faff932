"""``tupletree trace``."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import click

from tupletree._health.assessment import message_timeout_s
from tupletree._wire.events import decode_event
from tupletree._wire.names import is_system
from tupletree.cli.options import client_options, json_option, name_argument
from tupletree.cli.output import print_json
from tupletree.cli.tracing import Tree, join
from tupletree.cli.trees import print_tree, tree_dict
from tupletree.cli.workers import Following, Position, Source, end_of, last_lines, sources
from tupletree.errors import TupletreeError, UnavailableError, UsageError
from tupletree.parallelism import tasks_of_record

if TYPE_CHECKING:
    from tupletree.client import NimbusClient, TopologyDescription, TopologyRecord

FILE: Final = "events.jsonl"
TREES_A_SECOND: Final = 5.0  # traced by default
_SETTLE_S: Final = 1.0  # after the last verdict, for events that other workers have not written yet
_WHOLE_S: Final = 5.0  # after it at the latest, if events of a tree are still missing: a busy worker writes them late
_LATE_S: Final = 1.0
_TRACE_KINDS: Final = frozenset(("begin", "send", "receive", "execute", "ack", "fail", "verdict"))


@click.command("trace")
@name_argument
@click.option(
    "--for",
    "seconds",
    type=click.FloatRange(min=1, max=86400),
    metavar="SECONDS",
    help="Duration. Default: until enough trees are complete, at most the message timeout plus 10 seconds.",
)
@click.option(
    "--one-in",
    type=click.IntRange(1, 2**32 - 1),
    metavar="N",
    help="Trace one in N trees. Default: about five trees per second.",
)
@click.option(
    "-n", "--count", "most", type=click.IntRange(1, 1000), default=1, show_default=True, help="Trees to show."
)
@click.option("--slowest", is_flag=True, help="Show the slowest of all traced trees, not the first.")
@click.option("--failed", is_flag=True, help="Show only trees that failed or timed out.")
@click.option("--recent", is_flag=True, help="Show trees already recorded in the workers' events.jsonl.")
@click.option(
    "--otlp", metavar="URL", help="Also send each tree as a trace to this OpenTelemetry collector (OTLP/HTTP)."
)
@click.option("--off", is_flag=True, help="Stop tracing, even if another user started it, and exit.")
@json_option
@client_options
def command(
    client: NimbusClient,
    name: str,
    seconds: float | None,
    one_in: int | None,
    most: int,
    slowest: bool,
    failed: bool,
    recent: bool,
    otlp: str | None,
    off: bool,
    as_json: bool,
) -> None:
    """Trace tuple trees through all workers, and print one tree with the times of every hop.

    For each tuple the command shows the task and the worker, and in milliseconds since the spout's emit: when the tuple
    was SENT, when it ARRIVED at another worker, when its execution BEGAN, how long the execution TOOK, and when the
    tuple was ACKED. The workers trace every N-th tree by its id and write the hops to their events.jsonl. Trees of
    checkpoints are not shown. Without tracing there is no cost. Tracing ends with the command, at the latest after
    --for.

    Times come from the clocks of the machines. If two clocks differ so much that a tuple would arrive before it was
    sent, the command shifts the times of one machine and prints the shift.

    Exit status 0; 1 if no tree completed in time; 2 if the topology is not found or its tuples are not tracked.

    \b
    Examples:
      tupletree trace word_count
      tupletree trace word_count --for 30 --slowest
      tupletree trace word_count --failed --for 120 --json
      tupletree trace word_count --otlp http://localhost:4318/v1/traces
    """
    if off:
        _say_off(client.set_tracing(name, 0), as_json)
        return
    reply = _tracked(client, name)
    exporter = _exporter(otlp) if otlp is not None else None
    if recent:
        events = _recent_events(client, name)
    else:
        wanted_s = seconds or (message_timeout_s(reply.summary.record.raw) + 10.0)
        enough = None if slowest or seconds else most
        events = _follow(client, name, one_in or _one_in(reply), wanted_s, enough, failed)
    trees = _named_trees(reply, events, most, slowest, failed)
    for tree in trees:
        print_json(tree_dict(tree)) if as_json else print_tree(tree)
    if exporter is not None:
        exporter.export(name, trees)


def _tracked(client: NimbusClient, name: str) -> TopologyDescription:
    """Return the description of a topology. Raises UsageError if its tuples are not tracked."""
    reply = client.describe(name)
    if not reply.summary.record.acker_shards:
        raise UsageError(f"topology '{name}' is not tracked (topology.acker.executors is 0): its tuples have no trees")
    return reply


def _named_trees(
    reply: TopologyDescription, events: Sequence[dict[str, Any]], most: int, slowest: bool, failed: bool
) -> list[Tree]:
    """The trees to show, with named hops. Raises UnavailableError if there are none."""
    record = reply.summary.record
    trees = _chosen(events, most, slowest, failed)
    if not trees:
        what = "no tree failed" if failed else "no tree completed"
        raise UnavailableError(
            f"{what} in time: try a longer --for or a smaller --one-in, and check that '{record.name}' is active"
        )
    _name_hops(trees, tasks_of_record(record.raw))
    return trees


def _chosen(events: Sequence[dict[str, Any]], most: int, slowest: bool, failed: bool) -> list[Tree]:
    trees = [tree for tree in join(events) if _is_shown(tree, failed)]
    if slowest:
        trees.sort(key=lambda tree: -(tree.took_s or 0.0))
    return trees[:most]


def _name_hops(trees: Sequence[Tree], tasks: Mapping[str, Sequence[int]]) -> None:
    components = {task: component for component, ids in tasks.items() for task in ids}
    for tree in trees:
        tree.name_hops(components)


def _is_shown(tree: Tree, failed: bool) -> bool:
    if tree.is_of_system:
        return False
    return tree.verdict in ("failed", "expired") if failed else tree.took_s is not None


def _one_in(reply: TopologyDescription) -> int:
    """Return the N that traces a few trees per second. N is odd, to spread the trees over the shards."""
    from tupletree.client import ComponentKind

    spouts = [one for one in reply.components if one.kind == ComponentKind.SPOUT]
    wanted = math.ceil(sum(one.acked_per_s for one in spouts) / TREES_A_SECOND)
    return max(1, wanted | 1)


def _follow(
    client: NimbusClient, name: str, one_in: int, seconds: float, enough: int | None, failed: bool
) -> list[dict[str, Any]]:
    """Trace trees for ``seconds``, or until ``enough`` are complete; return their events."""

    def select() -> list[Source]:
        return sources(client, name)

    positions: dict[Source, Position] = {source: end_of(client, source, FILE) for source in select()}
    before = client.describe(name).summary.record
    is_mine = not before.traced_one_in
    if is_mine:
        client.set_tracing(name, one_in, time.time() + seconds)
    following = Following(client, name, FILE, positions, select)
    try:
        return _collect(following, time.monotonic() + seconds, enough, failed)
    finally:
        following.close()
        if is_mine:
            with contextlib.suppress(TupletreeError):  # tracing expires by itself
                client.set_tracing(name, 0)


def _collect(following: Following, deadline_s: float, enough: int | None, failed: bool) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    begun: set[str] = set()
    ended, most = 0, enough or 0
    end_s = last_s = deadline_s + _LATE_S
    with contextlib.suppress(KeyboardInterrupt):
        for arrived in following.lines():
            event = decode_event(arrived[1]) if arrived is not None else None
            if event is not None and event["kind"] in _TRACE_KINDS and isinstance(event.get("root"), str):
                events.append(event)
                if event["kind"] == "begin" and not is_system(str(event.get("component"))):
                    begun.add(event["root"])
                elif event["kind"] == "verdict" and event["root"] in begun:
                    ended += event.get("verdict") != "acked" if failed else 1
            now_s = time.monotonic()
            if enough is not None and ended >= enough:
                last_s = min(last_s, now_s + _WHOLE_S)
                end_s, enough = min(end_s, now_s + _SETTLE_S), None
            if now_s >= end_s:
                if now_s >= last_s or all(tree.is_whole for tree in _chosen(events, most, False, failed)):
                    break
                end_s = now_s + _SETTLE_S
    return events


def _recent_events(client: NimbusClient, name: str) -> list[dict[str, Any]]:
    """Return the events in the newest part of every worker's events.jsonl."""
    found = sources(client, name)
    with ThreadPoolExecutor(16) as pool:
        parts = pool.map(lambda source: last_lines(client, source, FILE, 8 * 1024 * 1024)[0], found)
        events = [decode_event(line) for lines in parts for line in lines]
    return [event for event in events if event is not None and event["kind"] in _TRACE_KINDS]


def _exporter(url: str) -> Any:
    try:
        from tupletree.cli.otlp import Exporter
    except ImportError:
        raise UsageError("--otlp needs OpenTelemetry's SDK: pip install 'tupletree[otel]'") from None
    return Exporter(url)


def _say_off(record: TopologyRecord, as_json: bool) -> None:
    if as_json:
        print_json({"name": record.name, "traced_one_in": record.traced_one_in})
    else:
        click.echo(f"no tree of '{record.name}' is traced")
