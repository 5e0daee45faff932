"""An executor is divided while others send to it: what they send later does not overtake what waits."""

from __future__ import annotations

import random
import threading
from array import array
from typing import Any

import pytest
from local_components import Do

from tupletree import TopologyBuilder, config
from tupletree.parallelism import executors_of, tasks_of
from tupletree.testing import FeederSpout
from tupletree.tuples import Origin
from tupletree.worker import engine as engine_module
from tupletree.worker.core.batches import MIXED, EncodedBatch, Rows, encode
from tupletree.worker.core.task import Environment
from tupletree.worker.engine import Engine, local_tasks
from tupletree.worker.execution.delivery import put_again
from tupletree.worker.execution.inbox import Inbox
from tupletree.worker.plan import Plan

TASKS = 3
ENOUGH_S = 60
VAIN_S = 0.5  # for a sender that has to wait for its turn, and does not come before


class Quiet:
    """The outside of an engine that is never started."""

    def send(self, batch: Any, tasks: Any) -> None: ...
    def post(self, updates: Any) -> None: ...
    def failed(self, failure: Any) -> None: ...
    def congestion_changed(self) -> None: ...


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    """An engine whose loops do not run: what comes stays in the inboxes."""
    builder = TopologyBuilder()
    builder.set_spout("spout", FeederSpout(["n"]))
    builder.set_bolt("bolt", Do(), parallelism=TASKS).shuffle_grouping("spout")
    conf = config.defaults()
    spec = builder.create_topology().spec()
    executors = executors_of(tasks_of(spec, conf), {"bolt": TASKS, "spout": 1})
    environment = Environment(lambda: 0.0, random.Random(1).getrandbits, lambda *error: None, True, lambda *emit: None)
    plan = Plan("t", spec, conf, tasks_of(spec, conf), local_tasks(executors), environment, seed=1)
    monkeypatch.setattr(Engine, "_start_loop", lambda *arguments, **named: None)
    return Engine(plan, executors, Quiet(), lambda executor: None)


def numbers_of(inbox: Inbox) -> list[int]:
    """The numbers that wait in an inbox, in order."""
    return [row[0][0] for item in inbox.items() for _, rows in item.rows_of(inbox.tasks) for row in rows]


def test_what_is_sent_during_the_division_comes_after_what_waited_and_only_once(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = next(one for one in engine.executors if one.component_id == "bolt")
    tasks = sorted(whole.inbox.tasks)
    [spout] = engine.spout_tasks
    origin = Origin("spout", spout, "default", ["n"])

    def message(number: int) -> EncodedBatch:
        rows = Rows.of([([number], 0, 0) for _ in tasks])
        return encode(origin, MIXED, Rows(rows.columns, rows.roots, rows.edges, rows.pairs, 0, 64, array("I", tasks)))

    has_sent = threading.Event()

    def send() -> None:
        engine.receive(message(3))
        has_sent.set()

    sender = threading.Thread(target=send)

    def put_while_others_send(*arguments: Any) -> None:
        if sender.ident is None:
            sender.start()
            has_sent.wait(VAIN_S)
        put_again(*arguments)

    monkeypatch.setattr(engine_module, "put_again", put_while_others_send)
    engine.receive(message(1))
    engine.receive(message(2))
    engine._divide(whole)
    sender.join(ENOUGH_S)
    engine.receive(message(4))
    inboxes = [engine._inboxes[task] for task in tasks]
    assert len(set(inboxes)) == TASKS
    assert [numbers_of(inbox) for inbox in inboxes] == [[1, 2, 3, 4]] * TASKS
    assert [len(one.tasks) for one in engine.executors if one.component_id == "bolt"] == [1] * TASKS
