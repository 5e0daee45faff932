"""A queue of a user's own that counts no deliveries: the task counts, pauses grow, and headers reach rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tupletree import Backoff, BasicBolt, Bolt, FailedException, TopologyBuilder
from tupletree.connectors.formats import Format, Json, Text, WithHeaders
from tupletree.connectors.pump import Pump
from tupletree.connectors.queue_source import Delivery, QueueSource
from tupletree.connectors.queue_spout import QueueSpout
from tupletree.dead_letters.letter import Letter
from tupletree.testing import LocalCluster, wait_until
from tupletree.testing.simulation.external import current, external


class Queue:
    """Messages of this process, and what became of them."""

    def __init__(self) -> None:
        self.ready = [Delivery(b"a", 1, headers={"trace": "7"})]
        self.done: list[Any] = []
        self.rows: list[list[Any]] = []


class OwnSource(QueueSource):
    title = "own"

    def __init__(self, queue: Any) -> None:
        self.queue = queue

    def open(self, prefetch: int, task_index: int) -> None:
        pass

    def receive(self, limit: int, wait_s: float) -> Sequence[Delivery]:
        if not self.queue.ready:
            self.idle(wait_s)
        taken, self.queue.ready[:] = self.queue.ready[:limit], self.queue.ready[limit:]
        return taken

    def acknowledge(self, handles: Sequence[Any]) -> None:
        self.queue.done += handles

    def release(self, handles: Sequence[Any], delay_s: float) -> None:
        raise AssertionError("a queue that does not count gets nothing back")

    def close(self) -> None:
        pass


class Refuse(Bolt):
    def __init__(self, queue: Any, attempts: int) -> None:
        self.queue, self.attempts = queue, attempts

    def execute(self, tup: Any) -> None:
        self.queue.rows.append(list(tup.values))
        if len(self.queue.rows) < self.attempts:
            self.collector.fail(tup, FailedException("not yet"))
        else:
            self.collector.ack(tup)


def run(cluster: LocalCluster, format: Format, attempts: int) -> Queue:
    """Run a topology that executes the queue's message so often, with pauses of 1, 2, 4, … seconds."""
    queue = external(Queue)
    builder = TopologyBuilder()
    spout = builder.set_spout("own", QueueSpout(OwnSource(queue), format))
    spout.set_retry(Backoff(first_s=1, factor=2, max_s=60, max_attempts=None))
    builder.set_bolt("refuse", Refuse(queue, attempts)).shuffle_grouping(spout)
    cluster.submit("own", builder.create_topology())
    found: Queue = current(queue)
    cluster.wait_until(lambda: len(found.rows) == 1)
    return found


def test_unlimited_retries_have_growing_pauses() -> None:
    with LocalCluster(simulated_time=True) as cluster:
        queue = run(cluster, Text(), 4)
        for pause_s in (1, 2, 4):
            before = len(queue.rows)
            cluster.advance(pause_s - 0.5)
            cluster.wait_quiet()
            assert len(queue.rows) == before
            cluster.advance(1)
            cluster.wait_quiet()
            assert len(queue.rows) == before + 1
        cluster.wait_until(lambda: queue.done == [1])


@pytest.mark.parametrize(
    ("format", "row"),
    [
        (Text(), ["a"]),
        (WithHeaders(Text()), ["a", {"trace": "7"}]),
        (WithHeaders(Text(), "from"), ["a", {"trace": "7"}]),
    ],
)
def test_headers_are_a_field_if_asked_for(format: Format, row: list[Any]) -> None:
    with LocalCluster() as cluster:
        assert run(cluster, format, 1).rows == [row]


class Restarting(OwnSource):
    """Delivers a message that is none of its format with each connection, which is lost when that is acknowledged."""

    def __init__(self, queue: Any, id: str) -> None:
        super().__init__(queue)
        self.id = id

    def open(self, prefetch: int, task_index: int) -> None:
        self.queue.ready = [Delivery(b"{", 1, self.id)]

    def acknowledge(self, handles: Sequence[Any]) -> None:
        super().acknowledge(handles)
        raise ConnectionError("cut")


class StoreLetters(BasicBolt):
    def __init__(self, queue: Any) -> None:
        self.queue = queue

    def execute(self, tup: Any, collector: Any) -> None:
        self.queue.rows.append([Letter.of(tup, "own", 0).id, tup["message"]])


@pytest.mark.parametrize(("id", "letters"), [("", 3), ("m1", 1)])
def test_equal_messages_are_letters_of_their_own_unless_the_queue_names_them_alike(id: str, letters: int) -> None:
    queue, builder = external(Queue), TopologyBuilder()
    spout = QueueSpout(Restarting(queue, id), Json())
    spout.reconnect = Backoff(first_s=0, max_s=0, max_attempts=None)
    own = builder.set_spout("own", spout).set_dead_letters("rejected")
    builder.set_bolt("letters", StoreLetters(queue)).shuffle_grouping(own, "rejected")
    found: Queue = current(queue)
    with LocalCluster() as cluster:
        cluster.submit("own", builder.create_topology())
        cluster.wait_until(lambda: len(found.rows) >= 3)
    assert len({letter for letter, _ in found.rows[:3]}) == letters
    assert id or found.rows[0][1].startswith("1 of connection ")


class Flapping(OwnSource):
    """Delivers all that it may, and loses its connection."""

    opened = 0

    def open(self, prefetch: int, task_index: int) -> None:
        self.prefetch, self.opened = prefetch, self.opened + 1

    def receive(self, limit: int, wait_s: float) -> Sequence[Delivery]:
        if not self.prefetch:
            raise ConnectionError("cut")
        taken = min(limit, self.prefetch)
        self.prefetch -= taken
        return [Delivery(b"", number) for number in range(self.prefetch, self.prefetch + taken)]

    def idle(self, wait_s: float) -> None:
        raise ConnectionError("cut")


def test_deliveries_of_lost_connections_do_not_pile_up_while_the_spout_is_not_called() -> None:
    source = Flapping(None)
    pump = Pump(source, 100, 0, Backoff(first_s=0, max_s=0, max_attempts=None))
    pump.start()
    try:
        wait_until(lambda: source.opened > 20)
    finally:
        pump.close()
    left = 0
    while pump.poll() is not None:
        left += 1
    assert left <= 102
