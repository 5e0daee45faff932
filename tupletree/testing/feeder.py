"""FeederSpout: a spout that emits tuples supplied by a test."""

from __future__ import annotations

import uuid
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from tupletree._kept_rows import kept_row
from tupletree.component import Outputs, Spout, SpoutCollector, TopologyContext
from tupletree.errors import UsageError


class _Feed:
    """The state shared by all copies of a FeederSpout."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[Sequence[Any], Any, str]] = deque()
        self.acked: list[Any] = []
        self.failed: list[Any] = []


_feeds: weakref.WeakValueDictionary[str, _Feed] = weakref.WeakValueDictionary()


class FeederSpout(Spout):
    """A spout for tests: emits the tuples passed to ``feed`` and records the acked and failed message ids.

    Submission copies the spout to its tasks. The copies and the original share one feed, so that the test keeps using
    the original object. Works within one process only, that is, in a LocalCluster. Does not replay failed tuples.

    Attributes:
        acked, failed: message ids in the order in which they were acked or failed.
    """

    def __init__(self, outputs: Outputs) -> None:
        self.outputs = outputs  # type: ignore[misc]  # set per instance, unlike in other spouts
        self._key = uuid.uuid4().hex
        self._feed = _Feed()
        _feeds[self._key] = self._feed

    def __getstate__(self) -> dict[str, Any]:
        return {"outputs": self.outputs, "_key": self._key}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        feed = _feeds.get(self._key)
        if feed is None:
            raise UsageError("a FeederSpout works only in the process that made it: use it with LocalCluster")
        self._feed = feed

    def feed(self, values: Sequence[Any], msg_id: Any = None, stream: str = "default") -> None:
        """Queue a tuple to be emitted by one of the tasks. Callable from any thread, before or after submission."""
        self._feed.waiting.append((kept_row(values), msg_id, stream))  # what is no row is refused by the emit

    @property
    def acked(self) -> list[Any]:
        """The message ids acked so far, oldest first."""
        return list(self._feed.acked)

    @property
    def failed(self) -> list[Any]:
        """The message ids failed so far, oldest first."""
        return list(self._feed.failed)

    @property
    def is_drained(self) -> bool:
        """True if every queued tuple has been emitted."""
        return not self._feed.waiting

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutCollector) -> None:
        self.collector = collector

    def next_tuple(self) -> None:
        try:
            values, msg_id, stream = self._feed.waiting.popleft()
        except IndexError:
            return
        self.collector.emit(values, msg_id, stream)

    def ack(self, msg_id: Any) -> None:
        self._feed.acked.append(msg_id)

    def fail(self, msg_id: Any) -> None:
        self._feed.failed.append(msg_id)
