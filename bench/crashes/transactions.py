"""The topology that counts words in transactions, under kill -9 of everything."""

from __future__ import annotations

import time
from pathlib import Path

from bench.crashes import run
from bench.crashes.feed import Feed
from bench.crashes.kills import Kill, plan
from examples import transactional_words, word_count
from examples.demo.exactly_once import Judgement, judge
from examples.demo.screen import Screen
from tupletree.errors import NotFoundError
from tupletree.testing import DevCluster

CONF = {"topology.workers": 3, "topology.acker.executors": 2, "topology.max.spout.pending": 4}
FILES = 4
BYTES_PER_BATCH = 700  # per file; small, so that a batch is always in progress


class Run(run.Run[Feed]):
    """One run on a running cluster. Lines and databases are stored in ``directory``."""

    NAME = "transactional-words"
    FIRST_COMMIT_S = 60.0
    CATCH_UP_S = 120.0

    def __init__(self, cluster: DevCluster, screen: Screen, directory: Path, seed: int, rate: float) -> None:
        self._directory = directory / "lines"
        self._databases = str(directory / "databases")
        feed = Feed(self._directory, word_count.text(), FILES, rate, seed)
        super().__init__(cluster, screen, seed, feed, transactional_words.ID)

    def _submit(self) -> None:
        topology = transactional_words.topology(str(self._directory), self._databases, BYTES_PER_BATCH)
        self._cluster.client.submit(self.NAME, topology, CONF)
        self._feed.start()

    def _plan(self, seconds: float) -> None:
        for kill in plan(seconds, self._seed):
            self._agenda.at(kill.at_s, lambda kill=kill: self._kill(kill))  # type: ignore[misc]
        self._agenda.at(seconds, lambda: None)

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
            self._restart_later(kill.down_s, kill.role, index, victim.name)

    def _counted(self) -> int:
        return sum(transactional_words.tables(self._databases)[0].items().values())

    def _judge(self) -> Judgement:
        words, buckets = (table.items() for table in transactional_words.tables(self._databases))
        return judge(self._lines(), transactional_words.words, transactional_words.bucket, words, buckets)

    def _lines(self) -> list[str]:
        return [line for file in self._directory.iterdir() for line in file.read_text().splitlines()]
