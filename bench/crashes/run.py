"""One run: a topology on a cluster, growing files, kills by plan, and the comparison with the truth."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Generic, TypeVar

from bench.crashes.agenda import Agenda
from bench.crashes.feed import Feed
from bench.crashes.feeds import Feeds
from bench.crashes.watch import Watch
from examples import word_count
from examples.demo.exactly_once import Judgement
from examples.demo.screen import Screen
from tupletree.testing import DevCluster, ProcessInfo, wait_until


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


F = TypeVar("F", Feed, Feeds)


class Run(ABC, Generic[F]):
    """One run of a topology that counts the words of ``feed``, on a running cluster."""

    NAME: ClassVar[str]
    FIRST_COMMIT_S: ClassVar[float]
    CATCH_UP_S: ClassVar[float]  # time to commit the remaining lines after the last kill

    def __init__(self, cluster: DevCluster, screen: Screen, seed: int, feed: F, transactional_id: str) -> None:
        self._cluster = cluster
        self._screen = screen
        self._seed = seed
        self._feed: F = feed
        self._daemons = [process for process in cluster.processes if process.role != "worker"]
        self._watch = Watch(cluster.conf, transactional_id)
        self._killed: Counter[str] = Counter()
        self._agenda = Agenda()

    @abstractmethod
    def _submit(self) -> None:
        """Submit the topology and write its first lines."""

    @abstractmethod
    def _plan(self, seconds: float) -> None:
        """Put the kills of ``seconds`` into the agenda."""

    @abstractmethod
    def _lines(self) -> list[str]:
        """Return all lines written."""

    @abstractmethod
    def _counted(self) -> int:
        """Return the number of words counted."""

    @abstractmethod
    def _judge(self) -> Judgement:
        """Compare the counts with the truth."""

    def run(self, seconds: float) -> Story:
        """Play the whole run."""
        try:
            self._submit()
            wait_until(lambda: self._watch.committed > 0, self.FIRST_COMMIT_S, what="the first commit")
            self._note(f"it runs; kill -9 for {seconds:g} s by seed {self._seed}")
            self._agenda = Agenda()
            self._plan(seconds)
            self._agenda.work_off()
            self._feed.stop()
            self._note("every line is written and everything is up again")
            finished = self._catch_up()
        finally:
            self._feed.stop()
            self._watch.stop()
        self._cluster.client.kill(self.NAME, wait_secs=0)
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

    def _catch_up(self) -> bool:
        """Wait until everything written is committed; False if that takes too long."""
        words = sum(len(word_count.words(line)) for line in self._lines())
        try:
            wait_until(
                lambda: self._watch.is_idle and self._counted() >= words,
                self.CATCH_UP_S,
                what="everything is committed",
            )
        except TimeoutError:
            self._note("out of time: not everything is committed")
            return False
        self._note("everything is committed")
        return True

    def _restart_later(self, pause_s: float, role: str, index: int, name: str) -> None:
        self._agenda.after(pause_s, lambda: self._restart(role, index, name))

    def _restart(self, role: str, index: int, name: str) -> None:
        self._cluster.restart(role, index)
        self._note(f"{name} is up again")

    def _living(self, role: str) -> list[ProcessInfo]:
        return [process for process in self._cluster.processes if process.role == role]

    def _note(self, sentence: str) -> None:
        self._screen.note(f"{sentence:55}  {self._feed.written:>7,} lines, {self._watch.committed:>6,} committed")
