"""Arguments of the connector for streams of Redis."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from tupletree.connectors.redis_streams import RedisStreamBolt, RedisStreamSpout
from tupletree.errors import UsageError

URL = "redis://localhost/0"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"url": "http://x:hush@y"}, "RedisStreamSpout: its 'url' cannot be used: "),
        ({"url": "redis://:hu/sh@y"}, "RedisStreamSpout: its 'url' cannot be used: "),
        ({"url": "redis://:12/hush@y:6379"}, "RedisStreamSpout: its 'url' cannot be used: write / "),
        ({"url": b"redis://:hush@y"}, "RedisStreamSpout: url is of type bytes; a text that is"),
        ({"stream": ""}, "RedisStreamSpout: stream is ''; a text that is not empty was expected"),
        ({"group": None}, "RedisStreamSpout: group is None; a text"),
        ({"field": b"data"}, "RedisStreamSpout: field is b'data'; a text"),
        ({"consumer": ""}, "RedisStreamSpout: consumer is ''; a text"),
        ({"rejected": "orders"}, "RedisStreamSpout: rejected is 'orders'; another stream"),
        ({"claim_after_s": 0}, "RedisStreamSpout: claim_after_s is 0; "),
        ({"max_in_flight": 0}, "RedisStreamSpout: max_in_flight is 0; a whole number"),
    ],
)
def test_wrong_arguments_of_the_spout_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError) as refused:
        RedisStreamSpout(**{"url": URL, "stream": "orders", "group": "billing", **options})
    assert str(refused.value).startswith(text)
    assert "hu" not in str(refused.value).replace("whole number", "")
    assert "12" not in str(refused.value)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"url": "nowhere"}, "RedisStreamBolt: its 'url' cannot be used: "),
        ({"stream": 5}, "RedisStreamBolt: stream is 5; a text"),
        ({"max_length": 0}, "RedisStreamBolt: max_length is 0; a whole number of at least 1"),
    ],
)
def test_wrong_arguments_of_the_bolt_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError) as refused:
        RedisStreamBolt(**{"url": URL, "stream": "orders", **options})
    assert str(refused.value).startswith(text)


def test_spout_and_bolt_can_be_pickled() -> None:
    spout = pickle.loads(pickle.dumps(RedisStreamSpout(URL, "orders", "billing")))
    assert spout.outputs == ["data"]
    assert pickle.loads(pickle.dumps(RedisStreamBolt(URL, "orders"))).format.fields == ["data"]


@pytest.mark.parametrize("url", ["redis://h/0?password=a@b", "redis://user:p%2Fq@h:6379/1", "unix:///run/a@b.sock"])
def test_urls_with_a_password_that_is_written_right_are_taken(url: str) -> None:
    RedisStreamBolt(url, "orders")
