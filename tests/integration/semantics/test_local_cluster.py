"""What a user tests topologies with: LocalCluster, FeederSpout and complete_topology."""

from __future__ import annotations

import copy
import pickle
import threading
from typing import Any

import cloudpickle
import pytest
from local_components import Do, DoBasic, Keep, Log

from tupletree import Spout, Topology, TopologyBuilder
from tupletree.errors import (
    ConfigError,
    NameInUseError,
    NotFoundError,
    ReportedFailedException,
    TaskFailedError,
    UsageError,
)
from tupletree.outputs import direct
from tupletree.testing import FeederSpout, LocalCluster, complete_topology


class Real(Spout):
    """What complete_topology replaces: it must never run."""

    outputs = ["line"]

    def open(self, conf: Any, context: Any, collector: Any) -> None:
        raise AssertionError("the real spout was opened")


class Flusher(DoBasic):
    """Counts words and emits the counts on each tick."""

    def __init__(self) -> None:
        super().__init__(outputs=["word", "count"])
        self.counts: dict[str, int] = {}

    def execute(self, tup: Any, collector: Any) -> None:
        if tup.is_tick:
            collector.emit_many(self.counts.items())
            self.counts = {}
        else:
            self.counts[tup[0]] = self.counts.get(tup[0], 0) + 1


def split(tup: Any, collector: Any) -> None:
    for word in tup[0].split():
        collector.emit([word])


def word_count() -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("lines", Real(), 2)
    builder.set_bolt("split", DoBasic(split, ["word"]), 3).shuffle_grouping("lines")
    count = builder.set_bolt("count", Flusher(), 2).fields_grouping("split", ["word"])
    count.add_configuration("topology.tick.tuple.freq.secs", 60)
    return builder.create_topology()


def test_complete_topology_returns_what_every_component_emitted() -> None:
    emitted = complete_topology(word_count(), {"lines": [["a b a"], ["b"], [""]]})
    assert sorted(emitted["lines"]) == [[""], ["a b a"], ["b"]]
    assert sorted(emitted["split"]) == [["a"], ["a"], ["b"], ["b"]]
    assert sorted(emitted["count"]) == [["a", 2], ["b", 2]], "bolts that live on ticks got one"
    assert sorted(emitted) == ["count", "lines", "split"]


def test_complete_topology_needs_a_source_for_each_spout_and_for_nothing_else() -> None:
    with pytest.raises(UsageError, match="needs mock_sources for spout 'lines'"):
        complete_topology(word_count(), {})
    with pytest.raises(UsageError, match="'split', which is not a spout"):
        complete_topology(word_count(), {"lines": [], "split": []})


def test_complete_topology_raises_what_a_component_raised() -> None:
    builder = TopologyBuilder()
    builder.set_spout("spout", FeederSpout(["n"]))
    builder.set_bolt("divide", DoBasic(lambda tup, collector: 1 / tup[0])).shuffle_grouping("spout")
    with pytest.raises(TaskFailedError, match="'divide' failed: ZeroDivisionError"):
        complete_topology(builder.create_topology(), {"spout": [[1], [0]]})


def test_complete_topology_keeps_the_streams_of_the_spouts_it_replaces_and_sees_direct_emits() -> None:
    class Streams(Real):
        outputs = {"a": ["n"], "b": ["n"]}

    def forward(tup: Any, collector: Any) -> None:
        collector.emit_direct(collector._task.context.component_tasks("sink")[0], [-tup[0]], stream="to")

    builder = TopologyBuilder()
    builder.set_spout("spout", Streams())
    bolt = builder.set_bolt("forward", DoBasic(forward, {"to": direct(["n"])}))
    bolt.shuffle_grouping("spout", "a").shuffle_grouping("spout", "b")
    builder.set_bolt("sink", Do()).direct_grouping("forward", "to")
    emitted = complete_topology(builder.create_topology(), {"spout": [[1], [2]]})
    assert emitted == {"spout": [[1], [2]], "forward": [[-1], [-2]]}


def test_complete_topology_waits_for_loops_and_blocking_components() -> None:
    def countdown(tup: Any, collector: Any) -> None:
        if tup[0]:
            collector.emit([tup[0] - 1])

    builder = TopologyBuilder()
    builder.set_spout("spout", FeederSpout(["n"]))
    bolt = builder.set_bolt("countdown", DoBasic(countdown, ["n"])).set_blocking()
    bolt.shuffle_grouping("spout").shuffle_grouping("countdown")
    emitted = complete_topology(builder.create_topology(), {"spout": [[40]]})
    assert emitted["countdown"] == [[n] for n in reversed(range(40))]


def test_a_feeder_spout_is_one_feed_however_often_it_is_copied() -> None:
    feeder = FeederSpout(["n"])
    copies = [
        copy.copy(feeder),
        copy.deepcopy(feeder),
        pickle.loads(pickle.dumps(feeder)),
        cloudpickle.loads(cloudpickle.dumps(feeder)),
    ]
    for number, one in enumerate(copies):
        one.feed([number])
        one.ack(number)
        one.fail(-number)
    assert feeder.acked == [0, 1, 2, 3]
    assert feeder.failed == [0, -1, -2, -3]
    assert not feeder.is_drained


def test_a_feeder_spout_in_another_process_says_that_it_cannot_work() -> None:
    pickled = pickle.dumps(FeederSpout(["n"]))  # the original is gone, as it is in another process
    with pytest.raises(UsageError, match="only in the process that made it"):
        pickle.loads(pickled)


def test_a_feeder_spout_works_across_the_copy_that_submitting_makes(cluster: LocalCluster) -> None:
    feeder, log = FeederSpout(["n"]), Log()
    builder = TopologyBuilder()
    builder.set_spout("spout", feeder, 3)
    builder.set_bolt("bolt", Keep(log)).shuffle_grouping("spout")
    feeder.feed([0], "before")
    topology = builder.create_topology()
    feeder.feed([1], "between")
    cluster.submit("t", topology)
    feeder.feed([2], "after")
    cluster.wait_quiet()
    assert sorted(values[0] for _, values in log) == [0, 1, 2]
    assert sorted(feeder.acked) == ["after", "before", "between"]
    assert feeder.is_drained
    feeder.acked.clear()
    assert len(feeder.acked) == 3, "what the test gets is a copy"


def test_feeding_from_several_threads_loses_nothing(cluster: LocalCluster) -> None:
    feeder, log = FeederSpout(["n"]), Log()
    builder = TopologyBuilder()
    builder.set_spout("spout", feeder, 2)
    builder.set_bolt("bolt", Keep(log)).shuffle_grouping("spout")
    cluster.submit("t", builder.create_topology())

    def feed(start: int) -> None:
        for number in range(start, start + 500):
            feeder.feed([number], number)

    threads = [threading.Thread(target=feed, args=(start,)) for start in (0, 500, 1000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    cluster.wait_quiet()
    assert sorted(feeder.acked) == sorted(values[0] for _, values in log) == list(range(1500))


def simple(feeder: FeederSpout) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("spout", feeder)
    builder.set_bolt("bolt", Do()).shuffle_grouping("spout")
    return builder.create_topology()


def test_names_are_unique_while_a_topology_runs(cluster: LocalCluster) -> None:
    feeder = FeederSpout(["n"])
    cluster.submit("t", simple(feeder))
    with pytest.raises(NameInUseError, match="'t' is already running"):
        cluster.submit("t", simple(feeder))
    cluster.kill("t")
    with pytest.raises(NotFoundError, match="'t'"):
        cluster.kill("t")
    cluster.submit("t", simple(feeder))


def test_a_faulty_submission_is_refused_and_leaves_nothing_running(cluster: LocalCluster) -> None:
    feeder = FeederSpout(["n"])
    with pytest.raises(ConfigError, match=r"topology\.message\.timeout\.secs"):
        cluster.submit("t", simple(feeder), {"topology.message.timeout.sec": 3})
    with pytest.raises(UsageError, match="create_topology"):
        cluster.submit("t", TopologyBuilder())  # type: ignore[arg-type]
    threads = threading.active_count()
    cluster.submit("t", simple(feeder))
    cluster.kill("t")
    assert threading.active_count() == threads


def test_each_task_has_its_own_copy_of_its_component(cluster: LocalCluster) -> None:
    log = Log()

    class Counting(Do):
        def __init__(self, log: Log) -> None:
            super().__init__()
            self.log = log
            self.count = 0

        def execute(self, tup: Any) -> None:
            self.count += 1
            self.log.append(self.count)
            self.collector.ack(tup)

    feeder = FeederSpout(["n"])
    mine = Counting(log)
    builder = TopologyBuilder()
    builder.set_spout("spout", feeder)
    builder.set_bolt("bolt", mine).shuffle_grouping("spout").set_num_tasks(4)
    for number in range(8):
        feeder.feed([number], number)
    cluster.submit("t", builder.create_topology())
    cluster.wait_quiet()
    assert sorted(log) == [1, 1, 1, 1, 2, 2, 2, 2]
    assert mine.count == 0


def test_wait_quiet_gives_up_on_a_topology_that_is_never_quiet(cluster: LocalCluster) -> None:
    class Endless(Spout):
        outputs = ["n"]

        def next_tuple(self) -> None:
            self.collector.emit([1])

    builder = TopologyBuilder()
    builder.set_spout("spout", Endless())
    builder.set_bolt("bolt", Do()).shuffle_grouping("spout")
    cluster.submit("t", builder.create_topology())
    with pytest.raises(TimeoutError):
        cluster.wait_quiet(0.2)


def test_wait_until_returns_what_its_predicate_returned(cluster: LocalCluster) -> None:
    assert cluster.wait_until(lambda: "yes") == "yes"
    with pytest.raises(TimeoutError):
        cluster.wait_until(lambda: False, 0.05)


def test_a_wait_in_vain_says_what_the_components_have_done_and_reported(cluster: LocalCluster) -> None:
    feeder = FeederSpout(["number"])

    def refuse(tup: Any, collector: Any) -> None:
        raise ReportedFailedException(f"{tup['number']} is too much")

    builder = TopologyBuilder()
    builder.set_spout("numbers", feeder)
    builder.set_bolt("refuse", DoBasic(refuse, ["x"])).shuffle_grouping("numbers")
    builder.set_bolt("nothing", DoBasic()).shuffle_grouping("refuse")
    cluster.submit("t", builder.create_topology())
    for number in range(5):
        feeder.feed([number], msg_id=number)
    cluster.wait_quiet()

    def is_done() -> bool:
        return False

    with pytest.raises(TimeoutError, match=r"is_done: not true within 0\.05 s") as caught:
        cluster.wait_until(is_done, 0.05)
    assert caught.value.__notes__ == [
        "topology 't' so far:\n"
        "  nothing: nothing\n"
        "  numbers: emitted 5, failed 5\n"
        "  refuse: executed 5, failed 5\n"
        "  5 errors were reported; the last 3 are:\n"
        "  refuse reported ReportedFailedException: 2 is too much\n"
        "  refuse reported ReportedFailedException: 3 is too much\n"
        "  refuse reported ReportedFailedException: 4 is too much"
    ]


def test_counts_are_those_of_the_components_of_the_user() -> None:
    feeder = FeederSpout(["line"])
    builder = TopologyBuilder()
    builder.set_spout("lines", feeder)
    builder.set_bolt("split", DoBasic(split, ["word"]), 3).shuffle_grouping("lines")
    builder.set_bolt("count", Keep(Log())).fields_grouping("split", "word")
    with LocalCluster() as cluster:
        cluster.submit("words", builder.create_topology())
        feeder.feed(["a b a"], msg_id=1)
        feeder.feed(["c"], msg_id=2)
        cluster.wait_until(lambda: cluster.counts("words")["count"].executed == 4)
        counts = cluster.counts("words")
        assert counts.keys() == {"lines", "split", "count"}
        assert (counts["lines"].emitted, counts["split"].executed, counts["split"].emitted) == (2, 2, 4)
        cluster.wait_until(lambda: cluster.counts("words")["lines"].acked == 2)
        assert cluster.counts("words")["lines"].waiting == 0
        with pytest.raises(NotFoundError, match="no topology named 'nobody' is running"):
            cluster.counts("nobody")


@pytest.mark.parametrize("row", ["a", {"word": "a"}])
def test_a_mock_source_takes_rows_alone(row: Any) -> None:
    builder = TopologyBuilder()
    builder.set_spout("words", FeederSpout(["word"]))
    builder.set_bolt("sink", Keep(Log())).shuffle_grouping("words")
    with pytest.raises(
        TaskFailedError, match=r"'words' emitted .* on stream 'default': emit a row with a value for each"
    ):
        complete_topology(builder.create_topology(), {"words": [row]})
