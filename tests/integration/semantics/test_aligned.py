"""Aligned checkpoints in one process: states, positions and what bolts keep are of one cut."""

from __future__ import annotations

import threading
from collections import Counter

import pytest
from local_components import Do, DoBasic, Log
from stateful_scene import ALIGNED, LIMIT, Count, Numbers, calls, counting, sevens, sqlite, stored

from tupletree import Bolt, CombinerBolt, FailedException, StatefulBolt, TopologyBuilder
from tupletree.testing import FeederSpout, LocalCluster


@pytest.fixture
def cluster():
    with LocalCluster() as running:
        yield running


def test_aligned_states_are_exactly_once_though_tuples_fail_at_random(cluster, tmp_path):
    conf, told, failures = {**ALIGNED, **sqlite(tmp_path)}, Log(), Log()

    def pass_on(tup, collector):
        if tup["word"] == "3" and len(failures) < 5 and len(told) > 300 * (len(failures) + 1):
            failures.append(tup["word"])
            raise FailedException("one in many")
        collector.emit([tup["word"]])

    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers(LIMIT, told))
    builder.set_bolt("left", DoBasic(pass_on, ["word"]), 2).shuffle_grouping("numbers")
    builder.set_bolt("count", Count(), 2).fields_grouping("left", ["word"])
    cluster.submit("words", builder.create_topology(), conf)
    cluster.wait_until(lambda: ("ack", LIMIT - 1) in told, 60)
    said = "component 'left' failed a tuple: FailedException: one in many; with aligned checkpoints"
    assert any(said in str(error) for _, error in cluster.errors("words")), "what fails may fail each time"
    cluster.kill("words")
    assert len(failures) == 5
    assert len(calls(told, "restore")) > 1, "it went back"
    assert not calls(told, "fail"), "a positioned spout goes back instead"
    assert Counter(stored(conf, index=0)) + Counter(stored(conf, index=1)) == sevens(LIMIT)


class Slow(DoBasic):
    """Passes on what it gets, and takes its time now and then."""

    blocking = True

    def __init__(self):
        super().__init__(None, ["word"])

    def execute(self, tup, collector):
        if tup["word"] == "6":
            threading.Event().wait(0.002)
        collector.emit([tup["word"]])


def test_aligned_a_checkpoint_cuts_a_diamond_at_one_place(cluster):
    """Both arms of a diamond carry every number: at every checkpoint both have counted the same ones."""
    log, told = Log(), Log()

    class Arms(StatefulBolt):
        def init_state(self, state):
            self.state = state

        def execute(self, tup):
            self.state.put(tup.source_component, self.state.get(tup.source_component, 0) + 1)
            self.collector.ack(tup)

        def pre_prepare(self, txid):
            log.append((txid, dict(self.state.items())))

    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers(LIMIT, told))
    builder.set_bolt("fast", DoBasic(lambda tup, collector: collector.emit([tup["word"]]), ["word"])).shuffle_grouping(
        "numbers"
    )
    builder.set_bolt("slow", Slow()).shuffle_grouping("numbers")
    builder.set_bolt("arms", Arms()).shuffle_grouping("fast").shuffle_grouping("slow")
    cluster.submit("arms", builder.create_topology(), ALIGNED)
    cluster.wait_until(lambda: ("ack", LIMIT - 1) in told, 60)
    cuts = [state for _, state in list(log)]
    assert cuts[-1] == {"fast": LIMIT, "slow": LIMIT}
    assert all(state.get("fast") == state.get("slow") for state in cuts)
    assert len({state.get("fast") for state in cuts}) > 2, "there were checkpoints on the way"


def test_aligned_a_bolt_that_keeps_tuples_is_told_what_is_expected_of_it(cluster, monkeypatch):
    monkeypatch.setattr("tupletree.worker.checkpoint.participant.MAX_DRAIN_S", 0.2)
    words = FeederSpout(["word"])
    builder = counting(Count(), words)
    builder.set_bolt("keeper", Do(lambda tup, collector: None)).shuffle_grouping("words")
    cluster.submit("words", builder.create_topology(), ALIGNED)
    words.feed(["a"], 1)
    error = cluster.wait_until(lambda: [error for _, error in cluster.errors("words")])[0]
    assert "component 'keeper' holds 1 tuples that it neither acks nor fails" in str(error)
    assert "store the values in the bolt's state, and ack the tuples" in str(error)


def test_aligned_a_checkpoint_waits_for_acks_that_come_later(cluster):
    words, late = FeederSpout(["word"]), []

    def keep(tup, collector):
        late.append(tup)
        timer = threading.Timer(0.3, lambda: collector._task.context.call_soon(lambda: collector.ack(late.pop())))
        timer.daemon = True
        timer.start()

    builder = counting(Count(), words)
    builder.set_bolt("keeper", Do(keep)).shuffle_grouping("words")
    cluster.submit("words", builder.create_topology(), ALIGNED)
    words.feed(["a"], 1)
    cluster.wait_until(lambda: words.acked == [1])
    assert cluster.errors("words") == []


class Sums(CombinerBolt):
    """Counts words before the exchange, in its memory."""

    outputs = ("word", "n")
    held = 40
    interval_s = 0.05

    def key_values(self, tup):
        return [(tup["word"], 1)]


class AddUp(Count):
    """Adds what combiners have counted."""

    def execute(self, tup):
        self.counts.put(tup["word"], self.counts.get(tup["word"], 0) + tup["n"])
        self.collector.ack(tup)


def test_aligned_what_other_bolts_keep_is_taken_back_with_the_states(cluster, tmp_path):
    conf, told, failures = {**ALIGNED, **sqlite(tmp_path)}, Log(), Log()

    def pass_on(tup, collector):
        if tup["word"] == "3" and len(failures) < 4 and len(told) > 500 * (len(failures) + 1):
            failures.append(tup["word"])
            raise FailedException("one in many")
        collector.emit([tup["word"], tup["n"]])

    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers(LIMIT, told))
    builder.set_bolt("sums", Sums(), 2).shuffle_grouping("numbers")
    builder.set_bolt("pass", DoBasic(pass_on, ["word", "n"])).shuffle_grouping("sums")
    builder.set_bolt("count", AddUp(), 2).fields_grouping("pass", ["word"])
    cluster.submit("words", builder.create_topology(), conf)
    cluster.wait_until(lambda: ("ack", LIMIT - 1) in told, 60)
    cluster.kill("words")
    assert len(failures) == 4
    assert len(calls(told, "restore")) > 2
    assert Counter(stored(conf, index=0)) + Counter(stored(conf, index=1)) == sevens(LIMIT)


class Later(Bolt):
    """Emits and acks what it got some milliseconds later, from a thread of its own."""

    outputs = ("word",)

    def prepare(self, conf, context, collector):
        self.timers = Log()

    def execute(self, tup):
        timer = threading.Timer(0.02, self.context.call_soon, [lambda: self.done(tup)])
        timer.daemon = True
        timer.start()

    def done(self, tup):
        self.collector.emit([tup["word"]], tup)
        self.collector.ack(tup)


@pytest.mark.long
def test_aligned_what_threads_of_a_bolt_bring_after_a_recovery_is_not_emitted(cluster, tmp_path):
    conf, told, failures = {**ALIGNED, **sqlite(tmp_path)}, Log(), Log()

    def pass_on(tup, collector):
        if tup["word"] == "3" and len(failures) < 3 and len(told) > 50 * (len(failures) + 1):
            failures.append(tup["word"])
            raise FailedException("one in many")
        collector.emit([tup["word"]])

    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers(LIMIT // 8, told))
    builder.set_bolt("later", Later()).shuffle_grouping("numbers")
    builder.set_bolt("pass", DoBasic(pass_on, ["word"])).shuffle_grouping("later")
    builder.set_bolt("count", Count()).fields_grouping("pass", ["word"])
    conf["topology.max.spout.pending"] = 20
    cluster.submit("words", builder.create_topology(), conf)
    cluster.wait_until(lambda: ("ack", LIMIT // 8 - 1) in told, 60)
    cluster.kill("words")
    assert len(failures) == 3
    assert stored(conf) == sevens(LIMIT // 8)
