"""What a user writes to feed a transactional topology: three kinds of spouts, each a coordinator and emitters.

=============================================  ===================================================================
TransactionalSpout                             the same batch for the same txid, always; metadata of your own
PartitionedTransactionalSpout                  the same, read from partitions; the metadata is kept for you
OpaquePartitionedTransactionalSpout            a replayed batch may differ: for sources that may lose a partition
=============================================  ===================================================================

The coordinator runs in one task, the emitters in as many as the builder is told; each task gets its own copy of the
spout and asks it for one or the other. Metadata is whatever travels in a tuple: plain values, lists, dicts, tuples.

Every tuple an emitter emits has the attempt it was given as its first value, so the first declared field is for it:
``outputs = ["attempt", "line"]``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from tupletree._signatures import check_calls
from tupletree.attempt import TransactionAttempt
from tupletree.component import Component, TopologyContext
from tupletree.errors import TopologyError
from tupletree.transactional.bolts import BatchCollector

Part = TypeVar("Part")


class SpoutCoordinator:
    """What every coordinator has."""

    def is_ready(self) -> bool:
        """Whether a new batch may begin. Asked often while there is room for one: must be quick. Replays do not ask."""
        return True

    def lag(self) -> Mapping[str, Any] | None:
        """How far the source is ahead of what was taken from it: a few figures such as ``{"bytes": 123}``, for people.

        Shown by ``tupletree describe`` and ``monitor``. Called about once a second from another thread, also while
        another method runs: must be quick and must not change anything. None: it does not say.
        """
        return None

    def close(self) -> None:
        """Called on an orderly end."""


class TransactionCoordinator(SpoutCoordinator):
    """The coordinator of a TransactionalSpout: decides what the batch of a transaction is."""

    def initialize_transaction(self, txid: int, previous: Any) -> Any:
        """The metadata of a transaction that is begun for the first time.

        It is written down durably and handed to every emitter for every attempt; from it alone they must be able to
        emit the same batch again. ``previous``: the metadata of the transaction before, None for the first.
        FailedException: not now; it is asked again.
        """
        raise NotImplementedError


class TransactionEmitter:
    """One of the emitters of a TransactionalSpout."""

    def emit_batch(self, attempt: TransactionAttempt, metadata: Any, collector: BatchCollector) -> None:
        """Emit this task's share of a batch: for the same txid always the same tuples.

        FailedException fails the attempt.
        """
        raise NotImplementedError

    def cleanup_before(self, txid: int) -> None:
        """No transaction below ``txid`` will be asked for again."""

    def close(self) -> None:
        """Called on an orderly end."""


class CommittingEmitter(TransactionEmitter):
    """An emitter that takes part in the commit phase. Its spout has the mark ``Committer`` (bolts.py)."""

    def commit(self, attempt: TransactionAttempt) -> None:
        """Called in the commit phase, in the order of the txids, for an attempt whose batch this very emitter emitted.

        If that one has gone meanwhile, the attempt fails instead. May be called again for the same txid with a later
        attempt. FailedException fails the attempt.
        """
        raise NotImplementedError


class TransactionalSpoutBase(Component):
    """What the three kinds have in common: ``outputs``."""


class TransactionalSpout(TransactionalSpoutBase):
    """A source whose batches you define yourself: the same tuples for the same txid at every replay."""

    def coordinator(self, conf: Mapping[str, Any], context: TopologyContext) -> TransactionCoordinator:
        """The coordinator; called once in the coordinating task."""
        raise NotImplementedError

    def emitter(self, conf: Mapping[str, Any], context: TopologyContext) -> TransactionEmitter:
        """An emitter; called once in each emitting task. A CommittingEmitter takes part in commits."""
        raise NotImplementedError


class PartitionCoordinator(SpoutCoordinator):
    """The coordinator of a partitioned spout."""

    def num_partitions(self) -> int:
        """How many partitions there are now, numbered from 0. Asked for every new batch; may grow, never shrink."""
        raise NotImplementedError

    def has_more(self, partition: int, newest: Any) -> bool:
        """Whether a partition has tuples beyond those of its newest batch, the metadata of which is ``newest``.

        ``newest`` is what emitters have stored; None: the partition had no batch yet. No batch begins while no
        partition has more, so a source that is exhausted is quiet instead of going on with empty batches. As batches
        may be under way of which nothing is stored yet, a few empty ones may come all the same. Asked as often as
        ``is_ready``; each question costs a look at the store, unless this method is left as it is.
        """
        return True


class PartitionEmitter:
    """An emitter of a PartitionedTransactionalSpout.

    Of n emitting tasks, number i is asked for partitions i, i + n, i + 2n, …
    """

    def emit_partition_batch_new(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: int, previous: Any
    ) -> Any:
        """Emit a new batch of one partition and return its metadata: enough to emit exactly these tuples again.

        None is an error, unless nothing was emitted.
        ``previous``: the metadata of the partition's batch before, None for its first. FailedException fails the
        attempt.
        """
        raise NotImplementedError

    def emit_partition_batch(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: int, metadata: Any
    ) -> None:
        """Emit a batch again: exactly the tuples for which ``metadata`` was returned, in the same order.

        Another number of tuples, or other tuples, is found out and fails the attempt with an error.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Called on an orderly end."""


class PartitionedTransactionalSpout(TransactionalSpoutBase):
    """A source of partitions each of which can replay an exact stretch of itself, as Kafka or a file can."""

    def coordinator(self, conf: Mapping[str, Any], context: TopologyContext) -> PartitionCoordinator:
        """The coordinator; called once in the coordinating task."""
        raise NotImplementedError

    def emitter(self, conf: Mapping[str, Any], context: TopologyContext) -> PartitionEmitter:
        """An emitter; called once in each emitting task."""
        raise NotImplementedError


class OpaquePartitionEmitter:
    """An emitter of an OpaquePartitionedTransactionalSpout. Partitions are shared out as for PartitionEmitter."""

    def emit_partition_batch(
        self, attempt: TransactionAttempt, collector: BatchCollector, partition: int, previous: Any
    ) -> Any:
        """Emit a batch that begins where the one before ended, and return the metadata to begin the next one with.

        ``previous``: what was returned for the transaction before, None for the partition's first. A replay is called
        with the same ``previous`` and need not emit the same tuples. For a partition that is away: emit nothing and
        return ``previous``. None is an error, unless nothing was emitted. FailedException fails the attempt.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Called on an orderly end."""


class OpaquePartitionedTransactionalSpout(TransactionalSpoutBase):
    """A source of partitions that always goes on where the last batch ended, but cannot promise identical replays.

    Every tuple takes part in exactly one committed batch. Values must follow the opaque rule (``OpaqueMap``).
    """

    def coordinator(self, conf: Mapping[str, Any], context: TopologyContext) -> PartitionCoordinator:
        """The coordinator; called once in the coordinating task."""
        raise NotImplementedError

    def emitter(self, conf: Mapping[str, Any], context: TopologyContext) -> OpaquePartitionEmitter:
        """An emitter; called once in each emitting task."""
        raise NotImplementedError


def checked_part(kind: type[Part], made: object, spout: TransactionalSpoutBase, context: TopologyContext) -> Part:
    """What ``coordinator`` or ``emitter`` of a user's spout returned.

    Raises:
        TopologyError: it is not of the kind, or one of its methods cannot be called (_calls.py).
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
