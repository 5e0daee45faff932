"""A program that runs in threads of this process and shows itself in a notebook."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any, Final

from tupletree.config import TopologyConf
from tupletree.errors import UsageError
from tupletree.notebook.programs import Program, graph_of, topology_of
from tupletree.notebook.view import Row, as_html, as_text, rows
from tupletree.streams import local_run
from tupletree.testing import ComponentCounts, LocalCluster

REFRESH_S: Final = 0.5
"""The time between two pictures."""


def start(program: Program, *, seconds: float = 0, conf: TopologyConf | Mapping[str, Any] | None = None) -> Running:
    """Start a program in threads of this process, show it, and return at once. The picture follows the program.

    ``program``: a StreamBuilder, a TopologyBuilder or a Topology. ``seconds``: the longest time that it runs; 0: until
    its sources are at their end, or ``stop``. ``conf``: settings of the topology.

    Raises:
        UsageError, TopologyError: the program has a mistake, or IPython is not installed.
    """
    running = Running(program, seconds=seconds, conf=conf)
    running.show()
    running.start()
    return running


class Running:
    """A program in a LocalCluster of its own. As the last line of a cell, it is shown as it is at this moment.

    It ends when all its sources are at their end, after ``seconds`` (0: never), by ``stop``, or when a component
    raises.
    """

    def __init__(
        self, program: Program, *, seconds: float = 0, conf: TopologyConf | Mapping[str, Any] | None = None
    ) -> None:
        self._topology = topology_of(program)
        self._graph = graph_of(program, self._topology)
        self._seconds = seconds
        self._conf = dict(conf or {})
        self._handles: list[Any] = []  # displays that follow the program
        self._stop = threading.Event()
        self._has_ended = threading.Event()  # an interrupted Thread.join may take a thread for ended that is not
        self._thread = threading.Thread(target=self._run, name="notebook-program", daemon=True)
        self._failure: BaseException | None = None
        self._began_s = self._shown_s = time.monotonic()
        self._ended_s: float | None = None
        self._errors: list[tuple[str, BaseException]] = []
        self._counts = {box.id: ComponentCounts() for box in self._graph}
        self._shown_counts = self._counts
        self._table: dict[str, Row] = {}

    def start(self) -> None:
        """Start the threads. Raises UsageError if they were started before."""
        if self._thread.ident is not None:
            raise UsageError("a program that has run does not run again: start(program) starts another run of it")
        self._began_s = self._shown_s = time.monotonic()
        self._thread.start()

    def show(self) -> None:
        """Show the program in the output of this cell; the output follows it until its end.

        Raises:
            UsageError: IPython is not installed.
        """
        try:
            from IPython.display import display
        except ImportError:
            raise UsageError("notebooks need the package ipython: pip install 'tupletree[notebook]'") from None
        self._handles.append(display(self, display_id=True))

    @property
    def is_running(self) -> bool:
        """True from the start to the end of the program."""
        return self._thread.ident is not None and not self._has_ended.is_set()

    @property
    def counts(self) -> dict[str, ComponentCounts]:
        """The counts of each component, from the start on, when all are 0; after the end, the last ones."""
        return dict(self._counts)

    @property
    def errors(self) -> list[tuple[str, BaseException]]:
        """The errors that components have reported, as (component id, exception), oldest first."""
        return list(self._errors)

    def stop(self) -> None:
        """End the program, and return when its threads have ended. Idempotent."""
        self._stop.set()
        self._join()

    def wait(self) -> None:
        """Wait for the end of the program. An interrupt, as by the notebook's stop button, ends the program, too.

        Raises:
            TaskFailedError: a component raised.
        """
        try:
            self._join()
        except KeyboardInterrupt:
            self.stop()
        if self._failure is not None:
            raise self._failure

    def _join(self) -> None:
        if self._thread.ident is not None:
            self._has_ended.wait()

    def _run(self) -> None:
        try:
            local_run.run(self._topology, self._seconds, self._conf, self._stop.is_set, self._watch)
        except BaseException as error:  # shown here, and raised by wait
            self._failure = error
        try:
            self._ended_s = time.monotonic()
            self._table = rows(self._counts, {}, max(self._ended_s - self._began_s, 0.001), self._errors)
            self._update()
        finally:
            self._has_ended.set()

    def _watch(self, cluster: LocalCluster) -> None:
        """Read the counts; from time to time, show them."""
        now_s = time.monotonic()
        counts = cluster.counts(local_run.NAME)
        self._errors, self._counts = cluster.errors(local_run.NAME), {box.id: counts[box.id] for box in self._graph}
        if now_s >= self._shown_s + REFRESH_S or not self._table:
            self._table = rows(self._counts, self._shown_counts, max(now_s - self._shown_s, 0.001), self._errors)
            self._shown_s, self._shown_counts = now_s, self._counts
            self._update()

    def _update(self) -> None:
        for handle in self._handles:
            handle.update(self)

    @property
    def _status(self) -> str:
        elapsed_s = (self._ended_s or time.monotonic()) - self._began_s
        if self._failure is not None:
            cause = self._failure.__cause__ or self._failure
            return f"failed after {elapsed_s:.1f} s: {type(cause).__name__}: {cause}"
        if self._ended_s is None:
            return f"running for {elapsed_s:.1f} s" if self._thread.ident is not None else "not started"
        return (
            f"{'stopped' if self._stop.is_set() else 'ended'} after {elapsed_s:.1f} s; rates are those of the whole run"
        )

    def __repr__(self) -> str:
        return as_text(self._status, self._table)

    def _repr_html_(self) -> str:
        return as_html(self._status, self._graph, self._table)
