"""Links between simulated workers, as worker/network/peer_links.py keeps them, and an acker with its real ledger.

A link keeps the order of its batches. It may break: batches under way are lost, unconfirmed batches are failed
(ADR 0003), and batches that were not sent go on the next stream, to the worker's successor if there is one by then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from functools import partial
from typing import Any, Protocol

from tupletree._wire.fail_reasons import WaitingReasons
from tupletree.acker.ledger import Ledger, Verdicts
from tupletree.testing.simulation.timeline import Timeline
from tupletree.worker.control_messages import Control, ShardsLost, TreeVerdict, VerdictKind
from tupletree.worker.core.ack_updates import AckUpdates
from tupletree.worker.core.batches import EncodedBatch, roots_of
from tupletree.worker.execution.inbox import Gate


class Host(Protocol):
    """A worker as the network sees it."""

    slot: Any
    number: int
    alive: bool
    cut_off: bool
    gate: Gate

    @property
    def tasks(self) -> Iterable[int]:
        """The ids of its tasks."""

    def receive(self, message: EncodedBatch) -> None:
        """Receive a batch."""

    def fail(self, roots: set[int]) -> None:
        """Fail trees whose tuples may be lost."""

    def tell(self, control: Control, task: int | None = None) -> None:
        """Pass a control message to one of its tasks, or to all that begin trees."""


class Link:
    """The link from one worker to one life of another."""

    def __init__(self, timeline: Timeline, sender: Host, receiver: Host) -> None:
        self._timeline = timeline
        self.sender = sender
        self.receiver = receiver
        self.waiting: deque[EncodedBatch] = deque()
        self.unconfirmed: deque[EncodedBatch] = deque()
        self.under_way = 0
        self._is_up = False
        self._stream = 0  # raised when it breaks
        self._last_arrival_s = 0.0
        sender.gate.set(self, list(receiver.tasks))
        self._reconnect()

    def send(self, batch: EncodedBatch) -> None:
        self.waiting.append(batch)
        self._pump()

    def break_up(self) -> None:
        """Lose the batches under way, and fail the unconfirmed ones, although some of them have arrived."""
        self._stream += 1
        self._is_up = False
        self.sender.gate.set(self, list(self.receiver.tasks))
        self.sender.fail({root for batch in self.unconfirmed for root in roots_of(batch)})
        self.unconfirmed.clear()
        self._timeline.counts["links broken"] += 1
        self._reconnect()

    def close(self) -> deque[EncodedBatch]:
        """End the link: its receiver is replaced. Return the batches that were never sent."""
        self._stream += 1
        self._is_up = False
        self.sender.fail({root for batch in self.unconfirmed for root in roots_of(batch)})
        self.unconfirmed.clear()
        self.sender.gate.set(self, ())
        waiting, self.waiting = self.waiting, deque()
        return waiting

    def cut(self) -> None:
        """Lose the batches under way: the sender is dead, so nothing is failed."""
        self._stream += 1

    def _reconnect(self) -> None:
        stream = self._stream

        def connect() -> None:
            if self._stream == stream and self.sender.alive and self.receiver.alive:
                self._is_up = True
                self.sender.gate.set(self, ())
                self._pump()

        self._timeline.at(self._timeline.delay_s() + self._timeline.rng.uniform(0, 0.05), connect)

    def _pump(self) -> None:
        while self._is_up and self.waiting:
            self._put_under_way(self.waiting.popleft())

    def _put_under_way(self, batch: EncodedBatch) -> None:
        timeline, stream = self._timeline, self._stream
        arrival_s = self._last_arrival_s = max(
            self._last_arrival_s, timeline.now_s + timeline.delay_s(self.sender.cut_off)
        )
        self.unconfirmed.append(batch)
        self.under_way += 1

        def arrive() -> None:
            self.under_way -= 1
            if self._stream != stream:
                timeline.counts["batches lost"] += 1
            elif self.receiver.alive:
                self.receiver.receive(batch)
                timeline.at(timeline.delay_s(), confirm)
            elif self.sender.alive:
                self.break_up()

        def confirm() -> None:
            if self._stream == stream and self.unconfirmed and self.unconfirmed[0] is batch:
                self.unconfirmed.popleft()

        timeline.at(arrival_s - timeline.now_s, arrive)


class Peers:
    """The links of one worker, by slot, to the workers that it takes for those of the slots."""

    def __init__(self, timeline: Timeline, worker: Host) -> None:
        self.links: dict[Hashable, Link] = {}
        self.known: dict[Hashable, Host] = {}
        self._timeline = timeline
        self._worker = worker

    def learn(self, receiver: Host) -> None:
        """Record that a slot has a new worker."""
        slot = receiver.slot
        if slot is self._worker.slot or not self._worker.alive:
            return
        known = self.known.get(slot)
        if known is not None and known.number >= receiver.number:
            return
        old = self.links.get(slot)
        waiting = old.close() if old is not None else ()
        self.known[slot] = receiver
        self.links[slot] = Link(self._timeline, self._worker, receiver)
        self.links[slot].waiting.extend(waiting)

    def send(self, slot: Hashable, batch: EncodedBatch) -> None:
        """Send a batch to the worker of a slot."""
        self.links[slot].send(batch)


class Acker:
    """One acker. Updates and verdicts take time and may be lost; those of one worker keep their order."""

    def __init__(self, timeline: Timeline, living: Sequence[Host], *, trees_expire: bool = True) -> None:
        self.ledger = Ledger()
        self._timeline = timeline
        self._living = living
        self._trees_expire = trees_expire
        self._reasons = WaitingReasons()
        self._last_s: dict[Host, float] = {}

    def post(self, sender: Host, updates: AckUpdates) -> None:
        """Send updates of a worker. If they are lost, their link breaks, and the trees in doubt are failed."""
        timeline = self._timeline
        if not self._is_lost():
            self._send(sender, updates, 0.0)
            return
        timeline.counts["updates lost"] += 1
        if timeline.rng.random() < 0.5:
            self._send(sender, updates, 0.0)
        self._send(sender, AckUpdates.of(fails=updates.roots()), timeline.rng.uniform(0.01, 0.3))

    def crash(self) -> None:
        """Lose the ledger. Every pending tree can only fail; workers are told one by one."""
        timeline = self._timeline
        timeline.tell("the acker loses its ledger")
        timeline.counts["acker crashes"] += 1
        self.ledger = Ledger()
        for worker in self._living:
            timeline.at(timeline.rng.uniform(0, 0.2), partial(worker.tell, ShardsLost(frozenset([0]), 1)))

    def rotate(self) -> None:
        """Expire the trees that have been pending since before the previous rotation."""
        self._say(self.ledger.rotate(self._timeline.now_s, trees_expire=self._trees_expire))

    def _is_lost(self) -> bool:
        timeline = self._timeline
        return timeline.is_faulty and timeline.rng.random() < timeline.faults.loss

    def _send(self, sender: Host, updates: AckUpdates, later_s: float) -> None:
        timeline = self._timeline
        arrival_s = max(self._last_s.get(sender, 0.0), timeline.now_s + later_s + timeline.delay_s(sender.cut_off))
        self._last_s[sender] = arrival_s
        timeline.at(arrival_s - timeline.now_s, partial(self._apply, updates))

    def _apply(self, updates: AckUpdates) -> None:
        self._reasons.add(updates.reasons)
        self._say(self.ledger.apply(*updates.columns(), self._timeline.now_s))

    def _say(self, verdicts: Verdicts) -> None:
        for kind in VerdictKind:
            for task, roots in getattr(verdicts, kind.value).items():
                reasons = self._reasons.take(roots) if kind is VerdictKind.FAILED else {}
                if self._is_lost():
                    self._timeline.counts["verdicts lost"] += 1
                    continue
                for worker in self._living:
                    if task in worker.tasks:
                        verdict = TreeVerdict(task, kind, list(roots), reasons)
                        self._timeline.at(self._timeline.delay_s(), partial(worker.tell, verdict, task))
