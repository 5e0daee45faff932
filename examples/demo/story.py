"""The first act of the demo: submit, crash a worker, crash an acker, wait until every line is acked, judge.

Recovery is timed from the kill until every line pending at that moment is acked and recorded as acked. So the time
covers detection, replay and counting again, and for a worker also the start of the new process.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from examples import word_count
from examples.demo.gauges import read_frame
from examples.demo.journals import Journals
from examples.demo.recorded_lines import RecordedLines
from examples.demo.screen import Screen
from examples.demo.truth import Judgement, judge
from tupletree.testing import DevCluster, ProcessInfo

NAME = "word-count"
SPOUT_TASKS = 2
CONF = {"topology.workers": 2, "topology.acker.executors": 2, "topology.max.spout.pending": 2_000}
CRASHES = {"worker": 0.25, "acker": 0.6}  # role -> share of the lines acked before the kill
POLL_S = 0.2


@dataclass(frozen=True)
class Crash:
    """One kill -9, and the time until all lines pending at that moment were acked; None: never."""

    role: str
    name: str
    pid: int
    at_s: float
    recovery_s: float | None


@dataclass(frozen=True)
class Story:
    """The result of the act."""

    judgement: Judgement
    crashes: tuple[Crash, ...]
    seconds: float  # from the submission to the last ack
    finished: bool

    @property
    def held(self) -> bool:
        """True if the guarantee held and the crashes took place."""
        crashed = {crash.role for crash in self.crashes if crash.recovery_s is not None}
        return self.finished and self.judgement.held and crashed == CRASHES.keys()

    def as_json(self) -> dict[str, Any]:
        """Return the result as JSON data."""
        return {
            "held": self.held,
            "seconds": round(self.seconds, 2),
            "lines_per_s": round(self.judgement.acked / self.seconds),
            "words_per_s": round(self.judgement.words / self.seconds),
            **asdict(self.judgement),
            "crashes": [asdict(crash) for crash in self.crashes],
        }


class Demo:
    """One run over ``lines`` lines on a running cluster. The counts are stored in ``directory``."""

    def __init__(self, cluster: DevCluster, screen: Screen, lines: int, directory: Path) -> None:
        self._cluster = cluster
        self._screen = screen
        self._lines = lines
        self._directory = directory
        self._journals = Journals(directory, lines, SPOUT_TASKS)
        self._ackers = self._running("acker")

    def run(self, deadline_s: float) -> Story:
        """Play the whole act; stop waiting when the screen's clock shows ``deadline_s``."""
        topology = word_count.topology(self._lines, str(self._directory), RecordedLines)
        self._cluster.client.submit(NAME, topology, CONF)
        submitted_s = self._screen.elapsed_s()
        self._screen.note(f"submitted: {self._lines:,} lines, 2 workers, 2 ackers")
        crashes: list[Crash] = []
        for role, share in CRASHES.items():
            target = int(share * self._lines)
            if self._wait(self._has_acked(target), deadline_s):
                crashes.append(self._crash(role, deadline_s))
        finished = self._wait(self._has_acked(self._lines), deadline_s)
        seconds = self._screen.elapsed_s() - submitted_s
        self._screen.note("every line is acked" if finished else "out of time: not every line is acked")
        self._cluster.client.kill(NAME, wait_secs=0)
        judgement = judge(self._lines, word_count.text(), word_count.words, self._journals.outcome())
        return Story(judgement, tuple(crashes), seconds, finished)

    def _crash(self, role: str, deadline_s: float) -> Crash:
        victim = self._running(role)[0]
        began_s = self._screen.elapsed_s()
        self._cluster.kill(role, 0)
        under_way = self._journals.reached()
        self._screen.note(f"kill -9 {victim.pid}: the {role} {victim.name}")
        recovered = self._wait(lambda: self._journals.settled(under_way), deadline_s)
        took_s = self._screen.elapsed_s() - began_s
        if recovered:
            self._screen.note(f"recovered: {took_s:.1f} s after the kill, all that was under way is acked")
        return Crash(role, victim.name, victim.pid, round(began_s, 2), round(took_s, 2) if recovered else None)

    def _has_acked(self, lines: int) -> Callable[[], bool]:
        return lambda: self._journals.acked() >= lines

    def _running(self, role: str) -> list[ProcessInfo]:
        return [process for process in self._cluster.processes if process.role == role]

    def _wait(self, done: Callable[[], bool], deadline_s: float) -> bool:
        """Show the progress until ``done``; False if the deadline comes first."""

        while True:
            acked = self._journals.acked()
            self._screen.show(read_frame(NAME, self._lines, acked, self._cluster.client, self._ackers))
            if done():
                return True
            if self._screen.elapsed_s() >= deadline_s:
                return False
            time.sleep(POLL_S)
