"""The logs of topologies that are gone go after their time; nothing else does."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from supervisor_harness import make_bundle, supervisor

from tupletree._coord import paths
from tupletree._coord.store import encode
from tupletree._devcluster.zookeeper import EmbeddedZooKeeper
from tupletree.testing.wait import wait_until
from tupletree.v1.topology_pb2 import Assignment

HOUR_S = 3600


def written(directory: Path, ago_s: float) -> Path:
    """A log in a directory like a topology's, last written so long ago."""
    log = directory / "6700" / "worker.log"
    log.parent.mkdir(parents=True)
    log.write_text("a line\n")
    at_s = time.time() - ago_s
    for path in (log, log.parent, directory):
        os.utime(path, (at_s, at_s))
    return directory


@pytest.mark.long
def test_only_old_logs_of_topologies_that_are_gone_are_removed(
    zookeeper: EmbeddedZooKeeper, zookeeper_root: str, tmp_path: Path
) -> None:
    with supervisor(zookeeper, zookeeper_root, 1, **{"supervisor.logs.retention.secs": HOUR_S}) as subject:
        logs = subject.directory / "logs"
        living = "living-2-1700000002"
        subject.submit("plain", subject.bundles.add(make_bundle(tmp_path)))
        data = encode(Assignment(topology_id=living, epoch=1))
        subject.store.client.create(paths.assignment(subject.root, living), data, makepath=True)
        gone = written(logs / "gone-1-1700000001", 2 * HOUR_S)
        kept = [
            written(logs / living, 2 * HOUR_S),
            written(logs / "recent-3-1700000003", HOUR_S / 2),
            written(logs / "notes", 2 * HOUR_S),
        ]
        behind = written(tmp_path / "elsewhere", 2 * HOUR_S)
        (logs / "link-4-1700000004").symlink_to(behind)
        subject.start()
        removed = "logs.removed topology=gone-1-1700000001"
        wait_until(lambda: removed in subject.log(), 30, what="the old logs are removed")
        assert not gone.exists()
        assert all((path / "6700" / "worker.log").exists() for path in [*kept, behind])
