"""Results passed to a user's function, for targets without a sink."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING

from tupletree.attempt import TransactionAttempt
from tupletree.errors import UsageError
from tupletree.spark.sink import Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class ForeachBatch(Sink):
    """Calls ``function(result, txid)`` for each batch, one after the other in the order of the txids.

    The job has already run at the time of the call: ``result`` is persisted until the call returns. The function runs
    in the pipeline's worker, the driver of Spark.

    **The function may be called again for the same txid**, even if the first call did all its work: the worker died
    before the commit was recorded, or another sink of the pipeline failed. If the source is opaque, the rows can then
    be different. The function is called for empty batches too. So the function must make each txid count once: find
    earlier writes by txid and replace them, in one transaction. A table with a column for the txid allows this::

        def save(result, txid):
            with psycopg.connect(URL) as connection:                    # one transaction: all of this or nothing
                connection.execute("DELETE FROM visits WHERE txid = %s", [txid])
                connection.cursor().executemany(
                    "INSERT INTO visits (txid, page, visits) VALUES (%s, %s, %s)",
                    [(txid, row.page, row.visits) for row in result.toLocalIterator()],
                )

        sinks = [ForeachBatch(save)]

    The same works for a file or an object whose name contains the txid and which is overwritten. For values that add up
    (a running total), keep the txid beside the value and add only if the stored txid is lower; that suffices unless the
    source is opaque. Effects that cannot be undone or found again (a mail) happen at least once.

    A worker that is considered dead but still runs can call the function for a txid that its successor has already
    written. The rows are the same, unless the source is opaque: then use a sink that compares attempts.

    The function should raise UnavailableError or FailedException for temporary failures: the batch is then retried
    forever. Any other exception counts against ``pipeline.max.attempts``. The function is pickled and copied to the
    worker, so it must open its own connections.

    Raises UsageError if ``function`` does not take two arguments.
    """

    def __init__(self, function: Callable[[DataFrame, int], object]) -> None:
        if not callable(function):
            raise UsageError(
                f"ForeachBatch: function is {function!r}; a function of a DataFrame and a txid was expected"
            )
        try:
            inspect.signature(function).bind(None, 0)
        except TypeError as error:
            raise UsageError(
                f"ForeachBatch: {_name(function)} does not take two arguments, a DataFrame and a txid: {error}"
            ) from None
        except ValueError:
            pass  # a builtin without a signature
        self._function = function

    def __repr__(self) -> str:
        return f"<ForeachBatch {_name(self._function)}>"

    def stage(self, attempt: TransactionAttempt, result: DataFrame) -> tuple[DataFrame, bool]:
        """Return the result, computed and persisted, and True if it is persisted for this sink alone."""
        is_own = not result.is_cached
        if is_own:
            result = result.persist()
        try:
            result.count()  # runs the job and persists every partition
        except BaseException:
            _release(result, is_own)
            raise
        return result, is_own

    def commit(self, attempt: TransactionAttempt, staged: tuple[DataFrame, bool]) -> None:
        self._function(staged[0], attempt.txid)
        _release(*staged)

    def discard(self, attempt: TransactionAttempt, staged: tuple[DataFrame, bool] | None) -> None:
        if staged is not None:
            _release(*staged)


def _release(result: DataFrame, is_own: bool) -> None:
    if is_own:
        with contextlib.suppress(Exception):  # the session is lost, and with it the persisted data
            result.unpersist()


def _name(function: object) -> str:
    return getattr(function, "__qualname__", repr(function))
