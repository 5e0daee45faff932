"""Links from worker to worker as worker/network/peer_links.py keeps them, and the acker with its real ledger.

A link keeps the order of what is sent on it. It may break: what is under way is lost, what was not confirmed is failed
(ADR 0003), and what was not sent goes on the next stream, to the worker's successor if there is one by then.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from tupletree.acker.ledger import Ledger, Verdicts
from tupletree.v1 import worker_pb2
from tupletree.worker.control_messages import ShardsLost, TreeVerdict, VerdictKind
from tupletree.worker.core.ack_updates import AckUpdates
from tupletree.worker.core.batches import roots_of

if TYPE_CHECKING:
    from checkpoint_workers import Worker
    from checkpoint_world import Slot, World


class Link:
    """From one worker to another incarnation of a worker."""

    def __init__(self, sender: Worker, receiver: Worker) -> None:
        self.sender = sender
        self.receiver = receiver
        self.waiting: deque[worker_pb2.Batch] = deque()
        self.unconfirmed: deque[worker_pb2.Batch] = deque()
        self.under_way = 0
        self._is_up = False
        self._stream = 0  # raised when it breaks
        self._last_arrival_s = 0.0
        sender.gate.set(self, receiver.tasks)
        self._reconnect()

    @property
    def world(self) -> World:
        return self.sender.world

    def send(self, batch: worker_pb2.Batch) -> None:
        self.waiting.append(batch)
        self._pump()

    def break_up(self) -> None:
        """Lose what is under way; what is not confirmed is failed, some of it although it has arrived."""
        self._stream += 1
        self._is_up = False
        self.sender.gate.set(self, self.receiver.tasks)
        self.sender.fail({root for batch in self.unconfirmed for root in roots_of(batch)})
        self.unconfirmed.clear()
        self.world.counts["links broken"] += 1
        self._reconnect()

    def close(self) -> deque[worker_pb2.Batch]:
        """The receiver is not wanted any more. Return what was never sent."""
        self._stream += 1
        self._is_up = False
        self.sender.fail({root for batch in self.unconfirmed for root in roots_of(batch)})
        self.unconfirmed.clear()
        self.sender.gate.set(self, ())
        waiting, self.waiting = self.waiting, deque()
        return waiting

    def cut(self) -> None:
        """The sender is dead: nobody will ever know."""
        self._stream += 1

    def _reconnect(self) -> None:
        stream = self._stream

        def connect() -> None:
            if self._stream == stream and self.sender.alive and self.receiver.alive:
                self._is_up = True
                self.sender.gate.set(self, ())
                self._pump()

        self.world.at(self.world.delay_s() + self.world.rng.uniform(0, 0.05), connect)

    def _pump(self) -> None:
        while self._is_up and self.waiting:
            self._put_under_way(self.waiting.popleft())

    def _put_under_way(self, batch: worker_pb2.Batch) -> None:
        world, stream = self.world, self._stream
        arrival_s = self._last_arrival_s = max(self._last_arrival_s, world.now_s + world.delay_s(self.sender))
        self.unconfirmed.append(batch)
        self.under_way += 1

        def arrive() -> None:
            self.under_way -= 1
            if self._stream != stream:
                world.counts["batches lost"] += 1
            elif self.receiver.alive:
                self.receiver.receive(batch)
                world.at(world.delay_s(), confirm)
            elif self.sender.alive:
                self.break_up()

        def confirm() -> None:
            if self._stream == stream and self.unconfirmed and self.unconfirmed[0] is batch:
                self.unconfirmed.popleft()

        world.at(arrival_s - world.now_s, arrive)


class Peers:
    """The links of one worker, by slot: to the workers that it takes for those of the slots."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.links: dict[Slot, Link] = {}
        self.known: dict[Slot, Worker] = {}

    def learn(self, receiver: Worker) -> None:
        """A slot has a new worker."""
        slot = receiver.slot
        if slot is self.worker.slot or not self.worker.alive:
            return
        known = self.known.get(slot)
        if known is not None and known.number >= receiver.number:
            return
        old = self.links.get(slot)
        waiting = old.close() if old is not None else ()
        self.known[slot] = receiver
        self.links[slot] = Link(self.worker, receiver)
        self.links[slot].waiting.extend(waiting)

    def send(self, batch: worker_pb2.Batch) -> None:
        self.links[self.worker.world.slot_of[batch.target_task]].send(batch)


class Acker:
    """One acker. What it is told, and what it says, takes time, and may be lost."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.ledger = Ledger()
        self._last_s: dict[Worker, float] = {}

    def post(self, sender: Worker, updates: AckUpdates) -> None:
        world = self.world
        if self._is_lost():  # the link breaks, and is up again: what is in doubt is failed
            world.counts["updates lost"] += 1
            if world.rng.random() < 0.5:
                self._send(sender, updates, 0.0)
            self._send(sender, AckUpdates.of(fails=updates.roots()), world.rng.uniform(0.01, 0.3))
        else:
            self._send(sender, updates, 0.0)

    def crash(self) -> None:
        """What is pending can only fail; workers hear of it one by one."""
        self.world.tell("the acker loses its ledger")
        self.ledger = Ledger()
        for worker in self.world.living:
            self.world.at(
                self.world.rng.uniform(0, 0.2), lambda worker=worker: worker.tell(ShardsLost(frozenset([0]), 1))
            )

    def rotate(self) -> None:
        self._say(self.ledger.rotate(self.world.now_s))

    def _is_lost(self) -> bool:
        return self.world.is_faulty and self.world.rng.random() < self.world.faults.loss

    def _send(self, sender: Worker, updates: AckUpdates, later_s: float) -> None:
        world = self.world
        arrival_s = max(self._last_s.get(sender, 0.0), world.now_s + later_s + world.delay_s(sender))
        self._last_s[sender] = arrival_s
        world.at(arrival_s - world.now_s, lambda: self._say(self.ledger.apply(*updates.columns(), world.now_s)))

    def _say(self, verdicts: Verdicts) -> None:
        for kind in VerdictKind:
            for task, roots in getattr(verdicts, kind.value).items():
                if self._is_lost():
                    continue
                for worker in self.world.living:
                    if task in worker.tasks:
                        control = TreeVerdict(task, kind, list(roots))
                        self.world.at(
                            self.world.delay_s(),
                            lambda worker=worker, control=control: worker.tell(control, control.task),
                        )
