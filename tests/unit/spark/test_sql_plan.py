"""Roles of columns, what a result and a table must have, and whether a commit is to be made: all without a database."""

from __future__ import annotations

from typing import Any

import pytest

from tupletree._sinks.sql_plan import Column, Kind, Plan, Role, Roles, StoredColumn, StoredTable
from tupletree._sinks.sql_rules import FORMAT, Note, Step, decide
from tupletree.attempt import TransactionAttempt
from tupletree.errors import StaleAttemptError, UsageError

A = TransactionAttempt


def roles(key: Any = "word", table: str = "t", **given: Any) -> Roles:
    everything: dict[str, Any] = dict(add=(), min=(), max=(), replace=(), last={}) | given
    return Roles(table, key, **everything)


def test_a_plan_has_the_key_first_and_each_column_with_its_role() -> None:
    plan = roles(["b", "a"], add="n", last={"s": "at"}, max=["at"]).plan(
        [("n", "int"), ("a", "string"), ("s", "string"), ("at", "timestamp"), ("b", "date")]
    )
    assert plan == Plan(
        "t",
        (Column("b", "date", Kind.DATE, Role.KEY), Column("a", "string", Kind.STRING, Role.KEY)),
        (
            Column("n", "bigint", Kind.INTEGER, Role.ADD),
            Column("s", "string", Kind.STRING, Role.LAST, "at"),
            Column("at", "timestamp", Kind.TIMESTAMP, Role.MAX),
        ),
    )
    assert plan.names == ["b", "a", "n", "s", "at"]


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("tinyint", "bigint"),
        ("float", "double"),
        ("decimal(10,2)", "decimal(38,2)"),
        ("decimal(5,0)", "decimal(38,0)"),
    ],
)
def test_a_column_that_is_added_to_is_stored_in_the_widest_type_of_its_kind(given: str, stored: str) -> None:
    assert roles(add="n").plan([("word", "string"), ("n", given)]).values[0].type == stored
    assert roles(replace="n").plan([("word", "string"), ("n", given)]).values[0].type == given


def test_a_string_with_a_collation_is_a_string() -> None:
    assert roles("w").plan([("w", "string collate UNICODE")]).keys[0].type == "string"


@pytest.mark.parametrize(
    ("key", "given", "message"),
    [
        ([], {}, "key names no column"),
        ("a", {"add": "a"}, "column 'a' is in key and in add: one role for each"),
        ("a", {"min": ["b"], "replace": ["b"]}, "column 'b' is in min and in replace"),
        ("a", {"add": "at", "last": {"b": "at"}}, "column 'at' is in add and in the ordering column of last"),
        ("a", {"last": {"b": "a"}}, "column 'a' is in key and in the ordering column of last"),
        ("a", {"last": "b"}, "last='b': a dict from each column to its ordering column was expected"),
        ("a", {"add": [1]}, r"add=\[1\]: names of columns were expected"),
        ("a", {"add": "tupletree_x"}, "begins with tupletree_"),
        ("a", {"table": "x y"}, "table 'x y': a name has 1 to 48 letters"),
        ("a", {"table": "tupletree_commits"}, "does not begin with"),
        ("a", {"table": "x" * 49}, "1 to 48"),
    ],
)
def test_roles_that_cannot_be_meant_are_mistakes(key: Any, given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        roles(key, **given)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"word": "string"}, "table 't': column 'n' is named in add but is not in the result, which has word"),
        ({"n": "int"}, "column 'word' is named in key but is not in the result, which has n"),
        ({"word": "string", "n": "int", "x": "int"}, "column 'x' of the result has no role"),
        ({"word": "string", "n": "string"}, "column 'n' is in add and of type string: a number was expected"),
        ({"word": "string", "n": "boolean"}, "column 'n' is in add and of type boolean: a number was expected"),
        ({"word": "array<string>", "n": "int"}, "column 'word' is of type array<string>, and one of tinyint, "),
        ({"word": "binary", "n": "int"}, "column 'word' is of type binary"),
    ],
)
def test_a_result_that_does_not_fit_the_roles_is_a_mistake(schema: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        roles(add="n").plan(list(schema.items()))


def test_a_result_with_a_column_twice_is_a_mistake() -> None:
    with pytest.raises(UsageError, match="column 'n' occurs twice in the result"):
        roles(add="n").plan([("word", "string"), ("n", "int"), ("n", "int")])


PLAN = roles(add="n").plan([("word", "string"), ("n", "int")])
WORD = StoredColumn("TEXT", [Kind.STRING])
NUMBER = StoredColumn("INTEGER", [Kind.INTEGER])
UNIQUE = [frozenset(["word"])]


def test_a_table_may_have_more_columns_that_need_no_value_and_more_indexes() -> None:
    table = StoredTable({"x": NUMBER, "word": WORD, "n": NUMBER}, [frozenset(["x"]), *UNIQUE])
    table.check(PLAN, {"word": "TEXT", "n": "INTEGER"})


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (StoredTable({"word": WORD}, UNIQUE), "has no column 'n': add one of type BIG"),
        (StoredTable({"word": WORD, "n": WORD}, UNIQUE), "'n' has type TEXT, .* bigint: BIG was expected"),
        (StoredTable({"word": WORD, "n": NUMBER}, [frozenset(["word", "n"])]), r"exactly \(word\)"),
        (
            StoredTable({"word": WORD, "n": NUMBER, "x": StoredColumn("TEXT", [], True)}, UNIQUE),
            "'x' is NOT NULL without a default",
        ),
    ],
)
def test_a_table_into_which_rows_do_not_fit_is_a_mistake(table: StoredTable, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        table.check(PLAN, {"word": "TEXT", "n": "BIG"})


@pytest.mark.parametrize(
    ("note", "is_opaque", "step"),
    [
        (Note("p", 0, 0), False, Step.WRITE),
        (Note("p", 4, 99), False, Step.WRITE),
        (Note("p", 4, 99), True, Step.WRITE),
        (Note("p", 5, 7), False, Step.NOTHING),
        (Note("p", 5, 6), False, Step.NOTHING),
        (Note("p", 5, 8), False, Step.NOTHING),
        (Note("p", 5, 7), True, Step.NOTHING),
        (Note("p", 5, 6), True, Step.TAKE_BACK_AND_WRITE),
    ],
)
def test_what_a_commit_is_to_do_follows_from_the_note(note: Note, is_opaque: bool, step: Step) -> None:
    assert decide("t", note, "p", A(5, 7), is_opaque) == step


@pytest.mark.parametrize(
    ("note", "is_opaque", "message"),
    [
        (Note("p", 6, 1), False, "attempt 0.7. is over, since transaction 6 has written it"),
        (Note("p", 6, 1), True, "is over, since transaction 6 has written it"),
        (Note("p", 5, 1 << 32), True, r"is over, since transaction 5 .attempt 1.0. has written it"),
    ],
)
def test_an_attempt_that_is_over_is_told_so(note: Note, is_opaque: bool, message: str) -> None:
    with pytest.raises(StaleAttemptError, match=f"table 't': transaction 5 .*{message}.*give it a new table"):
        decide("t", note, "p", A(5, 7), is_opaque)


def test_a_table_of_another_pipeline_or_of_a_newer_version_is_refused() -> None:
    with pytest.raises(UsageError, match="table 't' belongs to pipeline 'other', and this is 'p'"):
        decide("t", Note("other", 1, 1), "p", A(5, 7), False)
    with pytest.raises(UsageError, match=f"has format {FORMAT + 1}, and this version .* up to {FORMAT}"):
        decide("t", Note("p", 1, 1, FORMAT + 1), "p", A(5, 7), False)
