"""States whose values change their form: migrated once by the code that goes on with them, whatever fails meanwhile.

The migration of these bolts multiplies by ten: one that is done twice shows.
"""

from __future__ import annotations

import re
import time
from datetime import timedelta
from pathlib import Path

import pytest
from local_components import Log
from stateful_scene import ALIGNED, FAST, Count, calls, counting, sqlite, stored

from tupletree import TopologyBuilder
from tupletree.errors import UnavailableError
from tupletree.keyed import KeyedProcess
from tupletree.testing import FeederSpout, LocalCluster

PUT_OFF_S = 5.1
"""The time after which a checkpoint with migrated states is taken."""


class Second(Count):
    """Counts tens."""

    state_version = 2

    def migrate_value(self, key, value, version):
        self.log.append(("migrate", key, value, version))
        return 10 * value


@pytest.fixture
def cluster():
    with LocalCluster(simulated_time=True) as running:
        yield running


@pytest.fixture(params=[FAST, ALIGNED], ids=["default", "aligned"])
def conf(request, tmp_path):
    return {**request.param, **sqlite(tmp_path)}


def run(cluster, conf, bolt, words=(), after_s=0.2, tasks=1):
    """Run until all words are acked, some time after they were processed, and end."""
    spout = begin(cluster, conf, bolt, words, tasks)
    commit(cluster, spout, len(words), after_s)
    cluster.kill("words")
    return spout


def begin(cluster, conf, bolt, words=(), tasks=1):
    spout = FeederSpout(["word"])
    cluster.submit("words", counting(bolt, spout, tasks).create_topology(), conf)
    cluster.wait_until(lambda: calls(bolt.log, "init"))
    for number, word in enumerate(words):
        spout.feed([word], number)
    cluster.wait_quiet()
    return spout


def commit(cluster, spout, count, after_s=PUT_OFF_S):
    for _ in range(3):  # rounds of the recovery, if any, and of the checkpoint
        cluster.advance(after_s)
        cluster.wait_quiet()
    cluster.wait_until(lambda: len(spout.acked) == count)


def test_values_of_an_earlier_version_are_migrated_once(cluster, conf):
    run(cluster, conf, Count(Log()), ["a", "a", "b"])
    log = Log()
    spout = begin(cluster, conf, Second(log), ["a", "c"])
    assert sorted(calls(log, "migrate")) == [("migrate", "a", 2, 1), ("migrate", "b", 1, 1)]
    assert calls(log, "init") == [("init", {"a": 20, "b": 10})]
    cluster.advance(1)
    cluster.wait_quiet()
    assert spout.acked == [], "the checkpoint is put off for as long as the update may be taken back"
    commit(cluster, spout, 2)
    cluster.kill("words")
    assert stored(conf) == {"a": 21, "b": 10, "c": 1}
    log = Log()
    run(cluster, conf, Second(log), ["b"])
    assert not calls(log, "migrate")
    assert stored(conf) == {"a": 21, "b": 11, "c": 1}


def test_until_the_checkpoint_the_code_of_before_can_go_on(cluster, conf):
    run(cluster, conf, Count(Log()), ["a", "a", "b"])
    spout = begin(cluster, conf, Second(Log()), ["a"])
    cluster.kill("words")
    assert spout.acked == []
    run(cluster, conf, Count(Log()), ["b"])
    assert stored(conf) == {"a": 2, "b": 2}
    run(cluster, conf, Second(Log()), after_s=PUT_OFF_S)
    assert stored(conf) == {"a": 20, "b": 20}


def test_after_the_checkpoint_the_code_of_before_is_refused_in_a_sentence(cluster, conf):
    run(cluster, conf, Count(Log()), ["a"])
    run(cluster, conf, Second(Log()), ["a"], PUT_OFF_S)
    spout = FeederSpout(["word"])
    cluster.submit("words", counting(Count(Log()), spout).create_topology(), conf)
    spout.feed(["a"], 1)
    _, error = cluster.wait_until(lambda: cluster.errors("words"))[0]
    assert str(error) == (
        "the state of component 'count' was stored by its state_version 2, and this code, which has state_version 1, "
        "cannot read it: go on with code of state_version 2 or later"
    )
    cluster.advance(PUT_OFF_S)
    assert spout.acked == []
    cluster.kill("words")
    assert stored(conf) == {"a": 11}


class Interrupted(Second):
    """Fails once in one of its methods; the error comes where a store could be away."""

    where = ""

    def fails_in(self, method):
        if method == self.where and ("raised",) not in list(self.log):
            self.log.append(("raised",))
            raise UnavailableError(f"{method} is away")

    def migrate_value(self, key, value, version):
        if key == "b":
            self.fails_in("migrate_value")
        return super().migrate_value(key, value, version)

    def init_state(self, state):
        self.fails_in("init_state")
        super().init_state(state)

    def pre_prepare(self, txid):
        self.fails_in("pre_prepare")
        super().pre_prepare(txid)

    def pre_commit(self, txid):
        self.fails_in("pre_commit")
        super().pre_commit(txid)


@pytest.mark.parametrize("where", ["migrate_value", "init_state", "pre_prepare", "pre_commit"])
def test_a_migration_that_is_interrupted_begins_anew_with_what_is_stored(cluster, conf, where):
    run(cluster, conf, Count(Log()), ["a", "a", "b"])
    bolt = Interrupted(log := Log())
    bolt.where = where
    spout = FeederSpout(["word"])
    cluster.submit("words", counting(bolt, spout).create_topology(), conf)
    for _ in range(6):
        cluster.advance(PUT_OFF_S)
        cluster.wait_quiet()
    cluster.wait_until(lambda: calls(log, "raised") and calls(log, "commit"))
    assert [str(error) for _, error in cluster.errors("words")] == [f"{where} is away"]
    assert {call[2] for call in calls(log, "migrate")} == {1, 2}, "what is stored is what is migrated"
    spout.feed(["a"], 1)
    cluster.wait_quiet()
    commit(cluster, spout, 1, 0.2)
    cluster.kill("words")
    assert stored(conf) == {"a": 21, "b": 10}


def test_each_task_migrates_its_own_values(cluster, conf):
    run(cluster, conf, Count(Log()), "abcdef", tasks=3)
    run(cluster, conf, Second(Log()), "abc", PUT_OFF_S, tasks=3)
    found = {word: count for index in range(3) for word, count in stored(conf, index=index).items()}
    assert found == {word: 11 if word in "abc" else 10 for word in "abcdef"}


def test_a_state_moves_to_other_tasks_before_it_is_migrated(cluster, conf):
    class Divisible(Count):
        is_divisible = True

    class SecondDivisible(Second):
        is_divisible = True

    run(cluster, conf, Divisible(Log()), "aabcdef", tasks=1)
    log = Log()
    run(cluster, conf, SecondDivisible(log), "b", PUT_OFF_S, tasks=2)
    assert sorted(call[1:] for call in calls(log, "migrate")) == [("a", 2, 1), *((word, 1, 1) for word in "bcdef")]
    (cut,) = layouts(conf)
    found = [stored(conf, component=f"count@{cut}.2", index=index) for index in range(2)]
    assert all(found)
    assert {**found[0], **found[1]} == {"a": 20, "b": 11, "c": 10, "d": 10, "e": 10, "f": 10}


def test_code_that_is_too_old_moves_nothing(cluster, conf):
    class SecondDivisible(Second):
        is_divisible = True

    class Divisible(Count):
        is_divisible = True

        def values_of_key(self, key, fields):
            raise AssertionError("it cannot read what is stored")

    run(cluster, conf, SecondDivisible(Log()), "aab")
    spout = FeederSpout(["word"])
    cluster.submit("words", counting(Divisible(Log()), spout, 2).create_topology(), conf)
    _, error = cluster.wait_until(lambda: cluster.errors("words"))[0]
    assert "was stored by its state_version 2" in str(error)
    cluster.kill("words")
    assert not layouts(conf)
    assert stored(conf) == {"a": 2, "b": 1}


def layouts(conf):
    """The checkpoints at which the states of "count" were moved to two tasks, as the names of their files tell."""
    names = [file.name for file in Path(conf["topology.state.provider.config"]["directory"]).rglob("*")]
    return {found[1] for name in names if (found := re.search(r"count\W(\d+)\.2", name))}


class Lists(Count):
    """Stores counts in lists."""

    def execute(self, tup):
        self.counts.put(tup["word"], [*self.counts.get(tup["word"], []), "more"])
        self.collector.ack(tup)


class SecondLists(Lists):
    state_version = 2

    def migrate_value(self, key, value, version):
        value.append("migrated")
        return value


def test_a_value_may_be_changed_in_place(cluster, conf):
    run(cluster, conf, Lists(Log()), "aab")
    run(cluster, conf, SecondLists(Log()), "b", PUT_OFF_S)
    assert stored(conf) == {"a": ["more", "more", "migrated"], "b": ["more", "migrated", "more"]}


class Strange:
    pass


class Unstorable(Second):
    def migrate_value(self, key, value, version):
        return Strange()


def test_a_value_that_cannot_be_stored_is_told_at_once_and_nothing_is_processed(cluster, conf):
    run(cluster, conf, Count(Log()), "a")
    bolt = Unstorable(Log())
    spout = FeederSpout(["word"])
    cluster.submit("words", counting(bolt, spout).create_topology(), conf)
    spout.feed(["a"], 1)
    _, error = cluster.wait_until(lambda: cluster.errors("words"))[0]
    assert "Strange" in str(error)
    cluster.kill("words")
    assert not calls(bolt.log, "init")
    assert stored(conf) == {"a": 1}


class Slow(Second):
    """Migrates for longer than the message timeout."""

    def migrate_value(self, key, value, version):
        time.sleep(0.5)
        return super().migrate_value(key, value, version)


@pytest.mark.long
def test_a_migration_may_take_longer_than_the_message_timeout(conf):
    with LocalCluster() as cluster:
        spout = FeederSpout(["word"])
        cluster.submit("words", counting(Count(Log()), spout).create_topology(), conf)
        for number, word in enumerate("abcd"):
            spout.feed([word], number)
        cluster.wait_until(lambda: len(spout.acked) == 4)
        cluster.kill("words")
        log = Log()
        cluster.submit("words", counting(Slow(log)).create_topology(), {**conf, "topology.message.timeout.secs": 1})
        cluster.wait_until(lambda: calls(log, "commit"), 60)
        assert len(calls(log, "migrate")) == 4
        cluster.kill("words")
        assert stored(conf) == dict.fromkeys("abcd", 10)


def test_while_the_topology_is_inactive_the_code_of_before_can_go_on(cluster, conf):
    run(cluster, conf, Count(Log()), "aab")
    spout = begin(cluster, conf, Second(Log()), "a")
    cluster.deactivate("words")
    for _ in range(5):
        cluster.advance(2.0)
    assert spout.acked == []
    cluster.kill("words")
    run(cluster, conf, Count(Log()), "b")
    assert stored(conf) == {"a": 2, "b": 2}


def test_a_state_in_memory_has_no_version(cluster):
    run(cluster, FAST, Second(Log()), "aab")
    run(cluster, FAST, Count(log := Log()), "a")
    assert calls(log, "init") == [("init", {})]


def test_a_component_that_is_new_migrates_nothing(cluster, conf):
    run(cluster, conf, Second(log := Log()), ["a"])
    assert not calls(log, "migrate")
    assert stored(conf) == {"a": 1}
    run(cluster, conf, Second(Log()), ["a"])
    assert stored(conf) == {"a": 2}, "it is stored as version 2"


class Visits(KeyedProcess):
    """Counts by two fields, and emits after a minute."""

    key, event_time = ("word", "page"), "at"
    max_lag = timedelta(0)
    outputs = ("word", "page", "count")
    default_factory = int

    def __init__(self, log):
        self.log = log

    def on_tuple(self, tup, state, timers):
        state.value += 1
        timers.set(60_000)

    def on_timer(self, key, time, state, timers):
        self.log.append((key, state.value))


class SecondVisits(Visits):
    state_version = 2

    def migrate_value(self, key, value, version):
        self.log.append(("migrate", key, value, version))
        return 10 * value


def test_values_of_keys_are_migrated_and_timers_stay(cluster, conf):
    def visits(bolt, rows, after_s):
        spout = FeederSpout(["word", "page", "at"])
        builder = TopologyBuilder()
        builder.set_spout("visits", spout)
        builder.set_bolt("count", bolt).fields_grouping("visits", ["word", "page"])
        cluster.submit("words", builder.create_topology(), conf)
        cluster.wait_quiet()
        for number, row in enumerate(rows):
            spout.feed(row, number)
        cluster.wait_quiet()
        commit(cluster, spout, len(rows), after_s)
        cluster.kill("words")

    visits(Visits(Log()), [["a", 1, 1000], ["a", 1, 2000], ["b", 2, 2000]], 0.2)
    log = Log()
    visits(SecondVisits(log), [["a", 1, 3000], ["c", 3, 70_000]], PUT_OFF_S)
    assert sorted(calls(log, "migrate")) == [("migrate", ("a", 1), 2, 1), ("migrate", ("b", 2), 1, 1)]
    assert sorted(call for call in log if call[0] != "migrate") == [(("a", 1), 21), (("b", 2), 10), (("c", 3), 1)]
