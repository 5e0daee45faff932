"""Spouts where checkpoints are aligned: where they go back to, and what they hear of."""

from __future__ import annotations

import threading

import pytest
from local_components import Do, DoBasic, Log
from stateful_scene import ALIGNED, Count, Numbers, counting, sqlite, stored

from tupletree import FailedException, Spout, TopologyBuilder
from tupletree.errors import TaskFailedError
from tupletree.testing import FeederSpout, LocalCluster


@pytest.fixture
def cluster():
    with LocalCluster() as running:
        yield running


class Offsets(Spout):
    """Its position is one and the same object all the time."""

    outputs = ("word",)

    def __init__(self, told):
        self.told = told

    def open(self, conf, context, collector):
        self.offsets = {"p": 0}

    def next_tuple(self):
        if self.offsets["p"] < 10:
            self.collector.emit([str(self.offsets["p"])], self.offsets["p"])
            self.offsets["p"] += 1

    def checkpoint_state(self):
        return self.offsets

    def restore_state(self, state):
        self.told.append(dict(state))
        self.offsets = state

    def ack(self, msg_id):
        self.told.append(msg_id)


def test_a_position_is_what_it_was_when_it_was_asked_for_though_the_spout_changes_the_object(cluster, tmp_path):
    told, refusals, conf = Log(), Log(), {**ALIGNED, **sqlite(tmp_path)}

    class RefusesFirst(Count):
        def pre_prepare(self, txid):
            if len(refusals) < 3 and self.counts.get("9"):
                refusals.append(txid)
                raise ValueError("not yet")

    cluster.submit("words", counting(RefusesFirst(), Offsets(told)).create_topology(), conf)
    cluster.wait_until(lambda: set(range(10)) <= {one for one in told if isinstance(one, int)})
    cluster.kill("words")
    assert len(refusals) == 3
    assert [one for one in told if isinstance(one, dict)] == [{"p": 0}] * 4
    assert stored(conf) == {str(n): 1 for n in range(10)}


@pytest.mark.parametrize("method", ["ack", "fail"])
def test_an_exception_of_a_spout_that_hears_of_its_messages_ends_the_worker(cluster, method):
    refusals = Log()

    class Broken(FeederSpout):
        def ack(self, msg_id):
            if method == "ack":
                raise ValueError("broken")

        def fail(self, msg_id):
            raise ValueError("broken")

    class Refuses(Count):
        def pre_prepare(self, txid):
            if method == "fail" and self.counts.get("a") and not refusals:
                refusals.append(txid)
                raise ValueError("not yet")

    words = Broken(["word"])
    cluster.submit("words", counting(Refuses(), words).create_topology(), ALIGNED)
    words.feed(["a"], 1)
    with pytest.raises(TaskFailedError, match="component 'words' failed: ValueError: broken"):
        cluster.wait_until(lambda: False, 5)


def test_messages_that_wait_for_a_checkpoint_count_as_pending(cluster):
    executed = Log()

    class Never(Count):
        def execute(self, tup):
            executed.append(tup["word"])
            super().execute(tup)

        def pre_prepare(self, txid):
            if executed:
                raise ValueError("never")

    conf = {**ALIGNED, "topology.max.spout.pending": 10, "topology.state.checkpoint.interval.ms": 20_000}
    words = FeederSpout(["word"])
    for number in range(100):
        words.feed(["a"], number)
    cluster.submit("words", counting(Never(), words).create_topology(), conf)
    cluster.wait_until(lambda: len(executed) >= 10)
    cluster.wait_quiet()
    assert len(executed) == 10


def test_a_message_whose_verdict_comes_after_the_prepare_is_in_the_checkpoint(cluster):
    """It was emitted before, so every state has its effect: nothing that fails later may have it replayed."""
    words, held = FeederSpout(["word"]), Log()

    def hold(tup, collector):
        held.append(tup)
        timer = threading.Timer(0.3, collector._task.context.call_soon, [lambda: collector.ack(tup)])
        timer.daemon = True
        timer.start()

    builder = counting(Count(), words)
    builder.set_bolt("hold", Do(hold)).shuffle_grouping("words")
    cluster.submit("words", builder.create_topology(), ALIGNED)
    words.feed(["a"], 1)
    cluster.wait_until(lambda: words.acked == [1])
    assert words.failed == []


def test_nothing_may_be_emitted_in_open(cluster):
    class Early(Numbers):
        def open(self, conf, context, collector):
            super().open(conf, context, collector)
            collector.emit(["early"])

    cluster.submit("words", counting(Count(), Early(10)).create_topology(), ALIGNED)
    with pytest.raises(TaskFailedError, match="spout 'words' has emitted in open"):
        cluster.wait_until(lambda: False, 5)


def test_a_spout_without_a_position_hears_fail_for_all_that_is_not_committed(cluster, tmp_path):
    conf, words, failures = {**ALIGNED, **sqlite(tmp_path)}, FeederSpout(["word"]), Log()

    def pass_on(tup, collector):
        if tup["word"] == "poison" and not failures:
            failures.append(1)
            raise FailedException
        collector.emit([tup["word"]])

    builder = TopologyBuilder()
    builder.set_spout("words", words)
    builder.set_bolt("pass", DoBasic(pass_on, ["word"])).shuffle_grouping("words")
    builder.set_bolt("count", Count()).fields_grouping("pass", ["word"])
    cluster.submit("words", builder.create_topology(), conf)
    words.feed(["a"], "a")
    cluster.wait_until(lambda: words.acked == ["a"])
    for word in ("b", "poison", "c"):
        words.feed([word], word)
    cluster.wait_until(lambda: set(words.failed) >= {"poison"})
    for word in words.failed:
        words.feed([word], word)
    cluster.wait_until(lambda: set(words.acked) == {"a", "b", "poison", "c"})
    cluster.kill("words")
    assert stored(conf) == {"a": 1, "b": 1, "poison": 1, "c": 1}
