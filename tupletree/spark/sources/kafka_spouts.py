"""The two spouts over Kafka topics. Their tuples are [attempt, split]; kafka_positions.py describes splits."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tupletree.attempt import TransactionAttempt
from tupletree.component import TopologyContext
from tupletree.errors import ReportedFailedException
from tupletree.spark.sources.kafka_offsets import TopicOffsets
from tupletree.spark.sources.kafka_positions import (
    UNKNOWN,
    Bounds,
    OutOfRangeError,
    Place,
    Start,
    is_empty,
    lost,
    next_split,
    numbers,
    place_of,
    position,
)
from tupletree.transactional.bolts import BatchCollector
from tupletree.transactional.spouts import (
    OpaquePartitionedTransactionalSpout,
    OpaquePartitionEmitter,
    PartitionCoordinator,
    PartitionedTransactionalSpout,
    PartitionEmitter,
)

GLANCE_S = 0.1
"""Maximum time that a coordinator waits for brokers. A coordinator must be quick."""

LOOK_S = 2.0
"""Maximum time that an emitter waits for brokers."""


@dataclass(frozen=True, slots=True)
class Topics:
    """Settings of the spouts. ``limit``: maximum number of offsets of each partition in a batch."""

    config: Mapping[str, Any]
    names: tuple[str, ...]
    limit: int
    start: Start


class KafkaSpout(PartitionedTransactionalSpout):
    """Replays identical batches: waits for an unavailable partition, and stops at deleted offsets."""

    outputs = ["attempt", "split"]

    def __init__(self, topics: Topics) -> None:
        self.topics = topics

    def coordinator(self, conf: Mapping[str, Any], context: TopologyContext) -> PartitionCoordinator:
        return TopicsCoordinator(self.topics, context.component_id, is_opaque=False)

    def emitter(self, conf: Mapping[str, Any], context: TopologyContext) -> PartitionEmitter:
        return TopicsEmitter(self.topics, context.component_id)


class OpaqueKafkaSpout(OpaquePartitionedTransactionalSpout):
    """Continues without an unavailable partition, and after deleted offsets."""

    outputs = ["attempt", "split"]

    def __init__(self, topics: Topics) -> None:
        self.topics = topics

    def coordinator(self, conf: Mapping[str, Any], context: TopologyContext) -> PartitionCoordinator:
        return TopicsCoordinator(self.topics, context.component_id, is_opaque=True)

    def emitter(self, conf: Mapping[str, Any], context: TopologyContext) -> OpaquePartitionEmitter:
        return OpaqueTopicsEmitter(self.topics, context.component_id)


class TopicsCoordinator(PartitionCoordinator):
    """The coordinator of either spout."""

    def __init__(self, topics: Topics, component_id: str, *, is_opaque: bool) -> None:
        self._topics = topics
        self._component_id = component_id
        self._is_opaque = is_opaque
        self._offsets = TopicOffsets(topics.config, topics.names)
        self._newest: dict[int, Any] = {}  # partition number -> argument of the last has_more

    def num_partitions(self) -> int:
        """Return how many partition numbers there are. FailedException while that is unknown."""
        self._offsets.refresh(GLANCE_S)
        names = self._topics.names
        return numbers(names, {topic: self._offsets.count(topic) for topic in names})

    def has_more(self, partition: int, newest: Any) -> bool:
        self._newest[partition] = newest
        self._offsets.refresh(GLANCE_S)
        place = place_of(partition, self._topics.names)
        bounds = self._offsets.bounds(place)
        if place.partition >= self._offsets.count(place.topic) or (self._is_opaque and isinstance(bounds, str)):
            return False
        if isinstance(bounds, str):
            raise ReportedFailedException(f"component {self._component_id!r}, {place}: {bounds}")
        if (newest is None and self._topics.start == "latest") or (newest is not None and newest[3] == UNKNOWN):
            return True  # the emitter must record the start of the partition
        try:
            return self._begin(place, newest, bounds) < bounds.end
        except OutOfRangeError:
            return True  # the emitter reports the error

    def lag(self) -> dict[str, int]:
        """Return the number of offsets not handed out yet: ``{"records": n}``.

        The number is based on the last look at the brokers and on the last ``has_more`` call per partition, without
        unavailable partitions. While batches follow each other, ``has_more`` is called for one partition per batch, so
        the number is too high.
        """
        records = 0
        for number, newest in self._newest.copy().items():
            place = place_of(number, self._topics.names)
            bounds = self._offsets.bounds(place)
            if isinstance(bounds, Bounds):
                with contextlib.suppress(OutOfRangeError):
                    begin = position(place, newest, bounds, self._topics.start)
                    records += bounds.end - max(begin, bounds.first)
        return {"records": records}

    def close(self) -> None:
        self._offsets.close()

    def _begin(self, place: Place, newest: Any, bounds: Bounds) -> int:
        """Return the start of the next batch. Looks again if an emitter has seen a later end than this coordinator."""
        try:
            return position(place, newest, bounds, self._topics.start)
        except OutOfRangeError:
            self._offsets.refresh(GLANCE_S, fresh_s=0)
            again = self._offsets.bounds(place)
            return position(place, newest, again if isinstance(again, Bounds) else bounds, self._topics.start)


class _Batches:
    """Common part of both emitters: a look at the brokers per attempt, and the start of a partition's next batch."""

    def __init__(self, topics: Topics, component_id: str) -> None:
        self.limit = topics.limit
        self._topics = topics
        self._component_id = component_id
        self._offsets = TopicOffsets(topics.config, topics.names)
        self._attempt: TransactionAttempt | None = None
        self._has_begun = False  # some partition had a batch before this one

    def place(self, attempt: TransactionAttempt, number: int, previous: Any) -> Place | None:
        """Return the partition of a number; None if it does not exist yet. Call this first, per number of an attempt.

        A partition that had a batch counts as existing, even if no broker knows it: otherwise it could be read twice.
        """
        if attempt != self._attempt:
            self._attempt = attempt
            self._has_begun = False
            self._offsets.refresh(LOOK_S, fresh_s=0)
        self._has_begun |= previous is not None
        place = place_of(number, self._topics.names)
        is_known = place.partition < self._offsets.count(place.topic)
        return place if is_known or previous is not None else None

    def bounds(self, place: Place) -> Bounds | str:
        return self._offsets.bounds(place)

    def begin(self, place: Place, previous: Any, bounds: Bounds) -> int:
        # If other partitions have been read before, this partition is new and is read from its beginning.
        is_new = previous is None and self._has_begun
        return position(place, previous, bounds, "earliest" if is_new else self._topics.start)

    def begins_at_end(self, previous: Any) -> bool:
        return previous is None and not self._has_begun and self._topics.start == "latest"

    def error(self, what: object) -> ReportedFailedException:
        return ReportedFailedException(f"component {self._component_id!r}, {what}")

    def close(self) -> None:
        self._offsets.close()


class TopicsEmitter(PartitionEmitter):
    """The emitter of a KafkaSpout."""

    def __init__(self, topics: Topics, component_id: str) -> None:
        self._batches = _Batches(topics, component_id)

    def emit_partition_batch_new(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: int, previous: Any
    ) -> Any:
        batches = self._batches
        place = batches.place(attempt, partition, previous)
        if place is None:
            return None
        bounds = batches.bounds(place)
        if isinstance(bounds, str):
            raise batches.error(f"{place}: {bounds}")
        try:
            begin = batches.begin(place, previous, bounds)
        except OutOfRangeError as error:
            raise batches.error(error) from None
        if begin < bounds.first:
            raise batches.error(
                f"{place}: {lost(begin, bounds.first)}; a source with opaque=True, under another transactional id, "
                f"would continue after them"
            )
        split = next_split(place, begin, bounds, batches.limit)
        self.emit_partition_batch(attempt, collector, partition, split)
        return split

    def emit_partition_batch(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: int, metadata: Any
    ) -> None:
        if metadata is not None and not is_empty(metadata):
            collector.emit([attempt, metadata])

    def close(self) -> None:
        self._batches.close()


class OpaqueTopicsEmitter(OpaquePartitionEmitter):
    """The emitter of an OpaqueKafkaSpout. Reports a partition that becomes unavailable, and offsets that it skips."""

    def __init__(self, topics: Topics, component_id: str) -> None:
        self._batches = _Batches(topics, component_id)
        self._away: set[Place] = set()

    def emit_partition_batch(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: int, previous: Any
    ) -> Any:
        batches = self._batches
        place = batches.place(attempt, partition, previous)
        if place is None:
            return previous
        bounds = batches.bounds(place)
        if isinstance(bounds, str):
            if place not in self._away:
                self._away.add(place)
                collector.report_error(batches.error(f"{place}: {bounds}; batches leave it out until it is back"))
            at_end = [place.topic, place.partition, UNKNOWN, UNKNOWN]
            return at_end if batches.begins_at_end(previous) else previous
        self._away.discard(place)
        try:
            begin = batches.begin(place, previous, bounds)
        except OutOfRangeError as error:
            raise batches.error(error) from None
        if begin < bounds.first:
            collector.report_error(batches.error(f"{place}: {lost(begin, bounds.first)}, and are left out"))
            begin = bounds.first
        split = next_split(place, begin, bounds, batches.limit)
        if not is_empty(split):
            collector.emit([attempt, split])
        return split

    def close(self) -> None:
        self._batches.close()
