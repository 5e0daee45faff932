"""The example of a work queue: every good order has a receipt, every bad one is a dead letter that can be replayed."""

from __future__ import annotations

import json

import pytest
from example_programs import imported_example
from rabbitmq_place import RabbitServer

from tests.integration.transactional.database_servers import running
from tupletree.dead_letters import open_store
from tupletree.testing import LocalCluster


@pytest.fixture
def server():
    with running(RabbitServer) as server:
        yield server


def drain(server, queue):
    connection = server.connect()
    channel = connection.channel()
    bodies = []
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            connection.close()
            return bodies
        bodies.append(json.loads(body))


@pytest.mark.nightly
def test_receipts_and_letters_are_all_orders(server, monkeypatch, tmp_path):
    where = {"RABBITMQ_URL": server.url(server.port), "ORDERS_DB": str(tmp_path / "orders.db")}
    example = imported_example("rabbitmq_work_queue", monkeypatch, **where)
    example.put_orders(200)
    with LocalCluster() as cluster:
        cluster.submit("orders", example.topology())
        cluster.wait_until(lambda: server.messages("orders") == 0, 60)
    receipts = {receipt["id"]: receipt["total"] for receipt in drain(server, "receipts")}
    assert receipts == {number: 3 * (number % 7) for number in range(200) if number % 50 != 49}
    assert {letter.decoded()[0] for letter in open_store(example.STORE).letters()} == {49, 99, 149, 199}
