"""``tupletree supervisors``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tupletree.cli.options import client_options, json_option
from tupletree.cli.output import print_json, print_table
from tupletree.cli.resources import amount, named_text

if TYPE_CHECKING:
    from tupletree.client import NimbusClient, SupervisorSummary


@click.command("supervisors")
@json_option
@client_options
def command(client: NimbusClient, as_json: bool) -> None:
    """Show every supervisor with its slots, and its resources and their use.

    SLOTS is used/all. CPU (in percent of a processor), MEMORY (in MB) and RESOURCES are what the executors assigned
    to the supervisor need, and what it has. Only the resource scheduler (nimbus.scheduler) places by them: under the
    even scheduler no use is counted. RACK is there if a machine has one (supervisor.rack), and CGROUPS if the kernel
    enforces the limits of the workers of one (supervisor.cgroup.use). A machine that failed too often
    (blacklist.scheduler.…) is named with the reason, one that a topology has to itself (isolation.scheduler.machines,
    topology.isolate.machines) with the topology, and one in the pool of a user (multitenant.scheduler.user.pools)
    with the user.
    """
    cluster = client.cluster()
    supervisors = [supervisor_dict(one) for one in cluster.supervisors]
    if as_json:
        print_json({"scheduler": cluster.scheduler, "supervisors": supervisors})
        return
    click.echo(f"scheduler {cluster.scheduler}")
    has_racks, has_cgroups = (any(one[name] for one in supervisors) for name in ("rack", "cgroups"))
    rows = [
        (
            one["address"],
            f"{one['slots_used']}/{one['slots']}",
            f"{amount(one['cpu_percent_used'])}/{amount(one['cpu_percent'])}%",
            f"{amount(one['memory_mb_used'])}/{amount(one['memory_mb'])}",
            named_text(one["resources_used"]),
            named_text(one["resources"]),
            *([one["rack"]] if has_racks else []),
            *(["yes" if one["cgroups"] else "no"] if has_cgroups else []),
            one["id"],
        )
        for one in supervisors
    ]
    for one in supervisors:
        if one["blacklisted"]:
            click.echo(f"{one['address']} is blacklisted: {one['blacklisted']}")
        if one["isolated_topology"]:
            click.echo(f"{one['address']} is kept for topology '{one['isolated_topology']}'")
        if one["pool"]:
            click.echo(f"{one['address']} is in the pool of {one['pool']}")
    optional = [*(["rack"] if has_racks else []), *(["cgroups"] if has_cgroups else [])]
    print_table(["address", "slots>", "cpu>", "memory>", "resources used", "resources", *optional, "id"], rows)


def supervisor_dict(summary: SupervisorSummary) -> dict[str, Any]:
    """One supervisor, as ``supervisors --json`` prints it."""
    presence = summary.presence
    return {
        "id": presence.id,
        "address": presence.address,
        "version": presence.version,
        "slots": len(presence.slots),
        "slots_used": summary.slots_used,
        "cpu_percent": presence.cpu_percent,
        "cpu_percent_used": summary.cpu_percent_used,
        "memory_mb": presence.memory_mb,
        "memory_mb_used": summary.memory_mb_used,
        "resources": dict(presence.resources),
        "resources_used": dict(summary.resources_used),
        "rack": presence.rack,
        "cgroups": presence.cgroups,
        "blacklisted": summary.blacklisted,
        "isolated_topology": summary.isolated_topology,
        "pool": summary.pool,
    }
