"""Arguments of the connector for changes of PostgreSQL."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from tupletree.connectors.postgres_changes import PostgresChangesSpout
from tupletree.errors import UsageError

URL = "postgresql://localhost/shop"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"url": "postgresql://h/d?nothing=1"}, "PostgresChangesSpout: url: "),
        ({"publication": ""}, "PostgresChangesSpout: publication is ''; a text that is not empty was"),
        ({"slot": None}, "PostgresChangesSpout: slot is None; a text"),
        ({"slot": "Shop"}, "PostgresChangesSpout: slot is 'Shop'; at most 50 lower-case letters, digits and"),
        ({"slot": "s" * 51}, "PostgresChangesSpout: slot is "),
        ({"metadata": ["offset"]}, "PostgresChangesSpout: metadata names 'offset'"),
    ],
)
def test_wrong_arguments_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError) as refused:
        PostgresChangesSpout(**{"url": URL, "publication": "shop", "slot": "shop", **options})
    assert str(refused.value).startswith(text)


def test_a_spout_can_be_pickled() -> None:
    spout = pickle.loads(pickle.dumps(PostgresChangesSpout(URL, "shop", "shop", metadata=["lsn"])))
    assert spout.outputs == ["operation", "table", "key", "new", "old", "lsn"]
