"""Common base of the spouts that emit failed messages again, with dead letters.

A message is emitted again after the pauses of a ``Backoff``. After its last attempt it is *given up*: it is reported as
an error, or emitted on a stream of dead letters, as a tuple whose tree is tracked as well. The message is acked at its
source when the tree of the letter is complete: a letter that fails is emitted again until it is processed. One that
cannot leave the worker, as it is too large or nested too deep, is emitted again without its row.
"""

from __future__ import annotations  # pure

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from tupletree._replay import Pending, Replay
from tupletree._wire.fail_reasons import FailReason
from tupletree.backoff import Backoff
from tupletree.component import Spout, TopologyContext
from tupletree.errors import GivenUpError
from tupletree.outputs import CHECKPOINT_STREAM

LETTER_FIELDS: Final = ("message", "values", "stream", "attempts", "component", "task", "error", "traceback")
"""The fields of a dead letter: the message's id, its row and stream; the failed attempts; the last reason."""

LETTERS: Final = Backoff(first_s=1, factor=2, max_s=60, max_attempts=5)
"""The default retries of a spout with dead letters."""

REFUSED_AT_A_TIME: Final = 100
"""The maximum number of messages that a poll refuses and reports before it returns without a tuple."""


def is_aligned(context: TopologyContext) -> bool:
    """True if the positions of a spout's task are in aligned checkpoints."""
    return bool(context.conf["topology.state.checkpoint.aligned"]) and CHECKPOINT_STREAM in context.targets


class ReplayingSpout(Spout):
    """Emits failed messages again. A subclass begins messages with ``_send`` and implements ``_finish``."""

    retry: Backoff
    dead_letters: str | None = None

    _is_ordered: ClassVar[bool] = True  # false if messages have no positions
    _kept: Replay | None = None
    _given_up: int = 0

    @property
    def _replay(self) -> Replay:
        """The messages of this task. Created on first use: a subclass need not call this class's ``open``."""
        if self._kept is None:
            replay = self._kept = Replay(self.retry, is_ordered=self._is_ordered)
            text = "Failed messages that wait to be emitted again."
            self.context.register_own("spout_waiting_messages", "gauge", text, lambda: replay.waiting)
            text = "Messages given up after their last attempt: dead letters, or reported errors."
            self.context.register_own("spout_given_up_messages", "counter", text, lambda: self._given_up)
        return self._kept

    def _send(self, pending: Pending) -> tuple[int, ...]:
        """Emit a message, or the letter that it has become."""
        row = pending.row
        assert row is not None
        if pending.target is None:
            return self.collector.emit(row, pending, pending.stream)
        self.collector.emit_direct(pending.target, row, pending, pending.stream)
        return (pending.target,)

    def _send_due(self) -> bool:
        """Emit messages whose pause is over, as many as there is room for; return false if there is none."""
        replay = self._replay if self._kept is None else self._kept
        if replay.due_s > self.context.polled_s or replay.due_s == math.inf:  # no clock for each tuple
            return False
        now_s, has_room = self.context.clock(), self.collector.has_room
        pending = replay.pop_due(now_s)
        if pending is None:
            return False
        while pending is not None:
            self._send(pending)
            pending = replay.pop_due(now_s) if has_room() else None
        return True

    def _finish(self, pending: Pending) -> None:
        """Called when a message is processed or given up, once."""
        raise NotImplementedError

    def ack(self, msg_id: Any) -> None:
        """Called by the framework when the tree of a message is complete."""
        self._end(msg_id)

    def _end(self, msg_id: Any) -> None:
        replay = self._replay if self._kept is None else self._kept
        if replay.done(msg_id):
            self._finish(msg_id)

    def fail_because(self, msg_id: Any, reason: FailReason | None) -> None:
        """Called by the framework when a message's tree failed. ``reason``: None if it was lost with a process."""
        pending: Pending = msg_id
        replay = self._replay if self._kept is None else self._kept
        if pending.stream == self.dead_letters:
            if reason is not None and reason.component == self.context.component_id:  # it could not be sent
                pending.row = _without_row(pending.row, reason)
            replay.wait(pending, self.context.clock())  # it is a letter already
        elif replay.failed(pending, reason, self.context.clock()):
            self._give_up(pending)

    def fail(self, msg_id: Any) -> None:
        """Called by the framework when the tree of a message failed."""
        self.fail_because(msg_id, None)

    def _give_up(self, pending: Pending) -> None:
        reason = pending.reason
        assert reason is not None
        self._given_up += 1
        if self.dead_letters is None:
            failed = f"failed {pending.attempts} times" if pending.attempts > 1 else "failed once"
            where = f"component '{reason.component}'" if reason.component else "its tree"
            why = f"{where}: {reason.error or 'failed'}"
            self.collector.report_error(
                GivenUpError(f"message {pending!r} {failed} and is given up; last failure in {why}", why)
            )
            self._end(pending)
            return
        id = self._letter_id(pending)
        pending.row = [
            id if isinstance(id, str | bytes | int) else repr(id), list(pending.row or ()), pending.stream,
            pending.attempts, reason.component, reason.task, reason.error, reason.traceback,
        ]  # fmt: skip
        pending.stream, pending.target = self.dead_letters, None
        self._send(pending)

    def _letter_id(self, pending: Pending) -> Any:
        """Return the id of a message that no other message of the task has, in any life of the task."""
        return pending.id


def _without_row(letter: Sequence[Any] | None, reason: FailReason | None) -> list[Any]:
    """Return a letter without the row of its message, but with the reason."""
    assert letter is not None
    assert reason is not None
    key, _, stream, attempts, component, task, error, traceback = letter
    found = error if error.endswith(reason.error) else f"{error}; a letter with its row: {reason.error}"
    return [key, [], stream, attempts, component, task, found, traceback]
