"""Streams of Redis 6.2 or newer, read in consumer groups: XREADGROUP, XACK, XCLAIM, XAUTOCLAIM.

Redis keeps the entries that a consumer has in process, with their idle times and the numbers of their deliveries. No
command returns an entry: a released entry stays pending, and its consumer claims the entry again.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from tupletree._stores.redis import RedisAddress
from tupletree._wire.names import topology_name
from tupletree.component import SpoutCollector, TopologyContext
from tupletree.connectors.arguments import check_flag, check_seconds, check_text, check_whole
from tupletree.connectors.extras import imported
from tupletree.connectors.formats import Format
from tupletree.connectors.messages import SinkMessage
from tupletree.connectors.queue_source import Delivery, QueueSource
from tupletree.connectors.queue_spout import QueueSpout
from tupletree.connectors.sinks import Sink, SinkBolt
from tupletree.errors import UnavailableError, UsageError


class RedisStreamSpout(QueueSpout):
    """Emits the entries of a stream that are new to a consumer group, and acknowledges them when they are processed.

    Stream and group are created if they are missing; the group then begins with the oldest entry. A message is the
    value of ``field``; an entry without that field is given up. A failed message is delivered again, to the same task.
    Attempts are the deliveries that Redis counts. An entry that is trimmed before it is processed is lost.

    ``consumer``: each task is the consumer ``consumer/index``, after a restart too; default: ``topology/component``.
    ``claim_after_s``: entries of consumers that are gone are taken over after this time. So are those of a worker that
    stands still so long, which are processed twice. ``rejected``: a stream for entries that are given up without dead
    letters. ``deletes``: processed entries are deleted, even if another group has yet to read them.
    Raises UsageError for a wrong argument, and if the package redis is missing.
    """

    def __init__(
        self,
        url: str,
        stream: str,
        group: str,
        format: Format | None = None,
        *,
        consumer: str | None = None,
        claim_after_s: float = 60,
        field: str = "data",
        max_in_flight: int = 1000,
        rejected: str | None = None,
        deletes: bool = False,
    ) -> None:
        given = {name: text for name, text in (("consumer", consumer), ("rejected", rejected)) if text is not None}
        self._stream = StreamSource("RedisStreamSpout", url, stream, field, group=group, **given)
        if rejected == stream:
            raise UsageError(f"RedisStreamSpout: rejected is {stream!r}; another stream than its own was expected")
        check_seconds("RedisStreamSpout", "claim_after_s", claim_after_s)
        check_flag("RedisStreamSpout", "deletes", deletes)
        self._stream.group, self._stream.consumer, self._stream.rejected = group, consumer, rejected
        self._stream.keep_every_s, self._stream.deletes = claim_after_s / 3, deletes
        super().__init__(self._stream, format, max_in_flight=max_in_flight)

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutCollector) -> None:
        if self._stream.consumer is None:
            self._stream.consumer = f"{topology_name(context.topology_id)}/{context.component_id}"
        super().open(conf, context, collector)


class RedisStreamBolt(SinkBolt):
    """Adds each tuple to a stream, as the value of one field. It is acked when Redis has added the entry.

    Redis answers before the entry is on disk, unless it has ``appendonly yes`` and ``appendfsync always``.
    ``max_length``: the stream is trimmed to about this length, whether or not its oldest entries are processed.
    Raises UsageError for a wrong argument, and if the package redis is missing.
    """

    def __init__(
        self, url: str, stream: str, format: Format | None = None, *, field: str = "data", max_length: int | None = None
    ) -> None:
        sink = StreamSink("RedisStreamBolt", url, stream, field)
        if max_length is not None:
            check_whole("RedisStreamBolt", "max_length", max_length)
        sink.max_length = max_length
        super().__init__(sink, format)


class _Stream:
    """The stream of a source or sink, and a client. ``texts``: further arguments to check."""

    title: ClassVar[str] = "Redis Streams"
    lost_on: ClassVar[tuple[type[Exception], ...]] = (UnavailableError,)

    def __init__(self, user: str, url: str, stream: str, field: str, **texts: str) -> None:
        for name, text in {"url": url, "stream": stream, "field": field, **texts}.items():
            check_text(user, name, text, is_secret=name == "url")
        self.address = RedisAddress(user, url, timeout_s=10)
        self.stream, self.field = stream, field.encode()
        self.client: Any = None

    def errors(self) -> contextlib.AbstractContextManager[None]:
        return self.address.errors(f"stream {self.stream!r}", "key")

    def close(self) -> None:
        if self.client is not None:
            with contextlib.suppress(Exception):
                self.client.close()


class StreamSource(_Stream, QueueSource):
    """A stream as a consumer group's source."""

    counts = True
    group: str
    consumer: str | None
    rejected: str | None
    deletes: bool
    keep_every_s: float  # a third of claim_after_s

    def open(self, prefetch: int, task_index: int) -> None:
        self._me = (self.stream, self.group, f"{self.consumer}/{task_index}")
        self._cursor, self._claim_at_s = b"0-0", 0.0
        with self.errors():
            self.client = self.address.own_client(is_single=True)
            self.client.set_response_callback("XAUTOCLAIM", lambda reply, **_: reply)  # redis-py drops its cursor
            try:
                self.client.xgroup_create(self.stream, self.group, id="0", mkstream=True)
            except imported("redis", "redis").ResponseError as error:
                if "BUSYGROUP" not in str(error):
                    raise
            # If there are more, the others are claimed when they have been idle.
            own = self.client.xpending_range(self.stream, self.group, "-", "+", 10_000, self._me[2])
        self._due = deque(row["message_id"] for row in own)  # pending for this consumer, and to be delivered again
        self._held = set(self._due)  # delivered or due

    def receive(self, limit: int, wait_s: float) -> Sequence[Delivery]:
        with self.errors():
            if time.monotonic() >= self._claim_at_s:
                self._claim_idle(limit)
            if self._due:
                return self._deliver_again([self._due.popleft() for _ in range(min(limit, len(self._due)))])
            wait_ms = round(wait_s * 1000) or None  # BLOCK 0 waits forever
            found = self.client.xreadgroup(*self._me[1:], {self.stream: ">"}, count=limit, block=wait_ms)
        entries = found[0][1] if found else []
        self._held.update(id for id, _ in entries)
        return [self._delivery(id, fields, 1) for id, fields in entries]

    def acknowledge(self, handles: Sequence[Any]) -> None:
        with self.errors():
            if self.deletes:  # first: a pending entry that is deleted is acknowledged later, one that is left is not
                self.client.xdel(self.stream, *handles)
            self.client.xack(self.stream, self.group, *handles)
        self._held.difference_update(handles)

    def release(self, handles: Sequence[Any], delay_s: float) -> None:
        self._due.extend(handles)

    def reject(self, handles: Sequence[Any]) -> None:
        if self.rejected is not None:
            with self.errors(), self.client.pipeline(transaction=False) as pipeline:
                for id in handles:
                    pipeline.xrange(self.stream, id, id)
                for _, fields in (entry for entries in pipeline.execute() for entry in entries):
                    pipeline.xadd(self.rejected, fields)
                pipeline.execute()
        self.acknowledge(handles)

    def keep(self, handles: Sequence[Any]) -> None:
        with self.errors():
            self.client.xclaim(*self._me, 0, handles, justid=True)

    def lag(self) -> int | None:
        with self.errors():
            groups = self.client.xinfo_groups(self.stream)
        return next((one.get("lag") for one in groups if one["name"] == self.group.encode()), None)  # Redis 7

    def _claim_idle(self, limit: int) -> None:
        """Take over entries of consumers that are gone, from one part of all pending entries."""
        options = (round(self.keep_every_s * 3000), self._cursor, "COUNT", limit, "JUSTID")
        self._cursor, ids, *_ = self.client.execute_command("XAUTOCLAIM", *self._me, *options)
        self._due.extend(id for id in ids if id not in self._held)
        self._held.update(ids)
        if self._cursor == b"0-0":
            self._claim_at_s = time.monotonic() + self.keep_every_s

    def _deliver_again(self, ids: Sequence[bytes]) -> list[Delivery]:
        """Claim entries anew, less those that another consumer has taken over, and those deleted from the stream."""
        with self.client.pipeline(transaction=False) as pipeline:
            for id in ids:
                pipeline.xpending_range(self.stream, self.group, id, id, 1, self._me[2])
            mine = {rows[0]["message_id"]: rows[0]["times_delivered"] + 1 for rows in pipeline.execute() if rows}
        entries = dict(self.client.xclaim(*self._me, 0, list(mine))) if mine else {}
        self._held.difference_update(id for id in ids if id not in entries)
        if gone := [id for id in mine if id not in entries]:
            self.client.xack(self.stream, self.group, *gone)
        return [self._delivery(id, entries[id], count) for id, count in mine.items() if id in entries]

    def _delivery(self, id: bytes, fields: Mapping[bytes, bytes], deliveries: int) -> Delivery:
        others = {name.decode(errors="replace"): value for name, value in fields.items() if name != self.field}
        if self.field in fields:
            return Delivery(fields[self.field], id, id.decode(), deliveries, others)
        problem = f"the entry has no field {self.field.decode()!r}; it has {', '.join(map(repr, others))}"
        return Delivery(repr(others).encode(), id, id.decode(), deliveries, others, problem)


class StreamSink(_Stream, Sink):
    """A stream as a sink."""

    max_length: int | None

    def open(self) -> None:
        self.client = self.address.own_client()

    def write(self, messages: Sequence[SinkMessage]) -> None:
        with self.errors(), self.client.pipeline(transaction=False) as pipeline:
            for message in messages:
                pipeline.xadd(self.stream, {self.field: message.data}, maxlen=self.max_length)
            pipeline.execute()
