"""ReliableSpout: a source that only says what to read; and what other spouts of this kind have lost by."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from local_components import DoBasic, Keep, Log
from stateful_scene import ALIGNED, Count

from tupletree import Backoff, FailedException, Message, ReliableSpout, TopologyBuilder
from tupletree.errors import TopologyError
from tupletree.testing import LocalCluster


class Lines(ReliableSpout):
    """Reads the items of ``batches``: a list for each time that ``read`` is called.

    An item can be an exception, which is raised, or a function, for which reading waits until it is true.
    """

    outputs = ("line",)

    def __init__(self, log: Log, *batches: list[Any], **settings: Any) -> None:
        self.log = log
        self.batches = batches
        self.reads = 0
        vars(self).update(settings)

    def read(self) -> Iterator[Any]:
        self.log.append(("read", self.position))
        batch = self.batches[min(self.reads, len(self.batches) - 1)]
        self.reads += 1
        for item in batch:
            if isinstance(item, Exception):
                raise item
            while callable(item) and not item():
                yield None
            if not callable(item):
                yield item

    def finished(self, id: Any) -> None:
        self.log.append(("finished", id))

    def commit(self, position: Any) -> None:
        self.log.append(("commit", position))


def run(cluster: LocalCluster, spout: ReliableSpout, bolt: Any, conf: Any = None) -> None:
    builder = TopologyBuilder()
    builder.set_spout("lines", spout)
    builder.set_bolt("sink", bolt).shuffle_grouping("lines")
    cluster.submit("t", builder.create_topology(), conf)
    cluster.wait_quiet()


def failing(times: dict[str, int], seen: Log) -> DoBasic:
    """Return a bolt that fails each line so many times."""
    left = Log()

    def do(tup: Any, collector: Any) -> None:
        seen.append(tup[0])
        if left.count(tup[0]) < times.get(tup[0], 0):
            left.append(tup[0])
            raise FailedException("not yet")

    return DoBasic(do)


def test_every_row_is_emitted_and_finished(cluster: LocalCluster) -> None:
    log, kept = Log(), Log()
    run(cluster, Lines(log, [["a"], None, ["b"], Message(["c"], id="see")]), Keep(kept))
    assert [values for _, values in kept] == [["a"], ["b"], ["c"]]
    assert log == [("read", None), ("finished", 0), ("finished", 1), ("finished", "see")]


def test_failed_rows_are_emitted_again_after_their_pauses(cluster: LocalCluster) -> None:
    log, seen = Log(), Log()
    retry = Backoff(first_s=1, factor=2, max_attempts=None)
    run(cluster, Lines(log, [["a"], ["b"]], retry=retry), failing({"a": 2}, seen))
    assert seen == ["a", "b"] and ("finished", 0) not in log
    cluster.advance(0.9)
    cluster.wait_quiet()
    assert seen == ["a", "b"]
    cluster.advance(0.2)
    cluster.wait_quiet()
    assert seen == ["a", "b", "a"]
    cluster.advance(2.1)
    cluster.wait_quiet()
    assert seen == ["a", "b", "a", "a"] and log[-1] == ("finished", 0)


def test_a_failed_row_is_emitted_as_it_was_although_its_list_has_been_used_again(cluster: LocalCluster) -> None:
    seen = Log()

    class OneList(Lines):
        def read(self) -> Iterator[Any]:
            row: list[Any] = [None]
            for line in "abc":
                row[0] = line
                yield row if line != "b" else Message(row)
            yield (line for line in "d")  # can be read once

    run(cluster, OneList(Log()), failing({"a": 1, "b": 2, "d": 1}, seen))
    for _ in range(3):
        cluster.advance(60)
        cluster.wait_quiet()
    assert sorted(seen) == sorted("abcd" + "abd" + "b")


def test_a_row_that_is_given_up_is_finished_and_reported(cluster: LocalCluster) -> None:
    log, seen = Log(), Log()
    run(cluster, Lines(log, [["a"]], retry=Backoff(max_attempts=1)), failing({"a": 9}, seen))
    assert seen == ["a"] and log[-1] == ("finished", 0)
    [(component, error)] = cluster.errors("t")
    assert component == "lines"
    assert str(error) == (
        "message 0 failed once and is given up; last failure in component 'sink': FailedException: not yet"
    )


def test_an_ack_inside_emit_finishes_the_row(cluster: LocalCluster) -> None:
    log = Log()
    run(cluster, Lines(log, [["a"], ["b"]]), Keep(Log()), {"topology.acker.executors": 0})
    assert log == [("read", None), ("finished", 0), ("finished", 1)]


def test_the_committed_position_is_that_of_the_processed_prefix(cluster: LocalCluster) -> None:
    log, seen = Log(), Log()
    rows = [Message([line], position=10 * number) for number, line in enumerate("abcd", 1)]
    run(cluster, Lines(log, rows, retry=Backoff(first_s=5, max_attempts=None)), failing({"b": 1}, seen))
    cluster.advance(2)
    cluster.wait_quiet()
    assert [entry for entry in log if entry[0] == "commit"] == [("commit", 10)]
    cluster.advance(4)
    cluster.wait_quiet()
    assert [entry for entry in log if entry[0] == "commit"][-1] == ("commit", 40)


def test_the_last_position_is_committed_at_the_end() -> None:
    log = Log()
    with LocalCluster(simulated_time=True) as cluster:
        rows = [Message([line], position=line) for line in "abcd"]
        run(cluster, Lines(log, rows, commit_interval_s=1000), Keep(Log()))
        assert not [entry for entry in log if entry[0] == "commit"]
    assert log[-1] == ("commit", "d")


def test_after_a_reconnect_what_is_not_processed_is_read_again(cluster: LocalCluster) -> None:
    log, seen = Log(), Log()
    first = [Message([line], position=line) for line in "ab"]
    again = [Message([line], position=line) for line in "bc"]
    batch = [*first, lambda: ("finished", 0) in log and "b" in seen, ConnectionError("gone")]
    run(cluster, Lines(log, batch, again, retry=Backoff(first_s=50, max_attempts=None)), failing({"b": 1}, seen))
    assert [str(error) for _, error in cluster.errors("t")] == ["gone"]
    assert seen == ["a", "b"]
    assert log == [("read", None), ("finished", 0), ("commit", "a")]
    cluster.advance(0.2)
    cluster.wait_quiet()
    assert seen == ["a", "b", "b", "c"]
    assert log[3:6] == [("read", "a"), ("finished", 0), ("finished", 1)]
    cluster.advance(60)
    cluster.wait_quiet()
    assert seen == ["a", "b", "b", "c"], "the b that failed before the reconnect is not emitted again"


def test_rows_without_positions_are_counted_over_a_reconnect(cluster: LocalCluster) -> None:
    log, seen = Log(), Log()
    rows = [["a"], ["b"], ["c"]]
    spout = Lines(log, [*rows, lambda: ("finished", 2) in log, TimeoutError("slow")], [*rows, ["d"]])
    run(cluster, spout, failing({}, seen))
    cluster.advance(0.2)
    cluster.wait_quiet()
    assert seen == ["a", "b", "c", "d"]


def test_reading_pauses_while_too_much_was_read_after_the_oldest(cluster: LocalCluster) -> None:
    log, seen = Log(), Log()
    rows = [[line] for line in "abcdefgh"]
    run(cluster, Lines(log, rows, max_ahead=3, retry=Backoff(first_s=5, max_attempts=None)), failing({"b": 1}, seen))
    assert seen == ["a", "b", "c", "d"]
    cluster.advance(6)
    cluster.wait_quiet()
    assert seen == ["a", "b", "c", "d", "b", "e", "f", "g", "h"]


def test_with_aligned_checkpoints_it_goes_back_to_a_position() -> None:
    log, counts = Log(), Log()
    with LocalCluster() as cluster:
        failed = Log()

        class Once(Count):
            def execute(self, tup: Any) -> None:
                if tup["word"] == "c" and not failed:
                    failed.append(1)
                    self.collector.fail(tup)
                else:
                    super().execute(tup)

            def pre_commit(self, txid: int) -> None:
                counts.append(dict(self.counts))

        spout = Lines(log, [[word] for word in "abcab"])
        spout.outputs = ("word",)  # type: ignore[misc]
        builder = TopologyBuilder()
        builder.set_spout("words", spout)
        builder.set_bolt("count", Once()).fields_grouping("words", "word")
        cluster.submit("t", builder.create_topology(), ALIGNED)
        cluster.wait_until(lambda: counts and counts[-1] == {"a": 2, "b": 2, "c": 1})
    assert len([entry for entry in log if entry[0] == "read"]) == 2


@pytest.mark.parametrize("has_positions", [True, False])
def test_with_aligned_checkpoints_a_reconnect_emits_nothing_again(has_positions: bool) -> None:
    words, starts, counts = "abcabc", Log(), Log()

    class Broken(Lines):
        outputs = ("word",)

        def read(self) -> Iterator[Any]:
            start = self.position or 0
            starts.append(start)
            for at, word in enumerate(words[start:], start + 1):
                if at == 4 and len(starts) < 3:
                    raise ConnectionError("gone")
                yield Message([word], position=at) if has_positions else [word]

    class Counted(Count):
        def pre_commit(self, txid: int) -> None:
            counts.append(dict(self.counts.items()))

    builder = TopologyBuilder()
    builder.set_spout("words", Broken(Log()))
    builder.set_bolt("count", Counted()).fields_grouping("words", "word")
    with LocalCluster() as cluster:
        cluster.submit("t", builder.create_topology(), ALIGNED)
        cluster.wait_until(lambda: counts and sum(counts[-1].values()) >= len(words))
        cluster.wait_until(lambda: cluster.is_at_end("t"))
    assert counts[-1] == {"a": 2, "b": 2, "c": 2}
    assert list(starts) == ([0, 3, 3] if has_positions else [0, 0, 0])


@pytest.mark.parametrize("name", ["next_tuple", "ack", "fail"])
def test_what_it_does_itself_is_refused(name: str) -> None:
    kind = type("Mine", (Lines,), {name: lambda self, *arguments: None})
    with pytest.raises(TopologyError, match=f"spout 'lines': Mine.{name} is never called: "):
        TopologyBuilder().set_spout("lines", kind(Log(), []))
