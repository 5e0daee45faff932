"""A topology whose worker is always busy, at one place, for those who look where it spends its time."""

from __future__ import annotations

import time

from tupletree import Spout, Topology, TopologyBuilder


class Spinning(Spout):
    """Emits nothing, and takes a core's time for it."""

    outputs = ["nothing"]
    blocking = True

    def next_tuple(self) -> None:
        self.spin_here()

    def spin_here(self) -> None:
        until = time.monotonic() + 0.1
        while time.monotonic() < until:
            pass


def topology() -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("spinning", Spinning())
    return builder.create_topology()
