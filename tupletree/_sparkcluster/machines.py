"""The machines of a cluster as jobs of one Spark application: one job of one task each, started again when it ends.

Spark itself repeats no task: it would give up the whole application after some failures, and keep the reasons to
itself. A machine that is gone is asked for again at once, and then ever more slowly.
"""

from __future__ import annotations

import functools
import re
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from tupletree._devcluster.restarts import RestartSchedule
from tupletree._sparkcluster.machine import Machine, run_machine
from tupletree.spark.failures import explain, is_session_lost

if TYPE_CHECKING:
    from pyspark import SparkContext

_JOIN_S: Final = 5.0
_ABORTED: Final = re.compile(r"^Job aborted due to stage failure: .*?most recent failure: Lost task .*?\(TID \d+\) ")
"""What Spark says before each reason of a task."""


class Machines:
    """The jobs of the machines, from ``start`` until ``stop``. ``report`` is called with a sentence for each end."""

    def __init__(self, context: SparkContext, machines: Sequence[Machine], report: Callable[[str], None]) -> None:
        self._context = context
        self._report = report
        self._stop = threading.Event()
        self._lost: str | None = None
        self._threads = [
            threading.Thread(target=self._keep, args=(machine,), name=f"machine-{machine.number}", daemon=True)
            for machine in machines
        ]

    @property
    def lost(self) -> str | None:
        """The reason why the application has ended by itself; None while it runs."""
        return self._lost

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Start no job again. The running jobs end with the application."""
        self._stop.set()

    def join(self) -> None:
        """Wait for the ends of the jobs, after the end of the application."""
        for thread in self._threads:
            thread.join(_JOIN_S)

    def _keep(self, machine: Machine) -> None:
        schedule = RestartSchedule()
        while not self._stop.is_set():
            schedule.started(time.monotonic())
            try:
                one = self._context.parallelize([machine.number], 1)
                one.mapPartitions(functools.partial(run_machine, machine)).count()
                reason = "its task was told to end"
            except Exception as error:
                reason = _ABORTED.sub("", explain(error)[0])
                if is_session_lost(error):
                    self._lost = self._lost or reason
                    return
            if self._stop.is_set():
                return
            self._report(f"machine {machine.number} ended: {reason}")
            self._stop.wait(schedule.died(time.monotonic()))
