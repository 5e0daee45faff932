"""Stateful topologies in one process: what is committed when, who hears of it, and what goes wrong how."""

from __future__ import annotations

import threading
from collections import Counter

import pytest
from local_components import Do, DoBasic, Log

from tupletree import Bolt, CombinerBolt, FailedException, Spout, StatefulBolt, TopologyBuilder
from tupletree.errors import TopologyError, UnavailableError, UsageError
from tupletree.state.providers import open_state
from tupletree.testing import FeederSpout, LocalCluster, complete_topology

FAST = {"topology.state.checkpoint.interval.ms": 100}
ALIGNED = {**FAST, "topology.state.checkpoint.aligned": True}
MODES = pytest.mark.parametrize("conf", [FAST, ALIGNED], ids=["default", "aligned"])


class Count(StatefulBolt):
    """Counts words. ``log``: what it is called for."""

    outputs = ("word", "count")

    def __init__(self, log=None):
        self.log = Log() if log is None else log

    def init_state(self, state):
        self.counts = state
        self.log.append(("init", dict(state.items())))

    def execute(self, tup):
        count = self.counts.get(tup["word"], 0) + 1
        self.counts.put(tup["word"], count)
        self.collector.emit([tup["word"], count], tup)
        self.collector.ack(tup)

    def pre_prepare(self, txid):
        self.log.append(("prepare", txid, dict(self.counts.items())))

    def pre_commit(self, txid):
        self.log.append(("commit", txid))

    def pre_rollback(self):
        self.log.append(("rollback",))


def calls(log, name):
    return [call for call in list(log) if call[0] == name]


def counting(count, spout=None, tasks=1):
    builder = TopologyBuilder()
    builder.set_spout("words", spout or FeederSpout(["word"]))
    builder.set_bolt("count", count, tasks).fields_grouping("words", ["word"])
    return builder


@pytest.fixture
def cluster():
    with LocalCluster() as running:
        yield running


@pytest.fixture
def clock():
    with LocalCluster(simulated_time=True) as running:
        yield running


def sqlite(directory):
    return {"topology.state.provider": "sqlite", "topology.state.provider.config": {"directory": str(directory)}}


def stored(conf, component="count", index=0, name="words"):
    class Context:
        pass

    Context.conf = conf
    _, state = open_state(f"{name}/{component}/{index}", conf, Context)
    found = dict(state.items())
    state.close()
    return found


@MODES
def test_a_tuple_is_acked_when_the_checkpoint_is_committed_that_has_its_effect(clock, conf):
    words, log = FeederSpout(["word"]), Log()
    clock.submit("words", counting(Count(log), words).create_topology(), conf)
    clock.wait_until(lambda: log == [("init", {})])
    words.feed(["a"], 1)
    clock.wait_quiet()
    assert words.acked == [], "it was executed, and nothing is committed"
    clock.advance(0.15)
    clock.wait_until(lambda: words.acked == [1])
    assert log[1:3] == [("prepare", 1, {"a": 1}), ("commit", 1)]


@MODES
def test_states_outlive_their_topology_and_the_next_one_goes_on(cluster, tmp_path, conf):
    conf = {**conf, **sqlite(tmp_path)}
    for round_ in (1, 2, 3):
        words, log = FeederSpout(["word"]), Log()
        cluster.submit("words", counting(Count(log), words, tasks=2).create_topology(), conf)
        for number, word in enumerate(["a", "b", "c", "a"]):
            words.feed([word], number)
        cluster.wait_until(lambda words=words: len(words.acked) == 4)
        cluster.kill("words")
        counts = Counter(stored(conf, index=0)) + Counter(stored(conf, index=1))
        assert counts == {"a": 2 * round_, "b": round_, "c": round_}


@MODES
def test_a_bolt_that_fails_to_save_recovers_from_the_last_checkpoint(cluster, conf):
    words, log, refusals = FeederSpout(["word"]), Log(), Log()

    class Refusing(Count):
        def pre_prepare(self, txid):
            super().pre_prepare(txid)
            if self.counts.get("b") and not refusals:
                refusals.append(txid)
                raise UnavailableError("the store of this bolt is away")

    cluster.submit("words", counting(Refusing(log), words).create_topology(), conf)
    words.feed(["a"], "first")
    cluster.wait_until(lambda: words.acked == ["first"])
    words.feed(["b"], "second")
    cluster.wait_until(lambda: "second" in words.failed)
    words.feed(["b"], "second")
    cluster.wait_until(lambda: "second" in words.acked)
    assert [str(error) for _, error in cluster.errors("words")] == ["the store of this bolt is away"]
    assert calls(log, "rollback")
    assert calls(log, "init")[1:] == [("init", {"a": 1})], "what was not committed is gone"
    assert calls(log, "commit")[-1][1] >= refusals[0], "the checkpoint was taken again"
    assert words.failed == ["second"]


class Numbers(Spout):
    """Positioned. Emits 0, 1, 2, … below ``limit``, and is never more than AHEAD ahead of what is committed."""

    outputs = ("word",)

    def __init__(self, limit, told=None):
        self.limit = limit
        self.told = Log() if told is None else told

    def open(self, conf, context, collector):
        self.next = 0
        self.committed = 0

    def next_tuple(self):
        if self.next < min(self.limit, self.committed + AHEAD):
            self.collector.emit([str(self.next % 7)], self.next)
            self.next += 1

    def checkpoint_state(self):
        return self.next

    def restore_state(self, state):
        self.told.append(("restore", state))
        self.next = self.committed = state

    def ack(self, msg_id):
        self.told.append(("ack", msg_id))
        self.committed += 1

    def fail(self, msg_id):
        self.told.append(("fail", msg_id))


LIMIT, AHEAD = 4000, 400


def sevens(limit):
    return {str(digit): len(range(digit, limit, 7)) for digit in range(7)}


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
    monkeypatch.setattr("tupletree.worker.participant.LONGEST_DRAIN_S", 0.2)
    words = FeederSpout(["word"])
    builder = counting(Count(), words)
    builder.set_bolt("keeper", Do(lambda tup, collector: None)).shuffle_grouping("words")
    cluster.submit("words", builder.create_topology(), ALIGNED)
    words.feed(["a"], 1)
    error = cluster.wait_until(lambda: [error for _, error in cluster.errors("words")])[0]
    assert "component 'keeper' holds 1 tuples that it neither acks nor fails" in str(error)
    assert "belongs into its state" in str(error)


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


@MODES
def test_what_was_processed_is_committed_while_the_topology_is_inactive(cluster, conf):
    words = FeederSpout(["word"])
    cluster.submit("words", counting(Count(), words).create_topology(), {**conf, "topology.message.timeout.secs": 60})
    words.feed(["a"], 1)
    cluster.wait_until(lambda: words.is_drained)
    cluster.deactivate("words")
    cluster.wait_until(lambda: words.acked == [1])


def test_a_state_that_lost_what_was_committed_stops_the_topology_with_a_sentence(cluster, tmp_path):
    conf = {**FAST, **sqlite(tmp_path / "one")}
    words = FeederSpout(["word"])
    cluster.submit("words", counting(Count(), words).create_topology(), conf)
    words.feed(["a"], 1)
    cluster.wait_until(lambda: words.acked == [1])
    cluster.kill("words")
    words = FeederSpout(["word"])
    cluster.submit("words", counting(Count(), words).create_topology(), {**FAST, **sqlite(tmp_path / "other")})
    words.feed(["a"], 2)
    error = cluster.wait_until(lambda: cluster.errors("words"))[0][1]
    assert str(error).startswith("the state of component 'count' is empty, and the last checkpoint of the topology is ")
    assert "topology.state.id" in str(error)
    assert words.acked == []


def test_another_number_of_tasks_is_refused_with_a_sentence(cluster, tmp_path):
    conf = {**FAST, **sqlite(tmp_path)}
    words = FeederSpout(["word"])
    cluster.submit("words", counting(Count(), words, tasks=2).create_topology(), conf)
    words.feed(["a"], 1)
    cluster.wait_until(lambda: words.acked == [1])
    cluster.kill("words")
    cluster.submit("words", counting(Count(), words, tasks=3).create_topology(), conf)
    error = cluster.wait_until(lambda: cluster.errors("words"))[0][1]
    assert "component 'count' has 3 tasks, and the stored checkpoint was taken of 2" in str(error)


def test_a_stateful_bolt_that_is_new_begins_empty_beside_one_that_goes_on(cluster, tmp_path):
    conf, log = {**FAST, **sqlite(tmp_path)}, Log()
    words = FeederSpout(["word"])
    cluster.submit("words", counting(Count(), words).create_topology(), conf)
    words.feed(["a"], 1)
    cluster.wait_until(lambda: words.acked == [1])
    cluster.kill("words")
    words = FeederSpout(["word"])
    builder = counting(Count(), words)
    builder.set_bolt("more", Count(log)).shuffle_grouping("words")
    cluster.submit("words", builder.create_topology(), conf)
    words.feed(["a"], 2)
    cluster.wait_until(lambda: words.acked == [2])
    cluster.kill("words")
    assert (stored(conf)["a"], stored(conf, "more")["a"]) == (2, 1)


def test_a_cycle_is_refused():
    builder = counting(Count())
    builder.set_bolt("back", DoBasic(None, ["word"])).shuffle_grouping("count").shuffle_grouping("front")
    builder.set_bolt("front", DoBasic(None, ["word"])).shuffle_grouping("back")
    with pytest.raises(TopologyError, match="back, front form a cycle, on which no checkpoint is ever complete"):
        builder.create_topology()


def test_half_of_a_positioned_spout_is_refused():
    class Half(FeederSpout):
        def checkpoint_state(self):
            return 1

    with pytest.raises(TopologyError, match="Half has checkpoint_state alone; checkpoint_state and restore_state go"):
        counting(Count(), Half(["word"])).create_topology()


@pytest.mark.parametrize(
    ("conf", "words"),
    [
        ({"topology.acker.executors": 0}, "without ackers a stateful topology"),
        ({"topology.state.checkpoint.interval.ms": 30_000}, "must be less than topology.message.timeout.secs"),
        ({"topology.state.id": "a/b"}, "topology.state.id 'a/b' must consist of"),
        ({"topology.state.provider": "redi"}, "did you mean 'redis'"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_submit(cluster, conf, words):
    with pytest.raises(UsageError, match=words):
        cluster.submit("words", counting(Count()).create_topology(), conf)


def test_topologies_without_states_are_as_they_were():
    builder = TopologyBuilder()
    builder.set_spout("words", FeederSpout(["word"]))
    builder.set_bolt("print", Do()).shuffle_grouping("words")
    assert set(builder.create_topology().components) == {"words", "print"}


def test_complete_topology_runs_stateful_bolts():
    emitted = complete_topology(counting(Count()).create_topology(), {"words": [["a"], ["b"], ["a"]]})
    assert emitted == {"words": [["a"], ["b"], ["a"]], "count": [["a", 1], ["b", 1], ["a", 2]]}


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


def test_a_state_that_an_earlier_component_of_that_name_left_is_emptied(cluster, tmp_path):
    conf = {**FAST, **sqlite(tmp_path)}
    for number, name in enumerate(["more", "other", "more"]):
        words = FeederSpout(["word"])
        builder = counting(Count(), words)
        builder.set_bolt(name, Count()).shuffle_grouping("words")
        cluster.submit("words", builder.create_topology(), conf)
        words.feed(["a"], number)
        cluster.wait_until(lambda words=words: words.acked)
        cluster.kill("words")
    assert (stored(conf), stored(conf, "more")) == ({"a": 3}, {"a": 1})


class Refuses(Count):
    """Refuses to save the second checkpoint that has a 'b', after it has waited for the test."""

    def __init__(self, refusals):
        super().__init__()
        self.refusals = refusals

    def pre_prepare(self, txid):
        if self.counts.get("b") and not self.refusals:
            self.refusals.append(txid)
            raise UnavailableError("the store of this bolt is away")


def test_a_tuple_that_a_bolt_holds_over_a_rollback_is_failed(cluster):
    held, refusals = Log(), Log()

    class Holds(Refuses):
        def execute(self, tup):
            self.counts.put(tup["word"], 1)
            if tup["word"] == "held":
                held.append(tup)
            else:
                self.collector.ack(tup)

    words = FeederSpout(["word"])
    conf = {**FAST, "topology.message.timeout.secs": 600}
    cluster.submit("words", counting(Holds(refusals), words).create_topology(), conf)
    words.feed(["held"], "held")
    words.feed(["a"], "a")
    cluster.wait_until(lambda: words.acked == ["a"])
    words.feed(["b"], "b")
    cluster.wait_until(lambda: set(words.failed) == {"held", "b"})


def test_nothing_is_executed_between_a_rollback_and_the_next_init_state(cluster):
    order, refusals = Log(), Log()

    class Watched(Refuses):
        def init_state(self, state):
            super().init_state(state)
            order.append("init")

        def pre_rollback(self):
            order.append("rollback")

        def execute(self, tup):
            order.append("execute")
            super().execute(tup)

    words = FeederSpout(["word"])
    cluster.submit("words", counting(Watched(refusals), words).create_topology(), FAST)
    for number in range(300):
        words.feed(["b"], number)
    cluster.wait_until(lambda: "rollback" in order)
    for number in range(300):
        words.feed(["c"], -number)
    cluster.wait_until(lambda: -299 in words.acked)
    rolled_back = order.index("rollback")
    assert order[rolled_back + 1] == "init"
