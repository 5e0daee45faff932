"""Step of the leader's loop that keeps the blacklist: count failures, release what topologies lack, log both."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from tupletree._log import event

from . import lifecycle
from .blacklist import Demand, Silent, demand_of, offering
from .cluster_state import ClusterState
from .isolation import isolate
from .lack_of_room import lacks_resources
from .leader_state import LeaderState
from .liveness import Placements

log = logging.getLogger("tupletree.nimbus")


def blacklisted(
    leader_state: LeaderState, state: ClusterState, placements: Placements, silent: Silent, now_s: float
) -> frozenset[str]:
    """Return the supervisors that get no new workers. Log which came onto the list, and which left it."""
    blacklist = leader_state.blacklist
    hosts = blacklist.hosts | {one: presence.host for one, presence in state.supervisors.items()}
    registered = {one: presence.started_unix_s for one, presence in state.supervisors.items()}
    changes = blacklist.observe(registered, silent, now_s)
    if blacklist.listed:
        for demand in _demands(leader_state, state, placements, silent):
            changes += blacklist.release(demand)
    for one in changes:
        event(
            log,
            "supervisor.blacklisted" if one.is_listed else "supervisor.released",
            level=logging.WARNING if one.is_listed else logging.INFO,
            id=one.supervisor_id,
            host=hosts.get(one.supervisor_id),
            cause=one.sentence,
        )
    blacklist.hosts = {one: host for one, host in hosts.items() if one in state.supervisors or one in blacklist.listed}
    return frozenset(blacklist.listed)


def _demands(
    leader_state: LeaderState, state: ClusterState, placements: Placements, silent: Silent
) -> Iterator[Demand]:
    """Yield what topologies lack. Under the even scheduler, those of each owner of machines apart (isolation.py).

    A topology that is confined to machines lacks nothing that another machine could end, unless its owner lacks
    machines. And what is free on machines of others is no room for it.
    """
    scheduling, listed = leader_state.scheduling, leader_state.blacklist.listed
    records = [one.value for one in state.records.values()]
    if scheduling.by_resources:
        shortages = leader_state.shortages
        waiting = [one.id for one in records if one.status != lifecycle.KILLED and one.id in shortages]
        is_short = lacks_resources(shortages[one] for one in waiting)
        demand = demand_of(records, placements, silent, state.supervisors, is_short)
        yield demand._replace(missing=0)  # workers are wanted there, not needed
        return
    offered = offering(state.supervisors, listed)
    isolation = isolate(scheduling.isolated, records, placements, silent, offered, scheduling.pools)
    for home in dict.fromkeys([None, *isolation.homes.values()]):
        spare = listed.keys() - isolation.owners.keys() if isolation.lacks_machines(home) else set()
        machines = {
            one: presence
            for one, presence in state.supervisors.items()
            if isolation.owners.get(one) == home or one in spare
        }
        members = [one for one in records if isolation.homes.get(one.id) == home]
        yield demand_of(members, placements, silent, machines, is_short=False)
