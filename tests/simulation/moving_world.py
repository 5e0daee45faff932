"""A topology whose states move, in one heap of events: it is rescaled, updated, rolled back and restarted amid faults.

What decides is the product: the requests of operators, the planner, the trials of updates (moving_cluster), the work of
slots (plan_work) and the views of workers (moving_workers), executors, participants, the checkpoint spout, which moves
the states, the states themselves. Everything around them is decided by one seeded generator, so a seed is a whole
history. What must hold is in moving_judge. docs/adr/0076-what-the-simulation-of-moves-assumes.md says what may happen.

Faults end at ``faults.end_s``. When nothing is under way any more, the last events of the log come; within
``PATIENCE_S`` the committed states must be those of all events.
"""

from __future__ import annotations

import random
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

from faulty_world import FaultyWorld
from moving_cluster import CONF, TOPOLOGY, Cluster
from moving_components import spec_of, topology_of
from moving_judge import Judge
from moving_nouns import EXTRA, ID, PARTITIONS, TASKS, Code, Event, Log, Rules, Shape, draw_faults
from moving_operator import Operator
from moving_stores import Nodes, worlds
from moving_workers import Launch, Place, Worker
from transaction_nouns import Violation

from tupletree._stores import memory_nodes
from tupletree.errors import TaskFailedError
from tupletree.state.memory import Namespace
from tupletree.supervisor.local_assignment import LocalAssignment, plan_work
from tupletree.tuples import Origin
from tupletree.v1 import topology_pb2 as pb
from tupletree.worker.core.task import Task

PATIENCE_S = 60.0
TIMEOUT_S = 2
HELP_S = 1.0
BACKOFF_S = 0.5
"""The pause before the next start of a worker whose component has ended it."""


class World(FaultyWorld):
    """One history. ``run`` raises Violation, with the story if the world ``is_telling``."""

    def __init__(self, seed: int, rules: Rules | None = None, *, is_telling: bool = False) -> None:
        rng = random.Random(seed)
        self.rules = rules or Rules()
        self.shape = Shape.draw(rng)
        for name, value in self.rules.shape.items():
            setattr(self.shape, name, value)
        faults = draw_faults(rng)
        for name, value in self.rules.faults.items():
            setattr(faults, name, value)
        self.log = Log(rng, self.shape.length)
        self.root = f"/moving-{uuid.UUID(int=rng.getrandbits(128)).hex}"
        code = self._first_code()
        spec = spec_of(topology_of(code))
        conf = {**CONF, **self._conf()}
        super().__init__(rng, faults, TOPOLOGY, spec, conf, self.shape.workers, is_telling=is_telling)
        self.states: defaultdict[str, Namespace] = defaultdict(Namespace)
        self.judge = Judge(self)
        self.cluster = Cluster(self, code, self._conf())
        self.operator = Operator(self.cluster, code, self.rules.steps)
        self.are_ends_there = False
        self._origins: dict[tuple[Any, ...], Any] = {}
        self._reads: Counter[str] = Counter()  # of each supervisor
        self._failed_s: dict[Place, float] = {}  # when a component ended the last worker of a slot

    def _first_code(self) -> Code:
        shape = self.shape
        tasks = {"events": shape.spout_tasks, **dict.fromkeys((*shape.bolts, "results", EXTRA), shape.tasks)}
        return Code(0, tasks, {}, shape.has_extra, batch_size=shape.batch_size)

    def _conf(self) -> dict[str, Any]:
        return {
            "topology.state.id": ID,
            "topology.state.provider": "moving_stores:Provider",
            "topology.state.checkpoint.aligned": True,
            "topology.state.checkpoint.interval.ms": self.shape.interval_ms,
            "topology.message.timeout.secs": TIMEOUT_S,
            "topology.sleep.spout.wait.strategy.time.ms": 50,
            "topology.acker.executors": 1,
            "topology.workers": self.shape.workers,
        }

    def _draw_slots(self, workers: int) -> list[Any]:
        machines = range(self.shape.machines)
        return [Place(2 * machine + port, f"m{machine}", port) for machine in machines for port in (1, 2)]

    # The run

    def run(self) -> World:
        memory_nodes.register(self.root, Nodes())
        worlds.append(self)
        try:
            with self.rules.in_place():
                self._run()
        except Violation:
            raise
        except Exception as error:
            raise self.violation(f"{type(error).__name__}: {error}") from error
        finally:
            worlds.pop()
            memory_nodes.drop(self.root)
        return self

    def _run(self) -> None:
        faults = self.faults
        self.every(faults.crash_every_s, self.crash_something)
        self.every(faults.break_every_s, self.break_some_link)
        self.every(faults.acker_every_s, self.acker.crash)
        self.every(faults.outage_every_s, self.lose_store)
        self.every(faults.outage_every_s, self.cluster.lose_leader)
        self.every(TIMEOUT_S, self.acker.rotate, always=True)
        self.at(faults.end_s, lambda: self.tell("faults end"))
        self.operator.begin()
        self.every(HELP_S, self._help, always=True)
        self._run_while(lambda: self.is_faulty or not self.cluster.is_settled(), "the changes do not come to an end")
        self.are_ends_there = True
        self.tell("the last events come")
        self._run_while(lambda: not self.judge.is_done(), "not every event is in the committed states")
        txid = self.judge.checkpoint.txid
        self._run_while(lambda: self.judge.checkpoint.txid < txid + 2, "checkpoints do not go on")
        self.judge.check_end()

    def _run_while(self, condition: Callable[[], bool], what: str) -> None:
        until_s = max(self.now_s, self.faults.end_s) + PATIENCE_S
        while condition():
            for _ in range(20):
                self.next()
            if self.now_s > until_s:
                raise self.violation(f"{what}: {self.judge.positions()}, {self.judge.checkpoint}")

    def _help(self) -> None:
        """The operator looks after the topology: it is active, and its code reads what is stored."""
        if not self.is_faulty and self.cluster.record.value.status == pb.TOPOLOGY_STATUS_INACTIVE:
            self.operator.try_to(self.operator.resume)
        if self.operator.needs_help():
            self.operator.try_to(self.operator.go_on)

    def is_there(self, event: Event) -> bool:
        """True if an event has come into the log."""
        if event.at > self.log.end_ms:
            return self.are_ends_there
        arrived_s = self.now_s - self.shape.lags_s[int(event.id[0])]
        return event.at <= self.log.end_ms * arrived_s / self.shape.arrival_s

    def draw_tasks(self, component: str) -> int:
        """Another number of tasks."""
        return self.rng.choice([one for one in TASKS if component != "events" or one <= PARTITIONS])

    # Supervisors and workers

    def cluster_changed(self) -> None:
        """Wake supervisors and workers, as the watches of the record and the assignment do."""
        for machine in self.cluster.supervisors:
            self.at(self.rng.uniform(0, 0.2), partial(self._read_assignment, machine))
        for worker in self.living:
            self.at(self.rng.uniform(0, 0.2), worker.look)

    def _read_assignment(self, machine: str) -> None:
        stored = self.cluster.assignment
        self._reads[machine] += 1
        if stored is not None:
            self.at(self.rng.uniform(0, 0.1), partial(self._read_record, machine, stored.value, self._reads[machine]))

    def _read_record(self, machine: str, assignment: pb.Assignment, read: int) -> None:
        if read != self._reads[machine]:
            return  # a supervisor reads one snapshot after the other: another one follows
        places = {place.port: place for place in self.slots if place.machine == machine}
        record = self.cluster.record.value
        for port, work in plan_work([assignment], {record.id: record}, machine, places, 30.0).items():
            self._give(places[port], work)

    def _give(self, place: Place, work: LocalAssignment | None) -> None:
        if place.work == work:
            return
        place.work = work
        place.executors = list(work.executors) if work is not None else []
        self._failed_s.pop(place, None)
        worker = place.current
        if worker is None or not worker.alive or worker.cut_off:
            self.at(self.rng.uniform(0, 0.1), partial(self._take_place_of, worker, place))
        else:  # when it has ended, its successor takes its place
            self.at(self.rng.uniform(0, 0.2), partial(self._end, worker))

    def _end(self, worker: Worker) -> None:
        if worker.slot.work != worker.work:
            self.counts["workers replaced"] += 1
            worker.kill("its slot has other work")

    def _take_place_of(self, worker: Any, place: Place | None = None) -> None:
        place = place or worker.slot
        is_taken = place.current is not worker
        if place.work is None or is_taken or (worker is not None and worker.alive and not worker.cut_off):
            return
        left_s = self._failed_s.get(place, -BACKOFF_S) + BACKOFF_S - self.now_s
        if left_s > 0:
            self.at(left_s, partial(self._take_place_of, worker, place))
            return
        self.replace(place)

    def make_worker(self, slot: Any, number: int) -> Worker:
        """Return a new worker for a slot, built from what the slot is to run."""
        work: LocalAssignment = slot.work
        launch = Launch(self, work)
        self.spec, self.conf, self.tasks = launch.spec, launch.conf, launch.tasks
        self.names |= {task: f"{name}/{index}" for name, ids in self.tasks.items() for index, task in enumerate(ids)}
        places = {(place.machine, place.port): place for place in self.slots}
        self.slot_of = {
            task: places[placed.supervisor_id, placed.port]
            for placed, run in self.cluster.placement().items()
            for first, last in run
            for task in range(first, last + 1)
        }
        for first, last in work.executors:
            self.slot_of |= dict.fromkeys(range(first, last + 1), slot)
        known = (work.bundle_sha256, work.tasks)
        self.origins: dict[tuple[int, str], Origin] | None = self._origins.get(known)
        worker = Worker(self, slot, number)
        self._origins[known] = worker.origins
        return worker

    def are_ready(self) -> bool:
        """True if every slot with work runs it."""
        return all(
            place.current is not None
            and place.current.alive
            and not place.current.cut_off
            and place.current.work == place.work
            and place.current.is_open
            for place in self.slots
            if place.work is not None
        ) and {(one.supervisor_id, one.port): tuple(run) for one, run in self.cluster.placement().items()} == {
            (place.machine, place.port): place.work.executors for place in self.slots if place.work is not None
        }

    def failed(self, worker: Any, failure: TaskFailedError) -> None:
        """Report that a component has ended its worker. Its supervisor waits longer each time."""
        self.cluster.errors.append(worker.tell_failure(failure))
        self._failed_s[worker.slot] = self.now_s
        super().failed(worker, failure)

    def dress(self, worker: Any, task: Task) -> None:
        worker.dress(task)
