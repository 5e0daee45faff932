"""The example of orders: Kafka, HTTP and PostgreSQL for real; each order is in the table once, though workers die."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from example_programs import imported_example
from scripted_server import LoopbackServer

from tests.integration.kafka_brokers import broker_or_skip
from tests.integration.transactional.database_servers import PostgresServer, running, table_rows
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
    with running(PostgresServer) as server:
        yield server.url


@pytest.mark.nightly
def test_each_order_is_in_the_table_once(
    prices: str, postgres: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broker = broker_or_skip()
    broker.create("orders", 2)
    where = {"KAFKA": broker.addresses, "PRICES": prices, "POSTGRES_URL": postgres, "STATES": str(tmp_path / "states")}
    example = imported_example("kafka_orders", monkeypatch, **where)
    example.put_orders(ORDERS)
    truth = [(number, 10 + number % 7, number % 5) for number in range(ORDERS)]
    truth = [(number, f"item{number % 7}", count, count * price) for number, price, count in truth]

    def rows() -> list[Any]:
        return table_rows(postgres, "orders", "SELECT id, item, count, total FROM orders ORDER BY id")

    with DevCluster(slots=2) as cluster:
        topology, conf = example.topology()
        cluster.client.submit("orders", topology, {**conf, "topology.workers": 2})
        for most in (0, ORDERS // 3):
            wait_until(lambda most=most: len(rows()) > most, 60, what=f"more than {most} rows")
            cluster.kill("worker", 0)
        wait_until(lambda: len(rows()) >= ORDERS, 90, what="all orders are in the table")
        assert rows() == truth
