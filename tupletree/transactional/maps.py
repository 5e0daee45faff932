"""Tables of values on which every transaction takes effect exactly once, by the rules of rules.py.

    counts = TransactionalMap(SqliteDatabase("counts.db"), "words")

    class UpdateCounts(BatchBolt, Committer):
        def finish_batch(self):
            counts.add(self.batch_id, self.partial)

Many tasks, in one or several processes, can share a map.
"""

from __future__ import annotations  # pure

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from tupletree.attempt import TransactionAttempt
from tupletree.errors import UsageError
from tupletree.transactional import rules
from tupletree.transactional.databases.contract import Changes, Database, JsonValue, Key, View
from tupletree.transactional.databases.encoding import check_table, decode_key, encode_key

K = TypeVar("K", bound=Key)


class _ValueMap:
    """A table and its update rule. A map can be copied and pickled: it holds only the database and the table name.

    Keys are str, or tuples of str and int such as ``("/login", 304)``, which a database stores as the text
    ``tuple:["/login",304]``; that text itself is no key. Values are anything that JSON can represent. Every method
    raises UnavailableError if the database cannot be reached.

    Reads can see the effects of a transaction that is not yet committed everywhere. An opaque replay can undo them.
    """

    _rule: rules.Rule

    def __init__(self, database: Database, table: str) -> None:
        if not isinstance(database, Database):
            raise UsageError(f"{type(self).__name__}: a database such as SqliteDatabase was expected, not {database!r}")
        self.database = database
        self.table = check_table(table)

    def add(self, attempt: TransactionAttempt, amounts: Mapping[K, float]) -> dict[K, JsonValue]:
        """Add to the numbers stored under the keys (0 if there is none) and return the sums. See ``update``."""
        return self.update(attempt, {key: self._adding(key, amount) for key, amount in amounts.items()})

    def update(self, attempt: TransactionAttempt, updates: Mapping[K, rules.Update]) -> dict[K, JsonValue]:
        """Apply functions to the values under the keys, in one transaction of the database; return the new values.

        A function gets the value before this transaction (None if there is none) and returns the value after it. It
        can be called more than once and must have no side effects.

        Call this method when the batch commits (``finish_batch`` of a committer). Pass everything that this task's
        part of the batch does to its keys: if one attempt updates a key twice, only one update counts.

        Raises:
            StaleAttemptError: the attempt is over. Nothing is written, and the error fails the batch.
            UnavailableError: the database cannot be reached. The update happened or did not; a replay handles both.
            UsageError: a key is neither a str nor a tuple of str and int, or JSON cannot represent a value.
        """
        if not isinstance(attempt, TransactionAttempt):
            raise UsageError(f"table {self.table!r}: the attempt is {attempt!r}; a TransactionAttempt was expected")
        keys = {encode_key(self.table, key): key for key in updates}
        encoded = {text: updates[key] for text, key in keys.items()}
        values: dict[str, JsonValue] = {}

        def decide(view: View) -> Changes:
            nonlocal values
            changes, values = self._rule(self.table, attempt, encoded, view)
            return changes

        self.database.apply(self.table, decide)
        return {keys[text]: value for text, value in values.items()}

    def get(self, keys: Collection[K]) -> dict[K, JsonValue]:
        """Return the stored values of the keys. Keys without a value are left out."""
        if isinstance(keys, str):
            raise UsageError(f"table {self.table!r}: get takes a collection of keys; use get_one for the key {keys!r}")
        encoded = {encode_key(self.table, key): key for key in keys}
        return {encoded[text]: row.value for text, row in self.database.read(self.table, encoded.keys()).items()}

    def get_one(self, key: Key, default: JsonValue = None) -> JsonValue:
        """Return the value of a key, or ``default``."""
        return self.get([key]).get(key, default)

    def items(self) -> dict[Any, JsonValue]:
        """Return the whole table."""
        return {decode_key(text): row.value for text, row in self.database.read(self.table).items()}

    def _adding(self, key: Key, amount: float) -> Callable[[JsonValue], JsonValue]:
        if not _is_number(amount):
            raise UsageError(f"table {self.table!r}, key {key!r}: {amount!r} is not a number and cannot be added")

        def add(old: JsonValue) -> JsonValue:
            if old is not None and not _is_number(old):
                raise UsageError(f"table {self.table!r}, key {key!r}: {amount!r} cannot be added to {old!r}")
            return (old or 0) + amount

        return add


class TransactionalMap(_ValueMap):
    """Values for batches that are replayed identically, as by a transactional or partitioned spout.

    ``in_groups``: true for a GroupCommitter. An update of a transaction is then skipped also if a later transaction has
    changed the key; the returned value is that after the later one.
    """

    def __init__(self, database: Database, table: str, *, in_groups: bool = False) -> None:
        super().__init__(database, table)
        if in_groups:
            self._rule = rules.transactional_in_groups

    _rule: rules.Rule = staticmethod(rules.transactional)

    @property
    def is_for_groups(self) -> bool:
        """True if the map was made for a GroupCommitter."""
        return self._rule is rules.transactional_in_groups


class OpaqueMap(_ValueMap):
    """Values for batches that can differ at each replay, as those of an opaque spout.

    An OpaqueMap also works with the other kinds of spouts, but costs more: each row keeps its value before the last
    transaction, so that the writes of a failed attempt can be undone.

    **Every commit must update the map in at least one task, with an empty dict if the batch changes nothing.** So call
    ``add`` or ``update`` unconditionally in every ``finish_batch``: the first update of the next attempt undoes the
    writes of a failed attempt.
    """

    _rule = staticmethod(rules.opaque)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
