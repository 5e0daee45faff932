"""What a tuple gives of the columns of its batch."""

from __future__ import annotations

from enum import StrEnum

import pytest

from tupletree.tuples import Origin


class Field(StrEnum):
    WORD = "word"


ORIGIN = Origin("split", 7, "default", ["word", "n"])
COLUMNS = [["a", "b"], [1, 2]]


def test_a_tuple_reads_its_row_of_the_columns() -> None:
    tup = ORIGIN.tuple_at(COLUMNS, 1, 0, 0, None)
    assert (tup["word"], tup[1], tup.get("n"), tup.get("x", 5)) == ("b", 2, 2, 5)
    assert (tup.values, list(tup), len(tup)) == (["b", 2], ["b", 2], 2)
    assert (tup["n"], tup.select(["n", "word"])) == (2, [2, "b"])
    with pytest.raises(
        KeyError, match="no field 'x' in a tuple of stream 'default' of component 'split'; its fields: word"
    ):
        tup["x"]
    assert COLUMNS == [["a", "b"], [1, 2]]


def test_a_name_may_be_of_a_subclass_of_str() -> None:
    assert ORIGIN.tuple_at(COLUMNS, 0, 0, 0, None)[Field.WORD] == "a"
    assert Field.WORD in ORIGIN.tuple_at(COLUMNS, 0, 0, 0, None)
