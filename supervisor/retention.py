"""Retention of bundles, worker directories and logs that nothing needs any more.

A bundle is kept for a while after no slot needs it any more, so that a worker that moves away and back, or a topology
submitted again, can reuse it.
"""

from __future__ import annotations  # pure

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class BundleAges:
    """The time (monotonic seconds) since which each unneeded bundle on disk has been idle."""

    idle_since_s: Mapping[str, float] = field(default_factory=dict)

    def observe(
        self, on_disk: Collection[str], in_use: Collection[str], now_s: float, delay_s: float
    ) -> tuple[BundleAges, list[str]]:
        """Return the updated ages, and the bundles to remove: those idle for ``delay_s`` or longer."""
        idle = {digest: self.idle_since_s.get(digest, now_s) for digest in on_disk if digest not in in_use}
        stale = sorted(digest for digest, since_s in idle.items() if now_s - since_s >= delay_s)
        return BundleAges({digest: since_s for digest, since_s in idle.items() if digest not in stale}), stale


def abandoned_workers(on_disk: Collection[str], known: Collection[str]) -> list[str]:
    """Return the worker directories without a known worker, as left by an interrupted removal."""
    return sorted(set(on_disk) - set(known))


def old_logs(
    written_unix_s: Mapping[str, float], living: Collection[str], now_unix_s: float, retention_s: float
) -> list[str]:
    """Return the topologies whose logs to remove: not in ``living``, and nothing written for ``retention_s``."""
    gone = {one: at_s for one, at_s in written_unix_s.items() if one not in living}
    return sorted(one for one, at_s in gone.items() if now_unix_s - at_s >= retention_s)
