"""Ingest into an ordinary topology: a spout that emits the rows that Spark has written, each row at least once."""

from __future__ import annotations

import os
import time
import zlib
from collections import deque
from collections.abc import Mapping
from typing import Any

from pyspark.sql.types import StructType

from tupletree.component import Spout, SpoutCollector, TopologyContext
from tupletree.errors import UnavailableError, UsageError
from tupletree.spark.streaming import assignment
from tupletree.spark.streaming.directory import MICRO_BATCHES, PUBLISHED, ROWS, About, ExchangeDirectory
from tupletree.spark.streaming.endpoint import INGEST, Endpoint
from tupletree.spark.streaming.ingest import PAUSE_S, read_rows, remove

ROWS_AT_ONCE = 100
OPEN_FILES = 4
"""Maximum number of files that a task emits at a time. Their rows stay in memory until they are acked."""


class IngestSpout(Spout):
    """Emits the rows of micro-batches as tracked tuples and replays failed ones. For topologies without transactions.

    A file is deleted when all its rows are acked; no other progress is stored. So when a worker dies, all rows of its
    unfinished files are emitted again. The arguments are the same as for TransactionalIngestSpout.
    """

    blocking = True

    def __init__(self, directory: str | os.PathLike[str], schema: str | StructType, *, stream: str = "default") -> None:
        self.endpoint = Endpoint.of(INGEST, directory, schema, stream)

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare(self.endpoint.columns().fieldNames())

    def component_configuration(self) -> Mapping[str, Any]:
        return self.endpoint.configuration()

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutCollector) -> None:
        self.context = context
        self.collector = collector
        self._directory = ExchangeDirectory(self.endpoint.directory)
        self._tasks = len(context.component_tasks(context.component_id))
        self._rows: dict[str, list[Any]] = {}  # file -> its rows, for the files in progress
        self._left: dict[str, int] = {}  # file -> number of rows not yet acked
        self._due: deque[tuple[str, int]] = deque()  # message ids to emit
        self._manifests: dict[str, list[str]] = {}
        self._look_at_s = 0.0
        self._is_described = False

    def next_tuple(self) -> None:
        if not self._due and len(self._rows) < OPEN_FILES and time.monotonic() >= self._look_at_s:
            try:
                self._open_next_file()
            except (UnavailableError, UsageError, OSError) as error:
                self.collector.report_error(error)
                self._look_at_s = time.monotonic() + 1
        for _ in range(min(ROWS_AT_ONCE, len(self._due))):
            name, row = self._due.popleft()
            self.collector.emit(self._rows[name][row], (name, row))

    def ack(self, msg_id: tuple[str, int]) -> None:
        name, _ = msg_id
        self._left[name] -= 1
        if self._left[name] == 0:
            self._done(name)

    def fail(self, msg_id: tuple[str, int]) -> None:
        self._due.append(msg_id)

    def _open_next_file(self) -> None:
        """Begin the next published file that belongs to this task, if there is one."""
        if not self._is_described:
            self._directory.describe(About(MICRO_BATCHES, self.context.component_id, self.endpoint.schema))
            self._is_described = True
        seen = self._directory.listing(PUBLISHED)
        listing = self._directory.listing(PUBLISHED) if seen else {}
        batches = assignment.open_batches(seen, listing, self._directory.removed())
        self._manifests = {name: files for name, files in self._manifests.items() if name in listing}
        present = self._directory.listing(ROWS) if batches else {}
        for query, number in batches:
            for name in self._files(assignment.manifest_file(query, number)):
                if name in present and name not in self._rows and self._is_mine(name):
                    self._begin(name)
                    return
        if self.context.task_index == 0:
            self._forget(batches, present)
        self._look_at_s = time.monotonic() + PAUSE_S

    def _files(self, manifest: str) -> list[str]:
        if manifest not in self._manifests:
            content = self._directory.read(f"{PUBLISHED}/{manifest}")
            self._manifests[manifest] = list(content["files"]) if content else []
        return self._manifests[manifest]

    def _is_mine(self, name: str) -> bool:
        return zlib.crc32(name.encode()) % self._tasks == self.context.task_index

    def _begin(self, name: str) -> None:
        try:
            self._rows[name] = list(read_rows(self._directory, name, self.endpoint.schema))
        except FileNotFoundError:  # another incarnation of this task finished the file
            return
        self._left[name] = len(self._rows[name])
        self._due.extend((name, row) for row in range(len(self._rows[name])))
        if not self._rows[name]:
            self._done(name)

    def _done(self, name: str) -> None:
        del self._rows[name], self._left[name]
        try:
            self._directory.unlink([f"{ROWS}/{name}"])
        except UnavailableError as error:  # the file still exists, and is emitted again
            self.collector.report_error(error)

    def _forget(self, batches: list[list[Any]], present: Mapping[str, int]) -> None:
        """Delete the manifests of micro-batches that have no files left, in order."""
        upto: dict[str, int] = {}
        unfinished: set[str] = set()
        for query, number in batches:
            if any(name in present for name in self._files(assignment.manifest_file(query, number))):
                unfinished.add(query)
            elif query not in unfinished:
                upto[query] = number
        remove(self._directory, upto)
