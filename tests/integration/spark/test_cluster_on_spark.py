"""``tupletree cluster`` on a real standalone master with two workers: machines come and go, and the result is exact."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from local_spark import SHORT_LIVED
from spark_servers import Process, children_of, standalone_workers, table

from tupletree._devcluster.guard import processes_of
from tupletree._net import ReservedPorts
from tupletree.client import NimbusClient
from tupletree.config import defaults
from tupletree.testing.wait import wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

EXECUTOR = "CoarseGrainedExecutorBackend"
START_S = 180.0

LINES = [f"{('to', 'be', 'or', 'not')[number % 4]} word{number % 97} be" for number in range(4000)]
TRUTH = Counter(word for line in LINES for word in line.split())

WORDS = """
from tupletree.connectors.files import FileSpout
from tupletree.connectors.sqlite import SqliteSink
from tupletree.streams import StreamBuilder

def topology(here):
    builder = StreamBuilder()
    lines = builder.source(FileSpout(f"{here}/lines.txt"), name="lines")
    counts = lines.flat_map(str.split).key_by(lambda word: word).count(parallelism=2, name="counts")
    counts.sink(SqliteSink(f"{here}/words.db", "words", {"word": "string", "times": "bigint"}, key="word"),
                fields=["word", "times"])
    return builder.topology("exactly_once")
"""


class Place:
    """Two workers of Spark with one core each, and the commands on a cluster on them."""

    def __init__(self, directory: Path, master: str, workers: tuple[Process, ...], ports: list[int]) -> None:
        self.directory = directory
        self.master = master
        self.workers = workers
        keys = {
            "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.ui.enabled": "false",
            "spark.driver.memory": "512m", "spark.executor.memory": "512m",
            "spark.driver.extraJavaOptions": SHORT_LIVED, "spark.executor.extraJavaOptions": SHORT_LIVED,
            "nimbus.port": ports[0], "nimbus.http.port": ports[1], "zookeeper.port": ports[2],
            "zookeeper.session.timeout": 6000,
        }  # fmt: skip
        self.up = ["up", "--spark-master", master, "--slots", "2", "--timeout", str(START_S)]
        self.up += [part for key, value in keys.items() for part in ("-c", f"{key}={value}")]

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "tupletree", "cluster", *arguments, "--dir", str(self.directory / "cluster")]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments), capture_output=True, text=True, timeout=2 * START_S, check=False
        )

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run("status", "--json").stdout)
        return found

    def supervisors(self) -> dict[str, int]:
        """The process of each supervisor that nimbus knows."""
        return {one["supervisor"]: one["pid"] for one in self.status().get("executors", [])}

    def executors(self, kind: str = EXECUTOR) -> list[int]:
        return [pid for worker in self.workers for pid in children_of(worker.pid, kind)]

    def daemons(self) -> list[int]:
        """The supervisors, ackers and workers of all machines, and ZooKeeper and nimbus of the application."""
        return processes_of(str(self.directory / "scratch")) + processes_of(str(self.directory / "cluster"))

    def wait_until_nothing_is_left(self) -> None:
        wait_until(lambda: not self.daemons() and not self.executors(), 60, what="all daemons and executors are gone")
        wait_until(lambda: not self.executors("pyspark.daemon"), 60, what="the executors' Python processes are gone")
        assert not list((self.directory / "scratch").rglob("tupletree-*/supervisor-0"))


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    ports = ReservedPorts()
    with standalone_workers(tmp_path, 2, cores=1, memory="1g") as (url, workers):
        found = Place(tmp_path, url, workers, ports.reserve(3))
        yield found
        found.run("down")
    ports.release()


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def executor_of(supervisor: int) -> int:
    """The executor whose task has started a supervisor: the parent of the parent of the task's process."""
    return parent_of(parent_of(parent_of(supervisor)))


def wait_for_another(place: Place, gone: str) -> None:
    wait_until(
        lambda: (found := place.status())["ready"] and gone not in {one["supervisor"] for one in found["executors"]},
        START_S,
        what="another machine has come",
    )


@pytest.mark.nightly
def test_words_are_counted_exactly_although_an_executor_is_killed(place: Place, tmp_path: Path) -> None:
    here = tmp_path / "user"
    here.mkdir()
    (here / "words.py").write_text(WORDS)
    text = here / "lines.txt"
    append(text, LINES[:2000])
    with Process(place.command(*place.up, "--foreground"), tmp_path, "application") as application:
        application.wait_until(lambda: place.status().get("ready"), START_S, "all machines are there")
        seeds = place.status()["nimbus_seeds"]
        scope: dict[str, Any] = {}
        exec(compile(WORDS, str(here / "words.py"), "exec"), scope)
        with NimbusClient(seeds, defaults()) as client:
            conf = {
                "topology.workers": 2,
                "topology.state.checkpoint.interval.ms": 300,
                "topology.state.provider": "sqlite",
                "topology.state.provider.config": {"directory": str(here / "states")},
            }
            client.submit("words", scope["topology"](here), conf)
            wait_until(lambda: counted(here), START_S, what="some words are counted")
            supervisor, pid = next(iter(place.supervisors().items()))
            os.kill(executor_of(pid), signal.SIGKILL)
            append(text, LINES[2000:3000])  # some are counted, and some of those not committed, when workers end
            wait_until(lambda: pid not in place.daemons(), 30, what="the supervisor is gone with its executor")
            append(text, LINES[3000:])
            wait_until(lambda: counted(here) == TRUTH, START_S, what="each word is counted exactly once")
        wait_for_another(place, supervisor)
        assert any("137" in sentence for sentence in place.status()["failures"])
        application.popen.terminate()
        assert application.wait(90) == 0, application.text
    place.wait_until_nothing_is_left()
    assert counted(here) == TRUTH


def append(text: Path, lines: list[str]) -> None:
    with text.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)


def counted(here: Path) -> Counter[str]:
    return Counter(dict(table(here / "words.db", "SELECT word, times FROM words")))


@pytest.mark.nightly
def test_commands_may_be_repeated_and_nothing_outlives_its_owner(place: Place) -> None:
    assert place.run("status").returncode == 2
    assert place.run("down").returncode == 0
    greedy = place.run(*place.up, "--cores", "8", "--timeout", "20")
    assert greedy.returncode == 1
    assert "has started none of 2 executors with 8 cores and 2g each" in greedy.stderr
    place.wait_until_nothing_is_left()

    first = place.run(*place.up, "--json")
    assert first.returncode == 0, first.stderr
    again = place.run(*place.up, "--json")
    assert json.loads(again.stdout)["pid"] == json.loads(first.stdout)["pid"]
    other = place.run("up", "--spark-master", "spark://other:7077", "-c", "bind.host=0.0.0.0")
    assert other.returncode == 2
    assert f"a cluster on {place.master} runs from" in other.stderr

    supervisor, pid = next(iter(place.supervisors().items()))
    os.kill(parent_of(pid), signal.SIGKILL)  # the task alone
    wait_until(lambda: pid not in place.daemons(), 30, what="the supervisor is gone with its task")
    wait_for_another(place, supervisor)

    with contextlib.suppress(ProcessLookupError):
        os.kill(json.loads(first.stdout)["pid"], signal.SIGKILL)
    place.wait_until_nothing_is_left()
    assert place.run("status").returncode == 2
    assert place.run("down").returncode == 0
