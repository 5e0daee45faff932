"""Objects shared by the threads of a worker: the inbox of an executor, and the gate, which closes tasks to senders.

Everything else in a worker is used by one thread at a time.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Container, Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from tupletree._wire.packed import unpack_u32
from tupletree.tuples import Origin

from ..core.batches import EncodedBatch, Rows, decode
from .loads import Loads

ACKERS = -1
"""Pseudo-task that stands for the ackers at the gate; every tracking spout feeds it."""

BACKLOG = -2
"""Pseudo-task that stands for the backlog of updates to the ackers at the gate; every bolt feeds it."""


def behind(task: int) -> int:
    """Return the pseudo-task that stands for the route to a task at the gate.

    The route is closed while the task's worker is unreachable, or while too much output waits to be sent to it.
    Congestion of the task itself does not close the route.
    """
    return BACKLOG - task


def not_reached(tasks: Iterable[int]) -> frozenset[int]:
    """Return these tasks and the pseudo-tasks of the routes to them, for the gate."""
    return frozenset(number for task in tasks if task > 0 for number in (task, behind(task)))


class Gate:
    """The tasks that must not be fed now, because they are congested or unreachable.

    ``closed`` is replaced as a whole, so that readers need no lock. Several sources (inboxes, peer workers) close tasks
    independently of each other; a task is open when no source closes it. ``loads``: how loaded the tasks are, whether
    open or not.
    """

    def __init__(self, on_change: Callable[[], None]) -> None:
        self.closed: frozenset[int] = frozenset()
        self.loads = Loads()
        self._by_source: dict[Hashable, frozenset[int]] = {}
        self._lock = threading.Lock()
        self._on_change = on_change

    def set(self, source: Hashable, tasks: Iterable[int]) -> None:
        """Set the tasks that ``source`` closes."""
        wanted = frozenset(tasks)
        with self._lock:
            if self._by_source.get(source, frozenset()) == wanted:
                return
            if wanted:
                self._by_source[source] = wanted
            else:
                self._by_source.pop(source, None)
            self.closed = frozenset().union(*self._by_source.values())
        self._on_change()

    def closed_by(self, source: Hashable) -> frozenset[int]:
        """Return the tasks that ``source`` closes now."""
        return self._by_source.get(source, frozenset())


@dataclass(frozen=True, slots=True)
class RemoteBatch:
    """A batch from another worker, checked but not yet decoded."""

    message: EncodedBatch
    origin: Origin
    divided: Divided | None = None  # where its rows are for several executors

    @property
    def rows(self) -> Rows:
        """The decoded rows. Raises ProtocolError if the batch is malformed."""
        return decode(self.message, self.origin)

    def count_of(self, tasks: Container[int]) -> int:
        """Number of rows for some tasks."""
        if self.divided is None:
            return int(self.message.rows)
        return sum(target in tasks for target in unpack_u32(self.message.targets))

    def rows_of(self, tasks: Container[int]) -> list[tuple[int, Rows]]:
        """The decoded rows for some tasks, by task. Raises ProtocolError if the batch is malformed."""
        assert self.divided is not None
        parts = self.divided.of(self)
        return [(target, rows) for target, rows in parts if target in tasks]


class Divided:
    """The rows of a batch for tasks of several executors: decoded once, by the first of these that comes to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parts: list[tuple[int, Rows]] | None = None

    def of(self, batch: RemoteBatch) -> list[tuple[int, Rows]]:
        """Return the rows of a batch by task. Any thread. Raises ProtocolError if the batch is malformed."""
        with self._lock:
            if self._parts is None:
                self._parts = batch.rows.by_target()
            return self._parts


class Inbox:
    """Queue of items for one executor, in order of arrival per sender.

    Above ``limit`` rows or ``max_bytes``, the gate closes the executor's tasks; at half of both limits the tasks open
    again. No item is ever refused or dropped: senders hold their items while the gate is closed. So an inbox holds at
    most the limit plus the items already under way at the closing. Rows count until they are processed. The bytes of an
    item count until the owner asks for the next item. ``news``: the control messages that wait, to be looked at only.
    """

    def __init__(self, tasks: Iterable[int], limit: int, gate: Gate, max_bytes: int = 1 << 62) -> None:
        self.rows = 0
        self.executed = 0  # rows since the start
        self._put_bytes = 0  # since the start, counted by the senders, under the lock
        self._gone_bytes = 0  # since the start, counted by the owner
        self.wake: Callable[[], None] = lambda: None
        self.tasks = frozenset(tasks)
        self._limit = limit
        self._max_bytes = max_bytes
        self._gate = gate
        self._is_closed = False
        self._items: deque[tuple[Any, int]] = deque()  # with the size of each in bytes
        self._taken_bytes = 0  # of the item that the owner is working on
        self.news: deque[Any] = deque()
        self._forward: Callable[[Any, int], None] | None = None  # takes the items, once the executor was divided
        self._forward_news: Callable[[Any], None] | None = None
        self._lock = threading.Lock()

    def __bool__(self) -> bool:
        return bool(self._items or self.news)

    @property
    def bytes(self) -> int:
        """Approximate size of the waiting items and of the item that the owner is working on."""
        return self._put_bytes - self._gone_bytes

    @property
    def is_congested(self) -> bool:
        """True while senders are asked to hold their items."""
        return self._is_closed

    def put(self, item: Any, rows: int, size: int = 0) -> None:
        """Append an item with its number of rows and its approximate size in bytes. Any thread."""
        with self._lock:
            if self._forward is not None:
                self._forward(item, size)
                return
            self._items.append((item, size))
            self.rows += rows
            self._put_bytes += size
            if not self._is_closed and (self.rows > self._limit or self.bytes > self._max_bytes):
                self._is_closed = True
                self._gate.set(self, self.tasks)
        self.wake()

    def put_news(self, news: Any) -> None:
        """Append a control message, which is handled before all items, even while the gate is closed. Any thread."""
        with self._lock:
            if self._forward_news is not None:
                self._forward_news(news)
                return
            self.news.append(news)
        self.wake()

    def forward(self, put: Callable[[Any, int], None], put_news: Callable[[Any], None]) -> None:
        """Pass on all items and control messages, also later ones, and be empty from now on. The owning thread only."""
        with self._lock:
            for item, size in self._items:
                put(item, size)
            for news in self.news:
                put_news(news)
            self._items.clear()
            self.news.clear()
            self._forward, self._forward_news = put, put_news
            self.rows = self._put_bytes = self._gone_bytes = self._taken_bytes = 0
            self._is_closed = False
            self._gate.set(self, ())

    def pop_news(self) -> Any | None:
        """Remove and return the oldest control message, or return None. The owning thread only."""
        try:
            return self.news.popleft()
        except IndexError:
            return None

    def pop(self) -> Any | None:
        """Remove and return the oldest item, or return None. Owning thread only; ``done`` reports processed rows."""
        try:
            item, size = self._items.popleft()
        except IndexError:
            item, size = None, 0
        self._gone_bytes += self._taken_bytes
        self._taken_bytes = size
        if self._is_closed:
            with self._lock:
                self._open_if_there_is_room()
        return item

    def items(self) -> list[Any]:
        """Return the waiting items, oldest first. The owning thread only."""
        with self._lock:
            return [item for item, _ in self._items]

    def done(self, rows: int, executed: int | None = None) -> None:
        """Stop counting these rows of an item that ``pop`` returned: they have been processed.

        ``executed``: the rows that were executed, if these are others. Some are put aside, and executed later.
        """
        with self._lock:
            self.rows -= rows
            self.executed += rows if executed is None else executed
            self._open_if_there_is_room()

    def _open_if_there_is_room(self) -> None:
        if self._is_closed and self.rows <= self._limit // 2 and self.bytes <= self._max_bytes // 2:
            self._is_closed = False
            self._gate.set(self, ())
