"""A component may start processes of its own, whatever its worker's gRPC calls are doing at that moment."""

from __future__ import annotations

import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from tupletree import Spout, TopologyBuilder
from tupletree.testing import DevCluster, wait_until

pytestmark = pytest.mark.nightly

CHILDREN = 60


class Parent(Spout):
    """Starts children as Spark's Python starts its JVM: with something to do between fork and exec."""

    outputs = ["nothing"]

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def open(self, conf: Any, context: Any, collector: Any) -> None:
        self.file = Path(self.directory, f"{context.task_id}.txt")
        threading.Thread(target=self.start_children, daemon=True).start()

    def next_tuple(self) -> None:
        pass

    def start_children(self) -> None:
        def child() -> int:
            ignore = lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)  # noqa: E731
            return subprocess.Popen(["true"], preexec_fn=ignore).wait()  # noqa: PLW1509

        self.file.with_suffix(".part").write_text(str({child() for _ in range(CHILDREN)}))
        self.file.with_suffix(".part").rename(self.file)


def test_no_child_of_a_worker_dies_before_it_is_another_program(tmp_path: Path) -> None:
    builder = TopologyBuilder()
    builder.set_spout("parent", Parent(str(tmp_path)), 2)
    with DevCluster(supervisors=1, slots=2) as cluster:
        cluster.client.submit("parents", builder.create_topology(), {"topology.workers": 2})
        wait_until(lambda: len(list(tmp_path.glob("*.txt"))) == 2, 60, what="all children have ended")
    assert [file.read_text() for file in tmp_path.glob("*.txt")] == ["{0}", "{0}"]
