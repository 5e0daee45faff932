"""``tupletree health``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from tupletree.cli.options import conf_options, connect, json_option, nimbus_option
from tupletree.cli.output import print_json
from tupletree.errors import UnavailableError

if TYPE_CHECKING:
    from tupletree.client import NimbusClient
    from tupletree.v1 import nimbus_pb2


@click.command("health")
@nimbus_option
@json_option
@conf_options
def command(seeds: str | None, conf_path: str | None, overrides: tuple[str, ...], as_json: bool) -> int:
    """Say whether the cluster is well, and if not, why. Exit status 0: well; 1: not.

    \b
    healthy    a nimbus leads, every acker is ready, every active topology has all its workers
    degraded   the cluster works, but something of that is missing
    down       no nimbus leads or can be reached; running topologies may well go on
    """
    with connect(seeds, conf_path, overrides) as client:
        try:
            verdict, reasons, facts = _judge(client)
        except UnavailableError as error:
            verdict, reasons, facts = "down", [str(error)], {}
    if as_json:
        print_json({"verdict": verdict, "reasons": reasons, **facts})
    else:
        click.echo("; ".join([verdict, *reasons]) if len(reasons) < 2 else verdict)
        for reason in reasons if len(reasons) > 1 else []:
            click.echo(f"  {reason}")
    return 0 if verdict == "healthy" else 1


def _judge(client: NimbusClient) -> tuple[str, list[str], dict[str, Any]]:
    from tupletree.cli.ackers import acker_dicts

    cluster = client.cluster()
    topologies = client.list()
    unscheduled = {
        summary.record.name: client.describe(summary.record.name).unscheduled
        for summary in topologies
        if summary.workers_used < summary.record.workers
    }
    reasons = find_faults(cluster, acker_dicts(client), topologies, unscheduled)
    facts = {
        "nimbuses": len(cluster.nimbuses),
        "supervisors": len(cluster.supervisors),
        "ackers": len(cluster.ackers),
        "slots": cluster.slots_total,
        "slots_used": cluster.slots_used,
        "topologies": len(topologies),
        "epoch": cluster.epoch,
    }
    return ("degraded" if reasons else "healthy"), reasons, facts


def find_faults(
    cluster: nimbus_pb2.DescribeClusterReply,
    ackers: Sequence[dict[str, Any]],
    topologies: Sequence[nimbus_pb2.TopologySummary],
    unscheduled: dict[str, str],
) -> list[str]:
    """Everything that is not as it should be, each a sentence. Pure."""
    from tupletree.v1.topology_pb2 import TopologyStatus

    reasons = []
    if not cluster.supervisors:
        reasons.append("no supervisor is registered, so no topology can run")
    if not ackers:
        reasons.append("no acker service is registered, so tracked topologies cannot run")
    for acker in ackers:
        if not acker["ready"]:
            why = "; ".join(acker["reasons"]) or "it gives no reason"
            reasons.append(f"acker {acker['id']} at {acker['address']} is not ready: {why}")
    for summary in topologies:
        record = summary.record
        if record.status not in (TopologyStatus.TOPOLOGY_STATUS_ACTIVE, TopologyStatus.TOPOLOGY_STATUS_INACTIVE):
            continue
        if unscheduled.get(record.name):
            reasons.append(f"topology '{record.name}' is not fully scheduled: {unscheduled[record.name]}")
        elif summary.workers_used == 0:
            reasons.append(f"topology '{record.name}' has no worker")
        elif summary.workers_ready < summary.workers_used:
            reasons.append(
                f"topology '{record.name}' has {summary.workers_ready} of {summary.workers_used} workers ready"
            )
    return reasons
