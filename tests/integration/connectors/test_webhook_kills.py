"""kill -9 of workers and of an acker while webhooks are called: nothing was answered 200 that is not processed."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import killed_topology
import pytest
from killed_topology import done
from webhook_client import post

from tupletree import TopologyBuilder
from tupletree._net import ReservedPorts
from tupletree.connectors.formats import Text
from tupletree.connectors.http import WebhookSpout
from tupletree.testing import DevCluster, wait_until

CALLERS = 16


class Caller(threading.Thread):
    """Posts one text after another, each until it is answered 200, and notes every answer."""

    def __init__(self, port: int, number: int, is_over: threading.Event) -> None:
        super().__init__(daemon=True)
        self._port, self._number, self._is_over = port, number, is_over
        self.processed: list[str] = []
        self.seen: Counter[str] = Counter()

    def run(self) -> None:
        turns = itertools.count()
        while not self._is_over.is_set():
            text = f"{self._number}-{next(turns)}"
            while not self._is_processed(text) and not self._is_over.wait(0.05):
                pass

    def _is_processed(self, text: str) -> bool:
        try:
            reply = post(self._port, text.encode(), Idempotency_Key=text)
        except ConnectionRefusedError:
            self.seen["refused"] += 1
            return False
        except ConnectionError:
            self.seen["broken"] += 1
            return False
        self.seen[str(reply.status)] += 1
        if reply.status == 200:
            self.processed.append(text)
        return reply.status == 200


@pytest.fixture
def cluster() -> Iterator[DevCluster]:
    with DevCluster(slots=2, ackers=2) as running:
        yield running


@pytest.mark.nightly
def test_nothing_is_answered_that_was_not_processed(cluster: DevCluster, tmp_path: Path) -> None:
    ports = ReservedPorts()
    [port] = ports.reserve(1)
    builder = TopologyBuilder()
    texts = builder.set_spout("texts", WebhookSpout(port, Text(), timeout_s=10))
    builder.set_bolt("append", killed_topology.Append(tmp_path), parallelism=2).shuffle_grouping(texts)
    code = [killed_topology.__file__]
    cluster.client.submit("hooks", builder.create_topology(), {"topology.workers": 2}, code=code)

    is_over = threading.Event()
    callers = [Caller(port, number, is_over) for number in range(CALLERS)]

    def processed() -> int:
        return sum(len(caller.processed) for caller in callers)

    def goes_on(what: str) -> None:
        before = processed()
        wait_until(lambda: processed() > before + 300, 90, what=what)

    try:
        for caller in callers:
            caller.start()
        goes_on("requests are processed")
        for victim in ("worker", "worker", "worker", "acker", "worker"):
            cluster.kill(victim, 0)
            goes_on(f"requests are processed after the kill of a {victim}")
    finally:
        is_over.set()
        for caller in callers:
            caller.join(60)
        ports.release()
    seen = sum((caller.seen for caller in callers), Counter[str]())
    answered = {text for caller in callers for text in caller.processed}
    assert answered - set(done(tmp_path)) == set(), seen
    assert set(seen) <= {"200", "503", "refused", "broken"}, seen
    assert seen["200"] == len(answered)
    assert seen["broken"], "no request was in process at a kill"
