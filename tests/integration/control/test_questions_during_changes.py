"""Questions to states while their workers are killed and their tasks change: no answer is wrong, none lacks a value."""

from __future__ import annotations

import itertools
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from counted_lines import Count

from tests.integration.control.conftest import Console
from tupletree import Topology, TopologyBuilder
from tupletree._checkpoints.places import owner_of
from tupletree._wire.codec import encode_value
from tupletree.client import StateAnswer, StateClient
from tupletree.connectors.files import FileSpout
from tupletree.errors import TupletreeError, UnavailableError
from tupletree.testing import DevCluster, wait_until

pytestmark = pytest.mark.long
NAME = "lines"
CONF = {
    "topology.workers": 2,
    "topology.state.checkpoint.aligned": True,
    "topology.state.checkpoint.interval.ms": 200,
    "topology.state.provider": "sqlite",
}


class Sole(Count):
    """Each key is in one task alone, which is asked alone."""

    is_divisible = True


def topology(files: str) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("lines", FileSpout(files), 1)
    builder.set_bolt("sole", Sole(), 2).fields_grouping("lines", ["line"])
    builder.set_bolt("any", Count(), 2).fields_grouping("lines", ["line"])
    return builder.create_topology()


class Counting(StateClient):
    """Counts the questions that go through nimbus."""

    through_nimbus = 0

    def _ask(self, *arguments: Any, **fields: Any) -> StateAnswer:
        self.through_nimbus += 1
        return super()._ask(*arguments, **fields)


class Writer(threading.Thread):
    """Writes each line again and again. ``written``: how often, or once more."""

    def __init__(self, path: Path, written: Counter[str], stopped: threading.Event) -> None:
        super().__init__(daemon=True)
        self._path, self.written, self._stopped = path, written, stopped

    def run(self) -> None:
        with open(self._path, "a", encoding="utf-8", buffering=1) as file:
            while not self._stopped.wait(0.02):
                for line in list(self.written):
                    self.written[line] += 1
                    file.write(f"{line}\n")


class Asker(threading.Thread):
    """Asks for one key after the other, and keeps what is wrong with an answer.

    No value is above what was written, nor below a committed one that was seen before.
    """

    def __init__(self, states: StateClient, component: str, written: Counter[str], stopped: threading.Event) -> None:
        super().__init__(daemon=True)
        self._states, self._component, self._written, self._stopped = states, component, written, stopped
        self._committed = Counter(dict.fromkeys(written, 1))
        self.answers = 0
        self.wrong: list[Any] = []

    def run(self) -> None:
        for number, key in enumerate(itertools.cycle(list(self._written))):
            if self._stopped.is_set():
                return
            is_live = number % 5 == 0
            try:
                answer = self._states.get(NAME, self._component, key, live=is_live)
            except UnavailableError:  # a task has no worker for the moment, or has not opened its state
                continue
            except TupletreeError as error:
                self.wrong.append(error)
                return
            self.answers += 1
            values = [one.value for one in answer.entries if one.key == key]
            if len(values) != 1 or not self._committed[key] <= values[0] <= self._written[key]:
                self.wrong.append((number, key, self._committed[key], self._written[key], answer))
            elif not is_live:
                self._committed[key] = values[0]


@contextmanager
def asking(states: StateClient, path: Path, written: Counter[str]) -> Iterator[list[Asker]]:
    """Ask, while lines are written."""
    stopped = threading.Event()
    askers = [Asker(states, component, written, stopped) for component in ("sole", "any")]
    threads = [Writer(path, written, stopped), *askers]
    for one in threads:
        one.start()
    try:
        yield askers
    finally:
        stopped.set()
        for one in threads:
            one.join(60)


def go_on(askers: list[Asker]) -> None:
    """Wait until each has had many more answers."""
    before = [one.answers for one in askers]
    wait_until(
        lambda: all(one.wrong or one.answers > few + 100 for one, few in zip(askers, before, strict=True)),
        90,
        what="questions are answered",
    )
    assert [one.wrong for one in askers] == [[], []]


def direct(states: Counting, component: str, key: str) -> bool:
    """Ask; True if nimbus was not needed."""
    before = states.through_nimbus
    states.get(NAME, component, key)
    return states.through_nimbus == before


@pytest.mark.nightly
@pytest.mark.skipif(sys.platform != "linux", reason="workers are found by /proc")
def test_questions_while_workers_are_killed_and_tasks_change(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    lines = [f"{number % 40} of many" for number in range(400)]
    (logs / "a.txt").write_text("".join(f"{line}\n" for line in lines))
    conf = {**CONF, "topology.state.provider.config": {"directory": str(tmp_path / "states")}}
    true = Counter(lines)
    with DevCluster(supervisors=1, slots=3, ackers=1) as cluster, Counting(conf=cluster.conf) as states:
        console = Console(cluster, capsys)
        cluster.client.submit(NAME, topology(f"{logs}/*.txt"), conf)

        def counted(component: str) -> Counter[str]:
            try:
                found = states.scan(NAME, component, limit=1000).entries
            except TupletreeError:
                return Counter()
            return Counter({one.key: one.value for one in found})

        wait_until(lambda: counted("sole") == counted("any") == true, 90, what="all lines are counted")
        key = lines[0]
        for component in ("sole", "any"):
            wait_until(lambda component=component: direct(states, component, key), 30)  # type: ignore[misc]
        assert len(states.get(NAME, "sole", key).committed) == 1, "one task was asked"
        assert len(states.get(NAME, "sole", "nowhere").committed) == 2, "the others are asked for what it has not"
        assert len(states.get(NAME, "any", key).committed) == 2
        assert len(states.get(NAME, "sole", *true).entries) == len(true)
        with asking(states, logs / "a.txt", true) as askers:
            go_on(askers)
            cluster.kill("worker", 0)
            go_on(askers)
            console("rebalance", NAME, "-t", "sole=3", "-t", "any=1", "-w", "0")
            wait_until(
                lambda: cluster.client.describe(NAME).summary.record.tasks["sole"] == 3, 60, what="tasks have changed"
            )
            go_on(askers)
            cluster.kill("worker", 0)
            go_on(askers)
        wait_until(lambda: counted("sole") == counted("any") == true, 90, what="all that was written is counted")
        for component in ("sole", "any"):
            wait_until(lambda component=component: direct(states, component, key), 60)  # type: ignore[misc]
        assert len(states.get(NAME, "any", key).committed) == 1
        other = (owner_of(encode_value("odd"), 3, 1) or 0) - 1
        states.put(NAME, "sole", "odd", 5, task=other % 3)
        [found] = states.get(NAME, "sole", "odd").entries
        assert (found.value, found.task) == (5, other % 3), "the other tasks are asked for what is not in its own"
        assert direct(states, "sole", "odd")
