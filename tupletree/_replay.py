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
_FIRST_FLAGS: Final = 64


class Lane:
    """The messages of one source, from the oldest that is not done.

    Attributes:
        position: the position up to which all messages are done. May be read by any thread.
        begun: the number of messages so far.
        finished: the number of messages in the prefix that is done; without order, of those done.
        is_ordered: false if the source has no positions.
        has_ended: true after ``end``.
    """

    __slots__ = ("_flags", "_positions", "begun", "finished", "has_ended", "is_ordered", "position")

    def __init__(self, position: Any = None, *, is_ordered: bool = True) -> None:
        self.position = position
        self.is_ordered = is_ordered
        self.has_ended = False
        self.finished = 0
        self.begun = 0
        # A ring: 1 for each message that is done, from the first that is not. A message may wait for minutes while a
        # million later ones are done: a byte for each stays in the processor's caches, an entry of a set does not.
        self._flags = bytearray(_FIRST_FLAGS)
        # From the first message that is not done; empty as long as none has a position.
        self._positions: deque[Any] = deque()

    def __len__(self) -> int:
        """The number of messages from the oldest that is not done to the newest; without order, of those not done."""
        return self.begun - self.finished

    @property
    def newest(self) -> Any:
        """The position after the newest message."""
        return self._positions[len(self._positions) - 1] if self._positions else self.position

    def position_after(self, number: int) -> Any:
        """Return the position after a message that is not done; None if it has none."""
        return self._positions[number - self.finished] if self._positions else None

    def skip_to(self, position: Any) -> None:
        """Record that no message comes before a position."""
        if self.begun == self.finished:
            self.position = position
            return
        self._fill()
        self._positions[len(self._positions) - 1] = position

    def add(self, position: Any) -> int:
        """Add a message and return its number, from 0."""
        number = self.begun
        if self.is_ordered:
            if position is not None or self._positions:
                self._fill()
                self._positions.append(position)
            size = len(self._flags)
            if number - self.finished == size:
                self._flags = self._flags * 2  # each message is found at its number modulo the new size as well
                size *= 2
            self._flags[number & (size - 1)] = 0
        self.begun = number + 1
        return number

    def finish(self, number: int) -> None:
        """Record that a message is done, once."""
        if not self.is_ordered:
            self.finished += 1
            return
        flags = self._flags
        mask = len(flags) - 1
        if number != self.finished:
            flags[number & mask] = 1
            return
        begun = self.begun
        while True:
            number += 1
            if self._positions:
                position = self._positions.popleft()
                if position is not None:
                    self.position = position
            if number == begun or not flags[number & mask]:
                break
        self.finished = number

    def end(self) -> None:
        """Forget all messages. Their acks and fails are ignored."""
        self.has_ended = True
        self.begun = self.finished
        self._flags = bytearray(_FIRST_FLAGS)
        self._positions.clear()

    def _fill(self) -> None:
        """Add an unknown position of each message, unless they have positions."""
        if not self._positions:
            self._positions.extend([None] * (self.begun - self.finished))


class Pending:
    """A message that is not done.

    ``attempts``: the number that failed. ``target``: the task of a direct emit. ``due_s``: when its pause is over.
    """

    __slots__ = ("_id", "attempts", "due_s", "is_done", "lane", "number", "reason", "row", "stream", "target")

    def __init__(self, number: int, lane: Lane, row: Sequence[Any] | None, stream: str, id: Any) -> None:
        self.target: int | None = None
        self.number = number
        self.lane = lane
        self.row = row
        self.stream = stream
        self._id = id
        self.is_done = False
        self.attempts = 0
        self.due_s = 0.0
        self.reason: FailReason | None = None

    @property
    def id(self) -> Any:
        """The id of the message, by default its number. Not stored then: an object less for each message."""
        return self.number if self._id is None else self._id

    @id.setter
    def id(self, id: Any) -> None:
        self._id = id

    def is_live(self) -> bool:
        """Return true if the message is not done, and its lane has not ended."""
        return not (self.is_done or self.lane.has_ended)

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
        number = lane.add(position)
        return Pending(number, lane, row, stream, id)

    def done(self, pending: Pending) -> bool:
        """Record that a message is processed. Return false if it was done already, or its lane has ended."""
        if not pending.is_live():
            return False
        pending.is_done = True
        pending.row = None
        pending.lane.finish(pending.number)
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
        live = ((pause_s, deque(one for one in queue if one.is_live())) for pause_s, queue in self._queues.items())
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
