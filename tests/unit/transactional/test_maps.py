"""TransactionalMap and OpaqueMap as a user sees them, on the database in this process."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from typing import Any

import pytest

from tupletree.attempt import TransactionAttempt
from tupletree.errors import UsageError
from tupletree.transactional.databases import MemoryDatabase
from tupletree.transactional.maps import OpaqueMap, TransactionalMap

FIRST = TransactionAttempt(1, 1)


@pytest.fixture(params=[TransactionalMap, OpaqueMap])
def values(request: pytest.FixtureRequest) -> TransactionalMap | OpaqueMap:
    made: TransactionalMap | OpaqueMap = request.param(MemoryDatabase(), "words")
    return made


def test_add_and_update_return_the_new_values(values: OpaqueMap) -> None:
    assert values.add(FIRST, {"a": 1, "b": 2.5}) == {"a": 1, "b": 2.5}
    assert values.update(TransactionAttempt(2, 2), {"a": lambda old: [old, "x"], "c": lambda old: {"old": old}}) == {
        "a": [1, "x"],
        "c": {"old": None},
    }
    assert values.items() == {"a": [1, "x"], "b": 2.5, "c": {"old": None}}


def test_a_str_that_only_looks_like_a_tuple_is_a_str(values: OpaqueMap) -> None:
    keys = [
        "tuple:",
        "tuple:[1, 2]",
        "tuple:[1.5]",
        "tuple:[true]",
        'tuple:"a"',
        "tuple:{}",
        'tuple:["\\u0061"]',
        "tuple:7",
    ]
    keys += ["tuple:" + "[" * 100_000, f"tuple:[{'1' * 5000}]", '["a",1]', "tuple:[[1]]", "Tuple:[1]"]
    values.add(FIRST, dict.fromkeys(keys, 1))
    assert values.items() == dict.fromkeys(keys, 1) == values.get(keys)


def test_get_returns_what_is_there(values: OpaqueMap) -> None:
    values.add(FIRST, {"a": 1, "b": 2})
    assert values.get(["a", "missing"]) == {"a": 1}
    assert values.get_one("b") == 2
    assert values.get_one("missing") is None
    assert values.get_one("missing", 0) == 0


def test_an_update_that_fails_writes_nothing(values: OpaqueMap) -> None:
    def divide(old: Any) -> float:
        return 1 / 0

    with pytest.raises(ZeroDivisionError):
        values.update(FIRST, {"a": lambda old: 1, "b": divide})
    assert values.items() == {}


def test_copies_and_pickles_in_this_process_share_the_tables(values: OpaqueMap) -> None:
    copies = [copy.deepcopy(values), pickle.loads(pickle.dumps(values)), copy.copy(values)]
    values.add(FIRST, {"a": 1})
    assert [one.items() for one in copies] == [{"a": 1}] * 3


def test_a_memory_database_does_not_leave_its_process() -> None:
    script = "import pickle, sys; pickle.loads(sys.stdin.buffer.read())"
    run = subprocess.run(
        [sys.executable, "-c", script], input=pickle.dumps(MemoryDatabase()), capture_output=True, check=False
    )
    assert b"a MemoryDatabase works only in one process" in run.stderr


def test_two_databases_are_two(values: OpaqueMap) -> None:
    values.add(FIRST, {"a": 1})
    assert OpaqueMap(MemoryDatabase(), "words").items() == {}


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (
            lambda values: values.add(FIRST, {1: 1}),
            r"table 'words': keys must be str or tuples of str and int, but 1 is an int$",
        ),
        (lambda values: values.get([b"a"]), r"keys must be str or tuples of str and int, but b'a' is a bytes$"),
        (lambda values: values.add(FIRST, {("a", 1.5): 1}), r"of str and int, but \('a', 1\.5\) has a float in it$"),
        (lambda values: values.add(FIRST, {("a", True): 1}), r"of str and int, but \('a', True\) has a bool in it$"),
        (lambda values: values.get([("a", ("b",))]), r"of str and int, but .* has a tuple in it$"),
        (lambda values: values.get([("\ud800",)]), r"character that cannot be stored"),
        (lambda values: values.get([(10**5000,)]), r"table 'words': a tuple key cannot be stored: Exceeds the limit"),
        (lambda values: values.add(FIRST, {'tuple:["a",1]': 1}), r"key 'tuple:\[\"a\",1\]' is how a tuple is stored; "),
        (lambda values: values.get("abc"), r"get takes a collection of keys; use get_one for the key 'abc'"),
        (lambda values: values.add(FIRST, {"a\0b": 1}), r"character that cannot be stored"),
        (lambda values: values.add(FIRST, {"\ud800": 1}), r"character that cannot be stored"),
        (
            lambda values: values.add(FIRST, {"a": "1"}),
            r"table 'words', key 'a': '1' is not a number and cannot be added",
        ),
        (lambda values: values.add((1, 1), {"a": 1}), r"the attempt is \(1, 1\); a TransactionAttempt was expected"),
        (lambda values: values.update(FIRST, {"a": lambda old: {1, 2}}), r"key 'a': .* has a set"),
        (lambda values: values.update(FIRST, {"a": lambda old: (1, 2)}), r"key 'a': .* has a tuple"),
        (lambda values: values.update(FIRST, {"a": lambda old: [{3: 1}]}), r"the dict key 3, which is no str"),
        (lambda values: values.update(FIRST, {"a": lambda old: {"x": float("nan")}}), r"the float nan"),
        (lambda values: values.update(FIRST, {"a": lambda old: [float("inf")]}), r"the float inf"),
        (lambda values: values.update(FIRST, {"a": lambda old: "\udfff"}), r"a lone surrogate"),
    ],
)
def test_a_mistake_is_one_sentence(values: OpaqueMap, what: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        what(values)
    assert values.items() == {}


def test_adding_to_what_is_no_number_names_both(values: OpaqueMap) -> None:
    values.update(FIRST, {"a": lambda old: "text"})
    with pytest.raises(UsageError, match=r"key 'a': 1 cannot be added to 'text'"):
        values.add(TransactionAttempt(2, 2), {"a": 1})


@pytest.mark.parametrize(
    "name", ["", "two words", "a.b", "naïve", "a" * 51, "sqlite_x", "Tupletree_tables", "a\n", None]
)
def test_a_table_is_named_by_letters_digits_and_underscores(name: Any) -> None:
    with pytest.raises(UsageError, match="letters, digits and underscores"):
        TransactionalMap(MemoryDatabase(), name)


def test_a_map_wants_a_database() -> None:
    with pytest.raises(
        UsageError, match=r"OpaqueMap: a database such as SqliteDatabase was expected, not 'counts\.db'"
    ):
        OpaqueMap("counts.db", "words")  # type: ignore[arg-type]
