"""Results handed to a function of the user's, for whatever no sink is there for."""

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

    The job has run when it is called: ``result`` is persisted, and is no longer when the call has returned. It runs in
    the pipeline's worker, the driver of Spark.

    **It may be called again for the same txid**, and, after a crash, although the first call did all it had to do: the
    worker died before that was recorded, or another sink of the pipeline failed. If the source is opaque, the rows may
    then be others. It is called for empty batches too. So the function must see to it that a txid counts once: what it
    writes has to be found by its txid and to be replaced, in one transaction. A table with a column for it does::

        def save(result, txid):
            with psycopg.connect(URL) as connection:                    # one transaction: all of this or nothing
                connection.execute("DELETE FROM visits WHERE txid = %s", [txid])
                connection.cursor().executemany(
                    "INSERT INTO visits (txid, page, visits) VALUES (%s, %s, %s)",
                    [(txid, row.page, row.visits) for row in result.toLocalIterator()],
                )

        sinks = [ForeachBatch(save)]

    The same holds for a file or an object whose name has the txid in it and which is overwritten. For values that add
    up (a running total) keep the txid beside the value and add only if it is lower; that suffices unless the source
    is opaque. What cannot be taken back or found again (a mail) happens at least once.

    A worker that is taken for dead and still runs may be in a call for a txid that its successor has long written. It
    has the same rows, unless the source is opaque: then use a sink that compares attempts.

    The function raises UnavailableError or FailedException for what may work later: the batch is tried again, without
    end. Anything else counts against ``pipeline.max.attempts``. It is copied to the worker by pickling, so it opens
    its connections itself.

    Raises UsageError if ``function`` does not take two arguments.
    """

    def __init__(self, function: Callable[[DataFrame, int], object]) -> None:
        if not callable(function):
            raise UsageError(
                f"ForeachBatch: function is {function!r}; one that takes a DataFrame and a txid was expected"
            )
        try:
            inspect.signature(function).bind(None, 0)
        except TypeError as error:
            raise UsageError(
                f"ForeachBatch: {_name(function)} does not take two arguments, a DataFrame and a txid: {error}"
            ) from None
        except ValueError:
            pass  # a builtin that does not say
        self._function = function

    def __repr__(self) -> str:
        return f"<ForeachBatch {_name(self._function)}>"

    def stage(self, attempt: TransactionAttempt, result: DataFrame) -> tuple[DataFrame, bool]:
        """The result, computed and kept; and whether it is kept for this sink alone."""
        is_own = not result.is_cached
        if is_own:
            result = result.persist()
        try:
            result.count()  # runs the job, of which every partition is kept
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
        with contextlib.suppress(Exception):  # the session is lost: so is what it kept
            result.unpersist()


def _name(function: object) -> str:
    return getattr(function, "__qualname__", repr(function))
