"""A topology on simulated workers: they are placed in slots, die, are cut off and replaced; links break."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from tupletree.parallelism import executor_counts, executors_of, tasks_of
from tupletree.testing.simulation.network import Acker, Link
from tupletree.testing.simulation.timeline import Faults
from tupletree.testing.simulation.workers import Deployment, Slot, Worker
from tupletree.v1 import topology_pb2
from tupletree.worker.control_messages import WorkerLost


class SimulatedTopology(Deployment):
    """One topology, from the start of its workers on.

    ``living``: all workers that are alive, with those that are cut off.
    """

    def __init__(
        self,
        rng: random.Random,
        faults: Faults,
        topology_id: str,
        spec: topology_pb2.TopologySpec,
        conf: Mapping[str, Any],
        workers: int,
        *,
        is_telling: bool = False,
    ) -> None:
        super().__init__(rng, faults, is_telling=is_telling)
        self.topology_id = topology_id
        self.spec = spec
        self.conf = conf
        self.crashes = 0
        self.running: list[Worker] = []
        self.living: list[Worker] = []
        self.tasks = {name: list(ids) for name, ids in tasks_of(spec, conf).items()}
        self.names = {task: f"{name}/{index}" for name, ids in self.tasks.items() for index, task in enumerate(ids)}
        self.slots = self._draw_slots(workers)
        self.slot_of = {
            task: slot for slot in self.slots for first, last in slot.executors for task in range(first, last + 1)
        }
        self.acker = Acker(self, self.living, trees_expire=conf["topology.enable.message.timeouts"])

    def _draw_slots(self, workers: int) -> list[Slot]:
        slots = [Slot(number) for number in range(workers)]
        for executor in executors_of(tasks_of(self.spec, self.conf), executor_counts(self.spec, self.conf)):
            self.rng.choice(slots).executors.append(executor)
        return [slot for slot in slots if slot.executors]

    def start(self) -> None:
        """Start the workers, and let faults begin."""
        for slot in self.slots:
            self.replace(slot)
        faults = self.faults
        self.every(faults.crash_every_s, self.crash_something)
        self.every(faults.break_every_s, self.break_some_link)
        self.every(faults.acker_every_s, self.acker.crash)
        self.every(self.conf["topology.message.timeout.secs"], self.acker.rotate, always=True)
        self.at(faults.end_s, lambda: self.tell("faults end"))

    # Workers

    def make_worker(self, slot: Slot, number: int) -> Worker:
        """Return a new worker for a slot."""
        return Worker(self, slot, number)

    def replace(self, slot: Slot) -> None:
        """Give a slot a new worker; the others learn of it one by one."""
        old = slot.current
        new = self.make_worker(slot, 1 if old is None else old.number + 1)
        self.origins = new.origins
        slot.current = new
        self.tell(f"{new} starts, with {[self.names[task] for task in new.tasks]}")
        for other in self.living:
            if old is None:
                other.peers.learn(new)
            else:
                self.at(self.rng.uniform(0, 0.3), partial(other.peers.learn, new))
        self.living.append(new)
        for other_slot in self.slots:
            if other_slot.current is not None:
                new.peers.learn(other_slot.current)
        self.at(self.rng.uniform(0, 0.05), new.start)

    def died(self, worker: Worker, why: str) -> None:
        """Record that a worker has died. Its peers and spouts hear of it one by one, and its slot gets a new worker."""
        self.crashes += 1
        self.tell(f"{worker} dies: {why}")
        self.living.remove(worker)
        for link in worker.peers.links.values():
            if self.rng.random() < 0.5:
                link.cut()
        for other in self.living:
            found = other.peers.links.get(worker.slot)
            if found is not None and found.receiver is worker:
                self.at(self.rng.uniform(0, 0.2), partial(self._break, found))
            self.at(self.rng.uniform(0, 0.3), partial(other.tell, WorkerLost(0.5)))
        if worker.slot.current is worker:
            self.at(self.rng.uniform(0.01, 0.5), partial(self._take_place_of, worker))

    def _take_place_of(self, worker: Worker) -> None:
        if worker.slot.current is worker:
            self.replace(worker.slot)

    @staticmethod
    def _break(link: Link) -> None:
        sender: Any = link.sender
        if sender.alive and sender.peers.links.get(link.receiver.slot) is link:
            link.break_up()

    # Faults

    def crash_something(self) -> None:
        """Kill a worker, several, or all; or cut them off, so that they are replaced and go on for a while."""
        count = self.rng.choice([1, 1, 1, 2, len(self.slots)])
        is_killed = self.rng.random() < 0.6
        for slot in self.rng.sample(self.slots, min(count, len(self.slots))):
            worker = slot.current
            if worker is None or not worker.alive or worker.cut_off:
                continue
            if is_killed:
                worker.kill("killed")
                continue
            worker.cut_off = True
            self.counts["cut off"] += 1
            self.tell(f"{worker} is cut off")
            self.at(self.rng.uniform(0, 0.5), partial(self._take_place_of, worker))
            self.at(self.rng.uniform(0.3, 3.0), partial(worker.kill, "it was cut off for too long"))

    def break_some_link(self) -> None:
        """Break a link on which batches are under way."""
        links = self._busy_links()
        if links:
            self._break(self.rng.choice(links))

    def _busy_links(self) -> Sequence[Link]:
        return [link for worker in self.living for link in worker.peers.links.values() if link.under_way]
