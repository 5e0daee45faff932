"""Update rules of stored values: every update takes effect once, despite replays and zombie writers.

Let S(n) be the contents of a table after transactions 1 to n have each taken effect once, with the batch contents of
the attempt that committed. Transactions commit in txid order, so at any time only one transaction, n, is writing, to
rows whose values are those of S(n - 1).

**The transactional rule**, for batches that are replayed identically. A row carries its txid. *Invariant: a row of
txid n holds its value in S(n), every other row its value in S(n - 1).* An update by n is applied to a row with a lower
txid. It is skipped if the row's txid is n: another attempt, the same attempt or a zombie has already made the same
update. A row with a higher txid shows that n was committed long ago: StaleAttemptError.

*In groups* (GroupCommitter) a task finishes several transactions before the first of them is known to be committed,
each after it has finished the one before. So a row possibly holds its value in S(m) of a later transaction m, of the
same group or of a group of a replaced coordinator. An update by n is then skipped as well. Every update of a row is
made by a task that has made or skipped those of all earlier transactions, so S(m) contains the update by n.

**The opaque rule**, for batches that can differ at each replay. A row carries its txid and its value before that
transaction; the table carries a mark, the newest attempt that has written. *Invariant, with the mark at (n, a): a row
of txid n holds f(previous), where f is the update by attempt a and previous is the row's value in S(n - 1); every other
row holds its value in S(n - 1).*

    an update by                        does
    an attempt older than the mark      nothing: StaleAttemptError
    a later transaction                 sets the mark; value -> previous, f(value) -> value
    a newer attempt of the mark's txid  restores every row of that txid, then as for a later transaction
    the attempt of the mark             as a later transaction, but f(previous) -> value in rows of its own txid

Each line keeps the invariant. *Older*: a zombie writes late, or was overtaken by its replay; it must leave no trace.
*Later*: n - 1 is committed, so all its committers have written under one attempt, which the mark names. By the
invariant no row holds a write of another attempt. *Newer*: the earlier attempt failed after it possibly wrote some of
its keys, and the replay need not contain these keys. Overwriting the keys of the replay, as Storm does, is therefore
not enough. All writes of the failed attempt, by any task, are undone, and all rows are at S(n - 1). The failed attempt
cannot write again, because the mark has passed it. *Same*: another task with other keys, or the same task again after a
lost reply. In the second case f is the same and starts from previous, so the row does not change.

Requirements on the caller:

1.  Commit in txid order: in ``finish_batch`` of a committer.
2.  Opaque: **every commit updates the table, even with no keys**. If a replay without keys made no update, the writes
    of the failed attempt would stay in the table.
3.  Update each key once per attempt: tasks own disjoint keys (fields grouping), and a task combines all changes of a
    key in the batch before the update.
4.  Use a table for one topology and one rule only.

Then, by the invariant at the last commit, every transaction has taken effect once on each key.
"""

from __future__ import annotations  # pure

import copy
from collections.abc import Callable, Mapping
from typing import NamedTuple

from tupletree.attempt import TransactionAttempt
from tupletree.errors import StaleAttemptError, UsageError
from tupletree.transactional.databases.contract import Changes, JsonValue, Row, View
from tupletree.transactional.streams import MAX_GROUP

Update = Callable[[JsonValue], JsonValue]
"""Maps the value before the transaction (None if there is none) to the value after it.

Must be pure, because it can be called more than once.
"""


class Outcome(NamedTuple):
    """The decision of a rule: the changes to write, and the resulting value of each updated key."""

    changes: Changes
    values: dict[str, JsonValue]


Rule = Callable[[str, TransactionAttempt, Mapping[str, Update], View], Outcome]
"""Decides on an attempt's update of a table. Raises StaleAttemptError if the attempt is over."""


def transactional(
    table: str, attempt: TransactionAttempt, updates: Mapping[str, Update], view: View, *, ahead: int = 0
) -> Outcome:
    """Apply the transactional rule. It neither reads nor sets a mark.

    ``ahead``: the maximum number of later transactions that a row can be ahead of one that is replayed.
    """
    puts: dict[str, Row] = {}
    values: dict[str, JsonValue] = {}
    rows = view.rows(updates)
    for key, update in updates.items():
        row = rows.get(key)
        if row is not None and row.txid > attempt.txid + ahead:
            raise _stale(table, attempt, f"key {key!r} was changed by transaction {row.txid}")
        if row is not None and row.txid >= attempt.txid:
            values[key] = row.value
        else:
            values[key] = _apply(update, row.value if row is not None else None)
            puts[key] = Row(attempt.txid, values[key])
    return Outcome(Changes(puts), values)


def transactional_in_groups(
    table: str, attempt: TransactionAttempt, updates: Mapping[str, Update], view: View
) -> Outcome:
    """Apply the transactional rule to transactions that commit in groups."""
    return transactional(table, attempt, updates, view, ahead=MAX_GROUP - 1)


def opaque(table: str, attempt: TransactionAttempt, updates: Mapping[str, Update], view: View) -> Outcome:
    """Apply the opaque rule. Call this at every commit, with no updates if the batch has none."""
    mark = view.mark()
    if mark is not None and attempt < mark:
        raise _stale(table, attempt, f"{mark} has written it")
    taken_back: dict[str, Row] = {}
    born: set[str] = set()
    if mark is not None and mark.txid == attempt.txid and mark != attempt:
        taken_back, born = _take_back(view.rows_of(attempt.txid))
    rows = {key: row for key, row in view.rows(updates).items() if key not in born} | taken_back
    newest = attempt.txid if mark == attempt else attempt.txid - 1
    puts = dict(taken_back)
    for key, update in updates.items():
        row = rows.get(key)
        if row is not None and row.txid > newest:
            raise UsageError(
                f"table {table!r}: {attempt} finds that transaction {row.txid} has changed key {key!r} without setting"
                " the mark of the opaque rule: a table belongs to one rule"
            )
        puts[key] = _after(row, attempt.txid, update)
    values = {key: puts[key].value for key in updates}
    return Outcome(Changes(puts, born - puts.keys(), attempt if mark != attempt else None), values)


def _take_back(rows: Mapping[str, Row]) -> tuple[dict[str, Row], set[str]]:
    """Return the rows as they were before their transaction, and the keys that the transaction created, to delete."""
    restored = {key: Row(row.txid - 1, row.previous) for key, row in rows.items() if row.has_previous}
    return restored, rows.keys() - restored.keys()


def _after(row: Row | None, txid: int, update: Update) -> Row:
    """Return a row after an update by transaction ``txid``, which can have updated the row already."""
    if row is None:
        return Row(txid, _apply(update, None))
    if row.txid == txid:
        return Row(txid, _apply(update, row.previous), row.previous, row.has_previous)
    return Row(txid, _apply(update, row.value), row.value, has_previous=True)


def _apply(update: Update, value: JsonValue) -> JsonValue:
    """Call the update on a copy: it can change a list or dict in place, and ``previous`` must not change."""
    return update(copy.deepcopy(value) if isinstance(value, list | dict) else value)


def _stale(table: str, attempt: TransactionAttempt, why: str) -> StaleAttemptError:
    return StaleAttemptError(
        f"table {table!r}: {attempt} is over, since {why}. If this persists, another topology writes to the table, or"
        " the progress of this topology was deleted: give this topology a new table"
    )
