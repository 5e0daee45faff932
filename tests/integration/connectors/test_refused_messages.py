"""Messages that cannot be decoded: a poll refuses many of them, and does not end after each as if none were left."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tupletree import Spout, TopologyBuilder
from tupletree.connectors.files import FileSpout
from tupletree.connectors.formats import Json
from tupletree.connectors.queue_source import Delivery, QueueSource
from tupletree.connectors.queue_spout import QueueSpout
from tupletree.replaying_spout import REFUSED_AT_A_TIME
from tupletree.streams import StreamBuilder
from tupletree.testing import LocalCluster

MESSAGES = [b"{"] * (10 * REFUSED_AT_A_TIME) + [b'{"a": 1}']


class Polled(Spout):
    """Notes how many messages each poll has refused."""

    refused: ClassVar[list[int]] = []

    def next_tuple(self) -> None:
        before = self._given_up  # type: ignore[attr-defined]
        super().next_tuple()
        self.refused.append(self._given_up - before)  # type: ignore[attr-defined]


class PolledFiles(Polled, FileSpout):
    refused: ClassVar[list[int]] = []


class PolledQueue(Polled, QueueSpout):
    refused: ClassVar[list[int]] = []


class Messages(QueueSource):
    def open(self, prefetch: int, task_index: int) -> None:
        self.rest = [Delivery(data, number) for number, data in enumerate(MESSAGES)]

    def receive(self, limit: int, wait_s: float) -> Sequence[Delivery]:
        if not self.rest:
            self.idle(wait_s)
        taken, self.rest = self.rest[:limit], self.rest[limit:]
        return taken

    def acknowledge(self, handles: Sequence[Any]) -> None: ...

    def release(self, handles: Sequence[Any], delay_s: float) -> None: ...

    def close(self) -> None: ...


def of_files(path: Path) -> Polled:
    (path / "a.jsonl").write_bytes(b"\n".join(MESSAGES) + b"\n")
    return PolledFiles(path / "a.jsonl", Json(["a"]), are_complete=True)


def of_a_queue(path: Path) -> Polled:
    return PolledQueue(Messages(), Json(["a"]))


@pytest.mark.parametrize("make", [of_files, of_a_queue])
def test_a_poll_refuses_many_messages_and_no_more_than_the_maximum(make: Any, tmp_path: Path) -> None:
    spout = make(tmp_path)
    type(spout).refused.clear()
    emitted: list[list[Any]] = []
    builder = TopologyBuilder()
    builder.set_spout("in", spout)
    with LocalCluster() as cluster:
        cluster.submit("refused", builder.create_topology(), observer=lambda *of: emitted.append(list(of[2])))
        cluster.wait_until(lambda: emitted == [[1]], 30)
        assert len(cluster.errors("refused")) == sum(spout.refused) == len(MESSAGES) - 1
    assert max(spout.refused) == REFUSED_AT_A_TIME


@pytest.mark.parametrize("messages", [[b"{"] * 3000 + [b'{"a": 1}'], [b'{"a": 1}', b"{"], [b"{"]])
def test_with_aligned_checkpoints_refused_messages_stop_no_log_and_it_comes_to_its_end(
    messages: list[bytes], tmp_path: Path
) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(messages) + b"\n")
    files = FileSpout(tmp_path / "a.jsonl", Json(["a"]), are_complete=True, max_ahead=10)
    program = StreamBuilder()
    program.source(files, name="in").key_by(lambda number: number).count(name="counts")
    with LocalCluster() as cluster:
        settings = {"topology.state.checkpoint.interval.ms": 100}
        cluster.submit("refused", program.topology("exactly_once"), settings)
        cluster.wait_until(lambda: cluster.is_at_end("refused"), 30)
        assert len(cluster.errors("refused")) == messages.count(b"{")
        assert cluster.state("refused", "counts") == ({1: 1} if b'{"a": 1}' in messages else {})
