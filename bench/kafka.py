"""Messages from one topic of Kafka to another by a tracked topology, and by a bare client on the same broker.

    python -m bench.kafka --messages 300000 --turns 3 --json

A broker of its own holds messages of 100 bytes. In turns, a process with confluent-kafka alone polls and produces each
of them (``bare``), and a topology of one worker and one acker does: KafkaSpout → KafkaBolt, every message a tracked
tuple, offsets committed to a group. Both have the same settings of the client, except that the bare loop commits
nothing. The clock runs from the first message in the target topic to the last, as the broker counts them. Figures are
medians over the turns. Each message must be in the target once, else the exit status is 1.

Needs Java, and Maven with Apache Kafka; ``--brokers`` names a broker that runs already.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from bench import _cli
from bench._kafka_broker import Broker, jars
from tupletree import Topology, TopologyBuilder
from tupletree.connectors.kafka import KafkaBolt, KafkaSpout
from tupletree.connectors.kafka.client import consumer_config, kafka
from tupletree.connectors.kafka.topic import DEFAULTS
from tupletree.testing import DevCluster

NAME = "kafka"
BYTES: Final = 100
LOOK_EVERY_S: Final = 0.02
PATIENCE_S: Final = 300.0


def bare(brokers: str, source: str, target: str, count: int) -> None:
    """Poll each message of a topic, and produce it to another."""
    client = kafka()
    consumer = client.Consumer(consumer_config(brokers, {}))
    producer = client.Producer({**DEFAULTS, "bootstrap.servers": brokers})
    partitions = consumer.list_topics(source, timeout=30).topics[source].partitions
    consumer.assign([client.TopicPartition(source, number, 0) for number in partitions])
    done = 0
    while done < count:
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
        done += 1
    producer.flush()
    consumer.close()


def topology(brokers: str, source: str, target: str, group: str) -> Topology:
    """Return KafkaSpout → KafkaBolt."""
    builder = TopologyBuilder()
    messages = builder.set_spout("messages", KafkaSpout(brokers, source, group=group))
    builder.set_bolt("out", KafkaBolt(brokers, target)).shuffle_grouping(messages)
    return builder.create_topology()


class Topics:
    """The topics of the bench. ``source``: has the messages, each with its number."""

    def __init__(self, brokers: str, count: int, partitions: int) -> None:
        self.brokers = brokers
        self.count = count
        self.partitions = partitions
        self.admin = kafka().admin.AdminClient({"bootstrap.servers": brokers, "log_level": 2})
        self.source = self.create()
        producer = kafka().Producer({"bootstrap.servers": brokers, "log_level": 2, "linger.ms": 5})
        for number in range(count):
            if number % 10_000 == 0:
                producer.flush()
            producer.produce(self.source, b"%0*d" % (BYTES, number), partition=number % partitions)
        producer.flush()

    def create(self) -> str:
        name = f"bench-{uuid.uuid4().hex[:8]}"
        self.admin.create_topics([kafka().admin.NewTopic(name, self.partitions, 1)])[name].result(30)
        return name

    def seconds_to_fill(self, target: str, start: Callable[[], object]) -> float:
        """Return the seconds between the first and the last message of a topic that ``start`` has filled."""
        client = kafka()
        consumer = client.Consumer(consumer_config(self.brokers, {}))
        ends = [client.TopicPartition(target, number) for number in range(self.partitions)]
        start()
        first_s, given_up_s = 0.0, time.perf_counter() + PATIENCE_S
        while True:
            written = 0
            with contextlib.suppress(client.KafkaException):  # a new topic, whose leaders are not known yet
                written = sum(consumer.get_watermark_offsets(one, timeout=10)[1] for one in ends)
            now_s = time.perf_counter()
            first_s = first_s or (now_s if written else 0.0)
            if written >= self.count:
                consumer.close()
                return now_s - first_s
            if now_s > given_up_s:
                raise TimeoutError(f"{written:,} of {self.count:,} messages were written in {PATIENCE_S:g} s")
            time.sleep(LOOK_EVERY_S)

    def check(self, target: str) -> None:
        """Raise WrongResultError unless a topic has each message once."""
        client = kafka()
        consumer = client.Consumer(consumer_config(self.brokers, {}))
        consumer.assign([client.TopicPartition(target, number, 0) for number in range(self.partitions)])
        found: list[int] = []
        ended = 0
        while ended < self.partitions:
            for message in consumer.consume(10_000, 1.0):
                if message.error() is None:
                    found.append(int(message.value()))
                else:
                    ended += message.error().code() == client.KafkaError._PARTITION_EOF
        consumer.close()
        if sorted(found) != list(range(self.count)):
            raise _cli.WrongResultError(f"{len(found):,} messages, {len(set(found)):,} different, of {self.count:,}")


def turn(cluster: DevCluster, topics: Topics, pending: int) -> tuple[float, float]:
    """Return the seconds of the bare loop and of the topology."""
    target = topics.create()
    process = multiprocessing.get_context("spawn").Process(
        target=bare, args=(topics.brokers, topics.source, target, topics.count)
    )
    bare_s = topics.seconds_to_fill(target, process.start)
    process.join(30)
    topics.check(target)
    target, name = topics.create(), f"kafka-{uuid.uuid4().hex[:8]}"
    made = topology(topics.brokers, topics.source, target, name)
    conf = {"topology.max.spout.pending": pending, "topology.acker.executors": 1}
    ours_s = topics.seconds_to_fill(target, lambda: cluster.client.submit(name, made, conf))
    topics.check(target)
    cluster.client.kill(name, wait_secs=10)
    return bare_s, ours_s


@contextlib.contextmanager
def running_broker() -> Iterator[str]:
    """Run a broker, and return its address."""
    with tempfile.TemporaryDirectory(prefix="bench-kafka-") as directory:
        broker = Broker(jars(Path(directory)), Path(directory))
        try:
            yield broker.addresses
        finally:
            broker.close()


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run all turns on a fresh broker and cluster, and return the metrics."""
    given = contextlib.nullcontext(arguments.brokers) if arguments.brokers else running_broker()
    with given as brokers, DevCluster(slots=1, ackers=1) as cluster:
        topics = Topics(brokers, arguments.messages, arguments.partitions)
        turns = [turn(cluster, topics, arguments.pending) for _ in range(arguments.turns)]
    bare_s, ours_s = (statistics.median(seconds) for seconds in zip(*turns, strict=True))
    return {
        "bare_messages_per_s": round(arguments.messages / bare_s),
        "messages_per_s": round(arguments.messages / ours_s),
        "ratio": round(bare_s / ours_s, 3),
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--messages", type=int, default=300_000)
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--pending", type=int, default=20_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--brokers", default="", help="host:port of a broker that runs already")


if __name__ == "__main__":
    sys.exit(_cli.run(NAME, __doc__, add_arguments, measure))
