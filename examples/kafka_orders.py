"""Orders from Kafka, enriched over HTTP, into PostgreSQL: each order is in the table exactly once, whatever is killed.

It needs a broker of Kafka, a database that exists (the table is created), and a service of prices:
PRICES/ITEM answers with ``{"price": 3}``. For a trial, files are such a service.

    pip install 'tupletree[kafka,http,postgres]'
    export KAFKA=localhost:9092 PRICES=http://localhost:8000/price POSTGRES_URL=postgresql://shop@localhost/shop
    mkdir -p /tmp/prices/price; for n in 0 1 2 3 4 5 6; do echo '{"price": 3}' >/tmp/prices/price/item$n; done
    python -m http.server 8000 --directory /tmp/prices 2>/dev/null &
    tupletree dev        # a cluster on this machine; then in another terminal, with the exports above:
    python -m examples.kafka_orders 10000        # puts 10,000 orders into the topic "orders"
    tupletree submit examples/kafka_orders.py
    psql "$POSTGRES_URL" -c 'SELECT count(*), sum(total) FROM orders'    # some seconds later: 10000 and 60000

The cluster of tupletree dev forgets its checkpoints when it ends: remove /tmp/orders-states (or STATES) with it.

The positions in the topic and the rows that wait to be written are in the same aligned checkpoints, about one each
second, or as often as the prices of the orders before it are known. PostgreSQL gets the rows of a checkpoint in one
transaction with a note of its number. What is not exactly once is the call for the price, which is made again for an
order that is replayed: reading a price twice harms nobody.

An order that fails takes the topology back to its last checkpoint, and comes again. One that would fail each time would
hold up all others: so an order with a field of another type, a count without sense, an item that cannot be a part of an
address, or one that the service does not know (404), is left out, with a line in the log of its worker:
tupletree logs kafka_orders --search 'left out'
"""

import json
import logging
import os
import re
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
ITEM = re.compile(r"[A-Za-z0-9_-]{1,100}")
LOG = logging.getLogger(__name__)


class Price(AsyncBolt):
    """Asks for the price of the item, for up to 200 orders at a time."""

    outputs = list(COLUMNS)
    in_flight = 200
    timeout_s = 5
    retry = Backoff(first_s=0.1, factor=2, max_s=5, max_attempts=5)

    def __init__(self, prices: str) -> None:
        self.prices = prices

    async def open_async(self) -> None:
        self.client = aiohttp.ClientSession()

    async def close_async(self) -> None:
        await self.client.close()

    async def execute(self, tup: Tuple) -> AsyncIterator[list[Any]]:
        id, item, count = tup.values  # from strangers: of any type
        if type(id) is not int or type(item) is not str or type(count) is not int:
            LOG.warning("order left out: %r is not a number, a text and a number", tup.values)
            return
        if not 0 <= count < 1_000_000:
            LOG.warning("order left out: %r has a count that nobody orders", tup.values)
            return
        if ITEM.fullmatch(item) is None:  # "", "a/b" or "..": the service would be asked for something else
            LOG.warning("order left out: the item %r is not of letters, digits, _ and -", item[:100])
            return
        async with self.client.get(f"{self.prices}/{item}") as answer:
            if answer.status == 404:
                LOG.warning("order left out: %r has no price", tup.values)
                return
            answer.raise_for_status()
            price = (await answer.json(content_type=None))["price"]  # files have no type of JSON
        yield [id, item, count, count * price]


def topology() -> tuple[Topology, dict[str, Any]]:
    builder = TopologyBuilder()
    orders = builder.set_spout("orders", KafkaSpout(KAFKA, ["orders"], Json(["id", "item", "count"]), group="shop"), 2)
    price = builder.set_bolt("price", Price(PRICES)).shuffle_grouping(orders)
    sink = ExactlyOnceSinkBolt(PostgresSink(POSTGRES_URL, "orders", COLUMNS, key="id"))
    builder.set_bolt("table", sink).fields_grouping(price, "id")
    return builder.create_topology(), {
        "topology.state.checkpoint.aligned": True,
        "topology.max.spout.pending": 5000,  # per task: a checkpoint waits until all these orders have their prices
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
    if left := producer.flush(30):
        sys.exit(f"{KAFKA} has not taken {left} of {count} orders within 30 s")


if __name__ == "__main__":
    put_orders(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
