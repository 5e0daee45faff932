"""Queues of a RabbitMQ node for ``bench.connectors``. As a program: the bare loop, with pika alone."""

from __future__ import annotations

import contextlib
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pika

from bench._rabbit_node import rabbit_node
from tupletree import Topology, TopologyBuilder
from tupletree.connectors.rabbitmq import RabbitBolt, RabbitSpout

BYTES: Final = 100
PERSISTENT: Final = pika.BasicProperties(delivery_mode=2)
FILL_BATCH: Final = 2_000


def bare(url: str, source: str, target: str, prefetch: int) -> None:
    """Publish each message of a queue to another, and acknowledge it when it is confirmed, forever.

    Nothing waits for a single confirm. The nth message published is the nth delivered: the tags of both are equal.
    """

    def open_channel(connection: Any) -> None:
        connection.channel(on_open_callback=confirm)

    def confirm(channel: Any) -> None:
        channel.confirm_delivery(lambda frame: confirmed(channel, frame.method), callback=lambda _: consume(channel))

    def consume(channel: Any) -> None:
        channel.basic_qos(prefetch_count=prefetch)
        channel.basic_consume(source, delivered)

    def delivered(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        channel.basic_publish("", target, body, PERSISTENT, mandatory=True)

    def confirmed(channel: Any, method: Any) -> None:
        channel.basic_ack(method.delivery_tag, multiple=method.multiple)

    pika.SelectConnection(pika.URLParameters(url), open_channel).ioloop.start()


class Queues:
    """The queues of the bench, durable classic ones, at a node with these processes."""

    def __init__(self, url: str, pids: Sequence[int], count: int, prefetch: int) -> None:
        self.pids = pids
        self._url = url
        self._count = count
        self._prefetch = prefetch
        self._connection = pika.BlockingConnection(pika.URLParameters(f"{url}?heartbeat=0"))
        self._channel = self._connection.channel()

    def fill(self) -> str:
        """Return a new queue with all messages."""
        name = self.create()
        channel = self._connection.channel()
        channel.tx_select()
        for number in range(self._count):
            channel.basic_publish("", name, b"%0*d" % (BYTES, number), PERSISTENT)
            if (number + 1) % FILL_BATCH == 0:
                channel.tx_commit()
        channel.tx_commit()
        channel.close()
        return name

    def create(self) -> str:
        """Return a new, empty queue."""
        name = f"bench-{uuid.uuid4().hex[:8]}"
        self._channel.queue_declare(name, durable=True)
        return name

    def written(self, target: str) -> int:
        """Return the number of messages in a queue."""
        return int(self._channel.queue_declare(target, passive=True).method.message_count)

    def numbers(self, target: str) -> list[int]:
        """Remove all messages of a queue, and return their numbers."""
        found: list[int] = []
        for _, _, body in self._channel.consume(target, auto_ack=True, inactivity_timeout=1.0):
            if body is None:
                break
            found.append(int(body))
        self._channel.cancel()
        return found

    def topology(self, source: str, target: str) -> Topology:
        """Return RabbitSpout → RabbitBolt."""
        builder = TopologyBuilder()
        messages = builder.set_spout("messages", RabbitSpout(self._url, source, max_in_flight=self._prefetch))
        builder.set_bolt("out", RabbitBolt(self._url, target)).shuffle_grouping(messages)
        return builder.create_topology()

    def loops(self, source: str, target: str) -> Mapping[str, Sequence[str]]:
        """Return the commands of the programs to compare with."""
        return {"bare": [sys.executable, "-m", "bench._rabbit_queues", self._url, source, target, str(self._prefetch)]}


@contextlib.contextmanager
def queues(count: int, prefetch: int) -> Iterator[Queues]:
    """Run a node of its own, and yield its queues."""
    with rabbit_node() as (url, pid):
        yield Queues(url, [pid], count, prefetch)


if __name__ == "__main__":
    url, source, target, prefetch = sys.argv[1:]
    bare(url, source, target, int(prefetch))
