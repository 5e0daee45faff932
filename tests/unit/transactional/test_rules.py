"""The rules of stored values: each transaction takes effect once, whoever writes, fails, replays, or comes late."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tupletree.attempt import TransactionAttempt
from tupletree.errors import FailedException, StaleAttemptError, UsageError
from tupletree.transactional.databases.contract import Row
from tupletree.transactional.databases.memory import MemoryDatabase
from tupletree.transactional.maps import OpaqueMap, TransactionalMap
from tupletree.transactional.streams import MAX_GROUP

A = TransactionAttempt


@pytest.fixture
def database() -> MemoryDatabase:
    return MemoryDatabase()


@pytest.fixture
def counts(database: MemoryDatabase) -> OpaqueMap:
    return OpaqueMap(database, "counts")


def rows(values: OpaqueMap | TransactionalMap) -> dict[str, Row]:
    return values.database.read(values.table)


def test_transactional_a_replay_is_skipped_and_returns_what_is_stored(database: MemoryDatabase) -> None:
    counts = TransactionalMap(database, "counts")
    assert counts.add(A(3, 10), {"man": 1, "dog": 1}) == {"man": 1, "dog": 1}
    assert counts.add(A(4, 11), {"man": 2}) == {"man": 3}
    assert counts.add(A(4, 12), {"man": 2, "dog": 1}) == {"man": 3, "dog": 2}
    assert rows(counts) == {"man": Row(4, 3), "dog": Row(4, 2)}


def test_transactional_nothing_is_written_if_one_key_is_of_a_later_transaction(database: MemoryDatabase) -> None:
    counts = TransactionalMap(database, "counts")
    counts.add(A(5, 10), {"man": 1})
    with pytest.raises(
        StaleAttemptError, match=r"table 'counts': transaction 4 .* key 'man' was changed by transaction 5"
    ):
        counts.add(A(4, 9), {"dog": 1, "man": 1})
    assert counts.items() == {"man": 1}


def test_transactional_in_groups_a_replay_of_a_transaction_before_the_stored_one_is_skipped(
    database: MemoryDatabase,
) -> None:
    counts = TransactionalMap(database, "counts", in_groups=True)
    for txid in (1, 2, 3):
        counts.add(A(txid, txid), {"man": 1, f"dog {txid}": 1})
    assert counts.add(A(2, 9), {"man": 1, "dog 2": 1, "cat": 1}) == {"man": 3, "dog 2": 1, "cat": 1}
    assert rows(counts)["man"] == Row(3, 3)
    counts.add(A(MAX_GROUP + 3, 99), {"man": 1})
    with pytest.raises(StaleAttemptError, match=f"key 'man' was changed by transaction {MAX_GROUP + 3}"):
        counts.add(A(3, 100), {"man": 1})


def test_opaque_a_replay_starts_from_the_previous_value(counts: OpaqueMap) -> None:
    counts.add(A(1, 1), {"man": 4})
    counts.add(A(2, 2), {"man": 2})
    assert rows(counts) == {"man": Row(2, 6, 4, True)}
    assert counts.add(A(2, 3), {"man": 5}) == {"man": 9}
    assert rows(counts) == {"man": Row(2, 9, 4, True)}


def test_opaque_what_a_failed_attempt_wrote_alone_is_taken_back(counts: OpaqueMap) -> None:
    """Storm's rule would count foo and fresh of attempt 2: the replay has neither."""
    counts.add(A(1, 1), {"foo": 1, "bar": 1})
    counts.add(A(2, 2), {"foo": 10, "fresh": 10})
    counts.add(A(2, 3), {"bar": 10})
    assert rows(counts) == {"foo": Row(1, 1), "bar": Row(2, 11, 1, True)}
    counts.add(A(3, 4), {"foo": 1, "fresh": 1})
    assert counts.items() == {"foo": 2, "bar": 11, "fresh": 1}


def test_opaque_an_update_without_keys_takes_back_and_marks(counts: OpaqueMap) -> None:
    counts.add(A(1, 1), {"foo": 1})
    assert counts.add(A(1, 2), {}) == {}
    assert counts.items() == {}
    with pytest.raises(StaleAttemptError):
        counts.add(A(1, 1), {"bar": 1})
    assert counts.items() == {}


def test_opaque_other_tasks_of_the_new_attempt_take_nothing_back(counts: OpaqueMap) -> None:
    counts.add(A(1, 1), {"foo": 1, "bar": 1})
    counts.add(A(1, 2), {"foo": 2})
    counts.add(A(1, 2), {"bar": 2})
    counts.add(A(1, 2), {"foo": 2})
    assert counts.items() == {"foo": 2, "bar": 2}


@pytest.mark.parametrize("late", [A(1, 9), A(2, 1)])
def test_opaque_an_attempt_older_than_the_mark_writes_nothing(counts: OpaqueMap, late: TransactionAttempt) -> None:
    counts.add(A(2, 2), {"foo": 1})
    with pytest.raises(StaleAttemptError, match="is over, since transaction 2"):
        counts.add(late, {"foo": 1, "bar": 1})
    assert counts.items() == {"foo": 1}


def test_opaque_a_table_that_another_rule_wrote_is_one_clear_error(database: MemoryDatabase) -> None:
    TransactionalMap(database, "counts").add(A(2, 1), {"foo": 1})
    with pytest.raises(UsageError, match=r"table 'counts': .* a table belongs to one rule"):
        OpaqueMap(database, "counts").add(A(2, 2), {"foo": 1})


def test_an_update_that_changes_its_argument_in_place_leaves_the_previous_value_alone(counts: OpaqueMap) -> None:
    def append(old: list[int] | None) -> list[int]:
        old = old or []
        old.append(len(old))
        return old

    counts.update(A(1, 1), {"seen": append})
    counts.update(A(2, 2), {"seen": append})
    assert counts.update(A(2, 3), {"seen": append}) == {"seen": [0, 1]}
    assert rows(counts) == {"seen": Row(2, [0, 1], [0], True)}


def test_a_stored_null_is_a_value_and_is_restored_as_one(counts: OpaqueMap) -> None:
    counts.update(A(1, 1), {"foo": lambda old: None})
    counts.add(A(2, 2), {"foo": 1})
    counts.add(A(2, 3), {})
    assert counts.items() == {"foo": None}


def test_a_stale_attempt_fails_its_batch() -> None:
    assert issubclass(StaleAttemptError, FailedException)


KEYS = "abcdef"
Content = Mapping[str, int]


@dataclass(frozen=True)
class Try:
    """One attempt: what it does to each key, by how many tasks, and which of them get to write before it fails."""

    content: Content
    tasks: int
    writers: tuple[int, ...]
    stragglers: tuple[tuple[int, int], ...]
    """After each write, who else writes: how many attempts ago it was made (0: this one), and as which task."""


def part(content: Content, tasks: int, task: int) -> Content:
    return {key: amount for key, amount in content.items() if KEYS.index(key) % tasks == task % tasks}


contents = st.dictionaries(st.sampled_from(KEYS), st.integers(1, 9), max_size=4)
tries = st.builds(
    Try,
    content=contents,
    tasks=st.integers(1, 3),
    writers=st.lists(st.integers(0, 2), max_size=3).map(tuple),
    stragglers=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2)), max_size=2).map(tuple),
)
transactions = st.lists(st.lists(tries, min_size=1, max_size=4), min_size=1, max_size=5)


def play(values: OpaqueMap | TransactionalMap, history: list[list[Try]]) -> None:
    """Run a history: of each transaction the last try commits, all others write a part. Checks after every commit."""
    made: list[tuple[TransactionAttempt, Try]] = []
    truth: dict[str, int] = {}
    for txid, attempts in enumerate(history, 1):
        for number, attempt in enumerate(attempts):
            committed = number == len(attempts) - 1
            made.append((A(txid, len(made)), attempt))
            for task in range(attempt.tasks) if committed else attempt.writers:
                values.add(made[-1][0], part(attempt.content, attempt.tasks, task))
                for ago, straggler in attempt.stragglers:
                    write_late(values, made, ago, straggler)
        for key, amount in attempts[-1].content.items():
            truth[key] = truth.get(key, 0) + amount
        assert values.items() == truth
    for ago in range(len(made)):
        for task in range(3):
            write_late(values, made, ago, task)
    assert values.items() == truth


def write_late(
    values: OpaqueMap | TransactionalMap, made: list[tuple[TransactionAttempt, Try]], ago: int, task: int
) -> None:
    """A worker that does not know that its attempt is over writes, or one writes twice since a reply was lost."""
    attempt, what = made[max(0, len(made) - 1 - ago)]
    before = values.items()
    try:
        values.add(attempt, part(what.content, what.tasks, task))
    except StaleAttemptError:
        assert values.items() == before


@given(transactions)
def test_opaque_every_transaction_takes_effect_once_with_the_contents_that_committed(history: list[list[Try]]) -> None:
    play(OpaqueMap(MemoryDatabase(), "counts"), history)


@given(transactions)
def test_transactional_every_transaction_takes_effect_once(history: list[list[Try]]) -> None:
    identical = [[Try(attempts[0].content, t.tasks, t.writers, t.stragglers) for t in attempts] for attempts in history]
    play(TransactionalMap(MemoryDatabase(), "counts"), identical)
