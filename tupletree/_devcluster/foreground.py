"""A cluster in the foreground of a terminal: restarts daemons that die, and ends on a signal."""

from __future__ import annotations

import fcntl
import itertools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Final

from tupletree._devcluster.daemon import DaemonProcess
from tupletree._devcluster.guard import end_all
from tupletree._devcluster.plan import ClusterPlan, Listener
from tupletree._devcluster.restarts import RestartSchedule
from tupletree._devcluster.running import RunningCluster, RunOn, run_here
from tupletree._devcluster.zookeeper import EmbeddedZooKeeper
from tupletree._net import bind
from tupletree.errors import TupletreeError, UnavailableError, UsageError

_LOOK_EVERY_S: Final = 0.25
_WORKERS_STOP_S: Final = 5.0
_DAEMONS_STOP_S: Final = 2.0
_LOWEST_PORT: Final = 1024  # without privileges
_OTHER_PORTS_STEP: Final = 1000  # from ports that are in use to those to use instead
_EVERY_CLUSTER: Final = {"nimbus.port", "supervisor.port", "acker.port"}


@dataclass(frozen=True, slots=True)
class DaemonDied:
    """A daemon was found dead and will be restarted after ``restart_in_s``."""

    name: str
    reason: str
    restart_in_s: float

    def __str__(self) -> str:
        when = f"in {self.restart_in_s:.1f} s" if self.restart_in_s else "now"
        return f"{self.name} {self.reason}; restarting it {when}"


@dataclass(frozen=True, slots=True)
class DaemonRestarted:
    name: str
    pid: int

    def __str__(self) -> str:
        return f"{self.name} was restarted as process {self.pid}"


Event = DaemonDied | DaemonRestarted


def check_ports(plan: ClusterPlan, run: RunOn = run_here) -> None:
    """Raise UnavailableError if ports of the plan are in use, naming who needs them and options with free ports."""
    listeners = list(plan.listeners())
    refused = [(one, why) for one in listeners if (why := _refusal(one, one.port, run))]
    if not refused:
        return
    planned = {one.port for one in listeners}
    options = []
    for key in dict.fromkeys(one.key for one, _ in refused):
        own = [one for one in listeners if one.key == key]
        step = _free_step(own, planned, run)
        if step:
            planned |= {one.port + step for one in own}
            options.append(f"-c {key}={min(one.port for one in own) + step}")
    raise UnavailableError(_sentence(refused, " ".join(options)))


def _sentence(refused: Sequence[tuple[Listener, str]], options: str) -> str:
    """Return what is wrong with ports, and the options that help: all are another cluster's, or each has a user."""
    if options and {one.key for one, why in refused if why.endswith("is in use")} >= _EVERY_CLUSTER:
        ports = ", ".join(str(one.port) for one, _ in refused)
        return (
            f"a cluster seems to run here already, as ports {ports} are in use: end it, or add {options} to the "
            f"command for a second one"
        )
    said = ", ".join(f"{why}, and {one.who} needs it" for one, why in refused)
    return f"{said}; add {options} to the command" if options else said


def _refusal(listener: Listener, port: int, run: RunOn) -> str:
    """Return why the listener cannot have a port; "" if it can."""
    try:
        run(listener.name, lambda: bind(listener.host, port).close())
    except UsageError as error:
        return str(error)
    return ""


def _free_step(listeners: Sequence[Listener], planned: Set[int], run: RunOn) -> int:
    """Return how far to move the ports of these listeners, so that all are free; 0 if nothing was found."""
    ports = [one.port for one in listeners]
    above = range(_OTHER_PORTS_STEP, 65_536 - max(ports), _OTHER_PORTS_STEP)
    below = range(-_OTHER_PORTS_STEP, _LOWEST_PORT - min(ports) - 1, -_OTHER_PORTS_STEP)
    for step in itertools.chain(above, below):
        is_planned = not planned.isdisjoint(port + step for port in ports)
        if not is_planned and not any(_refusal(one, one.port + step, run) for one in listeners):
            return step
    return 0


@contextmanager
def stopping_on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Inside the context, call ``stop`` on the first SIGINT, SIGTERM or SIGHUP; raise KeyboardInterrupt on a second."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    def first(number: int, frame: object) -> None:
        for each in numbers:
            signal.signal(each, interrupt)
        stop()

    before = {number: signal.signal(number, first) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def lock_directory(directory: str) -> Iterator[None]:
    """Create and lock ``directory`` for one cluster. Raises UsageError if another process holds the lock."""
    path = os.path.join(directory, "lock")
    try:
        os.makedirs(directory, exist_ok=True)
        lock = open(path, "a+", encoding="utf-8")  # noqa: SIM115 - closed below
    except OSError as error:
        raise UsageError(f"cannot write the cluster's directory {directory}: {error.strerror}") from error
    with lock:
        _acquire(lock, directory)
        yield


def _acquire(lock: IO[str], directory: str) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.seek(0)
        owner = lock.read().strip() or "unknown"
        raise UsageError(f"another cluster (process {owner}) runs in {directory}") from error
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()


class Foreground:
    """Runs a plan until ``stop`` is called.

    ``report`` is called on every death and restart; ``run`` is that of RunningCluster.
    """

    def __init__(
        self,
        plan: ClusterPlan,
        *,
        remove: bool,
        durable: bool,
        report: Callable[[Event], None],
        run: RunOn = run_here,
    ) -> None:
        self._cluster = RunningCluster(plan, remove=remove, durable=durable, run=run)
        self._report = report
        self._stop = threading.Event()
        names = [daemon.plan.name for daemon in self._cluster.daemons]
        self._schedules = {name: RestartSchedule() for name in ["zookeeper", *names]}

    @property
    def cluster(self) -> RunningCluster:
        return self._cluster

    def start(self, timeout_s: float) -> None:
        """Start all processes. On failure (such as a port in use), end the started processes and raise UsageError or
        UnavailableError."""
        end_all(self._cluster.plan.directory)  # leftovers of an earlier cluster in this directory
        check_ports(self._cluster.plan, self._cluster.run)
        self._cluster.start(timeout_s)
        for schedule in self._schedules.values():
            schedule.started(time.monotonic())

    def watch(self, owned: Callable[[], bool] = lambda: True) -> None:
        """Restart dead processes until ``stop``, or until ``owned()`` is false."""
        while owned() and not self._stop.wait(_LOOK_EVERY_S):
            if self._cluster.zookeeper is not None:
                self._check("zookeeper", self._cluster.zookeeper, self._cluster.launch_zookeeper)
            for daemon in self._cluster.daemons:
                self._check(daemon.plan.name, daemon, daemon.launch)

    def stop(self) -> None:
        """End ``watch`` soon. Can be called from a signal handler."""
        self._stop.set()

    def _check(self, name: str, process: DaemonProcess | EmbeddedZooKeeper, launch: Callable[[], None]) -> None:
        schedule, now_s = self._schedules[name], time.monotonic()
        if process.running:
            return
        if schedule.due(now_s):
            try:
                launch()
            except TupletreeError as error:  # such as a port taken meanwhile
                schedule.started(now_s)
                self._report(DaemonDied(name, str(error), schedule.died(now_s)))
                return
            schedule.started(now_s)
            self._report(DaemonRestarted(name, process.pid))
        elif not schedule.waiting:
            self._report(DaemonDied(name, process.ending(), schedule.died(now_s)))

    def close(self) -> None:
        """End the cluster in order: supervisors, workers (which close their components), other daemons, ZooKeeper."""
        supervisors = self._cluster.daemons_of("supervisor")
        for daemon in supervisors:  # first, so that no worker is restarted
            daemon.stop(_DAEMONS_STOP_S)
        self._end_workers()
        rest = [daemon for daemon in self._cluster.daemons if daemon not in supervisors]
        for daemon in rest:
            daemon.signal(signal.SIGTERM)
        deadline = time.monotonic() + _DAEMONS_STOP_S
        for daemon in rest:
            # An acker would still wait for trees whose workers are gone.
            daemon.stop(max(0.0, deadline - time.monotonic()))
        self._cluster.close()

    def _end_workers(self) -> None:
        for worker in self._cluster.workers():
            try:
                os.kill(worker.pid, signal.SIGTERM)
            except ProcessLookupError:
                continue
        deadline = time.monotonic() + _WORKERS_STOP_S
        while self._cluster.workers() and time.monotonic() < deadline:
            time.sleep(0.05)
