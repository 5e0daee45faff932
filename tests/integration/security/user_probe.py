"""A topology whose bolt writes down as whom it runs, and what it can reach from there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kazoo.exceptions import KazooException

from tupletree import BasicStatefulBolt, Bolt, Spout, TopologyBuilder
from tupletree._coord.session import connect, disconnect
from tupletree.collector import BoltCollector, SpoutCollector
from tupletree.component import TopologyContext
from tupletree.topology import Topology
from tupletree.tuples import Tuple

REPORT = "report.json"
TRAP = "profile-20260101T000000.txt"
"""A name that the supervisor serves from the directory of logs."""


class Idle(Spout):
    outputs = ["number"]

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutCollector) -> None:
        self.emitted = False
        self.collector = collector

    def next_tuple(self) -> None:
        if not self.emitted:
            self.emitted = True
            self.collector.emit([1])


class Probe(Bolt):
    """Tries ``probe.paths``, and ``probe.nodes`` of ZooKeeper, each with what it does there."""

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: BoltCollector) -> None:
        launch = json.loads(Path(sys.argv[sys.argv.index("--launch") + 1]).read_text())
        paths: list[str] = conf["probe.paths"]
        Path(launch["log_dir"], TRAP).unlink(missing_ok=True)
        if paths:
            os.symlink(paths[0], Path(launch["log_dir"], TRAP))
        child = subprocess.Popen(["sleep", "1000"])
        report = {
            "ids": [os.getuid(), os.geteuid(), os.getgid(), os.getresuid()[2]],
            "status": dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines()),
            "environment": sorted(os.environ),
            "home": os.environ.get("HOME"),
            "child": child.pid,
            "pid": os.getpid(),
            "paths": {path: _outcome(lambda path=path: _read(path)) for path in paths},  # type: ignore[misc]
            "nodes": _touched(launch["conf"], conf["probe.nodes"]),
            "conf": {key: launch["conf"][key] for key in ("zookeeper.auth.password.file", "tls.key", "tls.cert")},
        }
        print("the probe has looked around", flush=True)
        Path("partial").write_text(json.dumps(report))
        os.replace("partial", REPORT)

    def execute(self, tup: Tuple) -> None:
        pass


def topology() -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("idle", Idle(), parallelism=1)
    builder.set_bolt("probe", Probe(), parallelism=1).shuffle_grouping("idle")
    return builder.create_topology()


class Numbers(Spout):
    outputs = ["number"]

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutCollector) -> None:
        self.collector = collector
        self.due_s = 0.0
        self.next = 0

    def next_tuple(self) -> None:
        if time.monotonic() > self.due_s:
            self.due_s = time.monotonic() + 0.05
            self.next += 1
            self.collector.emit([self.next], msg_id=self.next)

    def fail(self, msg_id: int) -> None:
        pass  # a count of what came through is not needed


class Count(BasicStatefulBolt):
    default_factory = int

    def execute(self, tup: Tuple) -> None:
        self.state["all"] += 1


def counting_topology() -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers(), parallelism=1)
    builder.set_bolt("count", Count(), parallelism=1).shuffle_grouping("numbers")
    return builder.create_topology()


def _read(path: str) -> object:
    return os.listdir(path) if os.path.isdir(path) else Path(path).read_bytes()


def _touched(conf: Mapping[str, Any], nodes: list[list[str]]) -> dict[str, str]:
    client = connect(conf)
    try:
        does: dict[str, Callable[[str], object]] = {
            "get": client.get,
            "list": client.get_children,
            "set": lambda path: client.set(path, b"mine"),
            "create": lambda path: client.create(path, b"mine"),
            "delete": client.delete,
        }
        return {f"{deed} {path}": _outcome(lambda deed=deed, path=path: does[deed](path)) for deed, path in nodes}  # type: ignore[misc]
    finally:
        disconnect(client)


def _outcome(attempt: Callable[[], object]) -> str:
    try:
        attempt()
    except (OSError, KazooException) as error:
        return type(error).__name__
    return "done"
