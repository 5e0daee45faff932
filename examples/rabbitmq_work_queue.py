"""A work queue of RabbitMQ with dead letters: jobs that cannot be done are put aside, and are done again on request.

    pip install 'tupletree[rabbitmq]'
    python -m examples.rabbitmq_work_queue 1000          # puts 1,000 orders into the queue, of which each 50th is bad
    tupletree local examples/rabbitmq_work_queue.py --seconds 0    # until Ctrl-C; in another terminal:
    tupletree dead-letters list sqlite:/tmp/orders.db
    tupletree dead-letters replay sqlite:/tmp/orders.db --all    # an order without a price comes back as a letter

RABBITMQ_URL is the server, ORDERS_DB the file of the dead letters. Each order is charged at least once. An order that
cannot be charged now returns to the queue, after pauses that grow; after five attempts, or at once where another
attempt is of no use, it is a dead letter. The receipts go to a queue of their own, confirmed by the server before the
order is acknowledged.
"""

import json
import os
import random
import sys

import pika

from tupletree import Backoff, BasicBolt, FailedException, Topology, TopologyBuilder, Tuple
from tupletree.collector import BasicCollector
from tupletree.connectors.formats import Json
from tupletree.connectors.rabbitmq import RabbitBolt, RabbitSpout
from tupletree.dead_letters import DeadLetterBolt, DeadLetterSpout

URL = os.environ.get("RABBITMQ_URL", "amqp://guest:guest@localhost:5672/%2F")
STORE = f"sqlite:{os.environ.get('ORDERS_DB', '/tmp/orders.db')}"
ORDER = ["id", "price", "count"]
QUEUES = ("orders", "receipts")


class Charge(BasicBolt):
    """Stands for a payment service that is away now and then, and refuses an order without a price."""

    outputs = ["id", "total"]

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        price, count = tup["price"], tup["count"]
        if price is None:
            raise FailedException(f"order {tup['id']} has no price", retry=False)
        if not isinstance(price, int | float) or type(count) is not int:  # from strangers: of any type
            raise FailedException(f"order {tup['id']}: {price!r} and {count!r}: numbers were expected", retry=False)
        if not 0 <= count < 1_000_000:  # a number of any length is JSON
            raise FailedException(f"order {tup['id']}: {count!r} pieces cannot be charged", retry=False)
        if random.random() < 0.01:
            raise FailedException("the payment service does not answer")
        collector.emit([tup["id"], price * count])


def topology() -> Topology:
    builder = TopologyBuilder()
    orders = builder.set_spout("orders", RabbitSpout(URL, "orders", Json(ORDER), quorum=True))
    orders.set_retry(Backoff(first_s=0.5, factor=2, max_s=30, max_attempts=5)).set_dead_letters("rejected")
    again = builder.set_spout("again", DeadLetterSpout(STORE, ORDER)).set_dead_letters("rejected")
    letters = builder.set_bolt("letters", DeadLetterBolt(STORE))
    letters.shuffle_grouping(orders, "rejected").shuffle_grouping(again, "rejected")
    charge = builder.set_bolt("charge", Charge(), parallelism=2).shuffle_grouping(orders).shuffle_grouping(again)
    builder.set_bolt("receipts", RabbitBolt(URL, "receipts", Json(["id", "total"]))).shuffle_grouping(charge)
    return builder.create_topology()


def put_orders(count: int) -> None:
    """Create both queues, and put orders into the first."""
    connection = pika.BlockingConnection(pika.URLParameters(URL))
    channel = connection.channel()
    for queue in QUEUES:
        channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "quorum"})
    channel.confirm_delivery()
    for number in range(count):
        order = {"id": number, "price": None if number % 50 == 49 else 3, "count": number % 7}
        channel.basic_publish("", "orders", json.dumps(order).encode(), pika.BasicProperties(delivery_mode=2))
    connection.close()


if __name__ == "__main__":
    put_orders(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
