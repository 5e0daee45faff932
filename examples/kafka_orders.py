"""Orders from Kafka, enriched over HTTP, into PostgreSQL: each order is in the table exactly once, whatever is killed.

    pip install 'tupletree[kafka,http,postgres]'
    export KAFKA=localhost:9092 PRICES=http://localhost:8000/price POSTGRES_URL=postgresql://shop@localhost/shop
    python -m examples.kafka_orders 10000        # puts 10,000 orders into the topic "orders"
    tupletree submit examples/kafka_orders.py

PRICES/ITEM answers with ``{"price": 3}``. The positions in the topic and the rows that wait to be written are in the
same aligned checkpoints, about one each second. PostgreSQL gets the rows of a checkpoint in one transaction with a note
of its number. What is not exactly once is the call for the price, which is made again for an order that is replayed:
reading a price twice harms nobody.
"""

import json
import os
import sys
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
from confluent_kafka import Producer

from tupletree import AsyncBolt, Backoff, Topology, TopologyBuilder, Tuple
from tupletree.connectors.exactly_once import ExactlyOnceSinkBolt
from tupletree.connectors.formats import Json
from tupletree.connectors.kafka import KafkaSpout
from tupletree.connectors.postgres import PostgresSink

KAFKA = os.environ.get("KAFKA", "localhost:9092")
PRICES = os.environ.get("PRICES", "http://localhost:8000/price")
POSTGRES_URL = os.environ.get("POSTGRES_URL", "postgresql://shop@localhost/shop")
STATES = os.environ.get("STATES", "/tmp/orders-states")
COLUMNS = {"id": "bigint", "item": "string", "count": "int", "total": "bigint"}


class Price(AsyncBolt):
    """Asks for the price of the item, for up to 200 orders at a time."""

    outputs = list(COLUMNS)
    in_flight = 200
    timeout_s = 5
    retry = Backoff(first_s=0.1, factor=2, max_s=5, max_attempts=5)

    def __init__(self, prices: str) -> None:
        self.prices = prices

    async def open_async(self) -> None:
        self.client = aiohttp.ClientSession(raise_for_status=True)

    async def close_async(self) -> None:
        await self.client.close()

    async def execute(self, tup: Tuple) -> AsyncIterator[list[Any]]:
        async with self.client.get(f"{self.prices}/{tup['item']}") as answer:
            price = (await answer.json())["price"]
        yield [tup["id"], tup["item"], tup["count"], tup["count"] * price]


def topology() -> tuple[Topology, dict[str, Any]]:
    builder = TopologyBuilder()
    orders = builder.set_spout("orders", KafkaSpout(KAFKA, ["orders"], Json(["id", "item", "count"]), group="shop"), 2)
    price = builder.set_bolt("price", Price(PRICES)).shuffle_grouping(orders)
    sink = ExactlyOnceSinkBolt(PostgresSink(POSTGRES_URL, "orders", COLUMNS, key="id"))
    builder.set_bolt("table", sink).fields_grouping(price, "id")
    return builder.create_topology(), {
        "topology.state.checkpoint.aligned": True,
        "topology.state.provider": "sqlite",  # "redis" where tasks can move to other machines
        "topology.state.provider.config": {"directory": STATES},
    }


def put_orders(count: int) -> None:
    """Put orders into the topic, which must exist or be created by the broker."""
    producer = Producer({"bootstrap.servers": KAFKA})
    for number in range(count):
        order = {"id": number, "item": f"item{number % 7}", "count": number % 5}
        producer.produce("orders", json.dumps(order).encode(), str(number).encode())
        producer.poll(0)
    producer.flush()


if __name__ == "__main__":
    put_orders(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
