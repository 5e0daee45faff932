"""The pipeline that counts words on Spark, under kill -9 of the driver, the executor, tasks, ackers and the leader."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from pathlib import Path

from bench.crashes import run
from bench.crashes.feeds import Feeds
from bench.crashes.kills import Kill
from bench.crashes.spark_kills import SPARK, plan
from examples import spark_word_count, word_count
from examples.demo import victims
from examples.demo.exactly_once import Judgement, differences
from examples.demo.pipeline import BRIEF
from examples.demo.screen import Screen
from examples.demo.table import counts
from tupletree.errors import NotFoundError, UnavailableError
from tupletree.testing import DevCluster, ProcessInfo

CONF = {**BRIEF, "topology.workers": 3, "topology.acker.executors": 2}
BYTES_PER_BATCH = "24KB"  # small, so that a batch is always in progress
TURN_S = 5.0  # interval after which other files grow
TASK_S = 2.0  # time to look for a running task
LATER_S = 1.0  # pause before retrying a kill: no victim, or too few commits since the last one
PROGRESS = 5  # batches committed between two kills of the driver or the executor
GRACE_S = 90.0  # extra time to kill a role that was never killed


class Run(run.Run[Feeds]):
    """One run on a running cluster. Lines and the table are stored in ``directory``."""

    NAME = spark_word_count.ID
    FIRST_COMMIT_S = 120.0
    CATCH_UP_S = 180.0

    def __init__(self, cluster: DevCluster, screen: Screen, directory: Path, seed: int, rate: float) -> None:
        self._database = directory / "words.db"
        self._committed = 0  # committed batches at the last kill of a driver or an executor
        super().__init__(
            cluster, screen, seed, Feeds(directory / "lines", word_count.text(), rate, seed), spark_word_count.ID
        )

    def _submit(self) -> None:
        self._feed.turn()
        topology, conf = spark_word_count.topology(self._feed.pattern, str(self._database), BYTES_PER_BATCH)
        self._cluster.client.submit(self.NAME, topology, {**conf, **CONF})
        self._feed.stop()  # otherwise a slow start of Spark means more work

    def _plan(self, seconds: float) -> None:
        self._feed.turn()
        for kill in plan(seconds, self._seed):
            self._agenda.at(kill.at_s, lambda kill=kill: self._kill(kill, seconds))  # type: ignore[misc]
        self._agenda.at(TURN_S, lambda: self._turn(seconds))

    def _turn(self, end_s: float) -> None:
        """Switch to new files, again and again until the time is over."""
        if self._agenda.elapsed_s() < end_s:
            self._feed.turn()
            self._agenda.after(TURN_S, lambda: self._turn(end_s))

    def _kill(self, kill: Kill, end_s: float) -> None:
        """Kill a process as soon as possible. Each role in the plan is killed at least once."""
        try:
            done = self._kill_daemon(kill) if kill.role in ("acker", "nimbus") else self._kill_of_spark(kill)
        except (NotFoundError, ProcessLookupError):
            done = ""
        if done:
            self._killed[kill.role] += 1
            self._note(f"kill -9 {done}")
        elif self._agenda.elapsed_s() < end_s + (0 if self._killed[kill.role] else GRACE_S):
            self._agenda.after(LATER_S, lambda: self._kill(kill, end_s))
        elif not self._killed[kill.role]:
            self._note(f"no {kill.role} could be killed")

    def _kill_daemon(self, kill: Kill) -> str:
        living = [one for one in self._living(kill.role) if kill.role != "nimbus" or self._leads(one)]
        if not living:
            return ""
        victim = living[int(kill.pick * len(living))]
        index = [one.name for one in self._daemons if one.role == kill.role].index(victim.name)
        self._cluster.kill(kill.role, index)
        self._restart_later(kill.down_s, kill.role, index, victim.name)
        return f"{victim.pid}: {victim.name}"

    def _leads(self, nimbus: ProcessInfo) -> bool:
        try:
            return self._cluster.client.leader().endswith(f":{nimbus.grpc_port}")
        except UnavailableError:
            return False

    def _kill_of_spark(self, kill: Kill) -> str:
        driver = victims.driver(self._cluster, self.NAME)
        if driver is None or (kill.role in SPARK and self._watch.committed < self._committed + PROGRESS):
            return ""
        if kill.role == "driver":
            pid: int | None = driver.pid
        elif kill.role == "executor":
            pid = victims.executor(driver.pid)
        else:
            pid = self._task(driver, kill)
        if pid is None:
            return ""
        os.kill(pid, signal.SIGKILL)
        if kill.role in SPARK:
            self._committed = self._watch.committed
        what = {"driver": f"{driver.name}, which drives Spark", "executor": "Spark's JVM", "task": "a task of Spark"}
        return f"{pid}: {what[kill.role]}"

    def _task(self, driver: ProcessInfo, kill: Kill) -> int | None:
        """Return a Python worker that runs a task, waiting briefly for one."""
        end_s = time.monotonic() + TASK_S
        while time.monotonic() < end_s:
            if running := victims.tasks(driver.pid):
                return running[int(kill.pick * len(running))]
        return None

    def _lines(self) -> list[str]:
        return self._feed.read()

    def _counted(self) -> int:
        return sum(counts(self._database).values())

    def _judge(self) -> Judgement:
        lines = self._lines()
        truth = Counter(word for line in lines for word in word_count.words(line))
        faults = differences("word", truth, counts(self._database))
        return Judgement(len(lines), truth.total(), len(truth), tuple(faults))
