"""Topics of Kafka as a log: positions are offsets, partitions are named ``"topic/number"``."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Iterator, Mapping, Sequence
from operator import methodcaller
from typing import Any, ClassVar, Final

from tupletree.connectors.arguments import check_flag, check_seconds
from tupletree.connectors.kafka.client import (
    FIXED,
    check_offsets,
    check_with_client,
    checked_client_config,
    checked_servers,
    checked_topics,
    connection_errors,
    consumer_config,
    kafka,
    mistake,
)
from tupletree.connectors.kafka.offsets import TopicOffsets
from tupletree.connectors.kafka.positions import names, place_named
from tupletree.connectors.kafka.reader import RangeReader
from tupletree.connectors.kafka.shares import GroupMember, ShareReader
from tupletree.connectors.log_source import Bounds, LogFollower, LogSource
from tupletree.connectors.messages import LogRecord
from tupletree.errors import FailedException, ReportedFailedException

GLANCE_S: Final = 0.1
"""The maximum time that a question without a given time waits for brokers."""
TIMES_S: Final = 3.0
"""The maximum time that a question about times waits for brokers."""


class KafkaLog(LogSource):
    """Topics of Kafka.

    ``bootstrap_servers``: ``"host:port"``, several separated by commas or as a list.

    ``topics``: one name or a list. Partition p of ``topics[t]`` has number ``p * len(topics) + t``: another list, or
    another order, is another log. Topics may gain partitions.

    ``group``: a consumer group. A spout with at-least-once processing then shares the partitions with the other members
    of the group, and the group keeps the positions: what is processed is committed. Without a group, and with aligned
    checkpoints, each task reads a fixed share; positions are kept elsewhere, and commits to the group are for others to
    see. ``static_members``: a task that starts again within the session timeout gets its partitions back at once. No
    other spout may have static members in the group.

    ``start``: where a partition without a stored position begins: ``"earliest"``, ``"latest"``, or a datetime: the
    first message that is not older. Or offsets by partition, as in ``{"orders/0": 5000}``: other partitions begin at
    their first message, and a partition that has its offset no more, or not yet, waits, and is reported. Partitions
    that a topic gains later are read from their beginning by transactional spouts.

    ``client_config``: more configuration for librdkafka, for example ``security.protocol``. ``isolation.level``
    defaults to ``read_committed``: messages of open and aborted transactions are left out.

    ``timeout_s``: the time for which a reader of a range waits for a broker that sends nothing.

    Guarantees: a range has the same messages whenever it is read, until Kafka deletes them; compaction deletes them
    one by one, without a trace. Raises UsageError for wrong arguments.
    """

    title: ClassVar[str] = "Kafka"
    metadata_fields: ClassVar[Sequence[str]] = ("key", "topic", "partition", "offset", "timestamp", "headers")
    is_numbered: ClassVar[bool] = True

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        topics: str | Sequence[str],
        *,
        group: str | None = None,
        static_members: bool = False,
        start: str | datetime.datetime | Mapping[str, int] = "earliest",
        client_config: Mapping[str, Any] | None = None,
        timeout_s: float = 10.0,
    ) -> None:
        self.bootstrap_servers = checked_servers(bootstrap_servers)
        self.topics = checked_topics(topics)
        if isinstance(start, Mapping):
            check_offsets(start, self.topics)
        elif start not in ("earliest", "latest") and not isinstance(start, datetime.datetime):
            raise mistake("start", start, "'earliest', 'latest', a datetime or offsets such as {'orders/0': 5000}")
        check_seconds("Kafka", "timeout_s", timeout_s)
        check_flag("Kafka", "static_members", static_members)
        if group is not None and (not isinstance(group, str) or not group):
            raise mistake("group", group, "the name of a consumer group")
        if static_members and group is None:
            raise mistake("static_members", static_members, "a group with it")
        self.group = group
        self.keeps_positions = group is not None  # type: ignore[misc]  # of the instance
        self.static_members = static_members
        self.has_metadata = True  # of records; without, they take less
        self.waits_for_brokers = False  # in ``open``
        self.start = start
        self.timeout_s = timeout_s
        self.begins_at_positions = isinstance(start, Mapping)  # type: ignore[misc]  # of the instance
        self.begins_at_end = start == "latest"  # type: ignore[misc]  # of the instance
        self.begins_at_first = start == "earliest"  # type: ignore[misc]  # of the instance
        self.config = consumer_config(self.bootstrap_servers, checked_client_config(client_config, FIXED), group)
        check_with_client("Consumer", self.config)
        self._offsets: TopicOffsets | None = None
        self._reader: RangeReader | None = None
        self._times: Any = None

    def open(self) -> None:
        with connection_errors(self.config):
            if self.waits_for_brokers:
                self._check_topics(kafka().admin.AdminClient(self.config).list_topics(timeout=TIMES_S).topics)
            self._offsets = TopicOffsets(self.config, self.topics)

    def _check_topics(self, known: Mapping[str, Any]) -> None:
        """Raise ReportedFailedException if no topic exists. A follower reports one that is missing beside others."""
        if not any(topic in known for topic in self.topics):
            topics = ", ".join(repr(topic) for topic in self.topics)
            what = f"there is no topic {topics}, or it may not be read"
            raise ReportedFailedException(f"the brokers {self.bootstrap_servers}: {what}")

    def follow(self, positions: Mapping[str, int] | None, task_index: int, tasks: int) -> LogFollower:
        make = records_of if self.has_metadata else plain_records_of
        if positions is None:
            member = {"group.instance.id": f"{self.group}-{task_index}"} if self.static_members else {}
            return GroupMember({**self.config, **member}, make, self.topics, self._begin_now)
        share = functools.partial(self._share, task_index, tasks)
        commits = self.group is not None
        return ShareReader(self.config, make, positions, share, self._begin_now, commits=commits)

    def _share(self, task_index: int, tasks: int) -> tuple[Sequence[str], FailedException | None]:
        """Return the known partitions of a task, and an error of a topic whose partitions are not known."""
        self.offsets.refresh(GLANCE_S)
        counts, fault = dict.fromkeys(self.topics, 0), None
        for topic in self.topics:
            try:
                counts[topic] = self.offsets.count(topic)
            except FailedException as error:
                fault = error
        return [name for name in names(self.topics, counts)[task_index::tasks] if name], fault

    def _begin_now(self, partition: str) -> int:
        """Return where a partition begins that was never read. Waits for its leader."""
        self.refresh(TIMES_S)
        return self.begin(partition, self.bounds(partition))

    def refresh(self, wait_s: float) -> None:
        self.offsets.refresh(wait_s, fresh_s=0)

    def partitions(self) -> Sequence[str]:
        """Return the names by number. Raises ReportedFailedException for a topic that does not exist."""
        self.offsets.refresh(GLANCE_S)
        return names(self.topics, {topic: self.offsets.count(topic) for topic in self.topics})

    def bounds(self, partition: str) -> Bounds:
        self.offsets.refresh(GLANCE_S)
        place = place_named(partition)
        bounds = self.offsets.bounds(place)
        if isinstance(bounds, str):
            raise FailedException(f"{place}: {bounds}")
        return bounds

    def begin(self, partition: str, bounds: Bounds) -> int:
        if isinstance(self.start, Mapping):
            offset = self.start.get(partition, bounds.first)
            if not bounds.first <= offset <= bounds.end:
                raise ReportedFailedException(
                    f"{place_named(partition)} begins at offset {offset} by its start, and the topic has the offsets "
                    f"from {bounds.first} to {bounds.end}"
                )
            return offset
        if not isinstance(self.start, datetime.datetime):
            return super().begin(partition, bounds)
        place = place_named(partition)
        client = kafka()
        at = client.TopicPartition(place.topic, place.partition, int(self.start.timestamp() * 1000))
        if self._times is None:
            self._times = client.Consumer(self.config)
        try:
            [found] = self._times.offsets_for_times([at], timeout=TIMES_S)
        except client.KafkaException as error:
            raise FailedException(f"{place}: {error}") from error
        return int(found.offset) if found.offset >= 0 else bounds.end

    def read(self, partition: str, start: int, end: int) -> Iterator[Sequence[LogRecord]]:
        if self._reader is None:
            self._reader = RangeReader(self.config, self.timeout_s)
        for messages in self._reader.read(place_named(partition), start, end):
            yield records_of(messages)

    def close(self) -> None:
        for part in (self._offsets, self._reader, self._times):
            if part is not None:
                part.close()
        self._offsets = self._reader = self._times = None

    @property
    def offsets(self) -> TopicOffsets:
        """The latest known offsets. The log must be open."""
        assert self._offsets is not None
        return self._offsets

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {', '.join(self.topics)} of {self.bootstrap_servers}>"


_headers_of: Final = methodcaller("headers")
"""Reads the headers of a message, once. For a name that is not UTF-8, the client sets an exception and yet returns a
list with holes. CPython does not look for that exception where a call of its own has become hot: such a call would go
on with the list, and the process ends at some time. Calls from C, as this one, are always checked."""


def plain_records_of(messages: Sequence[Any]) -> list[LogRecord]:
    """Return messages of the client as records without metadata."""
    records = []
    for message in messages:
        offset = message.offset()
        records.append(LogRecord(message.value(), offset, offset + 1))
    return records


def records_of(messages: Sequence[Any]) -> list[LogRecord]:
    """Return messages of the client as records."""
    return list(map(record_of, messages))


def record_of(message: Any) -> LogRecord:
    """Return a message of the client as a record. ``timestamp``: milliseconds since 1970, None if there is none.

    ``headers``: None if the client cannot read them, as a name is not UTF-8.
    """
    offset = message.offset()
    kind, time_ms = message.timestamp()
    try:
        headers = _headers_of(message) or []
    except (SystemError, UnicodeDecodeError):
        headers = None
    metadata = (
        message.key(),
        message.topic(),
        message.partition(),
        offset,
        time_ms if kind else None,
        headers,
    )
    return LogRecord(message.value(), offset, offset + 1, metadata)
