"""A chained spout and sinks for its streams, and what the spout hears of its messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from local_components import Keep, Log

from tupletree import Backoff, FailedException, Spout, TopologyBuilder, spout
from tupletree.testing import LocalCluster

WORD = {"default": ["word"]}


def words(row: Sequence[Any]) -> Iterator[list[str]]:
    """Split a line; refuse one with a bad word."""
    for word in row[0].split():
        if word == "bad":
            raise FailedException("a bad word")
        yield [word]


class Heard(Spout):
    """Emits lines with their numbers as ids, and logs what happens, in which call."""

    outputs = {"default": ["line"], "odd": ["line"]}

    def __init__(self, *lines: str, log: Log) -> None:
        self.lines = lines
        self.log = log
        self.next = 0

    def next_tuple(self) -> None:
        if self.next < len(self.lines):
            number = self.next
            self.next += 1
            self.log.append(("emitting", number))
            self.collector.emit([self.lines[number]], number, "odd" if self.lines[number] == "odd" else "default")
            self.log.append(("emitted", number))

    def ack(self, msg_id: Any) -> None:
        self.log.append(("ack", msg_id))

    def fail(self, msg_id: Any) -> None:
        self.log.append(("fail", msg_id))


def heard(log: Log) -> list[Any]:
    """What a spout heard of its messages, sorted."""
    return sorted(entry for entry in list(log) if entry[0] in ("ack", "fail"))


@spout(outputs=["line"], max_ahead=7)
def lines() -> Iterator[list[str]]:
    yield from (["to be"], ["bad"], ["or"])


class Run:
    """A topology of a chained spout and a sink for each of its streams, which ran until it was quiet."""

    def __init__(
        self, cluster: LocalCluster, given: Spout, *, retry: Backoff | None = None, seconds: float = 5, **conf: Any
    ) -> None:
        self.cluster = cluster
        builder = TopologyBuilder()
        declared = builder.set_spout("spout", given)
        if retry is not None:
            declared.set_retry(retry).set_dead_letters("rejected")
        self.topology = builder.create_topology()
        self.logs = {stream: Log() for stream in self.topology.components["spout"].outputs}
        for stream, log in self.logs.items():
            builder.set_bolt(f"sink-{stream}", Keep(log)).shuffle_grouping("spout", stream)
        self.topology = builder.create_topology()
        cluster.submit("t", self.topology, conf)
        cluster.wait_quiet()
        for _ in range(int(seconds)):
            cluster.advance(1)
            cluster.wait_quiet()

    def rows(self, stream: str = "default") -> list[list[Any]]:
        return sorted(values for _, values in self.logs[stream])

    def counts(self) -> tuple[int, int, int]:
        """How many messages the spout's task counts as acked, as failed, and as failed and unheard."""
        [task] = [one for one in self.cluster._find("t").tasks if one.component_id == "spout"]
        return task.counters.acked, task.counters.failed, task.counters.unheard
