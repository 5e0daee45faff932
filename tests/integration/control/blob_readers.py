"""A topology whose tasks read a blob again and again, and check each time that they have read one whole version.

The content of a blob holds its own checksum: sha256 of the rest, version, Unix time of its making, padding.
"""

from __future__ import annotations

import hashlib
import json
import random
import threading
import time
from pathlib import Path
from typing import Any

from tupletree import BasicBolt, Spout, Topology, TopologyBuilder

HEADER_BYTES = 64 + 1


def content(version: int, padding: int = 0) -> bytes:
    """Return a version of the blob, which verifies itself."""
    facts = json.dumps({"version": version, "made_s": time.time()}).encode()
    rest = facts + b"\n" + random.Random(version).randbytes(padding)
    return hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest


def checked(data: bytes) -> dict[str, Any]:
    """Return the facts of a version. Raises ValueError if it is not whole."""
    digest, _, rest = data.partition(b"\n")
    if hashlib.sha256(rest).hexdigest().encode() != digest:
        raise ValueError(f"half of a version: {len(data)} bytes")
    facts: dict[str, Any] = json.loads(rest.partition(b"\n")[0])
    return facts


class Numbers(Spout):
    outputs = ("number",)

    def open(self, conf: Any, context: Any, collector: Any) -> None:
        self.count = 0

    def next_tuple(self) -> None:
        self.count += 1
        self.collector.emit([self.count])


class Read(BasicBolt):
    """Reads the blob with each tuple: by its path, and by its name in the directory of the worker."""

    def setup(self) -> None:
        self.facts: dict[str, Any] = {"reads": 0, "halves": 0, "told": 0, "wrong": 0, "late_s": 0.0}
        self.is_executing = False
        self.thread = 0
        self.load(self.context.blob("model.bin"))
        self.facts["first"] = self.facts["version"]
        self.context.register_status(lambda: dict(self.facts))

    def load(self, path: str) -> dict[str, Any]:
        facts = checked(Path(path).read_bytes())
        self.facts["version"] = facts["version"]
        return facts

    def blob_updated(self, name: str, path: str) -> None:
        is_right = name == "model.bin" and self.context.blob(name) == path and Path(path).name == name
        self.facts["wrong"] += self.is_executing or not is_right or threading.get_ident() != self.thread
        facts = self.load(path)
        self.facts["told"] += 1
        self.facts["late_s"] = time.time() - facts["made_s"]

    def execute(self, tup: Any, collector: Any) -> None:
        self.is_executing, self.thread = True, threading.get_ident()
        for path in ("model.bin", self.context.blob("model.bin")):
            try:
                checked(Path(path).read_bytes())
            except ValueError:
                self.facts["halves"] += 1
            self.facts["reads"] += 1
        self.is_executing = False


def topology(tasks: int = 4) -> Topology:
    builder = TopologyBuilder()
    numbers = builder.set_spout("numbers", Numbers())
    builder.set_bolt("read", Read(), tasks).shuffle_grouping(numbers)
    return builder.create_topology()
