"""Runs a program in this process."""

from __future__ import annotations

import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

from tupletree.errors import likeness, named
from tupletree.testing import LocalCluster
from tupletree.topology import Topology

SETTINGS: Final = {"topology.state.checkpoint.interval.ms": 100}
"""Results of programs with states come with their checkpoints: nobody wants to wait for that."""

NAME: Final = "program"
"""The name of the topology in its LocalCluster."""

DEFAULT_S: Final = 20
"""The time after which ``run_local`` and ``collect`` end a run that names none."""

MAX_ERRORS: Final = 20
"""The most different errors that are printed while a program runs here."""

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


class _PrintedErrors:
    """Prints the errors that components report to standard error: of equal ones the first, and in the end their number.

    Messages that are given up for the same reason are equal.
    """

    def __init__(self) -> None:
        self._read = 0
        self._times: Counter[tuple[str, str]] = Counter()

    def __call__(self, cluster: LocalCluster) -> None:
        errors = cluster.errors(NAME)
        for component, error in errors[self._read :]:
            what = (component, likeness(error))
            self._times[what] += 1
            if self._times[what] == 1 and len(self._times) <= MAX_ERRORS:
                print(f"component {component!r} reported {named(error)}", file=sys.stderr, flush=True)
        self._read = len(errors)

    def end(self) -> None:
        """Print the number of errors that were not printed, if there are any."""
        more = self._read - min(len(self._times), MAX_ERRORS)
        if more:
            print(f"components reported {more:,} more errors", file=sys.stderr, flush=True)


def run(
    topology: Topology,
    seconds: float,
    conf: Mapping[str, Any],
    is_over: Callable[[], bool],
    watch: Callable[[LocalCluster], None] | None = None,
) -> None:
    """Run a topology until ``is_over``, until all sources are at their end, or for ``seconds``; 0: without limit.

    At the end of all sources, event time ends too, and windows by the clock do: all windows and joins emit what they
    have. To process the results of one component may take ``seconds`` again, and at least ten.

    ``watch``: called several times per second, and at the end of the sources. The default prints errors that components
    report to standard error, and says there if ``DEFAULT_S`` have cut the run off.

    Raises:
        TaskFailedError: a component raised.
    """
    printed = _PrintedErrors()
    watch = watch or printed
    began_s = time.monotonic()
    with LocalCluster() as cluster:
        cluster.submit(NAME, topology, {**SETTINGS, **conf})

        def look() -> bool:
            watch(cluster)
            cluster.hurry(NAME)
            is_late = bool(seconds) and time.monotonic() >= began_s + seconds
            return is_over() or is_late or cluster.is_at_end(NAME)

        cluster.wait_until(look, timeout=float("inf"))
        if cluster.is_at_end(NAME) and not is_over():
            cluster.finish(NAME, max(10, seconds or float("inf")))
            watch(cluster)
        elif watch is printed and seconds == DEFAULT_S and not is_over():
            text = f"stopped after {seconds:g} s, before the end of all sources; seconds=0 goes on until then"
            print(text, file=sys.stderr, flush=True)
    printed.end()


def collect(collector: Collector, count: int, run_until: Callable[[Callable[[], bool]], None]) -> list[Any]:
    """Return what a collector gets while ``run_until`` runs the program, at most ``count`` elements."""
    found = _collected[collector.id] = []
    try:
        run_until(lambda: len(found) >= count)
    finally:
        del _collected[collector.id]
    return found[:count]
