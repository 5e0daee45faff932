"""Batch processing API: batch bolts, committers, and the collector through which they emit."""

from __future__ import annotations  # pure

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tupletree.attempt import TransactionAttempt
from tupletree.component import Component, TopologyContext, Yielded
from tupletree.tuples import Tuple


class BatchCollector:
    """The collector of a batch bolt or of a transactional spout's emitter.

    Rows have the declared fields. The framework puts the attempt that the batch belongs to before each row, unless the
    component declares ``attempt`` as its first field: then the rows must begin with the attempt. Tuples need no anchors
    and no acks. Use a collector only on the component's own thread, and only until ``finish_batch`` or ``emit_batch``
    returns.
    """

    def emit(self, values: Sequence[Any], stream: str = "default") -> tuple[int, ...]:
        """Emit a tuple of the batch and return the ids of the tasks that receive it.

        Raises:
            EmitError: the number of values is not that of the stream's fields, the stream is not declared or is
                direct, the batch is finished, or the component names the attempt and the first value is not the attempt
                of this batch.
        """
        raise NotImplementedError

    def emit_many(self, rows: Iterable[Sequence[Any]], stream: str = "default") -> int:
        """Emit many tuples of the batch and return their number."""
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
        """Show an error in ``tupletree errors`` and continue."""
        raise NotImplementedError


class BatchBolt(Component):
    """A processing step that works on batches, with one instance per batch attempt and task.

    The object given to the builder is a template. Each batch gets a deep copy, so values that ``execute`` gathers in
    instance attributes belong to that batch alone and are dropped with it. Class attributes are shared by all batches:
    use them for large constant data, never for gathered values. ``context``, ``collector``, ``batch_id`` and
    ``is_opaque`` (true if a replayed batch can contain different tuples) are set before ``prepare`` is called.

    Order of calls: ``prepare``; ``execute`` for each tuple of the batch that reaches this task, in no particular
    order; ``finish_batch`` when all of these tuples have arrived. A batch without tuples for this task gets a call too.
    A failed batch can be dropped at any point, without a further call. Calls for different batches alternate on one
    thread.

    The fields of a received tuple are those that its sender declares, without the attempt. A bolt that declares
    ``attempt`` as its first field sees the attempt as the first value. A bolt without outputs sees the attempt in the
    tuples of senders that declare it, except spouts of the library.

    A ``FailedException`` from any of these methods fails the batch: both its phases, and every later batch, are
    replayed under new attempts. An UnavailableError (a database cannot be reached) does the same and is reported. Any
    other exception ends the worker, and the batch is then replayed as well.

    ``finish_batch`` can run more than once for a batch. Its external side effects must therefore depend on the txid;
    ``TransactionalMap`` and ``OpaqueMap`` take care of this.
    """

    collector: BatchCollector
    batch_id: TransactionAttempt
    is_opaque: bool = False

    def prepare(
        self, conf: Mapping[str, Any], context: TopologyContext, collector: BatchCollector, batch_id: TransactionAttempt
    ) -> None:
        """Called once for each batch, before anything else."""

    def execute(self, tup: Tuple) -> Yielded:
        """Take one tuple of the batch. Rows may be emitted or yielded."""
        raise NotImplementedError

    def finish_batch(self) -> Yielded:
        """Called when the task has received all of its tuples of the batch. Rows may be emitted or yielded."""


class Committer:
    """Marks a batch bolt whose ``finish_batch`` belongs to the commit phase.

        class UpdateGlobalCount(BatchBolt, Committer): …

    ``finish_batch`` is then called for one transaction at a time, in txid order: for txid n only after n - 1 has been
    committed everywhere (a GroupCommitter permits more). The builder's ``set_committer_bolt`` does the same for a bolt
    without the marker. On a TransactionalSpout the marker means that its emitters take part in commits: each is a
    CommittingEmitter (spouts.py).
    """


class GroupCommitter(Committer):
    """Marks a committer whose transactions may commit in groups: many times the rate of small transactions.

        counts = TransactionalMap(SqliteDatabase("counts.db"), "words", in_groups=True)

        class UpdateCounts(BatchBolt, GroupCommitter): …

    ``finish_batch`` is called for one transaction at a time, in txid order: for txid n only after this task has
    finished n - 1. Other tasks possibly have not, and n - 1 is possibly not committed yet. After a failure
    ``finish_batch`` is called again, with the same batches, for transactions that lie up to ``MAX_GROUP`` - 1 before
    the last one that this task has finished. So an update must be skipped if the stored txid is the same **or higher**.
    A TransactionalMap with ``in_groups=True`` does this.

    Transactions commit in groups only if every committer of the topology has this marker, and the spout too if it is a
    Committer. Behind an opaque spout and in the topology of a Pipeline they never do.
    """
