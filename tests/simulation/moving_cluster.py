"""The control plane around the topology whose states move: what ZooKeeper holds, and the leader of nimbus.

The decisions are the product's: the requests of operators (lifecycle, update_requests), the planner, the trials of
updates. What is simulated is when they are made, by whom, and whether what they decide is written. A write is
conditional on the versions that were read, and on the epoch of the leader, as ZooKeeper's transactions are.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from moving_components import spec_of, topology_of
from moving_nouns import EXTRA, ID, NAME, Code

from tupletree import config
from tupletree._checkpoints.record import stored_checkpoint
from tupletree._coord.versioned import Versioned
from tupletree.errors import ConflictError, UnavailableError
from tupletree.nimbus.leader import lifecycle, planner
from tupletree.nimbus.leader.scheduler import Slot
from tupletree.nimbus.leader.settled import Settled
from tupletree.nimbus.leader.shard_placement import Acker
from tupletree.nimbus.leader.task_changes import check_task_change
from tupletree.nimbus.leader.update_trials import PlacedSince, outcome
from tupletree.nimbus.submission.validation import new_record
from tupletree.nimbus.update_requests import checked_update
from tupletree.nimbus.updates import Rollback, changed_tasks, goes_back, state_versions
from tupletree.parallelism import executors_of_record
from tupletree.v1 import nimbus_pb2 as rpc
from tupletree.v1 import topology_pb2 as pb

if TYPE_CHECKING:
    from moving_world import World

TOPOLOGY = f"{NAME}-1-1"
CONF = {**config.defaults(), "zookeeper.servers": [], "transactional.zookeeper.servers": None}
"""The cluster's configuration."""
CYCLE_S = 0.2
LED_SINCE_S = -100.0
"""The first leader has led for long: it takes updates back at once."""


class Cluster:
    """The record and the assignment, as stored, and the bundles."""

    def __init__(self, world: World, code: Code, conf: Mapping[str, Any]) -> None:
        self.world = world
        self.own_conf = dict(conf)
        self.bundles: dict[str, pb.TopologySpec] = {}
        self.outlines: dict[str, pb.TopologySpec] = {}
        self.codes: dict[str, Code] = {}
        record = new_record(self.header(code), CONF, TOPOLOGY, 0.0)
        self.record = Versioned(record, 0)
        self.assignment: Versioned[pb.Assignment] | None = None
        self.errors: list[pb.ComponentError] = []
        self.epoch = 1
        self.leader: Leader | None = Leader(self, LED_SINCE_S)
        self.supervisors = {
            f"m{number}": pb.Presence(id=f"m{number}", host=f"m{number}", slots=[1, 2])
            for number in range(world.shape.machines)
        }
        world.every(CYCLE_S, self._cycle, always=True)

    # Requests of operators

    def header(self, code: Code, drop_states: tuple[str, ...] = ()) -> rpc.SubmitHeader:
        """What a client sends of a version of the code."""
        topology = topology_of(code)
        sha256 = f"{code.number:064x}"
        self.codes[sha256] = code
        self.bundles[sha256] = spec_of(topology)
        self.outlines[sha256] = topology.outline()
        conf = {**self.own_conf, "topology.transfer.batch.size": code.batch_size}
        return rpc.SubmitHeader(
            name=NAME,
            conf_json=config.encode_conf(conf),
            sha256=sha256,
            size=9,
            spec=self.outlines[sha256],
            drop_states=drop_states,
        )

    @property
    def code(self) -> Code:
        """The code that runs."""
        return self.codes[self.record.value.bundle_sha256]

    @property
    def outline(self) -> pb.TopologySpec:
        """The outline of the code that runs."""
        return self.outlines[self.record.value.bundle_sha256]

    def update(self, code: Code) -> pb.TopologyRecord:
        """Ask for an update. Raises UsageError or UnavailableError."""
        drops = (EXTRA,) if self.code.has_extra and not code.has_extra else ()
        header = self.header(code, drops)
        record = self.record.value
        request = checked_update(record, self.outline, header, CONF)
        request = type(request)(request.base, request.version, self.wait_s())
        self._check_readable(header.spec)
        return self.ask(request)

    def wait_s(self) -> float:
        return self.world.rng.uniform(0, self.world.shape.wait_s)

    def ask(self, request: lifecycle.Request) -> pb.TopologyRecord:
        """Carry out a request, as LeaderApi.change does. Raises UsageError or UnavailableError."""
        stored = self.record
        if self.leader is None:
            raise UnavailableError("no nimbus leads")
        self._check(stored.value, request)
        after = lifecycle.ask(stored.value, request, self.world.now_s)
        if after != stored.value:
            write = partial(self.write, self.epoch, Versioned(after, stored.version), None)
            self.world.outside.request("the write of the record", write, self.world.faults.operations)
        return after

    def _check(self, record: pb.TopologyRecord, request: lifecycle.Request) -> None:
        """What LeaderApi checks of a request."""
        match request:
            case lifecycle.Rebalance(tasks=tasks) if tasks:
                check_task_change(record, self.outline, tasks, CONF)
            case Rollback() if goes_back(record):
                before = self.outlines[record.previous.bundle_sha256]
                check_task_change(record, before, changed_tasks(record, record.previous), CONF)
                self._check_readable(before)

    def _check_readable(self, spec: pb.TopologySpec) -> None:
        versions = state_versions(spec)
        stored_checkpoint(self.world.store, ID).older_states(versions, versions)

    # Writes

    def write(
        self, epoch: int, record: Versioned[pb.TopologyRecord] | None, assignment: Versioned[pb.Assignment] | None
    ) -> None:
        """Write in one transaction. Raises ConflictError if something of it was written since, or another leads."""
        version = -1 if self.assignment is None else self.assignment.version
        if epoch != self.epoch or (record is not None and record.version != self.record.version):
            raise ConflictError("the record was written since")
        if assignment is not None and assignment.version != version:
            raise ConflictError("the assignment was written since")
        if record is not None:
            self._tell(record.value)
            self.record = Versioned(record.value, record.version + 1)
        if assignment is not None:
            self.assignment = Versioned(assignment.value, version + 1)
        self.world.cluster_changed()

    def _tell(self, after: pb.TopologyRecord) -> None:
        before, world = self.record.value, self.world
        what = f"version {after.version}, {dict(sorted(after.tasks.items()))} from {after.first_task or 1} on"
        world.tell(f"the record: {lifecycle.status_name(after.status)}, {what}")
        for name, tasks in after.tasks.items():
            if before.tasks.get(name, tasks) != tasks:
                world.counts["rescaled spouts" if name == "events" else "rescaled bolts"] += 1
                world.counts["rescaled to one"] += tasks == 1
        if after.version != before.version:
            is_back = after.version < before.version
            world.counts["taken back" if before.pending.is_taken_back else "rolled back" if is_back else "updated"] += 1
        world.counts["restarted with other keys"] += bool(before.pending.conf) and not after.pending.conf

    # The leader

    def lose_leader(self) -> None:
        """The leader dies; another one is elected after a while."""
        if self.leader is not None:
            self.world.tell("the leader of nimbus dies")
            self.world.counts["leaders lost"] += 1
            self.leader = None
            self.world.at(self.world.rng.uniform(0.1, 1.0), self._elect)

    def _elect(self) -> None:
        self.epoch += 1
        self.leader = Leader(self, self.world.now_s)

    def _cycle(self) -> None:
        if self.leader is not None:
            self.leader.run_cycle()

    def is_placed(self) -> bool:
        """True if each executor has a slot."""
        return sorted(executor for run in self.placement().values() for executor in run) == executors_of_record(
            self.record.value
        )

    def placement(self) -> Mapping[Slot, Any]:
        return {} if self.assignment is None else planner.placement_of(self.assignment.value)

    def is_settled(self) -> bool:
        """True if nothing is under way."""
        record = self.record.value
        return record.status == lifecycle.ACTIVE and not record.trial_began_unix_s and self.world.are_ready()


class Leader:
    """A nimbus that leads: it reads, decides, and writes some time later, if it still lives."""

    def __init__(self, cluster: Cluster, since_s: float) -> None:
        self.cluster = cluster
        self.since_s = since_s
        self.epoch = cluster.epoch
        self._settled = Settled()
        self._shortages: dict[str, str] = {}
        self._placed_since = PlacedSince()
        self._is_busy = False

    def run_cycle(self) -> None:
        """End a trial, or else decide."""
        if self._is_busy:
            return
        cluster, now_s = self.cluster, self.cluster.world.now_s
        stored = cluster.record
        if stored.value.trial_began_unix_s:
            since_s = self._placed_since.look(TOPOLOGY, cluster.is_placed(), now_s, self.since_s)
            is_ready = cluster.is_placed() and cluster.world.are_ready()
            end = outcome(stored.value, is_ready, cluster.errors, now_s, since_s)
            if end is not None:
                cluster.world.tell(f"the trial ends: {end.fault or 'the update holds'}")
                self._write(Versioned(end.record, stored.version), None)
                return
        for change in planner.decide(self._snapshot(), self._settled, self._shortages):
            assert isinstance(change, planner.Update), change
            self._write(change.record, change.assignment)

    def _snapshot(self) -> planner.Snapshot:
        cluster = self.cluster
        return planner.Snapshot(
            epoch=self.epoch,
            now_unix_s=cluster.world.now_s,
            records={TOPOLOGY: cluster.record},
            assignments={} if cluster.assignment is None else {TOPOLOGY: cluster.assignment},
            supervisors=cluster.supervisors,
            ackers={"a": Acker("a:1")},
            worker_presences={},
            dead=frozenset(),
        )

    def _write(self, record: Versioned[pb.TopologyRecord] | None, assignment: Versioned[pb.Assignment] | None) -> None:
        """Write what was decided. The leader may die before or afterwards, or be late."""
        world = self.cluster.world
        self._is_busy = True
        fate = world.rng.random() if world.is_faulty else 1.0
        operations = world.faults.operations
        if fate < operations / 2:
            self.cluster.lose_leader()
            if fate < operations / 4:  # what it has sent may still arrive
                return
        world.at(world.rng.uniform(0, 0.1), partial(self._arrives, record, assignment, fate < operations))

    def _arrives(
        self,
        record: Versioned[pb.TopologyRecord] | None,
        assignment: Versioned[pb.Assignment] | None,
        dies: bool,
    ) -> None:
        self._is_busy = False
        try:
            self.cluster.write(self.epoch, record, assignment)
        except ConflictError as error:
            self.cluster.world.tell(f"nimbus cannot write: {error}")
        if dies:
            self.cluster.lose_leader()
