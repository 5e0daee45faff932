"""Sinks, which receive the results of a pipeline.

A sink takes a batch in two steps:

1.  ``stage``, in the processing phase, for several batches at once: run the Spark job and write its rows to a place
    that readers do not see, or keep the rows in memory.
2.  ``commit``, in the commit phase, one batch after the other in the order of the txids: make the rows visible,
    atomically and durably, together with a note of the txid.

``commit`` may be called again for the same txid: after a crash between the commit and its record, or after another sink
of the same pipeline failed. So each commit must first compare its txid with the sink's note:

* **Transactional rule** (``scope.is_opaque`` False; the batch has the same rows at each replay): if the note has this
  txid, there is nothing left to do. If the note has a higher txid, the progress of the pipeline was deleted, or another
  pipeline writes here: raise StaleAttemptError.
* **Opaque rule** (the rows may differ): if the note has this txid and an older attempt, the effects of that attempt are
  undone first. If the note has this very attempt, there is nothing left to do. If the note has a newer attempt,
  raise StaleAttemptError. Each batch must be committed, even a batch without rows.

The rules are argued in tupletree/transactional/rules.py.

Errors of all methods: UnavailableError or FailedException for a temporary failure (the database is down, the disk is
full). The attempt then fails and is retried forever. Any other exception counts against ``pipeline.max.attempts``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tupletree.attempt import TransactionAttempt

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class SinkScope:
    """The environment of a sink.

    Attributes:
        transactional_id: the id of the pipeline. The data that a sink writes belongs to one pipeline.
        is_opaque: True if a replayed batch may have different rows.
        spark: the session, classic or Spark Connect.
    """

    transactional_id: str
    is_opaque: bool
    spark: SparkSession


class Sink:
    """A sink of a pipeline. It is pickled and copied to the pipeline's task, so ``open`` makes connections."""

    @property
    def target(self) -> str:
        """The destination of the sink. Two sinks of a pipeline with the same target would find each other's notes.

        Empty if the sink shares nothing with others.
        """
        return ""

    @property
    def opaque_refusal(self) -> str:
        """The reason why the sink cannot follow the opaque rule; empty if it can."""
        return ""

    def open(self, scope: SinkScope) -> None:
        """Called once before the first ``stage``, on any thread. May remove data staged by a dead driver."""

    def stage_positions(self, attempt: TransactionAttempt, positions: Mapping[str, int]) -> None:
        """Called before ``stage``, on the same thread, with what the source says of the batch (``positions_after``)."""

    def stage(self, attempt: TransactionAttempt, result: DataFrame) -> Any:
        """Run the job and return the value that ``commit`` needs. Nothing becomes visible. Runs on the batch's thread.

        May be called again for the same txid with a newer attempt, even while the older attempt still runs.
        """
        raise NotImplementedError

    def commit(self, attempt: TransactionAttempt, staged: Any) -> None:
        """Make the staged rows visible, once per txid. ``staged``: the return value of ``stage`` for this attempt."""
        raise NotImplementedError

    def discard(self, attempt: TransactionAttempt, staged: Any) -> None:
        """Try to remove the staged data of an attempt that is over. ``staged``: None if ``stage`` failed."""

    def close(self) -> None:
        """Called on an orderly shutdown."""
