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
        ({"url": ""}, "OutboxSpout: url is empty; a text that is not empty was expected"),
        ({"table": 5}, "OutboxSpout: table is 5; a text"),
        ({"key": ""}, "OutboxSpout: key is ''; a text"),
        ({"data": ""}, "OutboxSpout: data is ''; a text"),
        ({"processed": ""}, "OutboxSpout: processed is ''; a text"),
        ({"channel": b"x"}, "OutboxSpout: channel is b'x'; a text"),
        ({"lease_s": 0}, "OutboxSpout: lease_s is 0; a number of seconds, more than 0, was"),
        ({"poll_every_s": "1"}, "OutboxSpout: poll_every_s is '1'; a number of seconds"),
        ({"max_in_flight": 0}, "OutboxSpout: max_in_flight is 0; a whole number"),
    ],
)
def test_wrong_arguments_of_the_spout_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError) as refused:
        OutboxSpout(**{"url": URL, "table": "outbox", **options})
    assert str(refused.value).startswith(text)


@pytest.mark.parametrize("options", [{"table": ""}, {"data": ""}, {"url": 7}])
def test_wrong_arguments_of_the_bolt_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"^OutboxBolt: .* is .*; a text that is not empty was expected$"):
        OutboxBolt(**{"url": URL, "table": "outbox", **options})


def test_spout_and_bolt_can_be_pickled() -> None:
    spout = pickle.loads(pickle.dumps(OutboxSpout(URL, "outbox", Json(["id"]), channel="outbox")))
    assert spout.outputs == ["id"]
    assert pickle.loads(pickle.dumps(OutboxBolt(URL, "outbox"))).format.fields == ["data"]
