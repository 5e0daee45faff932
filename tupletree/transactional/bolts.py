"""What a user writes to process batches: batch bolts, committers, and the collector that they emit with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tupletree.attempt import TransactionAttempt
from tupletree.component import Component, TopologyContext
from tupletree.tuples import Tuple


class BatchCollector:
    """How a batch bolt, or the emitter of a transactional spout, emits.

    The first value of every tuple is the attempt that its batch belongs to. There is nothing to anchor and nothing to
    ack. To be used on the component's own thread, and only until ``finish_batch`` or ``emit_batch`` returns.
    """

    def emit(self, values: Sequence[Any], stream: str = "default") -> tuple[int, ...]:
        """Emit a tuple of the batch and return the ids of the tasks that receive it.

        Raises:
            EmitError: the first value is not the attempt of this batch, the batch is finished, the stream is not
                declared or is direct, or the number of values is not that of its fields.
        """
        raise NotImplementedError

    def emit_many(self, rows: Iterable[Sequence[Any]], stream: str = "default") -> int:
        """Emit many tuples of the batch; return how many."""
        count = 0
        for values in rows:
            self.emit(values, stream)
            count += 1
        return count

    def emit_direct(self, task: int, values: Sequence[Any], stream: str = "default") -> None:
        """Emit to one task on a stream declared direct.

        Raises:
            EmitError: as ``emit``; or the stream is not direct, or the task does not subscribe to it.
        """
        raise NotImplementedError

    def report_error(self, error: BaseException) -> None:
        """Show an error in ``tupletree errors`` and go on."""
        raise NotImplementedError


class BatchBolt(Component):
    """A processing step that sees batches: one instance of it for each batch (and attempt) at each task.

    The object given to the builder is a template. Each batch gets a deep copy of it, so what ``execute`` gathers in
    attributes belongs to that batch alone and is dropped with it. Attributes of the class are shared by all batches:
    right for what is large and never changes, wrong for what is gathered. ``context``, ``collector``, ``batch_id`` and
    ``is_opaque`` (whether a replayed batch may have other tuples) are set before ``prepare`` is called.

    Order of calls: ``prepare``; ``execute`` for each tuple of the batch that comes to this task, in no particular
    order; ``finish_batch`` once they are all there. A batch of which no tuple comes to this task is finished too. A
    batch that fails is dropped without a further call, at any point. Calls for different batches alternate on one
    thread.

    ``FailedException``, from any of these, fails the batch: it is replayed, both phases, under a new attempt, and every
    later batch with it. An UnavailableError (a database that is away) does the same and is reported. Any other
    exception ends the worker; the batch is replayed then as well.

    ``finish_batch`` may run again for a batch that it ran for already. What it does to the world must therefore depend
    on the txid: ``TransactionalMap`` and ``OpaqueMap`` are made for that.
    """

    collector: BatchCollector
    batch_id: TransactionAttempt
    is_opaque: bool = False

    def prepare(
        self, conf: Mapping[str, Any], context: TopologyContext, collector: BatchCollector, batch_id: TransactionAttempt
    ) -> None:
        """Called once for each batch, before anything else."""

    def execute(self, tup: Tuple) -> None:
        """Take one tuple of the batch."""
        raise NotImplementedError

    def finish_batch(self) -> None:
        """Called when the task has every tuple of the batch that is meant for it."""


class Committer:
    """Marks a batch bolt whose ``finish_batch`` belongs to the commit phase.

        class UpdateGlobalCount(BatchBolt, Committer): …

    ``finish_batch`` is then called for one transaction after the other, in the order of their txids: for txid n only
    when n - 1 is committed everywhere. ``set_committer_bolt`` of the builder does the same to a bolt without the mark.
    On a TransactionalSpout the mark says that its emitters commit: each is a CommittingEmitter (spouts.py).
    """
