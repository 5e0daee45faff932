"""Isolation: who has which machine under the even scheduler.

    isolation.scheduler.machines       a topology has machines to itself, by its name
    multitenant.scheduler.user.pools   the topologies of an owner share a pool of machines
    topology.isolate.machines          a topology has machines of its owner's pool to itself

A machine is a supervisor. A topology that is named has its machines beside the pool of its owner. First named
topologies and pools get machines, then the isolated topologies of each pool get some of that pool; the rest of a pool
is for its other topologies. In either step there are two rounds, each oldest first; a pool is as old as its oldest
topology:

1. Each keeps machines where it runs: those with the fewest workers of others, then with the most of its own.
2. Each gets machines that it lacks: those with the fewest workers of others, then with the most slots.

A topology runs on machines of its owner only, and nobody else does: workers of others there are moved, or wait if
there is no other slot. A topology waits where it is until others have left its machines, so it moves once. It does not
wait for topologies that stay for a time: those that are killed, and those that cannot be moved now. Where fewer
machines are registered than are configured, a topology or a pool has these.

The same input gives the same output. Once a topology or a pool runs on as many machines as are configured, it keeps
them.
"""

from __future__ import annotations  # pure

import functools
import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tupletree._constraints import ISOLATE, ISOLATION, POOLS
from tupletree.v1 import topology_pb2 as pb

from . import lifecycle
from .scheduler import Slot


class Owner(NamedTuple):
    """The owner of a machine: a topology, by id; the pool of a user; or a topology in a pool."""

    pool: str = ""
    topology: str = ""

    @property
    def key(self) -> str:
        """The key that gives the owner its machines."""
        if not self.pool:
            return ISOLATION
        return ISOLATE if self.topology else POOLS


@dataclass(frozen=True)
class Isolation:
    """The machines of isolated topologies and of pools in one decision.

    ``owners``: of each machine that is not everybody's. ``homes``: the owner whose machines a topology uses; topologies
    that use everybody's are absent. ``crowded``: of the machines of a topology, those that others are about to leave.
    ``lacks``: why an isolated topology has fewer machines than are configured. ``pools``: the configured sizes of the
    pools that have topologies, by user. Machines and topologies are named by id.
    """

    owners: Mapping[str, Owner] = field(default_factory=dict)
    homes: Mapping[str, Owner] = field(default_factory=dict)
    crowded: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    lacks: Mapping[str, str] = field(default_factory=dict)
    pools: Mapping[str, int] = field(default_factory=dict)

    @functools.cached_property
    def machines(self) -> Mapping[str, frozenset[str]]:
        """The machines of each topology that has some to itself."""
        found: dict[str, set[str]] = {home.topology: set() for home in self.homes.values() if home.topology}
        for machine, owner in self.owners.items():
            if owner.topology:
                found[owner.topology].add(machine)
        return {one: frozenset(machines) for one, machines in found.items()}

    def may_use(self, topology_id: str, slot: Slot) -> bool:
        """True if a topology may have a worker in a slot."""
        return self.owners.get(slot.supervisor_id) == self.homes.get(topology_id)

    def may_stay(self, topology_id: str, slot: Slot) -> bool:
        """True if a worker may stay until its topology moves: no other owner has the machine."""
        home = self.homes.get(topology_id)
        return self.owners.get(slot.supervisor_id, home) == home

    def lacks_machines(self, owner: Owner | None) -> bool:
        """True if an owner has fewer machines than are configured. None: who uses everybody's."""
        if owner is None or not owner.pool:
            return owner is not None and owner.topology in self.lacks
        return sum(one.pool == owner.pool for one in self.owners.values()) < self.pools[owner.pool]

    def waits_for(self, topology_id: str) -> str:
        """Return what a topology waits for, as a sentence; "" if others have left its machines."""
        crowded = self.crowded.get(topology_id, ())
        if not crowded:
            return ""
        names = ", ".join(f"'{one}'" for one in crowded)
        return f"It waits until other topologies have left its machines {names} ({self.homes[topology_id].key})."

    def machines_text(self, topology_id: str) -> str:
        """Return the machines that a topology may use, as the end of a sentence on too few slots."""
        home, owners = self.homes.get(topology_id), self.owners.values()
        if home is None:
            who = {POOLS if one.pool else ISOLATION: "pools" if one.pool else "isolated topologies" for one in owners}
            keys = sorted(who)
            return f"the machines that {' and '.join(who[key] for key in keys)} leave ({', '.join(keys)})"
        if home.topology:
            return f"the machines of its own ({home.key})"
        isolated = any(one.pool == home.pool and one.topology for one in owners)
        which = f"that isolated topologies ({ISOLATE}) leave in" if isolated else "of"
        return f"the machines {which} {self._pool_text(home.pool)}"

    def _pool_text(self, pool: str) -> str:
        size = sum(one.pool == pool for one in self.owners.values())
        return f"its owner's pool, which has {size} of {self.pools[pool]} ({POOLS})"

    def lack_of(self, topology_id: str, wanted: int) -> str:
        """Explain in one sentence why a topology has fewer machines to itself than are configured; "" if it has all."""
        home, count = self.homes[topology_id], len(self.machines[topology_id])
        if count >= wanted:
            return ""
        lack = f"It has {count} of {wanted} machines of its own ({home.key}): no other"
        if home.pool:
            return f"{lack} is left in {self._pool_text(home.pool)}."
        return f"{lack} registered machine is left."


@dataclass(frozen=True)
class _Claim:
    """A claim to a number of machines, for some topologies."""

    owner: Owner
    machines: int
    topologies: list[str]


@dataclass(frozen=True)
class _Park:
    """Machines to be divided.

    ``slots``: the numbers of slots of those that get new workers. ``workers``: on each, by topology. ``running``: those
    where a topology has a worker that is alive.
    """

    slots: Mapping[str, int]
    workers: Mapping[str, Counter[str]]
    running: Mapping[str, frozenset[str]]

    def part(self, machines: Collection[str]) -> _Park:
        """Return the park of some machines only."""
        running = {one: own.intersection(machines) for one, own in self.running.items()}
        return _Park({one: count for one, count in self.slots.items() if one in machines}, self.workers, running)


def isolate(
    configured: Mapping[str, int],
    records: Iterable[pb.TopologyRecord],
    used: Mapping[str, Collection[Slot]],
    dead: Collection[tuple[str, Slot]],
    supervisors: Mapping[str, pb.Presence],
    pools: Mapping[str, int] | None = None,
    staying: Collection[str] = (),
) -> Isolation:
    """Return the machines of the isolated topologies and of pools.

    ``configured``: the numbers of machines, by name of the topology; ``pools``: by user. ``used``: the slots of each
    topology. ``dead``: workers that are not alive. ``supervisors``: those that get new workers. ``staying``: topologies
    that this decision cannot move.
    """
    ordered = sorted(records, key=lambda one: (one.submitted_unix_s, one.id))
    alive = [one for one in ordered if one.status != lifecycle.KILLED]
    wanted = {one.id: configured[one.name] for one in alive if one.name in configured}
    members: dict[str, list[pb.TopologyRecord]] = {}
    claims: dict[Owner, _Claim] = {}  # oldest first
    for one in alive:
        if one.id in wanted:
            owner = Owner(topology=one.id)
            claims[owner] = _Claim(owner, wanted[one.id], [one.id])
        elif pools and one.owner in pools:
            members.setdefault(one.owner, []).append(one)
            owner = Owner(one.owner)
            claims.setdefault(owner, _Claim(owner, pools[one.owner], [])).topologies.append(one.id)
    if not claims:
        return Isolation()
    park = _park(used, dead, supervisors)
    owners = _divide(list(claims.values()), park)
    homes = {one: claim.owner for claim in claims.values() for one in claim.topologies}
    for pool, topologies in members.items():
        own = {one.id: count for one in topologies if (count := isolated_machines(one.conf_json))}
        inner = [_Claim(Owner(pool, one), count, [one]) for one, count in own.items()]
        owners.update(_divide(inner, park.part([one for one, owner in owners.items() if owner == Owner(pool)])))
        homes.update((one, Owner(pool, one)) for one in own)
        wanted.update(own)
    leaving = {one.id for one in alive}.difference(staying)
    found = Isolation(owners, homes, _crowded(owners, homes, park, leaving), {}, dict(pools or {}))
    lacks = {one: why for one, count in wanted.items() if (why := found.lack_of(one, count))}
    return Isolation(found.owners, found.homes, found.crowded, lacks, found.pools)


@functools.lru_cache(4096)
def isolated_machines(conf_json: str) -> int:
    """Return ``topology.isolate.machines`` of a topology; 0 if it is not set. An unreadable configuration sets none."""
    try:
        return max(0, int(json.loads(conf_json or "{}").get(ISOLATE) or 0))
    except (TypeError, ValueError, AttributeError, RecursionError, OverflowError):
        return 0


def _park(
    used: Mapping[str, Collection[Slot]], dead: Collection[tuple[str, Slot]], supervisors: Mapping[str, pb.Presence]
) -> _Park:
    workers: defaultdict[str, Counter[str]] = defaultdict(Counter)
    running: dict[str, frozenset[str]] = {}
    for topology_id, slots in used.items():
        running[topology_id] = frozenset(one.supervisor_id for one in slots if (topology_id, one) not in dead)
        for slot in slots:
            workers[slot.supervisor_id][topology_id] += 1
    return _Park({one: len(it.slots) for one, it in supervisors.items() if it.slots}, workers, running)


def _divide(claims: Sequence[_Claim], park: _Park) -> dict[str, Owner]:
    """Return the owners of the machines that the claims get, in two rounds."""
    claim_of = {one: claim.owner for claim in claims for one in claim.topologies}
    own: dict[str, Counter[Owner]] = {}  # workers of the claims, by machine
    others: dict[str, int] = {}
    for machine, workers in park.workers.items():
        own[machine] = Counter()
        for topology_id, count in workers.items():
            if topology_id in claim_of:
                own[machine][claim_of[topology_id]] += count
        others[machine] = workers.total()
    owners: dict[str, Owner] = {}
    left = {claim.owner: claim.machines for claim in claims}

    def rank(claim: _Claim, machine: str) -> tuple[int, int]:
        count = own[machine][claim.owner] if machine in own else 0
        return others.get(machine, 0) - count, count

    def give(claim: _Claim, machines: Sequence[str]) -> None:
        given = machines[: left[claim.owner]]
        owners.update(dict.fromkeys(given, claim.owner))
        left[claim.owner] -= len(given)

    for claim in claims:
        running = {machine for one in claim.topologies for machine in park.running.get(one, ())} - owners.keys()
        ranks = {one: rank(claim, one) for one in running}
        give(claim, sorted(running, key=lambda one: (ranks[one][0], -ranks[one][1], one)))
    for claim in claims:
        if not left[claim.owner]:
            continue
        free = park.slots.keys() - owners.keys()
        ranks = {one: rank(claim, one) for one in free}
        give(claim, sorted(free, key=lambda one: (ranks[one][0], -park.slots[one], one)))
    return owners


def _crowded(
    owners: Mapping[str, Owner], homes: Mapping[str, Owner], park: _Park, leaving: Collection[str]
) -> dict[str, tuple[str, ...]]:
    """Return the machines that each topology waits for, as others have not left them."""
    crowded: defaultdict[Owner, list[str]] = defaultdict(list)
    for machine, owner in sorted(owners.items()):
        if any(one in leaving and homes.get(one) != owner for one in park.workers.get(machine, ())):
            crowded[owner].append(machine)
    return {one: tuple(crowded[home]) for one, home in homes.items() if home in crowded}
