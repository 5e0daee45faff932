"""PystormBolt and PystormSpout: components of pystorm and streamparse in the worker's own process."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pystorm_programs as programs
import pytest

from tupletree import TopologyBuilder
from tupletree.errors import TaskFailedError, UsageError
from tupletree.multilang import PystormBolt, PystormSpout
from tupletree.testing import FeederSpout, LocalCluster


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster() as cluster:
        yield cluster


class Emitted:
    """What each component emits, on which stream."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, tuple[Any, ...]]] = []

    def __call__(self, component: str, stream: str, values: Any) -> None:
        self.rows.append((component, stream, tuple(values)))

    def of(self, component: str, stream: str = "default") -> list[tuple[Any, ...]]:
        return [values for one, on, values in self.rows if (one, on) == (component, stream)]


def behind_a_feeder(cluster: LocalCluster, cls: type) -> tuple[FeederSpout, Emitted]:
    words, emitted = FeederSpout(["word"]), Emitted()
    builder = TopologyBuilder()
    builder.set_spout("words", words)
    builder.set_bolt("bolt", PystormBolt(cls)).fields_grouping("words", "word")
    if any(not isinstance(one, str) and one.direct for one in cls.outputs):  # type: ignore[attr-defined]
        builder.set_bolt("told", PystormBolt(programs.WordCountBolt)).direct_grouping("bolt", "told").shuffle_grouping(
            "bolt"
        )
    cluster.submit("words", builder.create_topology(), observer=emitted)
    return words, emitted


def test_a_project_of_streamparse_counts_its_words(cluster: LocalCluster, caplog: pytest.LogCaptureFixture) -> None:
    emitted = Emitted()
    builder = TopologyBuilder()
    builder.set_spout("words", PystormSpout(programs.WordSpout))
    builder.set_bolt("count", PystormBolt(programs.WordCountBolt), 2).fields_grouping("words", "word")
    conf = {"own.words": "a rose is a rose is a rose"}
    with caplog.at_level(logging.INFO):
        cluster.submit("words", builder.create_topology(), conf, observer=emitted)
        cluster.wait_until(lambda: cluster.counts("words")["words"].acked == 8)
    assert dict(sorted(emitted.of("count"))) == {"a": 3, "rose": 3, "is": 2}
    assert len(emitted.of("count")) == 8
    assert "rose: 3" in caplog.messages
    assert not cluster.errors("words")


def test_tuples_without_an_id_are_not_tracked(cluster: LocalCluster) -> None:
    emitted = Emitted()
    builder = TopologyBuilder()
    builder.set_spout("numbers", PystormSpout(programs.PlainSpout))
    cluster.submit("numbers", builder.create_topology(), observer=emitted)
    cluster.wait_until(lambda: emitted.of("numbers") == [(1,), (2,), (3,)])
    assert cluster.counts("numbers")["numbers"].acked == 0


def test_an_exception_fails_the_tuple_and_the_others_go_on(cluster: LocalCluster) -> None:
    words, emitted = behind_a_feeder(cluster, programs.Failing)
    words.feed(["good"], 1)
    words.feed(["bad"], 2)
    words.feed(["better"], 3)
    cluster.wait_until(lambda: (sorted(words.acked), words.failed) == ([1, 3], [2]))
    assert emitted.of("bolt") == [("good",), ("better",)]
    [(component, error)] = cluster.errors("words")
    assert component == "bolt" and "Python ValueError raised while processing Tuple" in str(error)
    assert "no bad" in str(error)


def test_an_exception_ends_the_worker_unless_the_class_says_otherwise(cluster: LocalCluster) -> None:
    words, _ = behind_a_feeder(cluster, programs.Exiting)
    words.feed(["bad"], 1)
    remedy = "ValueError: no bad; this ends the run, .*: exit_on_exception = False of its class lets it go on"
    with pytest.raises(TaskFailedError, match=remedy):
        cluster.wait_until(lambda: False)


def test_a_reliable_spout_emits_failed_tuples_again(cluster: LocalCluster) -> None:
    emitted = Emitted()
    builder = TopologyBuilder()
    builder.set_spout("words", PystormSpout(programs.WordSpout))
    builder.set_bolt("fail", PystormBolt(programs.Failing)).shuffle_grouping("words")
    cluster.submit("words", builder.create_topology(), {"own.words": "good bad"}, observer=emitted)
    cluster.wait_until(lambda: cluster.counts("words")["words"].failed == 4)
    cluster.wait_until(lambda: cluster.counts("words")["words"].acked == 1)
    assert emitted.of("words") == [("good",), *[("bad",)] * 4], "max_fails is 3"


@pytest.mark.parametrize("cls", [programs.Batches, programs.Tickless])
def test_batches_are_processed_at_ticks_and_acked(cls: type, cluster: LocalCluster) -> None:
    words, emitted = behind_a_feeder(cluster, cls)
    for number, word in enumerate("aabab"):
        words.feed([word], number)
    cluster.wait_until(lambda: len(words.acked) == 5, 30)
    totals = {key: sum(count for one, count in emitted.of("bolt") if one == key) for key in "ab"}
    assert totals == {"a": 3, "b": 2}


def test_streams_tasks_and_threads(cluster: LocalCluster) -> None:
    words, emitted = behind_a_feeder(cluster, programs.Routing)
    words.feed(["a"], 1)
    cluster.wait_until(lambda: words.acked == [1])
    assert (emitted.of("bolt"), emitted.of("bolt", "named"), emitted.of("bolt", "told")) == (
        [("a",)],
        [("a", 1)],
        [("a",)],
    )
    assert emitted.of("told") == [("a", 1), ("a", 2)]


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: PystormBolt(dict), "PystormBolt: <class 'dict'> is no class derived from Bolt of pystorm"),
        (lambda: PystormSpout(programs.WordCountBolt), "is no class derived from Spout of pystorm"),
        (lambda: PystormBolt(programs.WordSpout), "is no class derived from Bolt of pystorm"),
        (lambda: PystormBolt(programs.TicklessWithInit), "TicklessWithInit is a TicklessBatchingBolt with an __init__"),
    ],
)
def test_what_cannot_be_hosted_is_refused(make: Any, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        make()
