"""Rules of maps broken on purpose, which transaction_breaks puts in place."""

from __future__ import annotations

from collections.abc import Mapping

from tupletree.attempt import TransactionAttempt
from tupletree.transactional import rules
from tupletree.transactional.databases.contract import Changes, Row, View
from tupletree.transactional.maps import OpaqueMap, TransactionalMap


def plain(table: str, attempt: TransactionAttempt, updates: Mapping[str, rules.Update], view: View) -> rules.Outcome:
    """An update that does not look at the txid."""
    rows = view.rows(updates)
    values = {key: update(rows[key].value if key in rows else None) for key, update in updates.items()}
    return rules.Outcome(Changes({key: Row(attempt.txid, value) for key, value in values.items()}), values)


def storms_opaque(
    table: str, attempt: TransactionAttempt, updates: Mapping[str, rules.Update], view: View
) -> rules.Outcome:
    """Storm's rule: the keys of the replay are overwritten, those of a dead attempt stay as it left them."""
    rows = view.rows(updates)
    puts = {key: rules._after(rows.get(key), attempt.txid, update) for key, update in updates.items()}
    return rules.Outcome(Changes(puts), {key: row.value for key, row in puts.items()})


def opaque_for_zombies(
    table: str, attempt: TransactionAttempt, updates: Mapping[str, rules.Update], view: View
) -> rules.Outcome:
    """An attempt older than the mark writes as if it were the newest."""
    mark = view.mark()
    newest = mark if mark is not None and attempt < mark and attempt.txid == mark.txid else attempt
    return rules.opaque(table, newest, updates, view)


class PlainMap(TransactionalMap):
    _rule = staticmethod(plain)


class StormsOpaqueMap(OpaqueMap):
    _rule = staticmethod(storms_opaque)


class ZombiesMap(OpaqueMap):
    _rule = staticmethod(opaque_for_zombies)
