"""Topologies that are updated, as records of nimbus."""

from __future__ import annotations

import json
from typing import Any

from tupletree import BasicBolt, BasicStatefulBolt, StatefulBolt, Topology, TopologyBuilder, config
from tupletree.keyed import KeyedProcess
from tupletree.nimbus.leader.lifecycle import (
    ask,
    rebalanced,
)
from tupletree.nimbus.submission.validation import new_record
from tupletree.nimbus.updates import (
    Update,
    check_update,
    next_version,
)
from tupletree.testing import FeederSpout
from tupletree.v1 import nimbus_pb2 as rpc
from tupletree.v1 import topology_pb2 as pb

PENDING = "topology.max.spout.pending"
TIMEOUT = "topology.message.timeout.secs"
OWN = "my.key"
SQLITE = {"topology.state.provider": "sqlite", "topology.state.provider.config": {"directory": "/states"}}
REDIS = {"topology.state.provider": "redis"}
MEMORY = {"topology.state.provider": "memory", "topology.state.provider.config": {}}


class Count(StatefulBolt):
    def execute(self, tup: Any) -> None: ...


class Simple(BasicStatefulBolt):
    def execute(self, tup: Any) -> None: ...


class Keyed(KeyedProcess):
    key = "word"

    def on_tuple(self, tup: Any, state: Any, timers: Any) -> None: ...


class Print(BasicBolt):
    def execute(self, tup: Any, collector: Any) -> None: ...


def words(count: Any = None, parallelism: int = 2, fields: tuple[str, ...] = ("word",), **more: Any) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("words", FeederSpout(["word", "user"]))
    builder.set_bolt("count", Count() if count is None else count, parallelism).fields_grouping("words", list(fields))
    for name, bolt in more.items():
        builder.set_bolt(name, bolt).shuffle_grouping("words")
    return builder.create_topology()


def submission(topology: Topology, sha256: str = "a" * 64, **conf: Any) -> rpc.SubmitHeader:
    settings = {**SQLITE, **{name.replace("_", "."): value for name, value in conf.items()}}
    return rpc.SubmitHeader(
        name="wc", conf_json=config.encode_conf(settings), sha256=sha256, size=9, spec=topology.outline()
    )


def submitted(header: rpc.SubmitHeader, now_s: float = 1.0) -> pb.TopologyRecord:
    return new_record(header, config.defaults(), "wc-1-1", now_s)


def version_from(record: pb.TopologyRecord, running: rpc.SubmitHeader, header: rpc.SubmitHeader) -> pb.TopologyVersion:
    version = next_version(record, running.spec, submitted(header, 2.0), header.spec)
    check_update(record, running.spec, version, header.spec, config.defaults())
    return version


def conf_of(one: pb.TopologyRecord | pb.TopologyVersion) -> dict[str, Any]:
    return dict(json.loads(one.conf_json))


FIRST = submission(words(), my_key=1)
SECOND = submission(words(parallelism=3, print=Print()), "b" * 64, my_key=2)


def on_trial(now_s: float = 100.0) -> pb.TopologyRecord:
    """The record just after an update."""
    record = submitted(FIRST)
    waits = ask(record, Update(record, version_from(record, FIRST, SECOND), 0), now_s)
    return rebalanced(waits, now_s)
