"""What a spout may rely on: who hears of a tuple, how many may be pending, when it is active."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import pytest
from local_components import Do, DoBasic, Keep, Log
from scene import Scene

from tupletree import Spout, TopologyBuilder
from tupletree.testing import FeederSpout, LocalCluster


class Noting(Spout):
    """Emits ``count`` numbers as fast as it may, and notes (event, task, …) for every call."""

    outputs = ["n"]

    def __init__(self, log: Log, count: int) -> None:
        self.log = log
        self.count = count
        self.next = 0

    def open(self, conf: Any, context: Any, collector: Any) -> None:
        self.note("open", threading.current_thread().name.startswith("run-loop"))

    def close(self) -> None:
        self.note("close")

    def activate(self) -> None:
        self.note("activate")

    def deactivate(self) -> None:
        self.note("deactivate")

    def next_tuple(self) -> None:
        if self.next < self.count:
            self.collector.emit([self.next], (self.context.task_id, self.next))
            self.next += 1
            self.note("emit", self.collector.pending)

    def ack(self, msg_id: Any) -> None:
        self.note("ack", msg_id)

    def fail(self, msg_id: Any) -> None:
        self.note("fail", msg_id)

    def note(self, event: str, *more: Any) -> None:
        self.log.append((event, self.context.task_id, *more))


def of(log: Log, event: str) -> list[Any]:
    return [entry for entry in list(log) if entry[0] == event]


@pytest.mark.parametrize("shards", [1, 3])
def test_ack_and_fail_arrive_at_the_task_that_emitted(cluster: LocalCluster, shards: int) -> None:
    """The acker knows the spout task of every tree."""
    log = Log()
    builder = TopologyBuilder()
    builder.set_spout("spout", Noting(log, 40), 2).set_num_tasks(4)

    def judge(tup: Any, collector: Any) -> None:
        collector.fail(tup) if tup[0] % 4 == 3 else collector.ack(tup)

    builder.set_bolt("bolt", Do(judge), 3).shuffle_grouping("spout")
    cluster.submit("t", builder.create_topology(), {"topology.acker.executors": shards})
    cluster.wait_quiet()
    assert all(task == msg_id[0] for event, task, msg_id in [*of(log, "ack"), *of(log, "fail")])
    assert Counter(msg_id for _, _, msg_id in of(log, "ack")) == {
        (task, n): 1 for task in {entry[1] for entry in log} for n in range(40) if n % 4 != 3
    }
    assert len(of(log, "fail")) == 40


def test_zero_ackers_ack_inside_emit(cluster: LocalCluster) -> None:
    log = Log()
    builder = TopologyBuilder()
    builder.set_spout("spout", Noting(log, 3))

    def fail(tup: Any, collector: Any) -> None:
        assert tup.message_id.anchors == {}
        collector.fail(tup)

    builder.set_bolt("bolt", Do(fail)).shuffle_grouping("spout")
    conf = {"topology.acker.executors": 0, "topology.max.spout.pending": 1}
    cluster.submit("t", builder.create_topology(), conf)
    cluster.wait_quiet()
    cluster.advance(100)
    events = [(entry[0], entry[-1][1] if entry[0] == "ack" else None) for entry in log]
    assert events == [("open", None), *[pair for n in range(3) for pair in (("ack", n), ("emit", None))]]
    assert {entry[2] for entry in of(log, "emit")} == {0}


def test_several_ackers_share_the_trees_by_root_modulo_their_number(scene: Scene) -> None:
    """Mod hashing selects the acker; every ledger holds exactly the roots of its residue."""
    scene.start({"topology.acker.executors": 4})
    for number in range(60):
        scene.feeder.feed([number], number)
    scene.cluster.wait_quiet()
    ledgers = scene.cluster._find("t")._ledgers
    roots = {root for tup in scene.held for root in tup.message_id.anchors}
    assert len(roots) == 60
    for shard, ledger in enumerate(ledgers):
        assert ledger.trees == len([root for root in roots if root % 4 == shard]) > 0
    scene.order(lambda held, collector: [collector.ack(tup) for tup in held])
    assert sorted(scene.outcome[0]) == list(range(60))
    assert [ledger.trees for ledger in ledgers] == [0, 0, 0, 0]


def test_a_ledger_for_each_worker_is_the_default(cluster: LocalCluster) -> None:
    builder = TopologyBuilder()
    builder.set_spout("spout", FeederSpout(["n"]))
    cluster.submit("one", builder.create_topology())
    cluster.submit("three", builder.create_topology(), {"topology.workers": 3})
    assert [len(cluster._find(name)._ledgers) for name in ("one", "three")] == [1, 3]


@pytest.mark.parametrize("limit", [1, 7])
def test_max_spout_pending_bounds_the_trees_under_way(cluster: LocalCluster, limit: int) -> None:
    log = Log()
    builder = TopologyBuilder()
    builder.set_spout("spout", Noting(log, 300), 2)
    builder.set_bolt("bolt", Do(), 2).shuffle_grouping("spout")
    cluster.submit("t", builder.create_topology(), {"topology.max.spout.pending": limit})
    cluster.wait_until(lambda: len(of(log, "ack")) == 600, 60)
    assert max(pending for _, _, pending in of(log, "emit")) <= limit


def test_max_spout_pending_stops_a_spout_until_something_ends(scene: Scene) -> None:
    scene.start({"topology.max.spout.pending": 2})
    for number in range(5):
        scene.feeder.feed([number], number)
    scene.cluster.wait_quiet()
    assert len(scene.held) == 2
    scene.order(lambda held, collector: collector.ack(held[0]))
    assert len(scene.held) == 3
    scene.order(lambda held, collector: collector.fail(held[1]))
    assert len(scene.held) == 4
    scene.cluster.advance(60)
    scene.cluster.wait_quiet()
    assert len(scene.held) == 5, "timing out makes room too"


def test_deactivate_and_activate_call_the_spout_and_stop_and_start_it(cluster: LocalCluster) -> None:
    log = Log()
    builder = TopologyBuilder()
    builder.set_spout("spout", Noting(log, 10**9))
    builder.set_bolt("bolt", Do()).shuffle_grouping("spout")
    cluster.submit("t", builder.create_topology(), {"topology.max.spout.pending": 5})
    cluster.wait_until(lambda: len(of(log, "ack")) > 50)
    cluster.deactivate("t")
    cluster.wait_until(lambda: of(log, "deactivate"))
    cluster.wait_quiet()
    emitted = len(of(log, "emit"))
    assert len(of(log, "ack")) == emitted, "what was under way is acked all the same"
    cluster.activate("t")
    cluster.wait_until(lambda: len(of(log, "emit")) > emitted)
    cluster.kill("t")
    calls = [entry[0] for entry in log if entry[0] not in ("emit", "ack")]
    assert calls == ["open", "deactivate", "activate", "close"]
    assert log[0][-1] is True, "open is called on the thread that goes on to drive the spout"


def test_a_spout_of_a_topology_that_is_not_active_is_opened_when_it_becomes_so(cluster: LocalCluster) -> None:
    log = Log()
    builder = TopologyBuilder()
    builder.set_spout("spout", Noting(log, 3))
    builder.set_bolt("bolt", Do()).shuffle_grouping("spout")
    cluster.submit("t", builder.create_topology(), inactive=True)
    cluster.wait_quiet()
    assert list(log) == []
    cluster.activate("t")
    cluster.wait_until(lambda: len(of(log, "ack")) == 3)
    assert [entry[0] for entry in log[:2]] == ["open", "emit"]


def test_emit_returns_the_receiving_task_ids(cluster: LocalCluster) -> None:
    returned, received = Log(), Log()

    class Returning(Spout):
        outputs = {"default": ["n"], "unheard": ["n"]}

        def open(self, conf: Any, context: Any, collector: Any) -> None:
            self.left = 20

        def next_tuple(self) -> None:
            if self.left:
                self.left -= 1
                returned.append((self.left, self.collector.emit([self.left], msg_id=1)))
                assert self.collector.emit([0], stream="unheard") == ()

    def relay(tup: Any, collector: Any) -> None:
        returned.append((100 + tup[0], collector.emit([100 + tup[0]], anchors=tup)))
        collector.ack(tup)

    def relay_basic(tup: Any, collector: Any) -> None:
        returned.append((200 + tup[0], collector.emit([200 + tup[0]])))

    builder = TopologyBuilder()
    builder.set_spout("spout", Returning())
    builder.set_bolt("a", Do(relay, ["n"]), 2).shuffle_grouping("spout")
    builder.set_bolt("b", DoBasic(relay_basic, ["n"]), 2).fields_grouping("spout", ["n"])
    builder.set_bolt("copies", Keep(received), 2).all_grouping("a").all_grouping("b")
    builder.set_bolt("sink", Keep(received), 3).shuffle_grouping("a").shuffle_grouping("b")
    builder.set_bolt("first", Keep(received)).shuffle_grouping("spout")
    cluster.submit("t", builder.create_topology())
    cluster.wait_quiet()
    relays = {
        task.task_id
        for executor in cluster._find("t").engine.executors
        for task in executor.tasks
        if executor.component_id in ("a", "b")
    }
    arrived: dict[int, list[int]] = {}
    for task, [n] in received:
        arrived.setdefault(n, []).append(task)
    for n, receivers in returned:
        assert sorted(task for task in receivers if task not in relays) == sorted(arrived[n])
    assert len(returned) == 60
    assert all(len(receivers) == 3 for _, receivers in returned)


def test_emit_many_tracks_each_row(cluster: LocalCluster) -> None:
    log = Log()

    class Many(Spout):
        outputs = ["n"]
        done = False

        def next_tuple(self) -> None:
            if not self.done:
                self.done = True
                assert self.collector.emit_many(([n] for n in range(50)), range(50)) == 50
                assert self.collector.emit_many([[99], [98]]) == 2

        def ack(self, msg_id: Any) -> None:
            log.append(msg_id)

    kept = Log()
    builder = TopologyBuilder()
    builder.set_spout("spout", Many())
    builder.set_bolt("bolt", Keep(kept)).shuffle_grouping("spout")
    cluster.submit("t", builder.create_topology())
    cluster.wait_quiet()
    assert sorted(log) == list(range(50))
    assert [values[0] for _, values in kept] == [*range(50), 99, 98]
