"""The messages of a spout's task until each is processed: in flight, waiting to be emitted again, done.

    begin ----> in flight ----> done
                  |    ^
           failed |    | pop_due, when its pause is over
                  v    |
                 waiting          (given up after the last attempt: the caller decides, and calls ``done``)

**Lanes.** A lane has the messages of one source in their order, such as those of a partition. They end in any order.
``position`` of a lane is the position up to which all its messages are done: a reader that resumes after ``position``
repeats some messages and loses none. A task that reads one source needs one lane only, which is there already. The lane
of a source without positions, such as a queue, has the messages that are not done, and no order: a message that never
ends costs no memory for the later ones.

**Generations.** A lane ends, for example after a reconnect to the source, which then delivers again all messages that
are not done, or when another task takes over its partition. Acks and fails of messages of an ended lane are ignored.
``reset`` begins a new generation: it ends the lane of the task, and begins another.

Messages that wait for equally long pauses form a queue: they are due in the order in which they failed.

A message is in the table before it is emitted, as its ack may come while ``emit`` runs (a topology without ackers).
"""

from __future__ import annotations  # pure

import heapq
import math
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from tupletree._wire.fail_reasons import FailReason
from tupletree.backoff import Backoff

MAX_WAITING: Final = 100_000
"""The number of waiting messages from which on no new ones are read: their rows are stored, and all may fail."""

_FIRST_ATTEMPTS: Final = range(1, 16)


class Lane:
    """The messages of one source, from the oldest that is not done.

    Attributes:
        position: the position up to which all messages are done. May be read by any thread.
        finished: the number of messages in the prefix that is done; 0 in a lane without order.
        is_ordered: false if the source has no positions.
    """

    __slots__ = ("begun", "finished", "is_ordered", "live", "position", "positions")

    def __init__(self, position: Any = None, *, is_ordered: bool = True) -> None:
        self.position = position
        self.is_ordered = is_ordered
        self.finished = 0
        self.begun = 0
        self.live: set[int] = set()  # numbers of messages that are not done
        self.positions: deque[Any] = deque()  # from the first message not done; cheap for the garbage collector

    def __len__(self) -> int:
        """The number of messages from the oldest that is not done to the newest; without order, of those not done."""
        return len(self.positions) if self.is_ordered else len(self.live)

    @property
    def newest(self) -> Any:
        """The position after the newest message."""
        return self.positions[len(self.positions) - 1] if self.positions else self.position

    def skip_to(self, position: Any) -> None:
        """Record that no message comes before a position."""
        if self.positions:
            self.positions[len(self.positions) - 1] = position
        else:
            self.position = position

    def end(self) -> None:
        """Forget all messages. Their acks and fails are ignored."""
        self.live.clear()
        self.positions.clear()


class Pending:
    """A message that is not done.

    ``attempts``: the number that failed. ``target``: the task of a direct emit. ``due_s``: when its pause is over.
    """

    __slots__ = ("attempts", "due_s", "id", "lane", "number", "reason", "row", "stream", "target")

    def __init__(self, number: int, lane: Lane, row: Sequence[Any] | None, stream: str, id: Any) -> None:
        self.target: int | None = None
        self.number = number
        self.lane = lane
        self.row = row
        self.stream = stream
        self.id = id
        self.attempts = 0
        self.due_s = 0.0
        self.reason: FailReason | None = None

    def is_live(self) -> bool:
        """Return true if the message is not done, and its lane has not ended."""
        return self.number in self.lane.live

    def __repr__(self) -> str:
        return repr(self.id)


class Replay:
    """The messages of one task. ``is_ordered``: false if those that are begun without a lane have no positions."""

    def __init__(self, retry: Backoff, *, is_ordered: bool = True) -> None:
        self.retry = retry
        self.lane = Lane(is_ordered=is_ordered)
        """The lane of messages that are begun without one."""
        self.due_s = math.inf
        """When the next message is to be emitted again; infinity if none waits."""
        # A class of the user's own may have pauses that differ each time.
        self._pauses_s = list(map(retry.pause_s, _FIRST_ATTEMPTS)) if type(retry) is Backoff else []
        self._queues: dict[float, deque[Pending]] = {}  # messages that wait, by their pauses
        self._heads: list[tuple[float, float]] = []  # a heap: when the first of each queue is due, and the pause
        self._count = 0  # messages that wait

    def __len__(self) -> int:
        """The length of the lane of messages that are begun without one."""
        return len(self.lane)

    @property
    def position(self) -> Any:
        """The position up to which all messages are done."""
        return self.lane.position

    @property
    def finished(self) -> int:
        """The number of messages in the prefix that is done, in this generation."""
        return self.lane.finished

    def begin(
        self, row: Sequence[Any], stream: str, id: Any = None, position: Any = None, lane: Lane | None = None
    ) -> Pending:
        """Add a message that is about to be emitted. Without an id, the message gets its number, from 0, as id."""
        if lane is None:
            lane = self.lane
        number = lane.begun
        lane.begun = number + 1
        lane.live.add(number)
        if lane.is_ordered:
            lane.positions.append(position)
        return Pending(number, lane, row, stream, number if id is None else id)

    def done(self, pending: Pending) -> bool:
        """Record that a message is processed. Return false if it was done already, or its lane has ended."""
        lane, number = pending.lane, pending.number
        live = lane.live
        if number not in live:
            return False
        pending.row = None
        live.remove(number)
        if number != lane.finished or not lane.is_ordered:
            return True
        positions = lane.positions
        while positions and number not in live:
            position = positions.popleft()
            number += 1
            if position is not None:
                lane.position = position
        lane.finished = number
        return True

    def failed(self, pending: Pending, reason: FailReason | None, now_s: float) -> bool:
        """Record a failed attempt. Return true if the message is to be given up, and false otherwise.

        ``reason``: None if the tree was lost with a worker or an acker. Such a loss is not counted as an attempt,
        however often it happens: the message is emitted again after the pause for its failed attempts, or the first.
        """
        if not pending.is_live():
            return False
        if self.count_attempt(pending, reason):
            return True
        self.wait(pending, now_s)
        return False

    def count_attempt(self, pending: Pending, reason: FailReason | None) -> bool:
        """Count a failed attempt, unless there is no reason. Return true if it was the last one."""
        if reason is None:
            return False
        pending.attempts += 1
        pending.reason = reason
        return not reason.retry or self.retry.is_last(pending.attempts)

    def wait(self, pending: Pending, now_s: float) -> None:
        """Queue a message, to be emitted again after its pause."""
        attempts = max(1, pending.attempts)
        pause_s = self._pauses_s[attempts - 1] if attempts <= len(self._pauses_s) else self.retry.pause_s(attempts)
        pending.due_s = now_s + pause_s
        queue = self._queues.get(pause_s)
        if queue is None:
            queue = self._queues[pause_s] = deque()
            heapq.heappush(self._heads, (pending.due_s, pause_s))
            self._set_due()
        queue.append(pending)
        self._count += 1

    def pop_due(self, now_s: float) -> Pending | None:
        """Remove and return a message whose pause is over."""
        while self.due_s <= now_s:
            pause_s = self._heads[0][1]
            queue = self._queues[pause_s]
            pending = queue.popleft()
            self._count -= 1
            if queue:
                heapq.heapreplace(self._heads, (queue[0].due_s, pause_s))
            else:
                heapq.heappop(self._heads)
                del self._queues[pause_s]
            self._set_due()
            if pending.is_live():
                return pending
        return None

    def may_read(self, max_ahead: int) -> bool:
        """True if another message may be begun without a lane."""
        return len(self.lane) < max_ahead and self._count < MAX_WAITING

    @property
    def waiting(self) -> int:
        """The number of messages that wait to be emitted again."""
        return self._count

    def end(self, lane: Lane) -> None:
        """Forget the messages of a lane."""
        lane.end()
        live = ((pause_s, deque(filter(Pending.is_live, queue))) for pause_s, queue in self._queues.items())
        self._queues = {pause_s: queue for pause_s, queue in live if queue}
        self._count = sum(map(len, self._queues.values()))
        self._heads = [(queue[0].due_s, pause_s) for pause_s, queue in self._queues.items()]
        heapq.heapify(self._heads)
        self._set_due()

    def reset(self, position: Any = None) -> None:
        """Begin a new generation. Its messages are those after ``position``."""
        self.end(self.lane)
        self.lane = Lane(position, is_ordered=self.lane.is_ordered)

    def _set_due(self) -> None:
        self.due_s = self._heads[0][0] if self._heads else math.inf
