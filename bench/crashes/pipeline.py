"""One run: the pipeline on a cluster, growing files, kills by plan, and the comparison with the truth."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from pathlib import Path

from bench.crashes.agenda import Agenda
from bench.crashes.feeds import Feeds
from bench.crashes.kills import Kill
from bench.crashes.spark_kills import SPARK, plan
from bench.crashes.transactions import Story
from bench.crashes.watch import Watch
from examples import spark_word_count, word_count
from examples.demo import victims
from examples.demo.exactly_once import Judgement, differences
from examples.demo.pipeline import BRIEF
from examples.demo.screen import Screen
from examples.demo.table import counts
from tupletree.errors import NotFoundError, UnavailableError
from tupletree.testing import DevCluster, ProcessInfo, wait_until

NAME = spark_word_count.ID
CONF = {**BRIEF, "topology.workers": 3, "topology.acker.executors": 2}
BYTES_PER_BATCH = "24KB"  # small, so that a batch is always in progress
TURN_S = 5.0  # interval after which other files grow
TASK_S = 2.0  # time to look for a running task
LATER_S = 1.0  # pause before retrying a kill: no victim, or too few commits since the last one
PROGRESS = 5  # batches committed between two kills of the driver or the executor
GRACE_S = 90.0  # extra time to kill a role that was never killed
FIRST_COMMIT_S = 120.0
CATCH_UP_S = 180.0  # time to commit the rest after the last kill


class Run:
    """One run on a running cluster. Lines and the table are stored in ``directory``."""

    def __init__(self, cluster: DevCluster, screen: Screen, directory: Path, seed: int, rate: float) -> None:
        self._cluster = cluster
        self._screen = screen
        self._seed = seed
        self._database = directory / "words.db"
        self._feeds = Feeds(directory / "lines", word_count.text(), rate, seed)
        self._daemons = [process for process in cluster.processes if process.role != "worker"]
        self._watch = Watch(cluster.conf, spark_word_count.ID)
        self._killed: Counter[str] = Counter()
        self._committed = 0  # committed batches at the last kill of a driver or an executor
        self._agenda = Agenda()

    def run(self, seconds: float) -> Story:
        """Play the whole run."""
        self._feeds.turn()
        try:
            database = str(self._database)
            topology, conf = spark_word_count.topology(self._feeds.pattern, database, BYTES_PER_BATCH)
            self._cluster.client.submit(NAME, topology, {**conf, **CONF})
            self._feeds.stop()  # otherwise a slow start of Spark means more work
            wait_until(lambda: self._watch.committed > 0, FIRST_COMMIT_S, what="the first commit")
            self._feeds.turn()
            self._note(f"it runs; kill -9 for {seconds:g} s by seed {self._seed}")
            self._kill_by_plan(seconds)
            self._feeds.stop()
            self._note("every line is written and everything is up again")
            finished = self._catch_up()
        finally:
            self._feeds.stop()
            self._watch.stop()
        self._cluster.client.kill(NAME, wait_secs=0)
        wait_until(lambda: not self._living("worker"), 60, what="the workers end")
        return Story(
            judgement=self._judge(),
            seed=self._seed,
            seconds=seconds,
            kills=dict(self._killed),
            batches=self._watch.committed,
            replays=self._watch.replays,
            longest_stall_s=round(self._watch.longest_s, 2),
            finished=finished,
        )

    def _kill_by_plan(self, seconds: float) -> None:
        """Kill by plan and restart the victims. Return when both are done and the time is over."""
        self._agenda = Agenda()
        for kill in plan(seconds, self._seed):
            self._agenda.at(kill.at_s, lambda kill=kill: self._kill(kill, seconds))  # type: ignore[misc]
        self._agenda.at(TURN_S, lambda: self._turn(seconds))
        self._agenda.work_off()

    def _turn(self, end_s: float) -> None:
        """Switch to new files, again and again until the time is over."""
        if self._agenda.elapsed_s() < end_s:
            self._feeds.turn()
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
        self._agenda.after(kill.down_s, lambda: self._restart(kill.role, index, victim.name))
        return f"{victim.pid}: {victim.name}"

    def _leads(self, nimbus: ProcessInfo) -> bool:
        try:
            return self._cluster.client.leader().endswith(f":{nimbus.grpc_port}")
        except UnavailableError:
            return False

    def _kill_of_spark(self, kill: Kill) -> str:
        driver = victims.driver(self._cluster, NAME)
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

    def _restart(self, role: str, index: int, name: str) -> None:
        self._cluster.restart(role, index)
        self._note(f"{name} is up again")

    def _catch_up(self) -> bool:
        """Wait until everything written is committed; False if that takes too long."""
        words = sum(len(word_count.words(line)) for line in self._feeds.read())

        def is_done() -> bool:
            return self._watch.is_idle and sum(counts(self._database).values()) >= words

        try:
            wait_until(is_done, CATCH_UP_S, what="everything is committed")
        except TimeoutError:
            self._note("out of time: not everything is committed")
            return False
        self._note("everything is committed")
        return True

    def _judge(self) -> Judgement:
        lines = self._feeds.read()
        truth = Counter(word for line in lines for word in word_count.words(line))
        faults = differences("word", truth, counts(self._database))
        return Judgement(len(lines), truth.total(), len(truth), tuple(faults))

    def _living(self, role: str) -> list[ProcessInfo]:
        return [process for process in self._cluster.processes if process.role == role]

    def _note(self, sentence: str) -> None:
        self._screen.note(f"{sentence:55}  {self._feeds.written:>7,} lines, {self._watch.committed:>6,} committed")
