"""Metadata of topics from the brokers: the number of partitions, and the beginning and end of each partition's log.

All requests run in the background and their results are remembered, so nobody waits for a broker that is unavailable.
``refresh`` waits briefly for its own requests, and never for overdue requests of earlier calls. The leader of each
group of partitions is asked separately, so a leader that does not answer holds up no other.

Remembered results can be old. That is safe for planning: a log grows at its end, so an older end makes a smaller batch.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from tupletree.connectors.kafka.client import kafka, text_of
from tupletree.connectors.kafka.positions import Place
from tupletree.connectors.log_source import Bounds
from tupletree.errors import FailedException, ReportedFailedException

FRESH_S = 0.05
"""Age up to which an answer is reused, by default."""

LAYOUT_S = 1.0
"""Age up to which the list of partitions and leaders is reused."""

AWAY_S = 1.0
"""Time without an answer after which a leader's partitions count as unavailable."""

ANSWER_S = 3.0
"""Timeout of a request to a broker."""

NO_LEADER = -1

Leaders = Mapping[str, Mapping[int, int]]
"""Topic -> partition -> id of the broker that leads it."""


@dataclass(frozen=True, slots=True)
class _Question:
    """A request to one leader: the first offset and the end of its partitions."""

    answers: Mapping[Place, tuple[Future[Any], Future[Any]]]

    def futures(self) -> list[Future[Any]]:
        return [future for both in self.answers.values() for future in both]

    def is_open(self) -> bool:
        return not all(future.done() for future in self.futures())


class TopicOffsets:
    """The latest known offsets of some topics. Used on one thread, except ``bounds``, which is safe on any."""

    def __init__(self, config: Mapping[str, Any], topics: Sequence[str]) -> None:
        client = kafka()
        self._where = config["bootstrap.servers"]
        self._topics = topics
        self._is_committed = config["isolation.level"] == "read_committed"
        self._admin = client.admin.AdminClient(config)
        self._executor = ThreadPoolExecutor(1, "kafka-layout")  # for the only blocking call
        self._layout: Future[dict[str, dict[int, int] | str]] | None = None
        self._layout_asked_s = -LAYOUT_S
        self._leaders: dict[str, Mapping[int, int]] = {}
        self._problems: dict[str, str] = {}
        self._questions: dict[int, _Question] = {}  # leader -> unanswered request
        self._asked_s: dict[int, float] = {}
        self._bounds: dict[Place, Bounds | str] = {}

    def refresh(self, wait_s: float, fresh_s: float = FRESH_S) -> None:
        """Request everything older than ``fresh_s``, and wait up to ``wait_s`` for the answers."""
        deadline_s = time.monotonic() + wait_s
        self._request_layout()
        if not self._leaders:
            self._wait([self._layout] if self._layout else [], deadline_s)
        self._receive_layout()
        self._receive_offsets()
        self._wait(self._request_offsets(fresh_s), deadline_s)
        self._receive_offsets()

    def count(self, topic: str) -> int:
        """Return the last known number of partitions of a topic, even if the brokers are unavailable.

        Raises FailedException if the number is not known yet, and ReportedFailedException if a broker reports that the
        topic does not exist, or if none has answered.
        """
        leaders = self._leaders.get(topic)
        if leaders is not None:
            return max(leaders, default=-1) + 1
        if topic in self._problems:
            raise ReportedFailedException(f"topic {topic!r} of the brokers {self._where}: {self._problems[topic]}")
        raise FailedException(f"the brokers {self._where} have not reported the partitions of topic {topic!r} yet")

    def bounds(self, place: Place) -> Bounds | str:
        """Return the bounds of a partition's log, or the reason why they are unknown."""
        leader = self._leaders.get(place.topic, {}).get(place.partition, NO_LEADER)
        if leader == NO_LEADER:
            return self._problems.get(place.topic, "no broker leads the partition")
        if leader in self._questions and time.monotonic() - self._asked_s[leader] > AWAY_S:
            return f"broker {leader} does not answer"
        return self._bounds.get(place, f"broker {leader} has not answered yet")

    def close(self) -> None:
        """Close the connections. Waits for a layout request in progress."""
        self._executor.shutdown(cancel_futures=True)

    def _wait(self, futures: Sequence[Future[Any]], deadline_s: float) -> None:
        wait(futures, timeout=max(0.0, deadline_s - time.monotonic()))

    def _request_layout(self) -> None:
        now_s = time.monotonic()
        if self._layout is None and now_s - self._layout_asked_s >= LAYOUT_S:
            self._layout = self._executor.submit(self._load_layout)
            self._layout_asked_s = now_s

    def _load_layout(self) -> dict[str, dict[int, int] | str]:
        """Return the leaders of each topic, or its error. Runs in the background.

        The client itself also uses this metadata to find leaders.
        """
        client = kafka()
        loaded: dict[str, dict[int, int] | str] = {}
        for topic in self._topics:
            try:
                found = self._admin.list_topics(topic, timeout=ANSWER_S).topics[topic]
            except client.KafkaException as error:
                loaded[topic] = text_of(error)
                continue
            if found.error is not None:
                loaded[topic] = found.error.str()
            else:
                loaded[topic] = {number: partition.leader for number, partition in found.partitions.items()}
        return loaded

    def _receive_layout(self) -> None:
        if self._layout is None or not self._layout.done():
            return
        layout, self._layout = self._layout.result(), None
        self._problems = {topic: found for topic, found in layout.items() if isinstance(found, str)}
        self._leaders |= {topic: found for topic, found in layout.items() if isinstance(found, Mapping)}

    def _request_offsets(self, fresh_s: float) -> list[Future[Any]]:
        """Send a request to every leader without one in progress; return the futures of the new requests."""
        places = defaultdict(list)
        for topic, leaders in self._leaders.items():
            for partition, leader in leaders.items():
                places[leader].append(Place(topic, partition))
        places.pop(NO_LEADER, None)
        asked = []
        for leader, led in places.items():
            is_new = not all(place in self._bounds for place in led)
            is_fresh = not is_new and leader in self._asked_s and time.monotonic() - self._asked_s[leader] < fresh_s
            if leader not in self._questions and not is_fresh:
                self._asked_s[leader] = time.monotonic()
                self._questions[leader] = self._question(led)
                asked += self._questions[leader].futures()
        return asked

    def _question(self, places: Sequence[Place]) -> _Question:
        client = kafka()
        level = client.IsolationLevel
        options = {
            "request_timeout": ANSWER_S,
            "isolation_level": level.READ_COMMITTED if self._is_committed else level.READ_UNCOMMITTED,
        }
        partitions = {place: client.TopicPartition(place.topic, place.partition) for place in places}
        spec = client.admin.OffsetSpec
        firsts = self._admin.list_offsets(dict.fromkeys(partitions.values(), spec.earliest()), **options)
        ends = self._admin.list_offsets(dict.fromkeys(partitions.values(), spec.latest()), **options)
        return _Question({place: (firsts[at], ends[at]) for place, at in partitions.items()})

    def _receive_offsets(self) -> None:
        client = kafka()
        answered = {leader: question for leader, question in self._questions.items() if not question.is_open()}
        for leader, question in answered.items():
            del self._questions[leader]
            for place, (first, end) in question.answers.items():
                if self._leaders[place.topic].get(place.partition) != leader:
                    continue  # another leader has been asked meanwhile
                try:
                    bounds = Bounds(first.result().offset, end.result().offset)
                except client.KafkaException as error:
                    self._bounds[place] = text_of(error)
                else:
                    self._bounds[place] = bounds if min(bounds) >= 0 else f"broker {leader} does not answer"
