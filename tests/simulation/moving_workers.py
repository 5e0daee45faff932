"""Supervisors and workers of the topology whose states move: which worker a slot has, and what the worker knows."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from moving_cluster import CONF, TOPOLOGY

from tupletree._checkpoints.spout import CheckpointSpout
from tupletree._wire.conf_changes import digest
from tupletree.errors import TaskFailedError
from tupletree.parallelism import tasks_of
from tupletree.supervisor.local_assignment import LocalAssignment
from tupletree.testing.simulation import workers
from tupletree.testing.simulation.network import Peers
from tupletree.testing.simulation.workers import raised
from tupletree.tuples import Origin
from tupletree.v1 import topology_pb2 as pb
from tupletree.worker.assignment_view import has_place, view
from tupletree.worker.core.batches import EncodedBatch, Rows, sources_of
from tupletree.worker.core.batches import tasks_of as targets_of
from tupletree.worker.core.task import Task
from tupletree.worker.execution.inbox import not_reached
from tupletree.worker.execution.spout_executor import SpoutExecutor
from tupletree.worker.launch_file import slot_name

if TYPE_CHECKING:
    from moving_world import World


class Place(workers.Slot):
    """A slot of a machine. ``work``: what its supervisor wants to run there."""

    def __init__(self, number: int, machine: str, port: int) -> None:
        super().__init__(number)
        self.machine = machine
        self.port = port
        self.work: LocalAssignment | None = None

    @property
    def name(self) -> str:
        return slot_name(self.machine, self.port)


class OpenPeers(Peers):
    """The links of a worker, which may send to slots whose workers it does not know yet."""

    def __init__(self, timeline: Any, worker: Any) -> None:
        super().__init__(timeline, worker)
        self._early: dict[Any, list[EncodedBatch]] = {}

    def learn(self, receiver: Any) -> None:
        super().learn(receiver)
        if receiver.slot in self.links:
            self._worker.gate.set((receiver.slot, "unknown"), ())
            for batch in self._early.pop(receiver.slot, ()):
                self.links[receiver.slot].send(batch)

    def keep(self, names: Collection[str]) -> None:
        """Close the links to all slots but these: they have no part of the topology any more."""
        for slot in [one for one in self.links if one.name not in names]:  # type: ignore[attr-defined]
            self.links.pop(slot).close()
            self.known.pop(slot, None)

    def send(self, slot: Any, batch: EncodedBatch) -> None:
        if slot in self.links:
            super().send(slot, batch)
        else:
            self._early.setdefault(slot, []).append(batch)


class Worker(workers.Worker):
    """One life of the worker of a slot, started with ``work``."""

    world: World
    slot: Place

    def __init__(self, world: World, slot: Place, number: int) -> None:
        assert slot.work is not None
        self.work = slot.work
        self.is_open = False
        super().__init__(world, slot, number)
        self.peers: OpenPeers = OpenPeers(world, self)
        remote: dict[Any, list[int]] = {}
        for task, place in self._slot_of.items():
            if place is not slot:
                remote.setdefault(place, []).append(task)
        for place, tasks in remote.items():
            self.gate.set((place, "unknown"), not_reached(tasks))

    @property
    def first_task(self) -> int:
        """The first task id of the version that it runs."""
        return self.work.tasks[0][1] if self.work.tasks else 0

    def start(self) -> None:
        super().start()
        if self.alive:
            self.is_open = True
            self.look()

    def _open(self) -> None:
        for executor in self.executors:
            executor.open()

    def look(self) -> None:
        """Read the record and the assignment, as a worker does whenever they change."""
        if not self.alive or self.cut_off or not self.is_open:
            return
        cluster = self.world.cluster
        assignment = None if cluster.assignment is None else cluster.assignment.value
        latest = view(self.slot.name, cluster.record.value, assignment, {}, digest(self.work.conf_json))
        if not has_place(latest, self.work.executors):
            self.kill("it has no place any more")
            return
        self.peers.keep(latest.peers)
        places = {place.name: place for place in self.world.slots}
        moved = {task: places[name] for name, tasks in latest.remote_tasks.items() for task in tasks}
        self._slot_of = {**self._slot_of, **moved}
        for executor in self.executors:
            if isinstance(executor, SpoutExecutor) and executor.wants_active != latest.is_active:
                executor.wants_active = latest.is_active
                self.wake(executor)

    def _deliver(self, origin: Origin, target: int, rows: Rows, tasks: frozenset[int]) -> None:
        """Hand rows over; by task, if the tasks are not in one slot any more."""
        if len({self._slot_of[task].number for task in tasks}) == 1:
            super()._deliver(origin, target, rows, tasks)
        else:
            for task, part in rows.by_target():
                super()._deliver(origin, task, part, frozenset([task]))

    def receive(self, batch: EncodedBatch) -> None:
        """Refuse what is for tasks that this worker does not have, as WorkerEngine.receive does."""
        is_known = (min(sources_of(batch)), batch.stream) in self.origins
        if is_known and targets_of(batch) <= self.tasks.keys():
            super().receive(batch)
            return
        self.world.counts["batches refused"] += 1
        for other in self.world.living:
            link = other.peers.links.get(self.slot)
            if link is not None and link.receiver is self and batch in link.unconfirmed:
                self.world.at(self.world.rng.uniform(0.01, 0.1), partial(self.world._break, link))

    def dress(self, task: Task) -> None:
        """Let the component know its worker, and sleep in simulated time."""
        component: Any = task.spout if hasattr(task, "spout") else task.bolt
        component.worker = self
        if isinstance(component, CheckpointSpout):
            sleeping: Any = component
            sleeping.deactivate = partial(self._put_to_sleep, component)
        else:
            task.remake = partial(self._remade, task.remake)

    def _remade(self, remake: Any) -> Any:
        component = remake()
        component.worker = self
        return component

    def _put_to_sleep(self, spout: CheckpointSpout) -> None:
        """Do what CheckpointSpout.deactivate does, without a thread."""
        sleeper: Any = Sleeper()
        spout._sleeper = sleeper

        def wake() -> None:
            if self.alive and spout._sleeper is sleeper:
                spout._wake()

        self.world.at(spout._interval_s, wake)

    def tell_failure(self, failure: TaskFailedError) -> pb.ComponentError:
        """What it reports when a component has ended it."""
        return pb.ComponentError(
            component_id=failure.component_id,
            host=self.slot.machine,
            port=self.slot.port,
            message=raised(failure),
            at_unix_s=self.world.now_s,
            ended_worker=True,
            first_task=self.first_task,
        )


class Sleeper:
    """A timer of CheckpointSpout."""

    def cancel(self) -> None:
        """Do nothing: whoever is woken looks whether this is still its timer."""


class Launch:
    """What a worker is built from: the topology as its launch file says."""

    def __init__(self, world: World, work: LocalAssignment) -> None:
        self.spec = world.cluster.bundles[work.bundle_sha256]
        own: Mapping[str, Any] = json.loads(work.conf_json)
        self.conf = {**CONF, **own, "transactional.zookeeper.root": world.root, "topology.acker.executors": 1}
        found = {name: range(first, last + 1) for name, first, last in work.tasks} or tasks_of(self.spec, self.conf)
        self.tasks = {name: list(ids) for name, ids in found.items()}
        assert work.topology_id == TOPOLOGY
