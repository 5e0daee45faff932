"""Seconds that a savepoint of a state with many keys takes, and a topology that begins with it, on one machine.

    python -m bench.savepoint --provider sqlite --keys 1000000 --json

A positioned spout emits each of ``--keys`` keys once, and then keys at ``--rate``, to ``--before`` counting tasks on
``--workers`` workers, with aligned checkpoints every 200 ms. ``savepoint_s``: the time of ``NimbusClient.savepoint``
while it runs; ``held_s``: that part in which no checkpoint begins; ``megabytes``: the size of the files. Then the
topology is killed, and one with ``--after`` tasks begins with the savepoint: ``submit_s`` is the time of the upload,
``restore_s`` what the worker of the checkpoint spout logs, and ``ready_s`` the time from the end of the upload to the
first commit.

Savepoint and states must hold every key, and the states as many counts as the spout's position says, else the exit
status is 1.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench import _cli
from bench._cli import WrongResultError
from bench.task_change import INTERVAL_S, MAX_S, check, provider_conf, topology
from tupletree._checkpoints.record import Checkpoint, stored_checkpoint
from tupletree._stores.nodes import StateStore
from tupletree._stores.zookeeper_nodes import open_store
from tupletree.testing import DevCluster, wait_until

NAME: Final = "changing"


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure one provider.

    Raises:
        WrongResultError: the states do not hold what was emitted.
    """
    with (
        provider_conf(arguments.provider) as provider,
        tempfile.TemporaryDirectory(prefix="bench-savepoint-") as directory,
        DevCluster(supervisors=1, slots=arguments.workers, ackers=1) as cluster,
        contextlib.closing(open_store(cluster.conf)) as store,
    ):
        conf = {
            "topology.workers": arguments.workers,
            "topology.max.spout.pending": 20_000,
            "topology.state.checkpoint.aligned": True,
            "topology.state.checkpoint.interval.ms": int(1000 * INTERVAL_S),
            **provider,
        }
        case = Case(arguments, cluster, conf, store, Path(directory, "kept"))
        return case.save() | case.begin()


@dataclass(frozen=True)
class Case:
    """A topology that is saved and begun again, on a cluster with this configuration and store of progress."""

    arguments: argparse.Namespace
    cluster: DevCluster
    conf: Mapping[str, Any]
    store: StateStore
    place: Path

    def save(self) -> dict[str, Any]:
        """Count every key, make a savepoint, and kill the topology."""
        keys, client = self.arguments.keys, self.cluster.client
        client.submit(NAME, topology(keys, self.arguments.rate, self.arguments.before), self.conf)
        wait_until(lambda: self._counted() >= keys, MAX_S, what="every key is counted")
        self._wait_checkpoints(2)
        began_s = time.monotonic()
        made = client.savepoint(NAME, self.place)
        savepoint_s = time.monotonic() - began_s
        if made.entries["count"] != keys:
            raise WrongResultError(f"the savepoint has {made.entries['count']:,} keys, not {keys:,}")
        self._kill()
        return {
            "savepoint_s": round(savepoint_s, 2),
            "held_s": round(made.took_s, 2),
            "megabytes": round(sum(file.stat().st_size for file in self.place.iterdir()) / 1e6, 1),
        }

    def begin(self) -> dict[str, Any]:
        """Begin with the savepoint, and check the states."""
        keys, after = self.arguments.keys, self.arguments.after
        began_s = time.monotonic()
        made = topology(keys, self.arguments.rate, after)
        self.cluster.client.submit(NAME, made, self.conf, from_savepoint=self.place)
        submitted_s = time.monotonic()
        wait_until(lambda: self._stored().tasks.get("count") == after, MAX_S, what="the states are restored")
        self._wait_checkpoints(1)
        ready_s = time.monotonic() - submitted_s
        self._kill()
        check(self.conf, self._stored(), keys)
        logs = "".join(path.read_text(errors="replace") for path in Path(self.cluster.directory).rglob("worker.log"))
        [took_s] = re.findall(r"states\.restored .*took_s=([\d.]+)", logs)
        return {
            "submit_s": round(submitted_s - began_s, 2),
            "restore_s": float(took_s),
            "ready_s": round(ready_s, 2),
        }

    def _stored(self) -> Checkpoint:
        return stored_checkpoint(self.store, NAME)

    def _counted(self) -> int:
        components = self.cluster.client.describe(NAME).components
        return sum(one.total.executed for one in components if one.component_id == "count")

    def _wait_checkpoints(self, count: int) -> None:
        txid = self._stored().txid
        wait_until(lambda: self._stored().txid >= txid + count, MAX_S, what="checkpoints are committed")

    def _kill(self) -> None:
        self.cluster.client.kill(NAME, wait_secs=0)
        wait_until(lambda: all(one.role != "worker" for one in self.cluster.processes), MAX_S, what="the workers end")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this bench."""
    parser.add_argument("--provider", choices=("sqlite", "redis", "rocksdb"), default="sqlite")
    parser.add_argument("--keys", type=int, default=1_000_000, help="keys in the state (%(default)s)")
    parser.add_argument(
        "--rate", type=float, default=5_000, help="tuples per second once all are counted (%(default)s)"
    )
    parser.add_argument("--before", type=int, default=2, help="counting tasks at first (%(default)s)")
    parser.add_argument("--after", type=int, default=6, help="counting tasks that begin with it (%(default)s)")
    parser.add_argument("--workers", type=int, default=2)


if __name__ == "__main__":
    sys.exit(_cli.run("savepoint", __doc__, add_arguments, measure))
