"""Arguments of the connector for outbox tables."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from tupletree.connectors.formats import Json
from tupletree.connectors.postgres_outbox import OutboxBolt, OutboxSpout
from tupletree.errors import UsageError

URL = "postgresql://localhost/orders"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"url": "postgresql://h/d?nothing=1"}, "OutboxSpout: url: "),
        ({"url": ""}, "OutboxSpout: its 'url' must be a text that is not empty"),
        ({"table": 5}, "OutboxSpout: its 'table' must be a text"),
        ({"key": ""}, "OutboxSpout: its 'key' must be a text"),
        ({"data": ""}, "OutboxSpout: its 'data' must be a text"),
        ({"processed": ""}, "OutboxSpout: its 'processed' must be a text"),
        ({"channel": b"x"}, "OutboxSpout: its 'channel' must be a text"),
        ({"lease_s": 0}, "OutboxSpout: lease_s is 0; more than 0 was expected"),
        ({"poll_every_s": "1"}, "OutboxSpout: poll_every_s is '1'; more than 0 was expected"),
        ({"max_in_flight": 0}, "OutboxSpout: max_in_flight must be a whole number"),
    ],
)
def test_wrong_arguments_of_the_spout_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError) as refused:
        OutboxSpout(**{"url": URL, "table": "outbox", **options})
    assert str(refused.value).startswith(text)


@pytest.mark.parametrize("options", [{"table": ""}, {"data": ""}, {"url": 7}])
def test_wrong_arguments_of_the_bolt_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"^OutboxBolt: its '.*' must be a text that is not empty"):
        OutboxBolt(**{"url": URL, "table": "outbox", **options})


def test_spout_and_bolt_can_be_pickled() -> None:
    spout = pickle.loads(pickle.dumps(OutboxSpout(URL, "outbox", Json(["id"]), channel="outbox")))
    assert spout.outputs == ["id"]
    assert pickle.loads(pickle.dumps(OutboxBolt(URL, "outbox"))).format.fields == ["data"]
