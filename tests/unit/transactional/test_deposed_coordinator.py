"""The spout that the coordinator runs in, when another coordinator of the same id takes over, and its status."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from coordinator_scene import ID, Process

from tupletree._stores.memory_nodes import MemoryStore
from tupletree.attempt import TransactionAttempt
from tupletree.testing.local_cluster import SimulatedClock
from tupletree.transactional import coordinator_spout
from tupletree.transactional.coordinator_spout import Tree
from tupletree.transactional.progress import Progress


def test_deposed_by_another_topology_it_stands_still_for_good() -> None:
    store, clock = MemoryStore(), SimulatedClock()
    first, second = Process(store, "one", clock), Process(store, "two", clock)
    assert first.commit_one() == 1
    assert second.take()[0][1].epoch == 2
    first.collector.take()
    for _ in range(100):
        clock.now_s += 10
        first.spout.fail((Tree.BATCH, TransactionAttempt(2, (1 << 32) + 1)))
        assert first.take() == []
    assert "topology two, process" in first.collector.errors[0]


def test_deposed_by_a_leftover_of_its_own_topology_it_takes_over_again_after_a_pause() -> None:
    store, clock = MemoryStore(), SimulatedClock()
    new, leftover = Process(store, "one", clock), Process(store, "one", clock)
    [batch] = new.take()
    assert leftover.take()[0][1].epoch == 2  # it stood still while it was replaced, and is stopped now
    new.spout.ack(batch)
    assert new.take() == []
    clock.now_s += coordinator_spout.FIRST_PAUSE_S
    assert new.take()[0][1] == TransactionAttempt(1, 3 << 32)


def test_a_deposed_coordinator_that_only_replays_finds_out() -> None:
    """The metadata of what it replays is stored already, so it writes nothing; and emitters fail all that it emits."""
    store, clock = MemoryStore(), SimulatedClock()
    deposed = Process(store, "one", clock)
    [batch] = deposed.take()
    Progress.take_over(store, ID, "topology two, process 2")
    deposed.spout.fail(batch)
    assert deposed.take() == []
    assert deposed.collector.errors == [
        "another coordinator of transactional id 'count' has taken over: topology two, process 2"
    ]


def test_the_pause_grows_while_two_coordinators_of_one_topology_depose_each_other() -> None:
    store, clock = MemoryStore(), SimulatedClock()
    processes = [Process(store, "one", clock), Process(store, "one", clock)]
    began: list[float] = []
    epochs = 0
    for _ in range(2000):
        clock.now_s += 0.1
        for process in processes:
            for tree, attempt in process.take():
                if attempt.epoch > epochs:
                    epochs = attempt.epoch
                    began.append(clock.now_s)
                process.spout.fail((tree, attempt))
    tenures = [after - before for before, after in pairwise(began)]
    assert max(tenures) > 10 * coordinator_spout.FIRST_PAUSE_S
    assert max(tenures) < 2 * coordinator_spout.MAX_PAUSE_S


def test_its_status_tells_what_is_under_way_and_for_how_long() -> None:
    clock = SimulatedClock()
    process = Process(MemoryStore(), "one", clock, pending=2)
    assert process.spout.status() == {
        "kind": "coordinator",
        "transactional_id": ID,
        "state": "taking over",
        "committed": 0,
        "active": [],
        "failures": 0,
        "lag": None,
    }
    source: Any = process.spout.spout
    source.begins_together = False
    [first] = process.take()
    clock.now_s += 1.5
    [second] = process.take()
    clock.now_s += 0.5
    process.spout.ack(first)
    status = process.spout.status()
    assert status["state"] == "running"
    assert status["active"] == [
        {"txid": 1, "attempt": first[1].attempt, "phase": "committing", "age_s": 2.0},
        {"txid": 2, "attempt": second[1].attempt, "phase": "processing", "age_s": 0.5},
    ]
    assert json.loads(json.dumps(status)) == status
    process.spout.fail(second)
    assert (process.spout.status()["failures"], len(process.spout.status()["active"])) == (1, 1)
    process.spout.ack((Tree.COMMIT, first[1]))
    assert (process.spout.status()["failures"], process.spout.status()["committed"]) == (0, 1)


def test_it_remembers_the_age_of_what_is_active_only() -> None:
    process = Process(MemoryStore(), "one", SimulatedClock(), pending=3)
    for _ in range(60):
        for msg_id in process.take():
            process.spout.ack(msg_id)
    assert process.spout.committed > 15
    assert len(process.spout._attempts_began_s) <= 3


def test_its_status_has_the_lag_of_the_source_or_what_that_raises() -> None:
    process = Process(MemoryStore(), "one", SimulatedClock())
    source: Any = process.spout.spout
    source.lag = lambda: {"bytes": 7}
    assert process.spout.status()["lag"] == {"bytes": 7}
    source.lag = lambda: 1 / 0
    assert process.spout.status()["lag"] == {"error": "ZeroDivisionError: division by zero"}
    source.lag = lambda: 5
    assert process.spout.status()["lag"] == {"error": "TypeError: 'int' object is not iterable"}


def test_the_status_of_a_deposed_coordinator_says_so() -> None:
    store, clock = MemoryStore(), SimulatedClock()
    first, second = Process(store, "one", clock), Process(store, "two", clock)
    assert first.commit_one() == 1
    second.take()
    first.take()
    assert first.spout.status()["state"] == "deposed"
