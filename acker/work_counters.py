"""Counters of an acker's work besides its ledgers, updated by the service for each message."""

from __future__ import annotations

from collections.abc import Iterable

from tupletree._daemon.metrics import Buckets

from .updates import Batch

APPLY_BOUNDS_S = (0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5)


class WorkCounters:
    """Counters since the acker started."""

    def __init__(self) -> None:
        self.messages = 0
        self.update_bytes = 0
        self.apply_s = Buckets(APPLY_BOUNDS_S)
        self.streams_opened = 0

    def count(self, batches: Iterable[Batch]) -> None:
        """Count an applied message. Each id and value takes eight bytes."""
        self.messages += 1
        for batch in batches:
            pairs = len(batch.init_roots) + len(batch.ack_roots)
            self.update_bytes += 8 * (2 * pairs + len(batch.fail_roots) + len(batch.reset_roots))
