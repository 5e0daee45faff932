"""Where the threads of a worker meet: the queue of one executor, and the gate that says which tasks may be fed.

Everything else in a worker is touched by one thread at a time.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import Any

ACKERS = -1
"""Stands for the ackers in the gate, as if they were a task that every tracking spout feeds."""

BACKLOG = -2
"""Stands for what waits to be sent to the ackers, as if it were a task that every bolt feeds."""


def behind(task: int) -> int:
    """Stands for the way to a task, as if it were a task too: closed while the task's worker cannot be reached or too
    much waits to be sent there, and not because the task is congested."""
    return BACKLOG - task


def not_reached(tasks: Iterable[int]) -> frozenset[int]:
    """These tasks and the ways to them, for the gate."""
    return frozenset(number for task in tasks if task > 0 for number in (task, behind(task)))


class Gate:
    """The tasks that must not be fed now: congested, or not reachable.

    ``closed`` is replaced as a whole, so that a reader needs no lock. Several sources (an inbox, a peer worker) close
    tasks independently of each other; a task is open when none of them closes it.
    """

    def __init__(self, on_change: Callable[[], None]) -> None:
        self.closed: frozenset[int] = frozenset()
        self._by_source: dict[Hashable, frozenset[int]] = {}
        self._lock = threading.Lock()
        self._on_change = on_change

    def set(self, source: Hashable, tasks: Iterable[int]) -> None:
        """Let ``source`` close exactly these tasks."""
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
        """What ``source`` closes now."""
        return self._by_source.get(source, frozenset())


class Inbox:
    """The items that wait for one executor, in order of arrival for each sender.

    Above ``limit`` rows, or ``most_bytes``, its tasks are closed at the gate; at half of both they open again. Nothing
    is ever refused or dropped: senders hold what they have when they see the gate. So an inbox holds at most that, and
    what was under way when it was closed. Rows count until they are processed; the bytes of an item, until the owner
    asks for the next one.
    """

    def __init__(self, tasks: Iterable[int], limit: int, gate: Gate, max_bytes: int = 1 << 62) -> None:
        self.rows = 0
        self._put_bytes = 0  # since the start, counted by the senders, under the lock
        self._gone_bytes = 0  # since the start, counted by the owner
        self.wake: Callable[[], None] = lambda: None
        self._tasks = frozenset(tasks)
        self._limit = limit
        self._max_bytes = max_bytes
        self._gate = gate
        self._is_closed = False
        self._items: deque[tuple[Any, int]] = deque()  # with the bytes of each
        self._taken_bytes = 0  # of the item that the owner works on
        self._news: deque[Any] = deque()
        self._lock = threading.Lock()

    def __bool__(self) -> bool:
        return bool(self._items or self._news)

    @property
    def bytes(self) -> int:
        """About how many bytes wait, with those of the item that the owner works on."""
        return self._put_bytes - self._gone_bytes

    @property
    def has_news(self) -> bool:
        """Whether there is news."""
        return bool(self._news)

    @property
    def is_congested(self) -> bool:
        """Whether senders are asked to hold."""
        return self._is_closed

    def put(self, item: Any, rows: int, size: int = 0) -> None:
        """Append an item that counts for so many rows and about so many bytes. Any thread."""
        with self._lock:
            self._items.append((item, size))
            self.rows += rows
            self._put_bytes += size
            if not self._is_closed and (self.rows > self._limit or self.bytes > self._max_bytes):
                self._is_closed = True
                self._gate.set(self, self._tasks)
        self.wake()

    def tell(self, news: Any) -> None:
        """Append what does not wait behind the items, nor for a gate: how trees ended. Any thread."""
        self._news.append(news)
        self.wake()

    def take_news(self) -> Any | None:
        """The oldest news, or None. The owning thread only."""
        try:
            return self._news.popleft()
        except IndexError:
            return None

    def take(self) -> Any | None:
        """The oldest item, or None. The owning thread only; ``done`` says when its rows are processed."""
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

    def done(self, rows: int) -> None:
        """Rows of a taken item have been processed and no longer count."""
        with self._lock:
            self.rows -= rows
            self._open_if_there_is_room()

    def _open_if_there_is_room(self) -> None:
        if self._is_closed and self.rows <= self._limit // 2 and self.bytes <= self._max_bytes // 2:
            self._is_closed = False
            self._gate.set(self, ())
