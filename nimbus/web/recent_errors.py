"""The errors of all topologies as the first view shows them: read from ZooKeeper at most every ten seconds each."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

from tupletree.v1 import topology_pb2 as pb

from ..desk import Desk

_KEPT_S: Final = 10.0


class RecentErrors:
    """Remembers what was read last of each topology that still exists."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._read: dict[str, tuple[float, list[pb.ComponentError]]] = {}

    async def of(self, topology_ids: Iterable[str]) -> dict[str, list[pb.ComponentError]]:
        """The errors of some topologies, newest first; the others are forgotten."""
        ids = list(topology_ids)
        for topology_id in ids:
            found = self._read.get(topology_id)
            if found is None or time.monotonic() - found[0] > _KEPT_S:
                errors = await self._desk.errors(topology_id)
                self._read[topology_id] = (time.monotonic(), errors)
        self._read = {one: self._read[one] for one in ids if one in self._read}
        return {one: errors for one, (_, errors) in self._read.items()}
