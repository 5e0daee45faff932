"""The second act of the demo: the same text through Spark, with a crash of the worker that drives Spark.

Recovery is timed from the kill until the next committed batch: detecting the crash, starting the worker, starting
Spark.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from examples import spark_word_count, word_count
from examples.demo import victims
from examples.demo.exactly_once import Judgement, differences
from examples.demo.screen import BatchFrame, Screen
from examples.demo.story import POLL_S, Crash
from examples.demo.table import batches, counts
from tupletree.errors import NotFoundError, TupletreeError
from tupletree.testing import DevCluster

BRIEF = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""JVM options for short runs: without slow optimisations, a JVM that runs for minutes needs half the CPU time."""

CONF = {**BRIEF, "topology.workers": 2, "topology.acker.executors": 2}
FILES = 4
BATCHES = 24  # approximate number
MIN_BATCH = 16_384  # bytes
CRASH = 0.33  # share of the words counted before the kill


@dataclass(frozen=True)
class SparkStory:
    """The result of the act."""

    judgement: Judgement
    crash: Crash | None
    batches: int
    exact: int  # distinct words counted exactly as often as they occur
    seconds: float  # from the submission to the last commit
    finished: bool

    @property
    def held(self) -> bool:
        """True if the guarantee held and the crash took place."""
        crashed = self.crash is not None and self.crash.recovery_s is not None
        return self.finished and self.judgement.held and crashed

    def as_json(self) -> dict[str, Any]:
        """Return the result as JSON data."""
        return {
            "held": self.held,
            "seconds": round(self.seconds, 2),
            "words_per_s": round(self.judgement.words / self.seconds),
            "batches": self.batches,
            "exact": self.exact,
            **asdict(self.judgement),
            "crash": None if self.crash is None else asdict(self.crash),
        }


class SparkDemo:
    """One run over ``lines`` lines on a running cluster. Text and table are stored in the new ``directory``."""

    def __init__(self, cluster: DevCluster, screen: Screen, lines: int, directory: Path) -> None:
        self._cluster = cluster
        self._screen = screen
        self._lines = lines
        self._directory = directory
        self._database = directory / "words.db"
        self._truth: Counter[str] = Counter()

    def run(self, deadline_s: float) -> SparkStory:
        """Play the whole act; stop waiting when the screen's clock shows ``deadline_s``."""
        size = self._write_text()
        pattern, batch = str(self._directory / "*.txt"), max(MIN_BATCH, size // BATCHES)
        topology, conf = spark_word_count.topology(pattern, str(self._database), batch)
        self._cluster.client.submit(spark_word_count.ID, topology, {**conf, **CONF})
        submitted_s = self._screen.elapsed_s()
        self._screen.note(f"submitted: the same {self._lines:,} lines in {FILES} files, for Spark; it starts")
        crash = None
        if self._wait(lambda: self._counted() >= CRASH * self._truth.total(), deadline_s):
            crash = self._crash(deadline_s)
        finished = self._wait(lambda: self._counted() >= self._truth.total(), deadline_s)
        seconds = self._screen.elapsed_s() - submitted_s
        self._screen.note("every batch is committed" if finished else "out of time: not every batch is committed")
        self._cluster.client.kill(spark_word_count.ID, wait_secs=0)
        stored = counts(self._database)
        exact = sum(stored.get(word) == times for word, times in self._truth.items())
        faults = tuple(differences("word", self._truth, stored))
        judgement = Judgement(self._lines, self._truth.total(), len(self._truth), faults)
        return SparkStory(judgement, crash, batches(self._database), exact, seconds, finished)

    def _write_text(self) -> int:
        """Write the text to files, and remember its words; return the number of bytes."""
        self._directory.mkdir(parents=True)
        text = word_count.text()
        split = [word_count.words(line) for line in text]
        paths = [self._directory / f"{number}.txt" for number in range(FILES)]
        for number, path in enumerate(paths):
            with path.open("w") as file:
                for line in range(number, self._lines, FILES):
                    file.write(f"{text[line % len(text)]}\n")
                    self._truth.update(split[line % len(text)])
        return sum(path.stat().st_size for path in paths)

    def _crash(self, deadline_s: float) -> Crash | None:
        while (driver := victims.driver(self._cluster, spark_word_count.ID)) is None:
            if self._screen.elapsed_s() >= deadline_s:
                return None
            time.sleep(POLL_S)
        workers = [process.pid for process in self._cluster.processes if process.role == "worker"]
        began_s = self._screen.elapsed_s()
        try:
            self._cluster.kill("worker", workers.index(driver.pid))
        except (NotFoundError, ValueError):
            return None  # the worker ended by itself: no crash to show
        counted = self._counted()
        self._screen.note(f"kill -9 {driver.pid}: the worker {driver.name}, which drives Spark")
        whole = self._truth.total()
        recovered = self._wait(lambda: self._counted() > counted or counted == whole, deadline_s)
        took_s = self._screen.elapsed_s() - began_s
        if recovered:
            self._screen.note(f"recovered: {took_s:.1f} s after the kill, Spark runs anew and a batch is committed")
        recovery_s = round(took_s, 2) if recovered else None
        return Crash("worker", driver.name, driver.pid, round(began_s, 2), recovery_s)

    def _counted(self) -> int:
        return sum(counts(self._database).values())

    def _frame(self) -> BatchFrame:
        """Return the current metrics. An unavailable metric is 0."""
        frame = BatchFrame(self._truth.total(), self._counted(), batches(self._database))
        try:
            components = self._cluster.client.describe(spark_word_count.ID).components
        except TupletreeError:
            return frame
        for said in (status for one in components if one.component_id == "pipeline" for status in one.statuses):
            if (status := said.status) is not None:
                frame = replace(frame, state=status["state"], active=len(status["batches"]))
        return frame

    def _wait(self, done: Callable[[], bool], deadline_s: float) -> bool:
        """Show the progress until ``done``; False if the deadline comes first."""
        while True:
            self._screen.show(self._frame())
            if done():
                return True
            if self._screen.elapsed_s() >= deadline_s:
                return False
            time.sleep(POLL_S)
