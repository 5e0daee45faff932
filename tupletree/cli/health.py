"""``tupletree health``."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import click

from tupletree.cli.options import conf_options, connect, json_option, nimbus_option
from tupletree.cli.output import print_json
from tupletree.errors import NotFoundError, TupletreeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tupletree._judgement import Verdict
    from tupletree.client import NimbusClient
    from tupletree.v1 import nimbus_pb2

_STATUSES = {"healthy": 0, "degraded": 1, "down": 2}


@click.command("health")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for a nimbus to lead before the verdict is 'down'.",
)
@nimbus_option
@json_option
@conf_options
def command(
    seeds: str | None, conf_path: str | None, overrides: tuple[str, ...], timeout_s: float, as_json: bool
) -> int:
    """Give one verdict on the whole cluster, with the reasons. For scripts: the exit status is the verdict.

    \b
    0  healthy    a nimbus leads, every daemon that is registered answers, every topology has all its workers
    1  degraded   topologies run, but something of that is missing, or one of them does not get on: an acker or
                  supervisor does not answer, workers are not ready or die again and again, a commit or a
                  checkpoint has stalled, a topology finds no slots
    2  down       no nimbus leads or can be reached (running topologies may well go on), ZooKeeper is away, or
                  there is no supervisor, or no acker is ready

    Each reason says where to look next. A topology that was submitted less than 20 seconds ago may lack workers.

    \b
    Examples:
      tupletree health
      tupletree health --json --timeout 2 || page-somebody
    """
    from tupletree._judgement import unreachable

    facts: dict[str, Any] = {}
    with connect(seeds, conf_path, overrides, leader_timeout_s=timeout_s) as client:
        try:
            verdict, facts = _judged(client)
        except NotFoundError:
            raise
        except TupletreeError as error:
            verdict = unreachable(str(error))
    if as_json:
        faults = [
            {"severity": f.severity, "kind": f.kind, "subject": f.subject, "sentence": f.sentence, "look": f.look}
            for f in verdict.faults
        ]
        reasons = [fault.sentence for fault in verdict.faults]
        print_json({"verdict": verdict.status, "reasons": reasons, "faults": faults, **facts})
    else:
        click.echo(verdict.status)
        for fault in verdict.faults:
            click.echo(f"  {fault.sentence}" + (f"  ({fault.look})" if fault.look else ""))
    return _STATUSES[verdict.status]


def _judged(client: NimbusClient) -> tuple[Verdict, dict[str, Any]]:
    from tupletree._judgement import judge

    cluster = client.cluster()
    names = [summary.record.name for summary in client.list()]
    ackers = {one.presence.id: f"{one.presence.host}:{one.presence.grpc_port}" for one in cluster.ackers}
    supervisors = {one.presence.id: f"{one.presence.host}:{one.presence.grpc_port}" for one in cluster.supervisors}
    with ThreadPoolExecutor(16) as pool:
        ledgers = dict(zip(ackers, pool.map(_or_why(client.ledger, "acker"), ackers.values()), strict=True))
        slots = dict(zip(supervisors, pool.map(_or_why(client.slots, "supervisor"), supervisors.values()), strict=True))
        described = [one for one in pool.map(lambda name: _described(client, name), names) if one is not None]
    facts = {
        "nimbuses": len(cluster.nimbuses),
        "supervisors": len(cluster.supervisors),
        "ackers": len(cluster.ackers),
        "slots": cluster.slots_total,
        "slots_used": cluster.slots_used,
        "topologies": len(names),
        "epoch": cluster.epoch,
    }
    return judge(cluster, ledgers, described, slots), facts


def _or_why(ask: Callable[[str], Any], role: str) -> Callable[[str], Any]:
    """What a daemon answers, or why it does not."""

    def asked(address: str) -> Any:
        try:
            return ask(address)
        except TupletreeError as error:
            return str(error).removeprefix(f"{role} at {address} ")

    return asked


def _described(client: NimbusClient, name: str) -> nimbus_pb2.DescribeTopologyReply | None:
    try:
        return client.describe(name)
    except NotFoundError:  # it has gone since
        return None
