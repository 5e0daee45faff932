"""A webhook receiver that answers when processed: orders over HTTP, stored in SQLite before their senders hear of it.

    tupletree local examples/webhook_receiver.py --seconds 600     # in another terminal, once it says "connected":
    curl -i localhost:8090/orders -H 'Idempotency-Key: o-1' -d '{"order": "o-1", "customer": "Ada", "amount": 30}'
    curl -i localhost:8090/orders -d '{"order": "o-2", "customer": "Bob", "amount": -1}'
    sqlite3 orders.db 'select * from orders; select * from rejected'

The first call is answered 200 when the order is in the file, the second 422: an order with a negative amount is given
up, and stored as a rejected one. A sender that hears nothing, or 503, sends its order again; an order that was stored
already is not stored twice.
"""

import sqlite3
from pathlib import Path

from tupletree import BasicBolt, FailedException, Topology, TopologyBuilder, Tuple
from tupletree.collector import BasicCollector
from tupletree.connectors.formats import Json
from tupletree.connectors.http import WebhookSpout


class Check(BasicBolt):
    """Passes orders on that can be fulfilled."""

    outputs = ["order", "customer", "amount"]

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        order, customer, amount = tup.values  # from strangers: of any type
        if not isinstance(order, str) or not isinstance(customer, str):
            raise FailedException("the order and the customer must be text", retry=False)
        if type(amount) is not int or not 0 < amount < 1_000_000:
            raise FailedException(f"an amount of {amount!r} cannot be ordered", retry=False)
        collector.emit([order, customer, amount])


class Store(BasicBolt):
    """Writes orders to a table, which has each order once."""

    blocking = True  # it waits for the disk, and its connection is one of a single thread

    def __init__(self, path: Path) -> None:
        self.path = path

    def setup(self) -> None:
        self.database = sqlite3.connect(self.path, isolation_level=None)
        self.database.execute("create table if not exists orders (id text primary key, customer, amount)")
        self.database.execute("create table if not exists rejected (id text primary key, error)")

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        if tup.source_stream == "rejected":
            row = [str(tup["message"]), tup["error"]]
            self.database.execute("insert or replace into rejected values (?, ?)", row)
        else:
            row = [tup["order"], tup["customer"], tup["amount"]]
            self.database.execute("insert or ignore into orders values (?, ?, ?)", row)

    def teardown(self) -> None:
        self.database.close()


def topology(path: Path = Path("orders.db"), port: int = 8090) -> Topology:
    builder = TopologyBuilder()
    webhook = WebhookSpout(port, Json(["order", "customer", "amount"]), path="/orders")
    orders = builder.set_spout("orders", webhook).set_dead_letters("rejected")
    checked = builder.set_bolt("check", Check(), parallelism=2).shuffle_grouping(orders)
    store = builder.set_bolt("store", Store(path.absolute()))
    store.global_grouping(checked).global_grouping(orders, "rejected")
    return builder.create_topology()
