"""Real DRPC server processes, and topologies that answer."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import yaml

from tupletree.component import BasicBolt
from tupletree.drpc import DRPCSpout, LinearDRPCTopologyBuilder, ReturnResults
from tupletree.errors import FailedException
from tupletree.testing.wait import wait_until
from tupletree.topology import Topology, TopologyBuilder
from tupletree.transactional import BatchBolt

TWEETERS = {"foo.com/blog/1": ["sally", "bob", "tim", "george", "nathan"], "engineering.example": ["adam", "sally"]}
FOLLOWERS = {
    "sally": ["bob", "tim", "alice", "adam", "jim", "chris", "jai"],
    "bob": ["sally", "nathan", "jim", "mary", "david", "vivian"],
    "tim": ["alex"],
    "nathan": ["sally", "bob", "adam", "harry", "chris", "vivian", "emily", "jordan"],
    "adam": ["david", "carissa"],
}


def reach_of(url: str) -> int:
    """The answer of the reach example, computed here."""
    return len({follower for one in TWEETERS.get(url, ()) for follower in FOLLOWERS.get(one, ())})


class DrpcProcess:
    """One `python -m tupletree.drpc_server`, ready when constructed."""

    def __init__(self, directory: Path, port: int = 0, **conf: Any) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        told, file = directory / "announce.json", directory / "tupletree.yaml"
        told.unlink(missing_ok=True)
        own = {"local.dir": str(directory), "drpc.port": port, "drpc.http.port": 0}
        file.write_text(yaml.safe_dump({**_dotted(conf), **own}))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tupletree.drpc_server", "--conf", str(file), "--announce", str(told)],
            cwd=directory,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        wait_until(lambda: told.exists() or self.process.poll() is not None, 20, what="the DRPC server serves")
        assert self.process.poll() is None, self.stderr()
        facts = json.loads(told.read_text())
        assert facts["role"] == "drpc"
        self.port: int = facts["grpc_port"]
        self.http_port: int = facts["http_port"]
        self.address = f"127.0.0.1:{self.port}"

    def stderr(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(15)
        assert self.process.stderr is not None
        self.process.stderr.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _dotted(conf: Mapping[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in conf.items()}


class Double(BasicBolt):
    """Doubles a number; fails, forgets or repeats the answer on request, or gives one that is no JSON value."""

    outputs = ["result", "return_info"]

    def execute(self, tup: Any, collector: Any) -> None:
        if tup["args"] == "fail":
            raise FailedException("asked to fail")
        if tup["args"] in ("bytes", "object"):
            collector.emit([b"1" if tup["args"] == "bytes" else object(), tup["return_info"]])
            return
        copies = {"forget": 0, "repeat": 2}.get(tup["args"], 1) if isinstance(tup["args"], str) else 1
        for _ in range(copies):
            collector.emit([tup["args"] * 2, tup["return_info"]])


def doubling(parallelism: int = 1, answers: str = "one", function: str = "double") -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("requests", DRPCSpout(function, answers=answers), parallelism)
    builder.set_bolt("double", Double(), parallelism).shuffle_grouping("requests")
    builder.set_bolt("answers", ReturnResults(), parallelism).shuffle_grouping("double")
    return builder.create_topology()


class GetTweeters(BasicBolt):
    outputs = ["tweeter"]

    def execute(self, tup: Any, collector: Any) -> None:
        for tweeter in TWEETERS.get(tup["args"], ()):
            collector.emit([tweeter])


class GetFollowers(BasicBolt):
    outputs = ["follower"]

    def execute(self, tup: Any, collector: Any) -> None:
        for follower in FOLLOWERS.get(tup["tweeter"], ()):
            collector.emit([follower])


class PartialUniquer(BatchBolt):
    outputs = ["count"]

    def prepare(self, conf: Any, context: Any, collector: Any, batch_id: Any) -> None:
        self.followers: set[str] = set()

    def execute(self, tup: Any) -> None:
        self.followers.add(tup["follower"])

    def finish_batch(self) -> Any:
        yield [len(self.followers)]


class CountAggregator(BatchBolt):
    outputs = ["reach"]

    def prepare(self, conf: Any, context: Any, collector: Any, batch_id: Any) -> None:
        self.count = 0

    def execute(self, tup: Any) -> None:
        self.count += tup["count"]

    def finish_batch(self) -> Any:
        yield [self.count]


def reach_builder() -> LinearDRPCTopologyBuilder:
    builder = LinearDRPCTopologyBuilder("reach")
    builder.add_bolt(GetTweeters(), 2)
    builder.add_bolt(GetFollowers(), 3).shuffle_grouping()
    builder.add_bolt(PartialUniquer(), 3).fields_grouping("follower")
    builder.add_bolt(CountAggregator(), 2).fields_grouping("request")
    return builder
