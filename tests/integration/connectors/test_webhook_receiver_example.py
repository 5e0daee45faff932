"""The example of webhooks answers when an order is stored."""

from __future__ import annotations

import http.client
import sqlite3
from pathlib import Path

from webhook_client import Reply, post

from examples.webhook_receiver import topology
from tupletree._net import ReservedPorts
from tupletree.testing import LocalCluster, wait_until


def test_every_order_that_is_answered_is_in_the_table(tmp_path: Path) -> None:
    ports = ReservedPorts()
    [port] = ports.reserve(1)
    path = tmp_path / "orders.db"

    def send(order: str, amount: object, key: str = "") -> Reply | None:
        headers = {"Idempotency_Key": key} if key else {}
        try:
            return post(port, {"order": order, "customer": "Ada", "amount": amount}, "/orders", **headers)
        except (OSError, http.client.HTTPException):
            return None

    with LocalCluster() as cluster, sqlite3.connect(path) as database:
        cluster.submit("orders", topology(path, port))
        first = wait_until(lambda: send("o-0", 1), 20)
        cluster.wait_until(lambda: True)  # else what a component has raised shows as a request that is not processed
        assert first.status == 200, (cluster.counts("orders"), cluster.errors("orders"))
        for order, amount in (("o-1", 30), ("o-2", 40), ("o-1", 30)):
            reply = send(order, amount)
            assert reply is not None and reply.status == 200
            assert database.execute("select amount from orders where id = ?", [order]).fetchall() == [(amount,)]
        refused = send("o-3", -1, "key-3")
        assert refused is not None and refused.status == 422
        [(message, error)] = database.execute("select * from rejected").fetchall()
        assert (message, error) == ("key-3", "FailedException: an amount of -1 cannot be ordered")
        assert post(port, b"{", "/orders").status == 400
        assert database.execute("select count(*) from orders").fetchone() == (3,)
    ports.release()
