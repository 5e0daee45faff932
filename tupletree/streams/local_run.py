"""Runs a program in this process."""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

from tupletree.testing import LocalCluster
from tupletree.topology import Topology

SETTINGS: Final = {"topology.state.checkpoint.interval.ms": 100}
"""A program with states ends when its last elements are in a checkpoint: nobody wants to wait for that."""

_collected: dict[str, list[Any]] = {}
"""What is being collected, by the id of the Collector. Its copies in the tasks of a LocalCluster find it here."""


class Collector:
    """A function that collects elements, also if it is a copy of the one that was made."""

    def __init__(self, has_key: bool) -> None:
        self.id = uuid.uuid4().hex
        self.has_key = has_key

    def __call__(self, key: Any, element: Any) -> None:
        found = _collected.get(self.id)
        if found is not None:
            found.append((key, element) if self.has_key else element)


def run(topology: Topology, seconds: float, conf: Mapping[str, Any], is_over: Callable[[], bool]) -> None:
    """Run a topology until ``is_over``, until all sources are at their end, or for ``seconds``; 0: without limit.

    At the end of all sources, event time ends too, and windows by the clock do: all windows and joins emit what they
    have.

    Errors that components report are printed to standard error.

    Raises:
        TaskFailedError: a component raised.
    """
    shown = 0
    began_s = time.monotonic()
    with LocalCluster() as cluster:
        cluster.submit("program", topology, {**SETTINGS, **conf})

        def look() -> bool:
            nonlocal shown
            errors = cluster.errors("program")
            for component, error in errors[shown:]:
                print(f"component {component!r} reported {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            shown = len(errors)
            is_late = bool(seconds) and time.monotonic() >= began_s + seconds
            return is_over() or is_late or cluster.is_at_end("program")

        cluster.wait_until(look, timeout=float("inf"))
        if cluster.is_at_end("program") and not is_over():
            cluster.finish("program")
            look()


def collect(collector: Collector, count: int, run_until: Callable[[Callable[[], bool]], None]) -> list[Any]:
    """Return what a collector gets while ``run_until`` runs the program, at most ``count`` elements."""
    found = _collected[collector.id] = []
    try:
        run_until(lambda: len(found) >= count)
    finally:
        del _collected[collector.id]
    return found[:count]
