"""A query as a topology of the bench: a source that emits the events, and a sink that compares the results.

The sink keeps all results. When the bench asks for it, each of its tasks tells a digest of the results that it has had:
the digests of all tasks add up to that of all results.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from bench._flow import LOOK_S, Source, tell
from bench.nexmark.events import Event, closing, generate
from bench.nexmark.queries import QUERIES
from bench.nexmark.results import KEYED, comparable
from tupletree import BasicBolt, Topology
from tupletree.component import BasicCollector, TopologyContext
from tupletree.streams import StreamBuilder
from tupletree.tuples import Tuple

SEED: Final = 20_260_104
RATE: Final = 1_000
MAX_LAG_MS: Final = 500
REPORT: Final = "report"
SINK: Final = "results"


def regular_events(count: int) -> list[Event]:
    """Return the events of a run, without those that close windows."""
    return generate(count, seed=SEED, rate=RATE, max_lag_ms=MAX_LAG_MS)


def all_events(count: int) -> list[Event]:
    """Return the events of a run."""
    events = regular_events(count)
    return [*events, *closing(events)]


class Events(Source):
    """Emits one of ``parts`` equal parts of the events."""

    outputs = ("event",)

    def __init__(self, directory: str, events: int, total: int, parts: int) -> None:
        """``events``: without those that close windows. ``total``: with them."""
        super().__init__(directory, total // parts)
        self.events = events
        self.parts = parts

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: Any) -> None:
        self.part = context.task_index
        super().open(conf, context, collector)

    def make_rows(self) -> list[list[Any]]:
        return [[event] for event in all_events(self.events)[self.part :: self.parts]]


class Results(BasicBolt):
    """The results. ``keys``: the number of fields before those of the result: the key and the event time."""

    def __init__(self, directory: str, query: str, keys: int, last_ms: int) -> None:
        self.directory = directory
        self.query = query
        self.keys = keys
        self.last_ms = last_ms

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        self.rows: list[Any] = []
        self.name = f"{SINK}-{context.task_index}"
        self.is_over = threading.Event()
        threading.Thread(target=self._report, daemon=True).start()

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        self.rows.append(tup.values)

    def cleanup(self) -> None:
        self.is_over.set()

    def _report(self) -> None:
        told = -1
        while not self.is_over.wait(LOOK_S):
            count = len(self.rows)
            if count != told and Path(self.directory, REPORT).exists():
                tell(self.directory, self.name, digest(comparable(self.query, self._results(count), self.last_ms)))
                told = count

    def _results(self, count: int) -> list[Any]:
        keys, is_pair = self.keys, self.query in KEYED
        return [
            (row[0], row[keys]) if is_pair else row[keys] if len(row) == keys + 1 else tuple(row[keys:])
            for row in self.rows[:count]
        ]


def digest(results: Counter[Any]) -> dict[str, int]:
    """Return the number of results, and a checksum. Both are sums over the results."""
    checksum = 0
    for result, times in results.items():
        text = repr(tuple(result) if isinstance(result, tuple) else result).encode()
        checksum += times * int.from_bytes(hashlib.blake2b(text, digest_size=6).digest(), "big")
    return {"count": results.total(), "checksum": checksum}


def topology(query: str, directory: str, events: int, total: int, tasks: int, last_ms: int) -> Topology:
    """Return the topology of a query, with ``tasks`` executors of each component."""
    builder = StreamBuilder(parallelism=tasks)
    source = builder.source(Events(directory, events, total, tasks), name="source", parallelism=tasks)
    results = QUERIES[query](source)
    layout = results.operator.layout
    keys = len(layout.fields) - len(layout.value_fields)
    results.sink(Results(directory, query, keys, last_ms), name=SINK)
    return builder.topology()
