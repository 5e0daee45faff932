"""The leader's loop: read the cluster, decide, write, until nothing is left to change; then wait to be woken.

Every relevant watch and call wakes the loop. It also runs at least every ``nimbus.monitor.freq.secs``, when a kill or
rebalance is due or drained, and when a worker has been silent for too long.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tupletree._address import split_address
from tupletree._coord import paths
from tupletree._coord.leader import LeaderElection, Put, Write
from tupletree._coord.store import Store, encode
from tupletree._coord.versioned import Versioned
from tupletree._daemon.health import Readiness
from tupletree._log import event
from tupletree.errors import AuthorityError, ConflictError, InternalError, TupletreeError, UnavailableError
from tupletree.parallelism import executors_of_record
from tupletree.v1 import topology_pb2 as pb
from tupletree.v1.supervisor_pb2_grpc import SupervisorStub

from ..metrics import ClusterFigures, NimbusMetrics
from ..rpc_clients import Peers, address_of
from ..threads import leading
from . import cluster_state, lifecycle
from .acker_health import AckerHealth
from .blacklisting import blacklisted
from .cluster_figures import figures
from .history import add_counts
from .leader_state import LeaderState, timeouts
from .liveness import Placements
from .planner import Change, Failure, PlacementCache, Remove, Update, decide, placement_of, to_be_placed
from .scheduler import Placement, Slot
from .settled import Settled
from .stats_store import StatsStore
from .update_trials import PlacedSince, outcome

log = logging.getLogger("tupletree.nimbus")

COMPONENT = "__nimbus"  # component id under which nimbus reports its own errors about a topology

_STEP_S = 1.0  # pause between two steps of the liveness clock, and longest pause between two checks for dead workers
_RETRY_S = 0.5
_CONFLICT_PAUSE_S = 0.02
_SETTLE_S = 1.0


class Reconciler:
    """Control loop of one leadership."""

    def __init__(
        self,
        leader_state: LeaderState,
        store: Store,
        election: LeaderElection,
        readiness: Readiness,
        metrics: NimbusMetrics,
        monitor_s: float,
        history_max: int,
    ) -> None:
        self.leader_state = leader_state
        self._store = store
        self._election = election
        self._readiness = readiness
        self._metrics = metrics
        self._monitor_s = monitor_s
        self._history_max = history_max
        self._woken = asyncio.Event()
        self._peers = Peers()
        self.ackers = AckerHealth(self.wake, leader_state.report_ledger)
        self._dead: frozenset[tuple[str, Slot]] = frozenset()
        self._drained: frozenset[str] = frozenset()
        self._placements: Placements = {}
        self._placed = PlacementCache()
        self._settled = Settled()
        self._seen: dict[str, set[str]] = {}
        self._due_unix_s: float | None = None
        self._has_trials = False
        self._placed_since = PlacedSince()
        self._since_unix_s = time.time()
        self._stats_store = StatsStore(store, election, leader_state)
        self._timeouts_s: dict[str, float] = {}
        self._state: cluster_state.ClusterState | None = None
        self._known: cluster_state.ClusterState | None = (
            None  # the latest read; unreadable entries are filled from earlier reads
        )

    @property
    def state(self) -> cluster_state.ClusterState | None:
        """The cluster as the last cycle read it; None if a change since then is possible."""
        return None if self._woken.is_set() else self._state

    async def load(self) -> cluster_state.ClusterState:
        """Read the cluster from ZooKeeper now. Raises UnavailableError."""
        return cluster_state.with_known(await asyncio.to_thread(cluster_state.load, self._store), self._known)

    def wake(self) -> None:
        """Start the next cycle now. Call from the event loop's thread."""
        self._woken.set()

    @property
    def address(self) -> str:
        """The address of this nimbus."""
        return self._election.address

    def write(self, writes: Sequence[Write]) -> None:
        """Write in the name of this leadership. Blocks. Raises ConflictError, AuthorityError or UnavailableError."""
        self._election.write(self.leader_state.epoch, writes)

    def supervisor(self, address: str) -> SupervisorStub:
        """Return a stub of a registered supervisor, for requests of users."""
        return self._peers.supervisor(address)

    async def restart_worker(
        self, supervisor: pb.Presence | None, topology_id: str, worker: pb.WorkerAssignment
    ) -> None:
        """Ask a worker's supervisor to restart the worker process. Raises NotFoundError or UnavailableError."""
        if supervisor is None:
            raise UnavailableError(f"worker {worker.host}:{worker.port} has no registered supervisor; start one there")
        address = address_of(supervisor)
        await self._peers.restart_worker(address, self.leader_state.epoch, topology_id, worker.port)
        event(log, "worker.restart_asked", topology=topology_id, slot=f"{worker.supervisor_id}:{worker.port}")

    async def run(self) -> None:
        """Lead until cancelled, or until ZooKeeper says that another nimbus leads."""
        clock = asyncio.create_task(self._keep_time())
        memory: asyncio.Task[None] | None = None
        try:
            await self._begin()
            memory = asyncio.create_task(self._stats_store.keep(self._monitor_s))
            while True:
                try:
                    await self._until_settled()
                    if memory.done():
                        await memory  # raises its error
                    self._readiness.set("zookeeper", None)
                except UnavailableError as error:
                    self._readiness.set("zookeeper", str(error))
                    await self._pause(_RETRY_S)
                    continue
                await self._wait()
        except AuthorityError as error:
            event(log, "leader.rule_ended", epoch=self.leader_state.epoch, cause=error)
        finally:
            clock.cancel()
            if memory is not None:
                memory.cancel()
            await self.ackers.close()
            await self._peers.close()

    async def _keep_time(self) -> None:
        """Step the liveness clock, however long reading, deciding or writing takes."""
        while True:
            self.leader_state.liveness.step(time.monotonic())
            await asyncio.sleep(_STEP_S)

    async def _begin(self) -> None:
        """Load the statistics, and check the ackers before the first decision: a dead acker must get no shard."""
        while True:
            try:
                self._stats_store.recall(await leading.run(self._stats_store.load))
                self.ackers.watch(await leading.run(self._store.ackers))
                await self.ackers.wait_until_known(_SETTLE_S)
                return
            except UnavailableError:
                await self._pause(_RETRY_S)

    async def _until_settled(self) -> None:
        """Run cycles until one finds nothing to change."""
        while True:
            self._woken.clear()
            if not await self._run_cycle():
                return

    async def _run_cycle(self) -> bool:
        """Run one cycle: read, decide, write. True if there were changes, even if they could not be written."""
        began_s = time.monotonic()
        self._state = None
        state = self._with_known(await leading.run(cluster_state.load, self._store))
        self._notice(state)
        if await self._end_trials(state):
            return True
        placements, self._timeouts_s = await leading.run(_known, state, self._placed)
        now_s = time.monotonic()
        self.leader_state.assigned(placements, state.records.keys() | state.unread.keys(), now_s)
        dead = self.leader_state.liveness.dead(self._timeouts_s, now_s)
        self._notice_dead(dead)
        held = self.leader_state.failed_writes.held(now_s)
        self.leader_state.draining.waiting([one for one, r in state.records.items() if lifecycle.is_waiting(r.value)])
        self._drained = self.leader_state.draining.drained(placements, now_s)
        self._placements = placements
        alive = self.ackers.alive()
        snapshot = cluster_state.snapshot(state, self.leader_state.epoch, alive, dead, held, self._drained)
        traffic = self.leader_state.traffic(to_be_placed(snapshot), now_s)
        avoided = blacklisted(self.leader_state, state, placements, dead, now_s)
        scheduling = self.leader_state.scheduling
        snapshot = replace(snapshot, traffic=traffic, scheduling=scheduling, blacklisted=avoided)
        self.leader_state.isolation = snapshot.isolation
        changes = await leading.run(decide, snapshot, self._settled, self.leader_state.shortages)
        self.leader_state.failed_writes.forget_finished({one.topology_id for one in changes}, now_s)
        is_free = all([await self._write(change, state) for change in changes])
        dues = [due for one in state.records.values() if (due := lifecycle.next_due(one.value)) is not None]
        self._due_unix_s = min((due for due in dues if due > snapshot.now_unix_s), default=None)
        self._metrics.read_from(lambda: self._figures(state, len(dead)))
        self._metrics.cycle_s.observe(time.monotonic() - began_s)
        self._state = None if changes else state
        if not is_free:
            await self._pause(_CONFLICT_PAUSE_S)
        return bool(changes)

    def _with_known(self, state: cluster_state.ClusterState) -> cluster_state.ClusterState:
        """Fill unreadable entries from earlier reads. Retry a topology at once when it can be read again."""
        before, self._known = self._known, cluster_state.with_known(state, self._known)
        for topology_id in () if before is None else before.unread.keys() - state.unread.keys():
            self.leader_state.failed_writes.again(topology_id)
        return self._known

    async def _write(self, change: Change, state: cluster_state.ClusterState) -> bool:
        """Write one topology's change. False if a conflicting change came first.

        An error of the topology itself holds back this topology only. Raises AuthorityError, and UnavailableError while
        ZooKeeper is unavailable.
        """
        try:
            if isinstance(change, Failure):
                raise InternalError(change.reason)
            if isinstance(change, Remove) and change.past is not None:
                add_counts(change.past, self.leader_state.statistics(change.topology_id))
            epoch = self.leader_state.epoch
            await leading.run(cluster_state.apply, self._store, self._election, epoch, change, self._history_max)
        except AuthorityError:
            raise
        except Exception as error:
            name = change.topology_id
            before = self.leader_state.failed_writes.reason(name)
            if self.leader_state.failed_writes.failed(name, error, time.monotonic()):
                if self.leader_state.failed_writes.reason(name) != before:
                    await self._complain(name, error)
            elif isinstance(error, UnavailableError):
                raise
            else:
                event(log, "cycle.conflict", level=logging.DEBUG, cause=error)
            return not isinstance(error, ConflictError)
        self.leader_state.failed_writes.written(change.topology_id)
        self._changed(change, state)
        return True

    async def _end_trials(self, state: cluster_state.ClusterState) -> bool:
        """Write the end of each trial of an update that has ended. True if there was one."""
        on_trial = [one for one in state.records.values() if one.value.trial_began_unix_s]
        self._has_trials = bool(on_trial)
        self._placed_since.keep([stored.value.id for stored in on_trial])
        ended = False
        for stored in on_trial:
            try:
                ended |= await self._end_trial(state, stored)
            except (AuthorityError, UnavailableError):
                raise
            except Exception as error:  # of this topology; a conflict: the next cycle sees what has changed
                event(log, "update.not_ended", level=logging.WARNING, topology=stored.value.id, cause=error)
        return ended

    async def _end_trial(self, state: cluster_state.ClusterState, stored: Versioned[pb.TopologyRecord]) -> bool:
        record = stored.value
        errors = await leading.run(self._store.errors, record.id)
        now_unix_s = time.time()
        since_unix_s = self._placed_since.look(record.id, self.is_placed(state, record), now_unix_s, self._since_unix_s)
        runs = self.are_ready(state, record) and all(
            self.leader_state.has_opened(record.id, slot) for slot in _placement(state, record)
        )
        end = outcome(record, runs, errors, now_unix_s, since_unix_s)
        if end is None:
            return False
        write = Put(paths.topology(self._store.root, record.id), encode(end.record), stored.version)
        await leading.run(self.write, [write])
        event(log, "update.ended", topology=record.id, version=record.version, fault=end.fault or None)
        if end.fault:
            await self._report(record.id, f"version {record.version} is taken back: {end.fault}")
        return True

    @staticmethod
    def is_placed(state: cluster_state.ClusterState, record: pb.TopologyRecord) -> bool:
        """True if all executors of a topology are assigned."""
        placed = sorted(executor for run in _placement(state, record).values() for executor in run)
        return placed == executors_of_record(record)

    def are_ready(self, state: cluster_state.ClusterState, record: pb.TopologyRecord) -> bool:
        """True if all executors of a topology are assigned, and every worker is ready with its executors."""
        now_s = time.monotonic()
        return self.is_placed(state, record) and all(
            self.leader_state.is_ready(record.id, slot, run, now_s) for slot, run in _placement(state, record).items()
        )

    async def _complain(self, topology_id: str, error: Exception) -> None:
        """Report that a topology cannot be changed, in the log and among the topology's errors."""
        event(log, "topology.held_back", level=logging.WARNING, topology=topology_id, cause=error)
        await self._report(topology_id, self.leader_state.failed_writes.reason(topology_id))

    async def _report(self, topology_id: str, message: str) -> None:
        """Add an error of nimbus to a topology's errors."""
        with contextlib.suppress(TupletreeError):
            await leading.run(self._store.report_error, topology_id, self.error(message))

    def error(self, message: str) -> pb.ComponentError:
        """Return an error that nimbus reports about a topology."""
        host, port = split_address(self.address, 0)
        return pb.ComponentError(component_id=COMPONENT, host=host, port=port, at_unix_s=time.time(), message=message)

    def _figures(self, state: cluster_state.ClusterState, dead: int) -> ClusterFigures:
        return figures(state, self.leader_state, len(self.ackers.alive()), dead, time.monotonic())

    def _changed(self, change: Remove | Update, state: cluster_state.ClusterState) -> None:
        """Log a written change, and notify the supervisors and ackers concerned."""
        self._metrics.changes.inc()
        epoch = self.leader_state.epoch
        match change:
            case Remove(topology_id):
                event(log, "topology.removed", topology=topology_id, epoch=epoch)
                addresses = [address_of(one) for one in state.ackers.values()]
                self._peers.drop_topology(addresses, epoch, topology_id)
                self._peers.wake_supervisors(map(address_of, state.supervisors.values()), epoch)
            case Update(topology_id, record, assignment, forget, touched):
                if record is not None:
                    self.leader_state.draining.forget(topology_id)
                    status = lifecycle.status_name(record.value.status)
                    event(log, "topology.status", topology=topology_id, status=status, cause="rebalanced")
                if assignment is not None:
                    version = assignment.value.version
                    event(log, "assignment.written", topology=topology_id, version=version, epoch=epoch)
                for slot in forget:
                    event(log, "worker.forgotten", topology=topology_id, slot=f"{slot.supervisor_id}:{slot.port}")
                concerned = [state.supervisors[one] for one in sorted(touched) if one in state.supervisors]
                self._peers.wake_supervisors(map(address_of, concerned), epoch)
        log.info("%s", change.sentence)

    def _notice(self, state: cluster_state.ClusterState) -> None:
        """Log which supervisors and ackers joined or left since the last cycle, and follow the registered ackers."""
        self.ackers.watch(state.ackers)
        found: dict[str, Mapping[str, pb.Presence]] = {"supervisor": state.supervisors, "acker": state.ackers}
        for kind, presences in found.items():
            before = self._seen.get(kind, set())
            for one in sorted(presences.keys() - before):
                event(log, f"{kind}.joined", id=one, address=address_of(presences[one]))
            for one in sorted(before - presences.keys()):
                event(log, f"{kind}.left", id=one)
            self._seen[kind] = set(presences)
        everybody = [*state.supervisors.values(), *state.ackers.values()]
        self._peers.keep_only({address_of(one) for one in everybody})

    def _notice_dead(self, dead: frozenset[tuple[str, Slot]]) -> None:
        for topology_id, slot in sorted(dead - self._dead):
            where = f"{slot.supervisor_id}:{slot.port}"
            event(log, "worker.silent", level=logging.WARNING, topology=topology_id, slot=where)
        for topology_id, slot in sorted(self._dead - dead):
            event(log, "worker.silence_over", topology=topology_id, slot=f"{slot.supervisor_id}:{slot.port}")
        self._dead = dead

    async def _wait(self) -> None:
        """Wait until woken, until something is due, or until the next regular cycle."""
        began_s = time.monotonic()
        look_at_s = began_s + (min(_STEP_S, self._monitor_s) if self._has_trials else self._monitor_s)
        again_at_s = self.leader_state.failed_writes.next_s(began_s)
        while not self._woken.is_set():
            now_s = time.monotonic()
            if self.leader_state.liveness.dead(self._timeouts_s, now_s) != self._dead:
                return
            if self.leader_state.draining.drained(self._placements, now_s) != self._drained:
                return
            silent_at_s = self.leader_state.liveness.next_deadline_s(self._timeouts_s, now_s)
            at_s = min(one for one in (look_at_s, silent_at_s, again_at_s) if one is not None)
            if self._due_unix_s is not None:
                at_s = min(at_s, now_s + max(0.0, self._due_unix_s - time.time()))
            if at_s <= now_s:
                return
            await self._pause(min(_STEP_S, at_s - now_s))

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._woken.wait(), seconds)


def _known(state: cluster_state.ClusterState, placed: PlacementCache) -> tuple[Placements, dict[str, float]]:
    """Return the input of liveness: the slots of workers, and the timeouts that topologies set for themselves."""
    confs = {one: stored.value.conf_json for one, stored in state.records.items()}
    return placed.placements(state.assignments), timeouts(confs)


def _placement(state: cluster_state.ClusterState, record: pb.TopologyRecord) -> Placement:
    found = state.assignments.get(record.id)
    return {} if found is None else placement_of(found.value)
