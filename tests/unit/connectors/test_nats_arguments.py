"""Arguments of connectors, which are refused where the topology is built."""

from __future__ import annotations

from typing import Any

import pytest

from tupletree.connectors.nats import NatsBolt, NatsSpout
from tupletree.errors import UsageError

NATS = {"servers": "nats://localhost", "subject": "orders.>", "stream": "ORDERS", "durable": "billing"}


def test_a_spout_of_nats_takes_one_server_or_many() -> None:
    NatsSpout(**NATS)
    NatsSpout(**NATS | {"servers": ["localhost:4222", "tls://user:secret@[::1]:4222"]})


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"servers": []}, "at least one nats://HOST:PORT"),
        ({"servers": ["nats://a", "http://user:secret@b"]}, "URL 2 of servers is not nats://HOST:PORT"),
        ({"servers": "nats://user:secret@host:port"}, "URL 1 of servers"),
        ({"servers": "user:secret@host:99999"}, "URL 1 of servers"),
        ({"servers": "nats://user:secret@host/orders"}, "URL 1 of servers"),
        ({"subject": "orders..new"}, "subject is 'orders..new', and printable text without spaces, empty parts was"),
        ({"stream": "ORDERS.*"}, "stream is 'ORDERS.*'"),
        ({"stream": ""}, "stream is ''"),
        ({"durable": "my billing"}, "durable is 'my billing'"),
        ({"durable": None}, "durable is None"),
        ({"ack_wait_s": 0}, "ack_wait_s is 0; a number of seconds, more than 0, was"),
        ({"max_in_flight": 0}, "NatsSpout: max_in_flight is 0; a whole number of at least 1"),
    ],
)
def test_a_spout_of_nats_refuses(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as refusal:
        NatsSpout(**NATS | wrong)
    assert words in str(refusal.value)
    assert "secret" not in str(refusal.value)


def test_a_bolt_of_nats_publishes_under_one_subject() -> None:
    with pytest.raises(UsageError, match=r"subject is 'orders\.\*'"):
        NatsBolt("localhost", "orders.*")
