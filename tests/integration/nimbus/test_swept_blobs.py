"""The sweep of a nimbus's blob store, while topologies are submitted: what is needed by then stays."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from nimbus_harness import Bench

from tupletree._coord import paths
from tupletree._coord.store import Store, encode
from tupletree._coord.versioned import Found
from tupletree.errors import UnavailableError
from tupletree.nimbus.submission.blob_store import BlobStore
from tupletree.nimbus.submission.replication import Replication
from tupletree.v1 import topology_pb2 as pb

DELAY_S = 600.0
DATA = b"a bundle that another topology has had"
SHA256 = hashlib.sha256(DATA).hexdigest()


class Submission:
    """A submission in steps, each of which another reader of ZooKeeper can come between."""

    def __init__(self, bench: Bench, blobs: BlobStore) -> None:
        self.reserved: set[str] = set()
        self._bench = bench
        self._blobs = blobs

    def reserve(self) -> None:
        self.reserved.add(SHA256)

    def receive(self) -> None:
        with self._blobs.receive(SHA256, len(DATA)) as incoming:
            incoming.write(DATA)
            incoming.verify()
            incoming.publish()

    def record(self) -> None:
        record = pb.TopologyRecord(id="words-1-1", name="words", bundle_sha256=SHA256, bundle_bytes=len(DATA))
        self._bench.session.create(paths.topology(self._bench.root, record.id), encode(record), makepath=True)

    def release(self) -> None:
        self.reserved.clear()


class Reader(Store):
    """The store of the sweep; ``before`` and ``after`` run around a read of the records of topologies."""

    reads = 0
    steps: dict[tuple[str, int], list[Callable[[], None]]] = {}

    def topologies(self) -> Found[pb.TopologyRecord]:
        self.reads += 1
        for step in self.steps.get(("before", self.reads), []):
            step()
        found = super().topologies()
        for step in self.steps.get(("after", self.reads), []):
            step()
        return found


FIRST, SECOND = 2, 3  # the reads of the round in which the bundle is due


@pytest.mark.parametrize(
    "moments",
    [
        [("after", FIRST)] * 4,
        [("before", SECOND)] * 4,
        [("after", FIRST), ("after", FIRST), ("after", SECOND), ("after", SECOND)],
        [("after", FIRST), ("after", FIRST), ("before", SECOND), ("after", SECOND)],
        [("after", SECOND), ("after", SECOND)],
    ],
)
def test_a_bundle_that_is_submitted_again_while_it_is_swept_stays(
    bench: Bench, tmp_path: Path, moments: list[tuple[str, int]]
) -> None:
    blobs = BlobStore(tmp_path)
    blobs.open()
    submission = Submission(bench, blobs)
    submission.receive()
    store = Reader(bench.session, bench.root)
    now_s = [0.0]
    replication = Replication(store, blobs, "n1", DELAY_S, lambda: now_s[0])
    steps = (submission.reserve, submission.receive, submission.record, submission.release)
    store.steps = {
        moment: [step for step, at in zip(steps, moments, strict=False) if at == moment] for moment in set(moments)
    }

    async def run() -> None:
        await replication.sync(lambda: submission.reserved)
        now_s[0] = DELAY_S
        await replication.sync(lambda: submission.reserved)

    asyncio.run(run())
    assert blobs.has(SHA256, len(DATA))


def test_a_bundle_that_nothing_needs_goes_after_the_delay(bench: Bench, tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path)
    blobs.open()
    submission = Submission(bench, blobs)
    submission.receive()
    now_s = [0.0]
    replication = Replication(bench.store, blobs, "n1", DELAY_S, lambda: now_s[0])

    async def run() -> None:
        await replication.sync(frozenset)
        assert replication.next_removal_s() == DELAY_S
        now_s[0] = DELAY_S
        await replication.sync(frozenset)

    asyncio.run(run())
    assert not blobs.has(SHA256, len(DATA))
    assert replication.next_removal_s() is None


class AwayStore(Store):
    """A store whose ZooKeeper goes away before the nimbuses are read."""

    def nimbuses(self) -> dict[str, pb.Presence]:
        raise UnavailableError("reading the nimbuses: ZooKeeper is unavailable")


def test_what_is_recorded_is_not_said_to_have_failed_if_nobody_can_be_asked_for_it(
    bench: Bench, tmp_path: Path
) -> None:
    blobs = BlobStore(tmp_path)
    blobs.open()
    replication = Replication(AwayStore(bench.session, bench.root), blobs, "n1", DELAY_S, lambda: 0.0)
    asyncio.run(replication.confirm(SHA256, len(DATA), 5.0))
