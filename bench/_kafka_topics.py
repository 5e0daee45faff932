"""Topics of a Kafka broker for ``bench.connectors``. As a program: the bare loop, with confluent-kafka alone."""

from __future__ import annotations

import contextlib
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from bench._kafka_broker import Broker, jars
from tupletree import Topology, TopologyBuilder
from tupletree.connectors.kafka import KafkaBolt, KafkaSpout
from tupletree.connectors.kafka.client import consumer_config, kafka
from tupletree.connectors.kafka.topic import DEFAULTS

BYTES: Final = 100
PARTITIONS: Final = 2


def bare(brokers: str, source: str, target: str, *, has_defaults: bool) -> None:
    """Poll each message of a topic, and produce it to another, forever. With the client's defaults, or our settings."""
    client = kafka()
    servers = {"bootstrap.servers": brokers}
    ours = consumer_config(brokers, {})
    consumer = client.Consumer({**servers, "group.id": ours["group.id"]} if has_defaults else ours)
    producer = client.Producer(servers if has_defaults else {**DEFAULTS, **servers})
    partitions = consumer.list_topics(source, timeout=30).topics[source].partitions
    consumer.assign([client.TopicPartition(source, number, 0) for number in partitions])
    while True:
        message = consumer.poll(1.0)
        if message is None or message.error() is not None:
            continue
        while True:
            try:
                producer.produce(target, message.value())
                break
            except BufferError:
                producer.poll(0.01)
        producer.poll(0)


class Topics:
    """The topics of the bench, at a broker with these processes. ``bytewax``: the Python that has it.

    ``workers``: the number of workers of the topology, each with a spout and a bolt, and of processes of bytewax.
    """

    def __init__(self, brokers: str, pids: Sequence[int], count: int, bytewax: Path | None, workers: int) -> None:
        self.pids = pids
        self._workers = workers
        self._bytewax = bytewax
        self._brokers = brokers
        self._count = count
        client = kafka()
        self._admin = client.admin.AdminClient({"bootstrap.servers": brokers, "log_level": 2})
        self._consumer = client.Consumer(consumer_config(brokers, {}))
        self._source = ""

    def fill(self) -> str:
        """Return a topic with all messages. A topic can be read again."""
        if not self._source:
            self._source = self.create()
            producer = kafka().Producer({"bootstrap.servers": self._brokers, "log_level": 2, "linger.ms": 5})
            for number in range(self._count):
                if number % 10_000 == 0:
                    producer.flush()
                producer.produce(self._source, b"%0*d" % (BYTES, number), partition=number % PARTITIONS)
            producer.flush()
        return self._source

    def create(self) -> str:
        """Return a new, empty topic."""
        name = f"bench-{uuid.uuid4().hex[:8]}"
        self._admin.create_topics([kafka().admin.NewTopic(name, PARTITIONS, 1)])[name].result(30)
        return name

    def written(self, target: str) -> int:
        """Return the number of messages in a topic."""
        client = kafka()
        with contextlib.suppress(client.KafkaException):  # a new topic, whose leaders are not known yet
            ends = [client.TopicPartition(target, number) for number in range(PARTITIONS)]
            return sum(self._consumer.get_watermark_offsets(end, timeout=10)[1] for end in ends)
        return 0

    def numbers(self, target: str) -> list[int]:
        """Return the numbers of all messages of a topic."""
        client = kafka()
        consumer = client.Consumer(consumer_config(self._brokers, {}))
        consumer.assign([client.TopicPartition(target, number, 0) for number in range(PARTITIONS)])
        found: list[int] = []
        ended = 0
        while ended < PARTITIONS:
            for message in consumer.consume(10_000, 1.0):
                if message.error() is None:
                    found.append(int(message.value()))
                else:
                    ended += message.error().code() == client.KafkaError._PARTITION_EOF
        consumer.close()
        return found

    def topology(self, source: str, target: str) -> Topology:
        """Return KafkaSpout → KafkaBolt. Several spouts have fixed shares: as a group grows, messages are replayed."""
        builder = TopologyBuilder()
        group = target if self._workers == 1 else None
        spout = KafkaSpout(self._brokers, source, group=group)
        messages = builder.set_spout("messages", spout, parallelism=self._workers)
        out = builder.set_bolt("out", KafkaBolt(self._brokers, target), parallelism=self._workers)
        out.local_or_shuffle_grouping(messages)
        return builder.create_topology()

    def loops(self, source: str, target: str) -> Mapping[str, Sequence[str]]:
        """Return the commands of the programs to compare with."""
        bare = [sys.executable, "-m", "bench._kafka_topics", self._brokers, source, target]
        found = {"bare": bare, "bare_defaults": [*bare, "defaults"]}
        if self._bytewax is not None:
            arguments = (self._brokers, source, target, dict(DEFAULTS))
            flow = f"bench.peers.programs.bytewax_kafka:flow{arguments!r}"
            run = ["bytewax.run"] if self._workers == 1 else ["bytewax.testing", "-p", str(self._workers)]
            found["bytewax"] = [str(self._bytewax), "-m", *run, flow]
        return found


@contextlib.contextmanager
def topics(count: int, bytewax: Path | None, workers: int = 1) -> Iterator[Topics]:
    """Run a broker of its own, and yield its topics."""
    with tempfile.TemporaryDirectory(prefix="bench-kafka-") as directory:
        broker = Broker(jars(Path(directory)), Path(directory))
        try:
            yield Topics(broker.addresses, [broker.pid], count, bytewax, workers)
        finally:
            broker.close()


if __name__ == "__main__":
    brokers, source, target, *settings = sys.argv[1:]
    bare(brokers, source, target, has_defaults=bool(settings))
