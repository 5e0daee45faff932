"""Spout API of transactional topologies: three kinds of spouts, each with a coordinator and emitters.

=============================================  ===================================================================
TransactionalSpout                             the same batch for the same txid, always; metadata of your own
PartitionedTransactionalSpout                  the same, read from partitions; metadata is stored for you
OpaquePartitionedTransactionalSpout            a replayed batch can differ: for sources that can lose a partition
=============================================  ===================================================================

The coordinator runs in one task, the emitters in as many tasks as the builder is given. Each task gets its own copy of
the spout and asks it for a coordinator or an emitter. Metadata is any value that a tuple can carry: plain values,
lists, dicts, tuples.

Emit rows as declared: ``outputs = ["line"]``, ``collector.emit([line])``. The attempt that is passed to the emitter is
put before each row by the framework. If the first declared field is ``"attempt"``, the rows contain the attempt.
"""

from __future__ import annotations  # pure

from collections.abc import Mapping
from typing import Any, TypeVar

from tupletree._signatures import check_calls
from tupletree.attempt import TransactionAttempt
from tupletree.component import Component, TopologyContext
from tupletree.errors import TopologyError
from tupletree.transactional.bolts import BatchCollector

Part = TypeVar("Part")


class SpoutCoordinator:
    """Base class of all coordinators."""

    def is_ready(self) -> bool:
        """True if a new batch can begin. Called often while another batch fits, so be quick. Not called for replays."""
        return True

    def lag(self) -> Mapping[str, Any] | None:
        """Return the amount of unread data in the source as a few metrics for people, for example ``{"bytes": 123}``.

        Shown by ``tupletree describe`` and ``monitor``. Called about once a second from another thread, also while
        another method runs: must be quick and must not change anything. None means unknown.
        """
        return None

    def close(self) -> None:
        """Called on orderly shutdown."""


class TransactionCoordinator(SpoutCoordinator):
    """The coordinator of a TransactionalSpout: defines the batch of each transaction.

    ``begins_together``: true if several transactions may begin at once: ``is_ready`` and ``initialize_transaction`` are
    then called for the next one before the batch of this one is emitted.
    """

    begins_together: bool = True

    def initialize_transaction(self, txid: int, previous: Any) -> Any:
        """Return the metadata of a transaction that begins for the first time.

        The metadata is stored durably and passed to every emitter for every attempt. It must suffice to emit the same
        batch again. ``previous``: the metadata of the preceding transaction, None for the first transaction. Raise
        FailedException if no transaction can begin now; the method is then called again later.
        """
        raise NotImplementedError


class TransactionEmitter:
    """An emitter of a TransactionalSpout."""

    def emit_batch(self, attempt: TransactionAttempt, metadata: Any, collector: BatchCollector) -> None:
        """Emit this task's share of a batch: for the same txid always the same tuples.

        FailedException fails the attempt.
        """
        raise NotImplementedError

    def cleanup_before(self, txid: int) -> None:
        """Forget all transactions below ``txid``: none of them will be requested again."""

    def close(self) -> None:
        """Called on orderly shutdown."""


class CommittingEmitter(TransactionEmitter):
    """An emitter that takes part in the commit phase. Its spout has the marker ``Committer`` (bolts.py)."""

    def commit(self, attempt: TransactionAttempt) -> None:
        """Commit an attempt whose batch this emitter object emitted. Called in the commit phase, in txid order.

        If the emitter that emitted the batch no longer exists, the attempt fails instead. The method can be called
        again for the same txid with a later attempt. FailedException fails the attempt.
        """
        raise NotImplementedError


class TransactionalSpoutBase(Component):
    """Common base of the three kinds of spouts; provides ``outputs``."""

    is_built_in: bool = False  # part of the library: bolts without outputs do not see the attempt (attempt_field.py)


class TransactionalSpout(TransactionalSpoutBase):
    """A source that defines its own batches and replays the same tuples for the same txid."""

    def coordinator(self, conf: Mapping[str, Any], context: TopologyContext) -> TransactionCoordinator:
        """Return the coordinator; called once in the coordinating task."""
        raise NotImplementedError

    def emitter(self, conf: Mapping[str, Any], context: TopologyContext) -> TransactionEmitter:
        """Return an emitter; called once in each emitting task. A CommittingEmitter takes part in commits."""
        raise NotImplementedError


class PartitionCoordinator(SpoutCoordinator):
    """The coordinator of a partitioned spout."""

    def num_partitions(self) -> int:
        """Return the current number of partitions. Called for every new batch; the number can grow, but never shrink.

        Partitions are numbered from 0.
        """
        raise NotImplementedError

    def has_more(self, partition: int, newest: Any) -> bool:
        """True if a partition has tuples after those of its newest batch.

        ``newest``: the stored metadata of the newest batch, None if the partition has had no batch yet. While no
        partition has more, no batch begins: an exhausted source stays quiet instead of emitting empty batches. A few
        empty batches are still possible, because batches in flight can have no stored metadata yet. Called as often as
        ``is_ready``. If a subclass overrides this method, each call costs a read of the store.
        """
        return True


class PartitionEmitter:
    """An emitter of a PartitionedTransactionalSpout.

    Of n emitting tasks, number i is asked for partitions i, i + n, i + 2n, …
    """

    def emit_partition_batch_new(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: int, previous: Any
    ) -> Any:
        """Emit a new batch of one partition and return metadata that suffices to emit exactly these tuples again.

        Returning None is an error, unless nothing was emitted. ``previous``: the metadata of the partition's preceding
        batch, None for its first batch. FailedException fails the attempt.
        """
        raise NotImplementedError

    def emit_partition_batch(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: int, metadata: Any
    ) -> None:
        """Emit a batch again: exactly the tuples for which ``metadata`` was returned, in the same order.

        A different number of tuples, or different tuples, is detected and fails the attempt with an error.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Called on orderly shutdown."""


class PartitionedTransactionalSpout(TransactionalSpoutBase):
    """A source with partitions that can each replay an exact range, as Kafka or a file can."""

    def coordinator(self, conf: Mapping[str, Any], context: TopologyContext) -> PartitionCoordinator:
        """Return the coordinator; called once in the coordinating task."""
        raise NotImplementedError

    def emitter(self, conf: Mapping[str, Any], context: TopologyContext) -> PartitionEmitter:
        """Return an emitter; called once in each emitting task."""
        raise NotImplementedError


class OpaquePartitionEmitter:
    """An emitter of an OpaquePartitionedTransactionalSpout. Partitions are assigned as for PartitionEmitter."""

    def emit_partition_batch(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: int, previous: Any
    ) -> Any:
        """Emit a batch that begins where the preceding batch ended; return the metadata from which the next begins.

        ``previous``: the metadata returned for the preceding transaction, None for the partition's first batch. A
        replay gets the same ``previous`` and need not emit the same tuples. If the partition is unavailable, emit
        nothing and return ``previous``. Returning None is an error, unless nothing was emitted. FailedException fails
        the attempt.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Called on orderly shutdown."""


class OpaquePartitionedTransactionalSpout(TransactionalSpoutBase):
    """A source with partitions that always continues where the last batch ended, but cannot replay batches exactly.

    Every tuple takes part in exactly one committed batch. Values must follow the opaque rule (``OpaqueMap``).
    """

    def coordinator(self, conf: Mapping[str, Any], context: TopologyContext) -> PartitionCoordinator:
        """Return the coordinator; called once in the coordinating task."""
        raise NotImplementedError

    def emitter(self, conf: Mapping[str, Any], context: TopologyContext) -> OpaquePartitionEmitter:
        """Return an emitter; called once in each emitting task."""
        raise NotImplementedError


def checked_part(kind: type[Part], made: object, spout: TransactionalSpoutBase, context: TopologyContext) -> Part:
    """Check and return the object that ``coordinator`` or ``emitter`` of a user's spout returned.

    Raises:
        TopologyError: the object is not of the expected class, or one of its methods cannot be called (_signatures.py).
    """
    if isinstance(made, kind):
        check_calls(f"component {context.component_id!r}", context.component_id, made)
        return made
    method = "emitter" if kind.__name__.endswith("Emitter") else "coordinator"
    raise TopologyError(
        f"component {context.component_id!r}: {method} of {type(spout).__name__} returned {made!r}; "
        f"an object of a subclass of {kind.__name__} was expected",
        component=context.component_id,
    )
