"""The number of shards of a topology's ledgers: at submission, and when its configuration changes.

A change begins with the restart of all workers. Until the last one has restarted, two workers can send the updates of
a tree to different shards: such a tree is not complete at either, and fails after the message timeout.
"""

from __future__ import annotations  # pure

import json
from collections.abc import Mapping
from typing import Any, Final

from tupletree.errors import UsageError
from tupletree.v1 import topology_pb2 as pb

KEY: Final = "topology.acker.executors"
MAX_SHARDS: Final = 2000


def shards_of(conf: Mapping[str, Any], workers: int) -> int:
    """Return the number of shards that a configuration asks for: by default as many as workers."""
    asked = conf.get(KEY)
    return workers if asked is None else int(asked)


def follow(record: pb.TopologyRecord, before: Mapping[str, Any]) -> None:
    """Give a record the shards of its configuration, if that differs from ``before``."""
    conf = json.loads(record.conf_json or "{}")
    if conf.get(KEY) != before.get(KEY):
        record.acker_shards = shards_of(conf, record.workers)


def check_follows(before: pb.TopologyRecord, after: pb.TopologyRecord) -> None:
    """Check the shards that a record is to have. Raises UsageError."""
    if bool(before.acker_shards) != bool(after.acker_shards):
        does, whether = ("tracks", "without") if before.acker_shards else ("does not track", "with")
        raise UsageError(
            f"topology '{before.name}' {does} its tuples, and {KEY} {after.acker_shards} would go on {whether} ackers: "
            "submit it anew to change that"
        )
    if after.acker_shards > MAX_SHARDS:
        raise UsageError(
            f"topology '{before.name}' asks for {after.acker_shards} acker shards ({KEY}); the limit is {MAX_SHARDS}"
        )
