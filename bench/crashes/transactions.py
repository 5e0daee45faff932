"""One run: the topology on a cluster, growing files, kills by plan, and the comparison with the truth."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.crashes.agenda import Agenda
from bench.crashes.feed import Feed
from bench.crashes.kills import Kill, plan
from bench.crashes.watch import Watch
from examples import transactional_words, word_count
from examples.demo.exactly_once import Judgement, judge
from examples.demo.screen import Screen
from tupletree.errors import NotFoundError
from tupletree.testing import DevCluster, ProcessInfo, wait_until

NAME = "transactional-words"
CONF = {"topology.workers": 3, "topology.acker.executors": 2, "topology.max.spout.pending": 4}
FILES = 4
BYTES_PER_BATCH = 700  # per file; small, so that a batch is always in progress
FIRST_COMMIT_S = 60.0
CATCH_UP_S = 120.0  # time to commit the rest after the last kill


@dataclass(frozen=True)
class Story:
    """The result of a run."""

    judgement: Judgement
    seed: int
    seconds: float  # duration of the kills
    kills: dict[str, int]
    batches: int
    replays: int
    longest_stall_s: float
    finished: bool

    @property
    def held(self) -> bool:
        """True if everything was committed, and exactly once."""
        return self.finished and self.judgement.held

    def as_json(self) -> dict[str, Any]:
        """Return the result as JSON data."""
        facts = asdict(self)
        return {"held": self.held, **facts.pop("judgement"), **facts}


class Run:
    """One run on a running cluster. Lines and databases are stored in ``directory``."""

    def __init__(self, cluster: DevCluster, screen: Screen, directory: Path, seed: int, rate: float) -> None:
        self._cluster = cluster
        self._screen = screen
        self._seed = seed
        self._lines = directory / "lines"
        self._databases = directory / "databases"
        self._daemons = [process for process in cluster.processes if process.role != "worker"]
        self._feed = Feed(self._lines, word_count.text(), FILES, rate, seed)
        self._watch = Watch(cluster.conf, transactional_words.ID)
        self._killed: Counter[str] = Counter()

    def run(self, seconds: float) -> Story:
        """Play the whole run."""
        topology = transactional_words.topology(str(self._lines), str(self._databases), BYTES_PER_BATCH)
        self._cluster.client.submit(NAME, topology, CONF)
        self._feed.start()
        try:
            wait_until(lambda: self._watch.committed > 0, FIRST_COMMIT_S, what="the first commit")
            self._note(f"it runs; kill -9 for {seconds:g} s by seed {self._seed}")
            self._kill_by_plan(seconds)
            self._feed.stop()
            self._note("every line is written and everything is up again")
            finished = self._catch_up()
        finally:
            self._feed.stop()
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
            self._agenda.at(kill.at_s, lambda kill=kill: self._kill(kill))  # type: ignore[misc]
        self._agenda.at(seconds, lambda: None)
        self._agenda.work_off()

    def _kill(self, kill: Kill) -> None:
        living = self._living(kill.role)
        if not living:
            self._note(f"no {kill.role} to kill at this moment")
            return
        victim = living[int(kill.pick * len(living))]
        order = living if kill.role == "worker" else [one for one in self._daemons if one.role == kill.role]
        index = [one.name for one in order].index(victim.name)
        try:
            self._cluster.kill(kill.role, index)
        except NotFoundError:
            self._note(f"{victim.name} has just ended by itself")
            return
        self._killed[kill.role] += 1
        self._note(f"kill -9 {victim.pid}: {victim.name}")
        if kill.role == "zookeeper":  # no other process starts without ZooKeeper
            time.sleep(kill.down_s)
            self._restart(kill.role, index, victim.name)
        elif kill.role != "worker":  # a worker is restarted by its supervisor
            self._agenda.after(kill.down_s, lambda: self._restart(kill.role, index, victim.name))

    def _restart(self, role: str, index: int, name: str) -> None:
        self._cluster.restart(role, index)
        self._note(f"{name} is up again")

    def _catch_up(self) -> bool:
        """Wait until everything written is committed; False if that takes too long."""
        words = sum(len(transactional_words.words(line)) for line in self._written())
        table, _ = transactional_words.tables(str(self._databases))

        def is_done() -> bool:
            return self._watch.is_idle and sum(table.items().values()) >= words

        try:
            wait_until(is_done, CATCH_UP_S, what="everything is committed")
        except TimeoutError:
            self._note("out of time: not everything is committed")
            return False
        self._note("everything is committed")
        return True

    def _judge(self) -> Judgement:
        words, buckets = (table.items() for table in transactional_words.tables(str(self._databases)))
        return judge(self._written(), transactional_words.words, transactional_words.bucket, words, buckets)

    def _written(self) -> list[str]:
        """Return the lines of all files."""
        return [line for file in self._lines.iterdir() for line in file.read_text().splitlines()]

    def _living(self, role: str) -> list[ProcessInfo]:
        return [process for process in self._cluster.processes if process.role == role]

    def _note(self, sentence: str) -> None:
        self._screen.note(f"{sentence:55}  {self._feed.written:>7,} lines, {self._watch.committed:>6,} committed")
