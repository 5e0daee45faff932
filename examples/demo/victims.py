"""Finds the processes of a running pipeline by their ids.

supervisor -- worker with the task of "pipeline": the driver
                -- java: Spark, and on a local master its executor
                     -- python -m pyspark.daemon
                          -- its forks: Python workers, each of which runs one Spark task after the other
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tupletree.errors import TupletreeError, UsageError
from tupletree.spark.pipeline import COMPONENT
from tupletree.testing import DevCluster, ProcessInfo

LOOK_S = 0.02
PROC = Path("/proc")


def require_proc() -> None:
    """Raise UsageError where there is no /proc, as on macOS: processes could not be found there."""
    if not (PROC / "self" / "stat").exists():
        raise UsageError(
            "Linux is needed, where Spark's processes are found in /proc; `tupletree dev` runs without /proc"
        )


def driver(cluster: DevCluster, name: str) -> ProcessInfo | None:
    """Return the living worker that drives Spark for a pipeline; None if none is known at this moment."""
    try:
        topology = cluster.client.describe(name)
    except TupletreeError:
        return None
    tasks = {
        status.task_id
        for component in topology.components
        if component.component_id == COMPONENT
        for status in component.statuses
    }
    pids = {worker.pid for worker in topology.workers if tasks.intersection(worker.tasks)}
    workers = [process for process in cluster.processes if process.role == "worker"]
    return next((worker for worker in workers if worker.pid in pids), None)


def executor(driver_pid: int) -> int | None:
    """Return the id of Spark's JVM below a driver, if it runs."""
    return next((pid for pid, command in _children(driver_pid) if "java" in Path(command[0]).name), None)


def tasks(driver_pid: int) -> list[int]:
    """Return the process ids of the busy Python workers that a driver's JVM has started."""
    jvm = executor(driver_pid)
    forks = [
        pid
        for daemon, command in (_children(jvm) if jvm is not None else ())
        if "pyspark.daemon" in command
        for pid, _ in _children(daemon)
    ]
    before = {pid: _cpu_ticks(pid) for pid in forks}
    time.sleep(LOOK_S)
    return sorted(pid for pid in forks if _cpu_ticks(pid) > before[pid])


def _children(parent: int) -> Iterator[tuple[int, list[str]]]:
    """Yield the living children of a process with their arguments."""
    for name in os.listdir(PROC):
        if name.isdigit() and _stat(int(name), 1) == parent:
            with suppress(OSError):
                command = Path(PROC, name, "cmdline").read_bytes().decode(errors="replace").split("\0")
                if command[0]:  # the command of a zombie is empty
                    yield int(name), command


def _cpu_ticks(pid: int) -> int:
    return _stat(pid, 11) + _stat(pid, 12)


def _stat(pid: int, field: int) -> int:
    """Return a field of /proc/PID/stat, counted from after the command's name; -1 if there is no such process."""
    try:
        return int(Path(PROC, str(pid), "stat").read_text().rpartition(")")[2].split()[field])
    except (OSError, IndexError):
        return -1
