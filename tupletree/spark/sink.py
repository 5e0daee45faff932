"""What a pipeline's result goes to. A sink takes a batch in two steps:

1.  ``stage``, in the processing phase, several batches at once: run the Spark job and put its rows where nobody sees
    them yet, or keep them.
2.  ``commit``, in the commit phase, one batch after the other in the order of the txids: make them visible, atomically
    and durably, together with the note that this txid was.

``commit`` may be called again for a txid that it was called for already: after a crash between the commit and its
record, and where another sink of the same pipeline failed. So each commit must find out by the sink's own note whether
its txid is in already:

* **Transactional rule** (``scope.is_opaque`` False; the batch has the same rows at each replay): if the note is of this
  txid, there is nothing left to do. A note of a higher txid says that the progress of the pipeline was deleted, or
  that another pipeline writes here: StaleAttemptError.
* **Opaque rule** (the rows may differ): if the note is of this txid and an older attempt, what that attempt did is
  taken back first; if it is of this very attempt there is nothing left to do; if it is of a newer one,
  StaleAttemptError. Every commit takes part, with no rows if the batch has none.

The rules are argued in tupletree/transactional/rules.py.

Errors of all methods: UnavailableError, or FailedException, if it may work later (the database is away, the disk is
full): the attempt fails and is tried again, without end. Any other exception counts against ``pipeline.max.attempts``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tupletree.attempt import TransactionAttempt

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class SinkScope:
    """What a sink works in.

    Attributes:
        transactional_id: of the pipeline; what a sink writes belongs to one pipeline.
        is_opaque: whether a replayed batch may have other rows.
        spark: the session, classic or Spark Connect.
    """

    transactional_id: str
    is_opaque: bool
    spark: SparkSession


class Sink:
    """A sink of a pipeline. Copied to the pipeline's task by pickling: connections are made in ``open``."""

    @property
    def target(self) -> str:
        """What no two sinks of a pipeline may share, since each would find the other's notes; empty: nothing."""
        return ""

    def open(self, scope: SinkScope) -> None:
        """Called once before the first ``stage``, on any thread. What a dead driver has staged may be removed here."""

    def stage(self, attempt: TransactionAttempt, result: DataFrame) -> Any:
        """Run the job; return what ``commit`` needs. Visible to nobody. On a thread of the batch's own.

        May be called again for the same txid with a newer attempt, also while the older one still runs.
        """
        raise NotImplementedError

    def commit(self, attempt: TransactionAttempt, staged: Any) -> None:
        """Make what was staged visible, once for each txid. ``staged``: what ``stage`` returned for this attempt."""
        raise NotImplementedError

    def discard(self, attempt: TransactionAttempt, staged: Any) -> None:
        """An attempt is over: remove what it has staged, as far as that is easy. ``staged``: None if that failed."""

    def close(self) -> None:
        """Called on an orderly end."""
