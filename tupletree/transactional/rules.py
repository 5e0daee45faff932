"""How an update of a stored value takes effect once, however often it is made, and whoever else still makes it.

Let S(n) be what a table holds after transactions 1 to n have each taken effect once, with the contents of the attempt
that committed. Commits happen in the order of the txids, so at any time only one transaction, n, is writing, to rows
that stand at S(n - 1).

**The transactional rule**, for batches that are identical at each replay. A row carries its txid. *Invariant: a row of
txid n holds S(n), every other holds S(n - 1).* An update by n is applied to a row of a lower txid and skipped where the
row is of n: another attempt, the same one, or a zombie did the same thing already. A row of a higher txid says that n
was committed long ago: StaleAttemptError.

**The opaque rule**, for batches that may differ at each replay. A row carries its txid and the value that it had before
it; the table carries a mark, the newest attempt that has written. *Invariant, with the mark at (n, a): a row of txid n
holds f(previous), where f is what attempt a makes of it and previous is its value in S(n - 1); every other row holds
S(n - 1).*

    an update by                        does
    an attempt older than the mark      nothing: StaleAttemptError
    a later transaction                 sets the mark; value -> previous, f(value) -> value
    a newer attempt of the mark's txid  takes every row of that txid back, then as above
    the attempt of the mark             the same, but f(previous) -> value where the row is of its txid

Why each line keeps the invariant. *Older*: a zombie writes late, or its replay was quicker; it must leave no trace.
*Later*: n - 1 is committed, so all its committers have written, under one attempt, which the mark names; by the
invariant no row has anything of another attempt. *Newer*: an attempt died that may have written some of its keys, and
the replay may not have these keys at all; so it does not suffice, as in Storm, to overwrite the keys of the replay. All
that the dead attempt wrote goes, whichever task wrote it, and the rows stand at S(n - 1). It cannot write again, as the
mark has passed it. *Same*: another task, with other keys; or the same task once more, since the reply was lost: f is
the same and starts from previous, so the row does not change.

What this asks of the caller:

1.  Commits in the order of the txids: ``finish_batch`` of a committer.
2.  Opaque: **every commit updates the table, if only with no keys**. A replay that is silent because it has no keys
    would leave in the table what a dead attempt wrote.
3.  One update for each key and attempt: tasks own disjoint keys (fields grouping), and a task gathers what the batch
    does to a key before it updates.
4.  A table belongs to one topology and to one rule.

Then each key ends with every transaction's effect once: the invariant at the last commit.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import NamedTuple

from tupletree.attempt import TransactionAttempt
from tupletree.errors import StaleAttemptError, UsageError
from tupletree.transactional.databases.contract import Changes, JsonValue, Row, View

Update = Callable[[JsonValue], JsonValue]
"""From the value before the transaction (None: there is none) to the value after it. Pure: it may be called again."""


class Outcome(NamedTuple):
    """What a rule decides: the changes to write, and the value that each key of the update then has."""

    changes: Changes
    values: dict[str, JsonValue]


Rule = Callable[[str, TransactionAttempt, Mapping[str, Update], View], Outcome]
"""Decides about the update of a table by an attempt. Raises StaleAttemptError if the attempt is over."""


def transactional(table: str, attempt: TransactionAttempt, updates: Mapping[str, Update], view: View) -> Outcome:
    """The transactional rule. Neither reads nor sets a mark."""
    puts: dict[str, Row] = {}
    values: dict[str, JsonValue] = {}
    rows = view.rows(updates)
    for key, update in updates.items():
        row = rows.get(key)
        if row is not None and row.txid > attempt.txid:
            raise _stale(table, attempt, f"key {key!r} is of transaction {row.txid}")
        if row is not None and row.txid == attempt.txid:
            values[key] = row.value
        else:
            values[key] = _apply(update, row.value if row is not None else None)
            puts[key] = Row(attempt.txid, values[key])
    return Outcome(Changes(puts), values)


def opaque(table: str, attempt: TransactionAttempt, updates: Mapping[str, Update], view: View) -> Outcome:
    """The opaque rule. To be called by every commit, with no updates if the batch has none."""
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
                f"table {table!r}: {attempt} finds key {key!r} changed by transaction {row.txid}, without the mark of"
                " the opaque rule: a table belongs to one rule"
            )
        puts[key] = _after(row, attempt.txid, update)
    values = {key: puts[key].value for key in updates}
    return Outcome(Changes(puts, born - puts.keys(), attempt if mark != attempt else None), values)


def _take_back(rows: Mapping[str, Row]) -> tuple[dict[str, Row], set[str]]:
    """The rows as they were before their transaction, and the keys that it made and that go again."""
    restored = {key: Row(row.txid - 1, row.previous) for key, row in rows.items() if row.has_previous}
    return restored, rows.keys() - restored.keys()


def _after(row: Row | None, txid: int, update: Update) -> Row:
    """A row after an update by a transaction that may have updated it before."""
    if row is None:
        return Row(txid, _apply(update, None))
    if row.txid == txid:
        return Row(txid, _apply(update, row.previous), row.previous, row.has_previous)
    return Row(txid, _apply(update, row.value), row.value, has_previous=True)


def _apply(update: Update, value: JsonValue) -> JsonValue:
    """Call the function on a copy, since it may change a list or a dict in place and ``previous`` must stay."""
    return update(copy.deepcopy(value) if isinstance(value, list | dict) else value)


def _stale(table: str, attempt: TransactionAttempt, why: str) -> StaleAttemptError:
    return StaleAttemptError(
        f"table {table!r}: {attempt} is over, since {why}. If this goes on, the table was written by another topology,"
        " or the progress of this one was deleted: give it a new table"
    )
