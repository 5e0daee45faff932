"""The leader's entry in ZooKeeper."""

from __future__ import annotations  # pure

import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Leadership:
    """The current leader. ``node`` is the leader's candidate node in the election."""

    epoch: int
    identity: str
    address: str
    node: str

    def encode(self) -> bytes:
        return json.dumps(self.__dict__).encode()

    @classmethod
    def decode(cls, data: bytes) -> Leadership:
        facts = json.loads(data)
        return cls(int(facts["epoch"]), facts["identity"], facts["address"], facts["node"])
