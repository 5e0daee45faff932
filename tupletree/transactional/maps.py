"""Tables of values that transactions update, each transaction once, by the rules of rules.py.

    counts = TransactionalMap(SqliteDatabase("counts.db"), "words")

    class UpdateCounts(BatchBolt, Committer):
        def finish_batch(self):
            counts.add(self.batch_id, self.partial)

A map may be used by many tasks, in one process or in several.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from tupletree.attempt import TransactionAttempt
from tupletree.errors import UsageError
from tupletree.transactional import rules
from tupletree.transactional.databases.contract import Changes, Database, JsonValue, View
from tupletree.transactional.databases.encoding import check_keys, check_table


class _ValueMap:
    """A table and the rule of its updates. It may be copied and pickled: it holds the database and a name.

    Keys are str. Values are what JSON carries. Any method raises UnavailableError if the database is away.

    Reads may see what a transaction did that is not committed everywhere yet, and that an opaque replay takes back.
    """

    _rule: rules.Rule

    def __init__(self, database: Database, table: str) -> None:
        if not isinstance(database, Database):
            raise UsageError(f"{type(self).__name__}: a database such as SqliteDatabase was expected, not {database!r}")
        self.database = database
        self.table = check_table(table)

    def add(self, attempt: TransactionAttempt, amounts: Mapping[str, float]) -> dict[str, JsonValue]:
        """Add to the numbers stored under the keys, where nothing is stored to 0; return the sums. See ``update``."""
        return self.update(attempt, {key: self._adding(key, amount) for key, amount in amounts.items()})

    def update(self, attempt: TransactionAttempt, updates: Mapping[str, rules.Update]) -> dict[str, JsonValue]:
        """Apply functions to the values under the keys, in one transaction of the database; return the new values.

        A function gets the value before this transaction, None if there is none, and returns the one after it. It may
        be called more than once and does nothing else.

        To be called when the batch commits (``finish_batch`` of a committer), with everything that this task's part of
        the batch does to its keys: of two updates of one key by one attempt only one counts.

        Raises:
            StaleAttemptError: the attempt is over. It fails the batch, as nobody waits for it. Nothing is written.
            UnavailableError: the database is away. The update may have happened or not; a replay finds out.
            UsageError: a key is no str, or a value is nothing that JSON carries.
        """
        if not isinstance(attempt, TransactionAttempt):
            raise UsageError(f"table {self.table!r}: an update is made by a TransactionAttempt, not {attempt!r}")
        check_keys(self.table, updates)
        values: dict[str, JsonValue] = {}

        def decide(view: View) -> Changes:
            nonlocal values
            changes, values = self._rule(self.table, attempt, updates, view)
            return changes

        self.database.apply(self.table, decide)
        return values

    def get(self, keys: Collection[str]) -> dict[str, JsonValue]:
        """The values under those of the keys that have one."""
        if isinstance(keys, str):
            raise UsageError(f"table {self.table!r}: get takes several keys, get_one takes {keys!r}")
        check_keys(self.table, keys)
        return {key: row.value for key, row in self.database.read(self.table, keys).items()}

    def get_one(self, key: str, default: JsonValue = None) -> JsonValue:
        """The value under a key, or ``default``."""
        return self.get([key]).get(key, default)

    def items(self) -> dict[str, JsonValue]:
        """The whole table."""
        return {key: row.value for key, row in self.database.read(self.table).items()}

    def _adding(self, key: str, amount: float) -> Callable[[JsonValue], JsonValue]:
        if not _is_number(amount):
            raise UsageError(f"table {self.table!r}, key {key!r}: a number can be added, {amount!r} cannot")

        def add(old: JsonValue) -> JsonValue:
            if old is not None and not _is_number(old):
                raise UsageError(f"table {self.table!r}, key {key!r}: {amount!r} cannot be added to {old!r}")
            return (old or 0) + amount

        return add


class TransactionalMap(_ValueMap):
    """Values for batches that are identical at each replay: those of a transactional or partitioned spout."""

    _rule = staticmethod(rules.transactional)


class OpaqueMap(_ValueMap):
    """Values for batches that may differ at each replay: those of an opaque spout. Fit for the others too, at a price.

    Keeps the value before the last transaction with each row, and takes back what a failed attempt wrote.

    **Every commit must update the map, with an empty dict if the batch has nothing for it**, in at least one task. So
    call ``add`` or ``update`` in every ``finish_batch``, without an ``if``: what a failed attempt of the batch wrote is
    taken back by the first update of the next one.
    """

    _rule = staticmethod(rules.opaque)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
