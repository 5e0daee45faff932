"""The example of orders: Kafka, HTTP and PostgreSQL for real; each order is in the table once, though workers die."""

from __future__ import annotations

import importlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import psycopg
import pytest
from scripted_server import LoopbackServer

from bench._kafka_broker import NoJars, shared_broker
from tests.integration.transactional.database_servers import PostgresServer
from tupletree.testing import DevCluster, wait_until

ORDERS = 3000


class Prices(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = json.dumps({"price": 10 + int(self.path[-1])}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def prices() -> Iterator[str]:
    server = LoopbackServer(("127.0.0.1", 0), Prices)
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    serving.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/price"
    server.shutdown()
    serving.join()
    server.server_close()


@pytest.fixture
def postgres() -> Iterator[str]:
    if reason := PostgresServer.missing():
        pytest.skip(reason)
    server = PostgresServer()
    try:
        server.start()
        yield server.url
    finally:
        server.close()


@pytest.mark.long
def test_each_order_is_in_the_table_once(
    prices: str, postgres: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    try:
        broker = shared_broker()
    except NoJars as error:
        pytest.skip(str(error))
    broker.create("orders", 2)
    values = {"KAFKA": broker.addresses, "PRICES": prices, "POSTGRES_URL": postgres, "STATES": str(tmp_path / "states")}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    example = importlib.reload(importlib.import_module("examples.kafka_orders"))
    example.put_orders(ORDERS)
    truth = [(number, 10 + number % 7, number % 5) for number in range(ORDERS)]
    truth = [(number, f"item{number % 7}", count, count * price) for number, price, count in truth]

    def rows() -> list[Any]:
        with psycopg.connect(postgres) as database:
            found = database.execute("SELECT to_regclass('orders')").fetchone()
            if found is None or found[0] is None:
                return []
            return database.execute("SELECT id, item, count, total FROM orders ORDER BY id").fetchall()

    with DevCluster(slots=2) as cluster:
        topology, conf = example.topology()
        cluster.client.submit("orders", topology, {**conf, "topology.workers": 2})
        for most in (0, ORDERS // 3):
            wait_until(lambda most=most: len(rows()) > most, 60, what=f"more than {most} rows")
            cluster.kill("worker", 0)
        wait_until(lambda: len(rows()) >= ORDERS, 90, what="all orders are in the table")
        assert rows() == truth
