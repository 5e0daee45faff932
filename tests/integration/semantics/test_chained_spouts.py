"""Spouts whose rows pass a chain: every kind of spout, and everything that it relies on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from chained_scene import WORD, Heard, Run, heard, lines, words
from local_chains import Through
from local_components import DoBasic, Keep, Log

from tupletree import Backoff, FailedException, ReliableSpout, Spout, Topology, TopologyBuilder, spout
from tupletree.connectors.files import FileSpout
from tupletree.connectors.formats import Json, Text
from tupletree.connectors.queue_source import Delivery, QueueSource
from tupletree.connectors.queue_spout import QueueSpout
from tupletree.errors import ReportedFailedException
from tupletree.streams.chained_spout import chained
from tupletree.testing import FeederSpout, LocalCluster, complete_topology
from tupletree.testing.simulation.external import current, external

QUICK = Backoff(first_s=1, factor=1, max_attempts=2)


class Deaf(Heard):
    fail = Spout.fail


# What goes out, and what the spout hears


def test_what_the_chain_emits_goes_out_as_one_tree_per_message(cluster: LocalCluster) -> None:
    log, calls = Log(), Log()
    given = Heard("to be", "", "or", log=log)
    run = Run(cluster, chained(given, Through(words, calls), WORD))
    assert run.rows() == [["be"], ["or"], ["to"]]
    assert heard(log) == [("ack", 0), ("ack", 1), ("ack", 2)]
    assert run.counts() == (3, 0, 0)
    cluster.kill("t")
    assert list(calls) == [("setup", "spout", 0), ("bind",), ("teardown",)]


def test_nothing_is_heard_within_an_emit(cluster: LocalCluster) -> None:
    log = Log()
    Run(cluster, chained(Heard("", "bad", "to", "", log=log), Through(words), WORD))
    assert [entry for entry in log if entry[0].startswith("emit")] == [
        (event, number) for number in range(4) for event in ("emitting", "emitted")
    ]
    for entry, later in zip(list(log), list(log)[1:], strict=False):
        assert entry[0] != "emitting" or later == ("emitted", entry[1])
    assert heard(log) == [("ack", 0), ("ack", 2), ("ack", 3), ("fail", 1)]


def test_rows_on_other_streams_go_out_as_they_are_and_a_chain_has_streams_of_its_own(cluster: LocalCluster) -> None:
    log = Log()
    lengths = Through(lambda row: [("lengths", [len(row[0])]), ("lines", row)])
    run = Run(cluster, chained(Heard("to", "odd", "be", log=log), lengths, {"lengths": ["n"], "lines": ["line"]}))
    assert list(run.topology.components["spout"].outputs) == ["lengths", "lines", "odd"]
    assert [run.rows(stream) for stream in ("lengths", "lines", "odd")] == [[[2], [2]], [["be"], ["to"]], [["odd"]]]
    assert heard(log) == [("ack", 0), ("ack", 1), ("ack", 2)]


def test_a_spout_without_retries_hears_of_a_failure_and_the_engine_counts_one_that_nobody_hears(
    cluster: LocalCluster,
) -> None:
    log = Log()
    run = Run(cluster, chained(Heard("to bad", "be", log=log), Through(words), WORD))
    assert run.rows() == [["be"]], "what the chain emitted before it failed is not sent"
    assert heard(log) == [("ack", 1), ("fail", 0)]
    assert run.counts() == (1, 1, 0)
    cluster.kill("t")
    assert Run(cluster, chained(Deaf("bad", log=Log()), Through(words), WORD)).counts() == (0, 1, 1)


def test_retries_pass_the_chain_again_and_letters_have_the_rows_of_the_spout(cluster: LocalCluster) -> None:
    log, tried = Log(), Log()

    def first_fails(row: Sequence[Any]) -> Iterator[list[str]]:
        tried.append(row[0])
        if row[0] == "late" and tried.count("late") == 1:
            raise FailedException("not yet")
        if row[0] == "final":
            raise FailedException("never", retry=False)
        yield from words(row)

    run = Run(cluster, chained(Heard("late", "bad", "final", log=log), Through(first_fails), WORD), retry=QUICK)
    assert run.rows() == [["late"]]
    assert Counter(tried) == {"late": 2, "bad": 2, "final": 1}
    [bad, final] = run.rows("rejected")
    assert bad[:7] == [1, ["bad"], "default", 2, "spout", bad[5], "FailedException: a bad word"]
    assert final[:7] == [2, ["final"], "default", 1, "spout", bad[5], "FailedException: never"]
    assert "in words" in bad[7]
    assert heard(log) == [("ack", 0), ("ack", 1), ("ack", 2)]


def test_a_reported_failure_is_an_error_of_the_component(cluster: LocalCluster) -> None:
    def refuse(row: Sequence[Any]) -> list[Any]:
        raise ReportedFailedException(f"no {row[0]}")

    run = Run(cluster, chained(Heard("a", log=Log()), Through(refuse), WORD))
    assert [(name, str(error)) for name, error in cluster.errors("t")] == [("spout", "no a")]
    assert run.counts() == (0, 1, 0)


def test_without_tracking_messages_are_acked_within_the_emit_as_ever(cluster: LocalCluster) -> None:
    log = Log()
    run = Run(
        cluster, chained(Heard("to be", "", "bad", log=log), Through(words), WORD), **{"topology.acker.executors": 0}
    )
    assert run.rows() == [["be"], ["to"]]
    assert list(log) == [(event, number) for number in range(3) for event in ("emitting", "ack", "emitted")]


# Every kind of spout


class Yielding(Spout):
    outputs = ["line"]

    def next_tuple(self) -> Iterator[list[str] | None]:
        yield from (["to be"], [""], ["bad"], None, ["or"])
        yield from iter(lambda: None, 0)  # nothing more


class Own(QueueSource):
    """A queue of the test that counts no deliveries."""

    title = "own"

    def __init__(self, queue: Any) -> None:
        self.queue = queue

    def open(self, prefetch: int, task_index: int) -> None:
        pass

    def receive(self, limit: int, wait_s: float) -> Sequence[Delivery]:
        if not self.queue["ready"]:
            self.idle(wait_s)
        taken, self.queue["ready"][:] = self.queue["ready"][:limit], self.queue["ready"][limit:]
        return taken

    def acknowledge(self, handles: Sequence[Any]) -> None:
        self.queue["done"] += handles

    def reject(self, handles: Sequence[Any]) -> None:
        self.queue["rejected"] += handles

    def release(self, handles: Sequence[Any], delay_s: float) -> None:
        raise AssertionError("a queue that does not count gets nothing back")

    def close(self) -> None:
        pass


@pytest.mark.parametrize("has_name", [True, False])
def test_a_function(cluster: LocalCluster, has_name: bool) -> None:
    given = lines if has_name else spout(outputs=["line"])(lambda: (yield from (["to be"], ["bad"], ["or"])))
    run = Run(cluster, chained(given, Through(words), WORD), retry=QUICK)
    assert isinstance(run.topology.components["spout"].component, ReliableSpout)
    assert run.rows() == [["be"], ["or"], ["to"]]
    assert [letter[1] for letter in run.rows("rejected")] == [["bad"]]
    assert cluster.is_at_end("t")


def test_a_generator(cluster: LocalCluster) -> None:
    run = Run(cluster, chained(Yielding(), Through(words), WORD))
    assert run.rows() == [["be"], ["or"], ["to"]]
    assert run.counts() == (0, 0, 0), "its rows are not tracked"


def test_rows_of_records(cluster: LocalCluster) -> None:
    @dataclass
    class Line:
        text: str

    @spout(outputs=Line)
    def texts() -> Iterator[Line]:
        yield Line("to be")

    assert Run(cluster, chained(texts, Through(words), WORD)).rows() == [["be"], ["to"]]


def test_a_queue() -> None:
    queue = external(
        lambda: {"ready": [Delivery(line, line) for line in (b"to be", b"bad", b"", b"or")], "done": [], "rejected": []}
    )
    log = Log()
    own = QueueSpout(Own(queue), Text("line"))
    own.retry = Backoff(first_s=0.01, max_attempts=2)
    builder = TopologyBuilder()
    builder.set_spout("spout", chained(own, Through(words), WORD))
    builder.set_bolt("sink", Keep(log)).shuffle_grouping("spout")
    with LocalCluster() as cluster:
        cluster.submit("t", builder.create_topology())
        found = current(queue)
        cluster.wait_until(lambda: len(found["done"]) == 3 and found["rejected"])
    assert (sorted(found["done"]), found["rejected"]) == ([b"", b"or", b"to be"], [b"bad"])
    assert sorted(values for _, values in log) == [["be"], ["or"], ["to"]]


def test_a_log(tmp_path: Path) -> None:
    (tmp_path / "log").write_text('{"line": "to be"}\n{"line": ""}\nno JSON\n{"line": "bad"}\n{"line": "or"}\n')
    log, letters = Log(), Log()
    builder = TopologyBuilder()
    files = FileSpout(tmp_path, Json(["line"]), metadata=["position"])
    declared = builder.set_spout("spout", chained(files, Through(words), WORD))
    declared.set_retry(Backoff(first_s=0.01, max_attempts=2)).set_dead_letters("rejected")
    builder.set_bolt("sink", Keep(log)).shuffle_grouping("spout")
    builder.set_bolt("letters", Keep(letters)).shuffle_grouping("spout", "rejected")
    with LocalCluster() as cluster:
        cluster.submit("t", builder.create_topology())
        cluster.wait_until(lambda: len(log) == 3 and len(letters) == 2)
        cluster.wait_until(lambda: [one["outstanding"] for one in cluster.statuses("t").values()] == [0])
    assert sorted(values for _, values in log) == [["be"], ["or"], ["to"]]
    assert sorted(values[3] for _, values in letters) == [1, 2], "the row that is no JSON, and the bad one"


# Tools of tests


def test_fixed_rows_of_a_test_pass_the_chain(cluster: LocalCluster) -> None:
    def pairs(row: Sequence[Any]) -> Iterator[Any]:
        yield from (("words", word) for word in words(row))

    builder = TopologyBuilder()
    builder.set_spout("spout", chained(Heard("never", log=Log()), Through(pairs), {"words": ["word"]}))
    builder.set_bolt("sink", DoBasic(lambda tup, collector: collector.emit([tup[0]]), ["word"])).shuffle_grouping(
        "spout", "words"
    )
    topology: Topology = builder.create_topology()
    result = complete_topology(topology, {"spout": [["to be"], ["bad"], [""]]})
    assert sorted(result["sink"]) == [["be"], ["to"]]
    assert (sorted(result.acked["spout"]), result.failed["spout"]) == ([[""], ["to be"]], [["bad"]])
    feeder = FeederSpout(["line"])
    feeder.feed(["or not"], 1)
    cluster.submit("t", topology.replacing({"spout": feeder}))
    cluster.wait_quiet()
    assert feeder.acked == [1]


def test_a_spout_may_emit_messages_of_several_rows_of_which_each_passes_the_chain(cluster: LocalCluster) -> None:
    class Trees(Heard):
        def next_tuple(self) -> None:
            if self.next < 3:
                self.next += 1
                rows = [("default", ["to be"]), ("odd", ["or"]), ("default", ["bad" if self.next == 2 else "not"])]
                self.collector.emit_tree(rows[: 0 if self.next == 3 else None], self.next)

    log = Log()
    run = Run(cluster, chained(Trees(log=log), Through(words), WORD))
    assert (run.rows(), run.rows("odd")) == ([["be"], ["not"], ["to"]], [["or"]])
    assert sorted(log) == [("ack", 1), ("ack", 3), ("fail", 2)]
