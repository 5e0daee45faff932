"""Visits of users, from clicks in Kafka into PostgreSQL: each visit is in the table exactly once.

    pip install 'tupletree[kafka,postgres]'
    export KAFKA=localhost:9092 POSTGRES_URL=postgresql://shop@localhost/shop
    python -m examples.stream_sessions 10000     # puts 10,000 clicks into the topic "clicks"
    tupletree submit examples/stream_sessions.py

A visit ends half an hour after its last click, by the times of the clicks: so the last visits are in the table when
later clicks have come. A message that is no Click is given up and reported as an error; all others go on.
"""

import json
import os
import sys
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

from confluent_kafka import Producer

from tupletree import Session, Topology
from tupletree.connectors.formats import Json
from tupletree.connectors.kafka import KafkaSpout
from tupletree.connectors.postgres import PostgresSink
from tupletree.streams import StreamBuilder, Windowed

KAFKA = os.environ.get("KAFKA", "localhost:9092")
POSTGRES_URL = os.environ.get("POSTGRES_URL", "postgresql://shop@localhost/shop")
STATES = os.environ.get("STATES", "/tmp/visits-states")
COLUMNS = {"user": "string", "start": "bigint", "end": "bigint", "pages": "int"}


@dataclass(frozen=True)
class Click:
    user: str
    at: int  # milliseconds since 1970
    page: str

    def __post_init__(self) -> None:
        if type(self.user) is not str or type(self.at) is not int:  # what JSON has may be of any type
            raise TypeError(f"a user and a time in milliseconds were expected, not {self.user!r} and {self.at!r}")


class Visit(NamedTuple):
    user: str
    start: int
    end: int
    pages: int


def visit(session: tuple[str, Windowed[int]]) -> Visit:  # the annotation gives the sink its columns
    user, window = session
    return Visit(user, window.start, window.end, window.value)


def topology() -> tuple[Topology, dict[str, Any]]:
    builder = StreamBuilder()
    clicks = builder.source(KafkaSpout(KAFKA, ["clicks"], Json(Click), group="visits"), rows=Click, name="clicks")
    timed = clicks.event_time(lambda click: click.at, max_lag=timedelta(minutes=1), idle_timeout=timedelta(minutes=5))
    sessions = timed.key_by(lambda click: click.user).window(Session(timedelta(minutes=30))).count(name="sessions")
    sessions.items().map(visit).sink(PostgresSink(POSTGRES_URL, "visits", COLUMNS, key=["user", "start"]), name="table")
    return builder.topology("exactly_once"), {
        "topology.state.provider": "sqlite",  # "redis" where tasks can move to other machines
        "topology.state.provider.config": {"directory": STATES},
    }


def put_clicks(count: int) -> None:
    """Put clicks of ten users into the topic: one each second, and after 600 of them an hour without any."""
    producer = Producer({"bootstrap.servers": KAFKA})
    for number in range(count):
        at_s = 1_795_000_000 + number + 3600 * (number // 600)
        user = f"user{number % 10}"
        click = {"user": user, "at": 1000 * at_s, "page": f"/{number % 7}"}
        producer.produce("clicks", json.dumps(click).encode(), user.encode())
        producer.poll(0)
    producer.flush()


if __name__ == "__main__":
    put_clicks(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
