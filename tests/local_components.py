"""What tests put into topologies that run in this process: bolts that call a function of the test, and things that stay
one and the same when a component that holds them is copied to its tasks.
"""

from __future__ import annotations

import threading
import uuid
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from tupletree import BasicBolt, Bolt, Tuple
from tupletree.component import BasicCollector, BoltCollector, Outputs, TopologyContext

_kept: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()


def _find(key: str) -> Any:
    return _kept[key]


class Shared:
    """Pickles as a reference: every copy of a component that holds it holds this very object."""

    def __init__(self) -> None:
        super().__init__()
        self._key = uuid.uuid4().hex
        _kept[self._key] = self

    def __reduce__(self) -> Any:
        return _find, (self._key,)


class Log(Shared, list[Any]):
    """A list that all tasks append to."""


class Latch(Shared, threading.Event):
    """An event that tasks wait for or set."""


class Do(Bolt):
    """Calls ``do(tup, collector)`` for each tuple. Without one it acks."""

    def __init__(self, do: Callable[[Tuple, BoltCollector], None] | None = None, outputs: Outputs = ()) -> None:
        self.do = do
        self.outputs = outputs  # type: ignore[misc]

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: BoltCollector) -> None:
        self.collector = collector

    def execute(self, tup: Tuple) -> None:
        if self.do is None:
            self.collector.ack(tup)
        else:
            self.do(tup, self.collector)


class DoBasic(BasicBolt):
    """Calls ``do(tup, collector)`` for each tuple. Without one it does nothing, and so acks."""

    def __init__(self, do: Callable[[Tuple, BasicCollector], None] | None = None, outputs: Outputs = ()) -> None:
        self.do = do
        self.outputs = outputs  # type: ignore[misc]

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        if self.do is not None:
            self.do(tup, collector)


class Keep(Do):
    """Appends (task id, values) of each tuple to a log, and acks it."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self.log = log

    def execute(self, tup: Tuple) -> None:
        self.log.append((self.context.task_id, list(tup.values)))
        self.collector.ack(tup)
