"""Cache of topology errors, read from ZooKeeper at most once every ten seconds per topology."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from tupletree.v1 import topology_pb2 as pb

_KEPT_S: Final = 10.0


class ErrorCache:
    """The last errors read of each recently requested topology."""

    def __init__(self, read: Callable[[str], Awaitable[list[pb.ComponentError]]]) -> None:
        self._fetch = read
        self._read: dict[str, tuple[float, list[pb.ComponentError]]] = {}

    async def of(self, topology_ids: Iterable[str]) -> dict[str, list[pb.ComponentError]]:
        """Return the errors of the given topologies, newest first, by topology id."""
        found = {}
        for topology_id in topology_ids:
            kept = self._read.get(topology_id)
            if kept is None or time.monotonic() - kept[0] > _KEPT_S:
                errors = await self._fetch(topology_id)
                kept = self._read[topology_id] = (time.monotonic(), errors)
            found[topology_id] = kept[1]
        oldest_s = time.monotonic() - 2 * _KEPT_S
        self._read = {one: kept for one, kept in self._read.items() if one in found or kept[0] > oldest_s}
        return found
