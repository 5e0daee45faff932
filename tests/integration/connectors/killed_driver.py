"""A topology that reads a topic, while everything is killed: what the tests of several kinds of topologies share."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from kafka_place import KafkaPlace
from kills_in_turn import kill_in_turn, workers

from tupletree import Topology
from tupletree.testing import DevCluster, wait_until

RATE = 300
SECONDS = float(os.environ.get("TUPLETREE_CHAOS_SECONDS", "15"))
SEEDS = [int(seed) for seed in os.environ.get("TUPLETREE_CHAOS_SEEDS", "1").split(",")]


Texts = Callable[[int], tuple[int, str]]
"""Returns the partition and the text of a message, of its number."""


def in_turn(texts: Sequence[str], partitions: int) -> Texts:
    """Return texts in turn, each always in the same partition."""
    return lambda number: (number % len(texts) % partitions, texts[number % len(texts)])


class Feed(threading.Thread):
    """Puts texts into a topic at a steady rate, and some at the end. The broker may be away."""

    def __init__(self, place: KafkaPlace, texts: Texts, last: Sequence[tuple[int, str]] = ()) -> None:
        super().__init__(daemon=True)
        self._place = place
        self._texts = texts
        self._last = last
        self._ends = threading.Event()
        self.count = 0

    def run(self) -> None:
        producer = self._place.broker.producer(enable_idempotence=True, message_timeout_ms=0)
        began_s = time.monotonic()
        while not self._ends.wait(0.01):
            while self.count < (time.monotonic() - began_s) * RATE:
                partition, text = self._texts(self.count)
                producer.produce(self._place.topic, text, None, partition)
                self.count += 1
            producer.poll(0)
        for partition, text in self._last:
            producer.produce(self._place.topic, text, None, partition)
        assert producer.flush(60) == 0

    def end(self) -> None:
        """Return when the broker has everything."""
        self._ends.set()
        self.join()


class Killing:
    """A topology on a cluster, with a feed, amid kills.

    ``victims``: what else is killed, beside the cluster's processes and the broker. ``code``: the topology's module.
    """

    def __init__(
        self,
        cluster: DevCluster,
        place: KafkaPlace,
        feed: Feed,
        victims: Mapping[str, Callable[[], None]],
        code: ModuleType,
    ) -> None:
        self.feed = feed
        self._cluster = cluster
        self._place = place
        self._victims = {"broker": self._kill_broker, **victims}
        self._code = str(code.__file__)

    def run(
        self,
        topology: Topology,
        conf: Mapping[str, Any],
        seed: int,
        seconds: float,
        *,
        has_begun: Callable[[], Any],
        is_done: Callable[[], bool],
    ) -> None:
        """Kill for so many seconds from ``has_begun`` on, end the feed, wait for ``is_done``, and end the topology."""
        cluster, feed = self._cluster, self.feed
        conf = {"topology.workers": 3, "topology.acker.executors": 2, "topology.message.timeout.secs": 20, **conf}
        feed.start()
        began_s = time.monotonic()
        cluster.client.submit("effects", topology, conf, code=[self._code])
        try:
            wait_until(has_begun, 120, what="the first row")
            kills = kill_in_turn(cluster, random.Random(seed), seconds, self._victims)
            self._place.broker.wait()
            feed.end()
            killed_s = time.monotonic()
            wait_until(is_done, 240, what="the effects of each message", pause_s=0.1)
            times = f"{killed_s - began_s:.0f} s, {time.monotonic() - killed_s:.1f} s"
            print(f"{feed.count} messages, {dict(kills)}, {times}")
        finally:
            feed.end()
            cluster.client.kill("effects", wait_secs=60)
            wait_until(lambda: not workers(cluster), 90, what="the workers end")

    def _kill_broker(self) -> None:
        broker = self._place.broker
        broker.wait()
        broker.kill()
        broker.launch()  # others are killed while it starts
