"""The collectors that components are handed: how a spout or a bolt emits, acks and fails.

They stand apart from ``component.py`` because those of a worker are compiled where a C compiler is at hand, and a
compiled class needs a compiled base (docs/adr/0016). Users import them from ``tupletree.component``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tupletree.tuples import Tuple


class SpoutCollector:
    """How a spout emits. Handed to ``open``; to be used on the spout's own thread only."""

    def emit(self, values: Sequence[Any], msg_id: Any = None, stream: str = "default") -> tuple[int, ...]:
        """Emit a tuple and return the ids of the tasks that receive it.

        With a ``msg_id`` the tuple is tracked: ``ack(msg_id)`` or ``fail(msg_id)`` is called later on this very task,
        exactly once for each emit while the task lives. Without, or with ``topology.acker.executors: 0``, nothing is
        tracked; in the latter case ``ack(msg_id)`` is called before ``emit`` returns.

        Raises:
            EmitError: the stream is not declared, is direct, or the number of values is not that of its fields.
        """
        raise NotImplementedError

    def emit_many(self, rows: Iterable[Sequence[Any]], msg_ids: Iterable[Any] | None = None) -> int:
        """Emit many tuples on the default stream, each with its own message id; return how many."""
        raise NotImplementedError

    def emit_direct(self, task: int, values: Sequence[Any], msg_id: Any = None, stream: str = "default") -> None:
        """Emit to one task on a stream declared direct.

        Raises:
            EmitError: the stream is not direct, or the task does not subscribe to it by a direct grouping.
        """
        raise NotImplementedError

    def report_error(self, error: BaseException) -> None:
        """Show an error in ``tupletree errors`` and go on."""
        raise NotImplementedError

    @property
    def pending(self) -> int:
        """How many tracked tuples of this task have neither been acked nor failed."""
        raise NotImplementedError


class BoltCollector:
    """How a bolt emits, acks and fails. Handed to ``prepare``.

    Every tuple a bolt receives must be acked or failed, now or later; one that is not fails at its message timeout.
    To be used on the bolt's own thread only.
    """

    def emit(
        self, values: Sequence[Any], anchors: Tuple | Sequence[Tuple] | None = None, stream: str = "default"
    ) -> tuple[int, ...]:
        """Emit a tuple and return the ids of the tasks that receive it.

        ``anchors``: the input tuples whose trees the new tuple joins (one, several, or none: unanchored). Emit before
        acking the anchors.

        Raises:
            EmitError: the stream is not declared, is direct, or the number of values is not that of its fields.
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
        """Emit many tuples with the same anchors; return how many. As so many calls of ``emit``."""
        raise NotImplementedError

    def emit_combined(self, rows: Iterable[Sequence[Any]], inputs: Sequence[Tuple], stream: str = "default") -> int:
        """Emit tuples that were made of many inputs together, and settle these inputs in time; return how many tuples.

        The tuples form a tree of their own, which this task begins as a spout does. Once it is complete, the inputs are
        acked; if it fails, times out, or is lost with an acker or a worker, they are failed. So an input is acked only
        after all that was made of it was processed, as with ``anchors=inputs``, but a tuple costs what one of a single
        anchor does. Do not ack or fail the inputs yourself. Inputs may go into several such trees, say one for each
        stream, before the first can be complete, which is within one ``execute``.

        What the inputs waited here and what the new tree takes must fit into ``topology.message.timeout.secs``
        together. Inputs that nobody tracks, or tuples that nobody receives, are settled at once.

        Raises:
            EmitError: as ``emit``.
        """
        raise NotImplementedError

    def ack_many(self, tuples: Sequence[Tuple]) -> None:
        """Ack each of these tuples."""
        raise NotImplementedError

    def ack(self, tup: Tuple) -> None:
        """Say that this bolt is done with a tuple. A second ack of the same tuple changes nothing."""
        raise NotImplementedError

    def fail(self, tup: Tuple) -> None:
        """Fail every tree the tuple is part of: the spouts replay their tuples at once."""
        raise NotImplementedError

    def reset_timeout(self, tup: Tuple) -> None:
        """Start the message timeout of the tuple's trees again: for long work."""
        raise NotImplementedError

    def report_error(self, error: BaseException) -> None:
        """Show an error in ``tupletree errors`` and go on."""
        raise NotImplementedError


class BasicCollector:
    """How a basic bolt emits: every tuple is anchored to the input."""

    def emit(self, values: Sequence[Any], stream: str = "default") -> tuple[int, ...]:
        """Emit a tuple anchored to the input and return the ids of the tasks that receive it.

        Raises:
            EmitError: the stream is not declared, is direct, or the number of values is not that of its fields.
        """
        raise NotImplementedError

    def emit_many(self, rows: Iterable[Sequence[Any]], stream: str = "default") -> int:
        """Emit many tuples anchored to the input; return how many.

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
        """Show an error in ``tupletree errors`` and go on."""
        raise NotImplementedError
