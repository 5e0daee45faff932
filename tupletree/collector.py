"""Collectors: the interface through which spouts and bolts emit, ack and fail.

This module is separate from ``component.py`` because the worker's collectors are compiled if a C compiler is available,
and a compiled class needs a compiled base (docs/adr/0016). Users import collectors from ``tupletree.component``.
"""

from __future__ import annotations  # pure

from collections.abc import Iterable, Sequence
from typing import Any

from tupletree.tuples import Tuple


class SpoutCollector:
    """The output of a spout. Passed to ``open``; use only on the spout's own thread."""

    def emit(self, values: Sequence[Any], msg_id: Any = None, stream: str = "default") -> tuple[int, ...]:
        """Emit a tuple and return the ids of the tasks that receive it.

        With a ``msg_id`` the tuple is tracked: ``ack(msg_id)`` or ``fail(msg_id)`` is called later on the same task,
        exactly once per emit while the task is alive. Without a ``msg_id`` the tuple is not tracked. With
        ``topology.acker.executors: 0`` no tuple is tracked, and ``ack(msg_id)`` is called before ``emit`` returns.

        Raises:
            EmitError: the stream is not declared or is direct, or the number of values differs from that of the fields.
        """
        raise NotImplementedError

    def emit_many(self, rows: Iterable[Sequence[Any]], msg_ids: Iterable[Any] | None = None) -> int:
        """Emit many tuples on the default stream, each with its own message id; return their number."""
        raise NotImplementedError

    def emit_tree(self, rows: Iterable[tuple[str, Sequence[Any]]], msg_id: Any = None) -> int:
        """Emit a message as any number of tuples, which form one tree. Return the number of tuples.

            collector.emit_tree([("words", ["to"]), ("words", ["be"]), ("lines", ["to be"])], msg_id=7)

        ``rows``: the stream and the values of each tuple. ``ack(msg_id)`` or ``fail(msg_id)`` is called once, for all
        of them together. A message without tuples, or whose tuples nobody receives, is acked: after the present call
        of the spout has returned, or with ``topology.acker.executors: 0`` before ``emit_tree`` returns, as by ``emit``.
        Statistics by stream count a message for the stream of its first tuple.

        Nothing is emitted if ``rows`` raises, or if one of its rows is refused.

        Raises:
            EmitError: as ``emit``, for any of the rows.
        """
        raise NotImplementedError

    def emit_direct(self, task: int, values: Sequence[Any], msg_id: Any = None, stream: str = "default") -> None:
        """Emit to one task on a stream declared direct.

        Raises:
            EmitError: the stream is not direct, or the task does not subscribe to it by a direct grouping.
        """
        raise NotImplementedError

    def report_error(self, error: BaseException) -> None:
        """Show an error in ``tupletree errors`` and continue."""
        raise NotImplementedError

    def has_room(self) -> bool:
        """Return true if the present call of ``next_tuple`` may emit more.

        A spout that has many tuples at hand saves calls if it emits until this is false. Emitting once per call, or
        more than there is room for, is right as well: then ``topology.max.spout.pending`` is exceeded by as much.
        """
        return False

    @property
    def pending(self) -> int:
        """The number of tracked tuples of this task that are neither acked nor failed yet."""
        raise NotImplementedError


class BoltCollector:
    """The interface through which a bolt emits, acks and fails. Passed to ``prepare``.

    Every tuple a bolt receives must be acked or failed, now or later; otherwise the tuple fails at its message timeout.
    Use only on the bolt's own thread.
    """

    def emit(
        self, values: Sequence[Any], anchors: Tuple | Sequence[Tuple] | None = None, stream: str = "default"
    ) -> tuple[int, ...]:
        """Emit a tuple and return the ids of the tasks that receive it.

        ``anchors``: the input tuples whose trees the new tuple joins (one, several, or none: unanchored). Emit before
        acking the anchors.

        Raises:
            EmitError: the stream is not declared or is direct, or the number of values differs from that of the fields.
        """
        raise NotImplementedError

    def emit_direct(
        self,
        task: int,
        values: Sequence[Any],
        anchors: Tuple | Sequence[Tuple] | None = None,
        stream: str = "default",
    ) -> None:
        """Emit to one task on a stream declared direct.

        Raises:
            EmitError: the stream is not direct, or the task does not subscribe to it by a direct grouping.
        """
        raise NotImplementedError

    def emit_many(
        self, rows: Iterable[Sequence[Any]], anchors: Tuple | Sequence[Tuple] | None = None, stream: str = "default"
    ) -> int:
        """Emit many tuples with the same anchors; return their number. Equivalent to one ``emit`` per row."""
        raise NotImplementedError

    def emit_combined(self, rows: Iterable[Sequence[Any]], inputs: Sequence[Tuple], stream: str = "default") -> int:
        """Emit tuples derived jointly from many inputs, which are acked or failed later. Return the number of tuples.

        The tuples form a new tree, with this task as its root, as if a spout had emitted them. When the tree is
        complete, the inputs are acked; if the tree fails, times out, or is lost with an acker or a worker, the inputs
        are failed. As with ``anchors=inputs``, an input is acked only after everything derived from it was processed,
        but each tuple costs no more than a tuple with a single anchor. Do not ack or fail the inputs yourself. Inputs
        may be part of several such trees, for example one per stream, if all are emitted within one ``execute``:
        before it returns, no tree can be complete.

        The inputs' waiting time in this task plus the processing time of the new tree must fit into
        ``topology.message.timeout.secs``. If no input is tracked, or no tuple has a receiver, the inputs
        are acked at once.

        Raises:
            EmitError: as ``emit``.
        """
        raise NotImplementedError

    def ack_many(self, tuples: Sequence[Tuple]) -> None:
        """Ack each of these tuples."""
        raise NotImplementedError

    def ack(self, tup: Tuple) -> None:
        """Mark a tuple as processed by this bolt. A second ack of the same tuple has no effect."""
        raise NotImplementedError

    def fail(self, tup: Tuple, error: BaseException | str | None = None) -> None:
        """Fail every tree the tuple is part of; the spouts' ``fail`` is called at once.

        ``error``: the reason, for spouts with retries (``set_retry``) and for their dead letters. A
        ``FailedException(…, retry=False)`` asks for no further attempt.
        """
        raise NotImplementedError

    def reset_timeout(self, tup: Tuple) -> None:
        """Restart the message timeout of the tuple's trees, during long processing."""
        raise NotImplementedError

    def report_error(self, error: BaseException) -> None:
        """Show an error in ``tupletree errors`` and continue."""
        raise NotImplementedError


class BasicCollector:
    """The output of a basic bolt: every tuple is anchored to the input."""

    def emit(self, values: Sequence[Any], stream: str = "default") -> tuple[int, ...]:
        """Emit a tuple anchored to the input and return the ids of the tasks that receive it.

        Raises:
            EmitError: the stream is not declared or is direct, or the number of values differs from that of the fields.
        """
        raise NotImplementedError

    def emit_many(self, rows: Iterable[Sequence[Any]], stream: str = "default") -> int:
        """Emit many tuples anchored to the input; return their number.

        ``rows`` may be any iterable of values; ``zip(words, counts)`` costs less than a list of lists.
        """
        raise NotImplementedError

    def emit_direct(self, task: int, values: Sequence[Any], stream: str = "default") -> None:
        """Emit to one task on a stream declared direct, anchored to the input.

        Raises:
            EmitError: the stream is not direct, or the task does not subscribe to it by a direct grouping.
        """
        raise NotImplementedError

    def report_error(self, error: BaseException) -> None:
        """Show an error in ``tupletree errors`` and continue."""
        raise NotImplementedError
