"""Drives a topology through a measurement: all components wait for "go", then run until the last tuple is done.

    bench                                   spout                               sinks
      | -- submit --------------------------> | opens, tells "opened"             | a witness looks 20 times a second
      | reads processor times, tells "go" --> | its clock starts, it emits        |
      |                                       | last ack: tells when (tracked)    | unchanged for a while: tells when
      | <------------------------------------ |                                   | it last changed, and its count
      | reads processor times, compares the counts of the sinks with the truth

They communicate by files in one directory, which works between the processes of this machine. Times are those of
``time.perf_counter``, a single clock for all processes of a machine.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

from bench._cli import WrongResultError
from bench._processes import busy_s, cpu_s, peak_rss_mb
from tupletree import Spout, Topology
from tupletree.component import SpoutCollector, TopologyContext
from tupletree.testing import DevCluster, wait_until

LOOK_S: Final = 0.05
LOOKS_UNTIL_STILL: Final = 4
GO: Final = "go"


def tell(directory: str, name: str, facts: Any) -> None:
    """Write a file atomically; a later call replaces it."""
    partial = Path(directory, f"{name}.partial")
    partial.write_text(json.dumps(facts))
    partial.rename(Path(directory, name))


def told(directory: str, name: str) -> Any:
    """Return the facts told under a name, or None."""
    path = Path(directory, name)
    return json.loads(path.read_text()) if path.exists() else None


class Source(Spout):
    """Emits ``count`` tracked tuples after "go" was told, and reports its times after the last ack.

    The tuples are ``self.rows`` in turn, made by ``make_rows`` before the clock starts. Failed tuples are emitted
    again.
    """

    def __init__(self, directory: str, count: int) -> None:
        self.directory = directory
        self.count = count

    def make_rows(self) -> list[list[Any]]:
        """Return the values to emit, in turn."""
        raise NotImplementedError

    def facts(self) -> Mapping[str, Any]:
        """Return facts to tell in addition to the times."""
        return {}

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutCollector) -> None:
        self.name = f"source-{context.task_index}"
        self.rows = self.make_rows()
        self.distinct = len(self.rows)
        self.next = self.acked = self.failed = 0
        self.started_s = 0.0
        tell(self.directory, f"{self.name}-opened", {})

    def next_tuple(self) -> None:
        number = self.next
        if number >= self.count or (number == 0 and not self.may_start()):
            return
        self.next = number + 1
        self.emit(number)

    def may_start(self) -> bool:
        """True if "go" was told. The clock starts at this moment."""
        if not Path(self.directory, GO).exists():
            return False
        self.started_s = time.perf_counter()
        return True

    def emit(self, number: int) -> None:
        """Emit one tuple, for the first time or again."""
        self.collector.emit(self.rows[number % self.distinct], number)

    def ack(self, msg_id: Any) -> None:
        self.acked += 1
        if self.acked == self.count:
            self.tell_end()

    def tell_end(self) -> None:
        """Report the end: all tuples are acked, and the clock stops."""
        times = {"started_s": self.started_s, "ended_s": time.perf_counter()}
        tell(self.directory, self.name, {**times, "failed": self.failed, **self.facts()})

    def fail(self, msg_id: Any) -> None:
        self.failed += 1
        self.emit(msg_id)


class Witness:
    """Reports the count of a sink once it has been unchanged for a while, and the time of its last change.

    One thread per process looks at all sinks, so that a sink has no cost per tuple, and hundreds of sinks cost hardly
    more than one. ``total`` is called at every look and must be quick; ``facts`` is called only for the report.
    """

    _watched: ClassVar[list[Witness]] = []

    def __init__(self, directory: str, name: str, total: Callable[[], int], facts: Callable[[], Any]) -> None:
        self.directory, self.sink = directory, name
        self.total, self.facts = total, facts
        self._seen, self._still, self._changed_s = 0, 0, 0.0

    def start(self) -> None:
        """Look at this sink from now on."""
        Witness._watched.append(self)
        if len(Witness._watched) == 1:
            threading.Thread(target=Witness._look_at_all, daemon=True).start()

    @classmethod
    def _look_at_all(cls) -> None:
        while True:
            time.sleep(LOOK_S)
            for witness in list(cls._watched):
                witness._look()

    def _look(self) -> None:
        total = self.total()
        self._still += 1
        if total != self._seen:
            self._seen, self._still, self._changed_s = total, 0, time.perf_counter()
        elif self._seen and self._still == LOOKS_UNTIL_STILL:
            report = {"total": self._seen, "changed_s": self._changed_s, "facts": self.facts()}
            tell(self.directory, self.sink, report)


@dataclass(frozen=True)
class Flow:
    """The metrics of a run.

    ``cpu_s`` is by role: worker, acker, and other requested roles. ``others_cores`` is the number of processors that
    the rest of the machine kept busy meanwhile: with a high value, the metrics are worth little.
    """

    started_s: float
    ended_s: float
    sources: Sequence[Mapping[str, Any]]
    sinks: Sequence[Mapping[str, Any]]
    cpu_s: Mapping[str, float]
    peak_rss_mb: Mapping[str, float]
    others_cores: float

    @property
    def wall_s(self) -> float:
        return self.ended_s - self.started_s

    def figures(self, items: int, item: str) -> dict[str, Any]:
        """Return items per second and their costs, in the common form of all topology benches."""
        used_s = sum(self.cpu_s.values())
        return {
            f"{item}s_per_s": round(items / self.wall_s),
            "wall_s": round(self.wall_s, 3),
            "cpu_s": round(used_s, 2),
            f"cpu_us_per_{item}": round(1e6 * used_s / items, 3),
            **{f"cpu_{role}_s": round(seconds, 2) for role, seconds in self.cpu_s.items()},
            "peak_rss_mb": round(sum(self.peak_rss_mb.values())),
            "others_cores": self.others_cores,
        }


@dataclass(frozen=True)
class Run:
    """A topology to drive: the number of source tasks, the names of the sinks, and the total that the sinks will count.

    ``is_tracked``: the run ends with the last ack; otherwise when the last sink has counted everything.
    """

    name: str
    topology: Topology
    conf: Mapping[str, Any]
    directory: str
    sources: int
    sinks: Sequence[str]
    total: int
    is_tracked: bool = True
    timeout_s: float = 240.0


def drive(
    cluster: DevCluster,
    run: Run,
    others: Mapping[str, Sequence[int]] | None = None,
    look: Callable[[], object] = lambda: None,
) -> Flow:
    """Run a topology from "go" to its end, and stop its workers.

    ``others`` are more processes to account for, by role. ``look`` is called when all is done, before the workers stop.

    Raises:
        WrongResultError: tuples failed, or the sinks counted wrong.
        TimeoutError: the run did not end.
    """
    directory = run.directory
    names = [f"source-{index}" for index in range(run.sources)]
    cluster.client.submit(run.name, run.topology, run.conf)
    wait_told(cluster, run, [f"{name}-opened" for name in names], 60)
    pids = {
        "worker": [process.pid for process in cluster.processes if process.role == "worker"],
        "acker": [process.pid for process in cluster.processes if process.role == "acker"],
        **(others or {}),
    }
    use = Use(pids)
    tell(directory, GO, {})
    if run.is_tracked:
        wait_told(cluster, run, names, run.timeout_s)
        use.stop()
    sinks = _wait_sinks(run)
    if not run.is_tracked:
        use.stop()
    sizes = {role: peak_rss_mb(of_role) for role, of_role in pids.items()}
    sources = [told(directory, name) for name in names]
    look()
    errors = [error.message for error in cluster.client.describe(run.name).errors]
    end(cluster, run.name)
    failed = sum(source["failed"] for source in sources)
    if failed or errors:
        raise WrongResultError(f"{failed} tuples failed; errors: {errors}")
    return Flow(
        min(source["started_s"] for source in sources),
        max(end["ended_s"] for end in sources) if run.is_tracked else max(sink["changed_s"] for sink in sinks),
        sources,
        sinks,
        use.cpu_s,
        sizes,
        use.others_cores,
    )


class Use:
    """CPU use of processes, by role, and of the rest of the machine, from now until ``stop``."""

    def __init__(self, pids: Mapping[str, Sequence[int]]) -> None:
        self._pids = pids
        self._before = self._now()

    def _now(self) -> tuple[float, float, dict[str, float]]:
        return time.perf_counter(), busy_s(), {role: cpu_s(of_role) for role, of_role in self._pids.items()}

    def stop(self) -> None:
        (began_s, busy_before_s, before), (ended_s, busy_after_s, after) = self._before, self._now()
        self.cpu_s = {role: after[role] - before[role] for role in after}
        others_s = busy_after_s - busy_before_s - sum(self.cpu_s.values())
        self.others_cores = round(max(0.0, others_s) / (ended_s - began_s), 2)


def end(cluster: DevCluster, name: str) -> None:
    """Kill a topology and wait until its workers are gone."""
    cluster.client.kill(name, wait_secs=0)
    wait_until(lambda: not [one for one in cluster.processes if one.role == "worker"], 60, what="the workers end")


def _wait_sinks(run: Run) -> list[Mapping[str, Any]]:
    """Return the reports of the sinks once they have counted everything. Only a deadline detects a wrong total."""

    def all_told() -> list[Mapping[str, Any]]:
        return [one for name in run.sinks if (one := told(run.directory, name)) is not None]

    try:
        timeout_s = 20 if run.is_tracked else run.timeout_s
        wait_until(lambda: sum(one["total"] for one in all_told()) >= run.total, timeout_s, what="the sinks are done")
    except TimeoutError:
        pass  # the sum is checked below
    found = sum(one["total"] for one in all_told())
    if found != run.total:
        raise WrongResultError(f"the sinks of {run.name} counted {found:,} tuples, not {run.total:,}")
    return all_told()


def wait_told(cluster: DevCluster, run: Run, names: Sequence[str], timeout_s: float) -> None:
    """Wait until all names were told. Raises TimeoutError with the errors of the topology."""
    try:
        wait_until(lambda: all(Path(run.directory, name).exists() for name in names), timeout_s, what=", ".join(names))
    except TimeoutError as error:
        errors = [error.message for error in cluster.client.describe(run.name).errors]
        raise TimeoutError(f"{error}; errors of {run.name}: {errors}") from None
