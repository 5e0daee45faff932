"""Stateful topologies in one process: what is committed when, who hears of it, and what goes wrong how."""

from __future__ import annotations

from collections import Counter

import pytest
from local_components import Do, DoBasic, Log
from stateful_scene import ALIGNED, FAST, Count, calls, counting, sqlite, stored

from tupletree import TopologyBuilder
from tupletree.errors import TopologyError, UnavailableError, UsageError
from tupletree.state import KeyValueState, StateProvider
from tupletree.testing import FeederSpout, LocalCluster, complete_topology

MODES = pytest.mark.parametrize("conf", [FAST, ALIGNED], ids=["default", "aligned"])


@pytest.fixture
def cluster():
    with LocalCluster() as running:
        yield running


@pytest.fixture
def clock():
    with LocalCluster(simulated_time=True) as running:
        yield running


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

    with pytest.raises(
        TopologyError, match="Half has only checkpoint_state; define both checkpoint_state and restore_state"
    ):
        counting(Count(), Half(["word"])).create_topology()


@pytest.mark.parametrize(
    ("conf", "words"),
    [
        ({"topology.acker.executors": 0}, "a stateful topology requires ackers"),
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


def test_a_component_that_comes_back_has_nothing_to_commit_of_what_went_on_without_it(cluster, tmp_path):
    """The topology without it dies in the middle of a commit, and the next one has it again."""
    conf = {**FAST, **sqlite(tmp_path)}

    def run(*names, is_broken=False):
        words = FeederSpout(["word"])
        builder = TopologyBuilder()
        builder.set_spout("words", words)
        for name in names:
            bolt = NeverCommits() if is_broken else Count()
            builder.set_bolt(name, bolt).fields_grouping("words", ["word"])
        cluster.submit("words", builder.create_topology(), conf)
        words.feed(["a"], 1)
        return words

    class NeverCommits(Count):
        def pre_commit(self, txid):
            raise ValueError("not today")

    words = run("count", "more")
    cluster.wait_until(lambda: words.acked)
    cluster.kill("words")
    run("count", is_broken=True)
    cluster.wait_until(lambda: cluster.errors("words"))
    cluster.kill("words")
    words = run("count", "more")
    cluster.wait_until(lambda: words.acked)
    cluster.kill("words")
    assert stored(conf)["a"] >= 3
    assert stored(conf, "more") == {"a": 1}


class Forgetful(KeyValueState):
    """Does not say what is prepared and committed."""

    def __init__(self):
        self.values = {}

    def get(self, key, default=None):
        return self.values.get(key, default)

    def put(self, key, value):
        self.values[key] = value

    def delete(self, key):
        self.values.pop(key, None)

    def scan(self):
        return iter(list(self.values.items()))

    def prepare_commit(self, txid):
        pass

    def commit(self, txid):
        pass

    def rollback(self):
        pass


class ForgetfulProvider(StateProvider):
    def new_state(self, namespace, conf, context):
        return Forgetful()


def test_a_provider_that_does_not_say_where_it_stands_is_refused_at_the_first_checkpoint(cluster):
    words = FeederSpout(["word"])
    conf = {**FAST, "topology.state.provider": f"{__name__}.ForgetfulProvider"}
    cluster.submit("words", counting(Count(), words).create_topology(), conf)
    words.feed(["a"], 1)
    error = cluster.wait_until(lambda: cluster.errors("words"))[0][1]
    assert "has prepared=None, not 1, after prepare_commit(1): Forgetful must set 'prepared' and 'committed'" in str(
        error
    )
    assert words.acked == []
