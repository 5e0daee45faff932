"""``tupletree health``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tupletree.cli.options import conf_options, connect, json_option, nimbus_option
from tupletree.cli.output import print_json
from tupletree.errors import TupletreeError

if TYPE_CHECKING:
    from tupletree._health.assessment import Fault, Verdict
    from tupletree.client import ClusterHealth, HealthReason, NimbusClient

_STATUSES = {"healthy": 0, "degraded": 1, "down": 2}


@click.command("health")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="Maximum wait for a leading nimbus before the verdict is 'down'.",
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
    1  degraded   topologies run, but a part fails or a topology makes no progress: an acker or supervisor does
                  not answer, workers are not ready or crash repeatedly, a commit or a checkpoint has stalled,
                  a topology finds no slots
    2  down       no nimbus leads or can be reached (running topologies may continue), ZooKeeper is unavailable,
                  there is no supervisor, or no acker is ready

    Each reason names the next command to run. A topology submitted less than 20 seconds ago may lack workers. Notes
    do not change the verdict, for example failed trees of the last ten minutes or a saturated bolt. The leading
    nimbus computes the verdict, for the topologies that you may see. The web UI and GET /api/v1/cluster/health show
    the same verdict.

    \b
    Examples:
      tupletree health
      tupletree health --json --timeout 2 || page-on-call
    """
    from tupletree._health.assessment import unreachable

    facts: dict[str, Any] = {}
    found: ClusterHealth | Verdict
    with connect(seeds, conf_path, overrides, leader_timeout_s=timeout_s) as client:
        try:
            found, facts = client.health(), _figures(client)
            status = found.verdict
        except TupletreeError as error:
            found = unreachable(str(error))
            status = found.status
    if as_json:
        reasons = [fault.sentence for fault in found.faults]
        faults, notes = map(_as_dict, found.faults), map(_as_dict, found.notes)
        print_json({"verdict": status, "reasons": reasons, "faults": [*faults], "notes": [*notes], **facts})
    else:
        click.echo(status)
        for one in (*found.faults, *found.notes):
            mark = "" if one.severity in ("down", "degraded") else f"{one.severity}: "
            click.echo(f"  {mark}{one.sentence}" + (f"  ({one.command})" if one.command else ""))
    return _STATUSES[status]


def _as_dict(one: HealthReason | Fault) -> dict[str, str]:
    return {
        "severity": one.severity,
        "kind": one.kind,
        "subject": one.subject,
        "sentence": one.sentence,
        "command": one.command,
        "topology_id": one.topology_id,
        "component": one.component,
    }


def _figures(client: NimbusClient) -> dict[str, Any]:
    cluster = client.cluster()
    return {
        "nimbuses": len(cluster.nimbuses),
        "supervisors": len(cluster.supervisors),
        "ackers": len(cluster.ackers),
        "slots": cluster.slots_total,
        "slots_used": cluster.slots_used,
        "topologies": cluster.topologies,
        "epoch": cluster.epoch,
    }
