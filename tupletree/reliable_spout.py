"""ReliableSpout: a subclass only reads its source. The class replays, paces, positions and resumes."""

from __future__ import annotations  # pure

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tupletree._kept_rows import kept_row
from tupletree._replay import Pending, Replay
from tupletree.backoff import FOREVER, RECONNECT, Backoff
from tupletree.errors import UnavailableError
from tupletree.outputs import DEFAULT_STREAM
from tupletree.replaying_spout import ReplayingSpout, is_aligned


@dataclass(frozen=True, slots=True)
class Message:
    """A row, with its id and its position in the source.

    ``id``: passed to ``finished`` when the message is processed, such as a queue's delivery tag. ``position``: where
    ``read`` resumes after this message, such as an offset; any value that a tuple may carry.
    """

    row: Sequence[Any]
    id: Any = None
    position: Any = None
    stream: str = DEFAULT_STREAM


class ReliableSpout(ReplayingSpout):
    """A spout that reads a source and emits each message until it is processed.

        class Lines(ReliableSpout):
            outputs = ["line"]

            def read(self):
                for line in open("lines.txt"):
                    yield [line]

    ``read`` yields a row, or a ``Message`` to give the row an id, a position or a stream, or None if there is nothing
    now. A message that fails is emitted again after the pauses of ``retry``. When ``read`` returns, the source is at
    its end. Each task reads for itself: with several tasks, divide the source by ``self.context.task_index``.

    **At least once.** A spout whose worker died starts again: ``setup``, then ``read``. To resume instead of reading
    everything again, yield messages with positions, save the position in ``commit``, set ``self.position`` to the saved
    position in ``setup``, and let ``read`` begin after ``self.position``. ``commit`` gets the position up to which all
    messages are processed. A source that keeps unacknowledged messages, such as a queue, needs no position: yield
    messages with ids, and acknowledge them in ``finished``.

    **Reconnects.** If ``read`` raises one of ``reconnect_on``, the error is reported, and ``read`` is called again
    after a pause, with ``self.position`` after the processed prefix. Messages in flight are then read again; acks
    and fails of their older copies are ignored. Without positions and ids, rows are counted: the new ``read`` must
    yield the same rows in the same order, and the rows already processed are skipped. Any other exception ends the
    worker.

    **Aligned checkpoints.** The spout is positioned: with positions, or by the number of rows, as above. After a
    reconnect, it goes on behind the last message read, since those in flight are in the checkpoints already; a source
    that has ids alone delivers them again.

    Attributes:
        retry: the number of attempts, by default unlimited, and the pauses between them. Messages whose trees are lost
            with a worker or an acker are emitted again, without counting. See also ``set_retry``, ``set_dead_letters``.
        max_ahead: the maximum number of messages read after the oldest that is not processed. None is read either
            while 100,000 failed ones wait to be emitted again.
        commit_interval_s: the minimum number of seconds between calls of ``commit``.
        reconnect_on: exceptions of ``read`` after which ``read`` is called again.
        reconnect: the pauses before such a call; they restart from the first once a message was read.
        position: where ``read`` resumes; None at the beginning.
    """

    retry: Backoff = FOREVER
    max_ahead: int = 1_000_000
    commit_interval_s: float = 1.0
    reconnect_on: ClassVar[tuple[type[Exception], ...]] = (ConnectionError, TimeoutError, UnavailableError)
    reconnect: Backoff = RECONNECT
    position: Any = None

    _rows: Iterator[Sequence[Any] | Message | None] | None = None
    _is_at_end = False
    _skip = 0  # rows of ``read`` to skip
    _done_before = 0  # rows that were processed before the current generation
    _is_counted = True  # no message had an id or a position
    _last: Any = None  # the position of the last message read
    _read_rows = 0
    _failures = 0
    _resume_s = 0.0
    _committed: Any = None
    _committed_s = 0.0

    def read(self) -> Iterator[Sequence[Any] | Message | None]:
        """Yield the source's rows from ``self.position`` on. Must not block unless ``blocking`` is True."""
        raise NotImplementedError

    def finished(self, id: Any) -> None:
        """Called when a message is processed, or given up: acknowledge it at its source.

        ``id``: the id of the message, or else its number since ``read`` was called, from 0.
        """

    def commit(self, position: Any) -> None:
        """Called with a new position up to which all messages are processed: save it."""

    @property
    def has_read_all(self) -> bool:
        """True if ``read`` has returned. Its messages may still be processed, or have to be emitted again."""
        return self._is_at_end

    @property
    def at_end(self) -> bool:
        """True if ``read`` has returned and all its messages are processed."""
        return self._is_at_end and len(self._replay) == 0

    def next_tuple(self) -> None:
        if self._send_due():
            return
        replay = self._replay if self._kept is None else self._kept
        lane = replay.lane
        if self._committed != lane.position:
            self._commit(self.commit_interval_s)
        if self._is_at_end or not replay.may_read(self.max_ahead):
            return
        if self._failures and self.context.clock() < self._resume_s:
            return
        try:
            if self._rows is None:
                self.position = self._resumes_at
                self._rows = iter(self.read())
            self._read_one(self._rows, replay)
        except self.reconnect_on as error:
            self._lost(error)

    def _read_one(self, rows: Iterator[Sequence[Any] | Message | None], replay: Replay) -> None:
        for read in rows:
            if read is None:
                return
            self._failures = 0
            if self._skip:
                self._skip -= 1
                continue
            self._read_rows += 1
            if not isinstance(read, Message):
                self._send(replay.begin(read[:] if type(read) is list else kept_row(read), DEFAULT_STREAM))  # a copy
            else:
                if read.id is not None or read.position is not None:
                    self._is_counted = False
                if read.position is not None:
                    self._last = read.position
                self._send(replay.begin(kept_row(read.row), read.stream, read.id, read.position))
            if not (self.collector.has_room() and replay.may_read(self.max_ahead)):
                return
        self._is_at_end = True

    @property
    def _resumes_at(self) -> Any:
        """The position after the last message read."""
        return self.position if self._last is None else self._last

    @property
    def _goes_on(self) -> bool:
        """True if a new ``read`` goes on behind the last message: those in flight are in the checkpoints already."""
        return is_aligned(self.context) and (self._is_counted or self._last is not None)

    def _lost(self, error: Exception) -> None:
        """After a pause, read again the messages that are not processed; or go on, where they are in checkpoints."""
        self._failures += 1
        self._resume_s = self.context.clock() + self.reconnect.pause_s(self._failures)
        self.collector.report_error(error)
        if self._goes_on:
            self._rows, self._skip = None, self._read_rows if self._is_counted else 0
            return
        self._commit(0)
        done = self._done_before + self._replay.finished
        self._begin(self.position, done)

    def _begin(self, position: Any, rows: int) -> None:
        """Begin a generation that reads after ``position``, or else skips the first ``rows`` rows."""
        self._replay.reset(position)
        self._rows = None
        self._is_at_end = False
        self.position = self._last = self._committed = position
        self._done_before = self._read_rows = self._skip = rows if self._is_counted else 0

    def _finish(self, pending: Pending) -> None:
        self.finished(pending.id)
        if self._committed != self._replay.lane.position:
            self._commit(self.commit_interval_s)

    def _letter_id(self, pending: Pending) -> Any:
        if type(pending.id) is not int or pending.id != pending.number:
            return pending.id
        position = pending.lane.position_after(pending.number)  # the number begins again with each read
        if position is None:
            return self._done_before + pending.number
        return position if type(position) is int else f"{position!r} of task {self.context.task_index}"

    def _commit(self, interval_s: float) -> None:
        """Commit the position if it is new, and if ``interval_s`` seconds have passed since the last commit."""
        position = self._replay.position
        now_s = self.context.clock()
        if position is None or position == self._committed or now_s - self._committed_s < interval_s:
            return
        self.commit(position)
        self.position = self._committed = position
        self._committed_s = now_s

    def close(self) -> None:
        """Commit the last position. Override ``teardown`` rather than ``close``, or call ``super().close()``."""
        self._commit(0)

    def checkpoint_state(self) -> Any:
        return [self._resumes_at, self._read_rows, self._is_counted]

    def restore_state(self, state: Any) -> None:
        position, rows, self._is_counted = state
        self._begin(position, rows)
