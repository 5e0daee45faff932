"""FeederSpout: a spout that a test feeds by hand."""

from __future__ import annotations

import uuid
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from tupletree.component import Outputs, Spout, SpoutCollector, TopologyContext
from tupletree.errors import UsageError


class _Feed:
    """What all copies of a FeederSpout share."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[Sequence[Any], Any, str]] = deque()
        self.acked: list[Any] = []
        self.failed: list[Any] = []


_feeds: weakref.WeakValueDictionary[str, _Feed] = weakref.WeakValueDictionary()


class FeederSpout(Spout):
    """A spout for tests: emits what ``feed`` was given, and keeps the message ids that were acked and failed.

    Submitting copies the spout to its tasks; the copies and the original share one feed, so the test goes on using the
    object it made. Works in one process only, that is, in a LocalCluster. It does not replay what fails.

    Attributes:
        acked, failed: message ids in the order in which they were acked or failed.
    """

    def __init__(self, outputs: Outputs) -> None:
        self.outputs = outputs  # type: ignore[misc]  # an instance says here what other spouts say on their class
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
        """Have a tuple emitted soon, by one of the tasks. Any thread, before or after submitting."""
        self._feed.waiting.append((list(values), msg_id, stream))

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
        """Whether everything fed has been emitted."""
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
