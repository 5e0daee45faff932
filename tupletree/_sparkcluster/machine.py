"""One machine of a cluster on Spark: the daemons of one task, in the task's Python process.

The daemons end with the task, however it ends:

    the application ends, the executor dies    Spark's own daemon of Python workers reads the end of its input, and
                                               sends SIGHUP to the task: supervisor, workers and acker end in order
    that daemon dies                           the task has another parent, sees it, and does the same
    the task is killed                         the guard of the directory kills all daemons and workers
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tupletree._address import split_address
from tupletree._daemon.config import ANY_INTERFACE
from tupletree._devcluster.foreground import Event, Foreground, stopping_on_signals
from tupletree._devcluster.plan import Size, plan_with_ports
from tupletree._net import ReservedPorts, address_towards

START_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Machine:
    """The daemons of one task. ``conf`` is their configuration."""

    application: str
    number: int
    slots: int
    ackers: int
    conf: Mapping[str, Any]

    def supervisor_id(self, attempt: int) -> str:
        """Return the id of the supervisor of the given attempt: each registers anew."""
        return f"{prefix_of(self.application)}{self.number}-{attempt}"


def prefix_of(application: str) -> str:
    """Return the beginning of the ids of all supervisors of a Spark application."""
    return f"{application}-"


def run_machine(machine: Machine, _: Iterable[object]) -> Iterator[object]:
    """Run a machine in a task of Spark until the task is to end. A function of partitions, with no rows.

    Raises UsageError or UnavailableError if a daemon does not start.
    """
    from pyspark import TaskContext

    task = TaskContext.get()
    assert task is not None
    os.environ.pop("PYTHON_WORKER_FACTORY_SECRET", None)  # the daemons are not Spark's, nor is the code they run
    parent = os.getppid()
    with tempfile.TemporaryDirectory(prefix="tupletree-", dir=_scratch(), ignore_cleanup_errors=True) as directory:
        ports = ReservedPorts()
        try:
            foreground = _foreground(machine, task.taskAttemptId(), os.path.realpath(directory), ports)
            with stopping_on_signals(foreground.stop):
                foreground.start(START_TIMEOUT_S)
                try:
                    foreground.watch(lambda: os.getppid() == parent)
                finally:
                    foreground.close()
        finally:
            ports.release()
    return iter(())


def _foreground(machine: Machine, attempt: int, directory: str, ports: ReservedPorts) -> Foreground:
    conf = {**machine.conf, "supervisor.id": machine.supervisor_id(attempt)}
    host = str(conf.get("bind.host", "127.0.0.1"))
    if host in ANY_INTERFACE:
        conf["advertise.host"] = address_towards(*split_address(conf["zookeeper.servers"][0], 2181))
    size = Size(supervisors=1, slots=machine.slots, ackers=machine.ackers, nimbuses=0, zookeepers=0)
    plan = plan_with_ports(directory, size, ports.reserve(size.ports, host), conf)
    return Foreground(plan, remove=True, durable=False, report=_report)


def _scratch() -> str:
    """Return the directory for a machine's files: the first of those that Spark gives an executor, or its own."""
    given = os.environ.get("SPARK_LOCAL_DIRS") or os.environ.get("LOCAL_DIRS") or os.getcwd()
    return given.partition(",")[0]


def _report(event: Event) -> None:
    """Write to the executor's log."""
    print(f"{time.strftime('%H:%M:%S')} {event}", file=sys.stderr, flush=True)
