"""What the tests of bad input share: the real command line as a process, and a topology that shows all is well."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tupletree import BasicBolt, Spout, TopologyBuilder
from tupletree.testing import DevCluster, wait_until

STEADY = "steady"
"""The topology that runs all the time, whatever else is submitted."""
INTERVAL_S = 0.02


class Ticks(Spout):
    """Emits five numbers every twenty milliseconds, and adds a byte to a file for each that is acked."""

    outputs = ("number",)

    def __init__(self, path: Path) -> None:
        self.path = path

    def open(self, conf: Any, context: Any, collector: Any) -> None:
        self.number = 0
        self.pending = 0
        self.due_s = time.monotonic()
        self.file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def next_tuple(self) -> None:
        if time.monotonic() >= self.due_s:
            self.due_s = time.monotonic() + INTERVAL_S
            while self.pending < 5:
                self.number += 1
                self.pending += 1
                self.collector.emit([self.number], self.number)

    def ack(self, msg_id: Any) -> None:
        self.pending -= 1
        os.write(self.file, b".")

    def fail(self, msg_id: Any) -> None:
        self.pending -= 1


class Swallow(BasicBolt):
    def execute(self, tup: Any, collector: Any) -> None:
        pass


def steady_topology(path: Path) -> Any:
    builder = TopologyBuilder()
    builder.set_spout("ticks", Ticks(path)).add_configuration("topology.sleep.spout.wait.strategy.time.ms", 2)
    builder.set_bolt("swallow", Swallow()).shuffle_grouping("ticks")
    return builder.create_topology()


FORKS = """
import json, os, sys, tempfile
import tupletree.client
from tupletree.cli.main import main

def ended(argv):
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        child = os.fork()
        if child == 0:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            status = main(argv)
            sys.stderr.flush()
            os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return [status, *(stream.seek(0) or stream.read() for stream in (out, err))]

commands = json.load(sys.stdin)
print(json.dumps([ended(argv) for argv in commands]))
"""


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    status: int
    out: str
    err: str


class CommandLine:
    """Runs ``tupletree`` as a user does: a process of its own, in an empty directory, without our environment."""

    def __init__(self, directory: Path, seed: str) -> None:
        self.directory = directory
        self.seed = seed
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("TUPLETREE_")}
        self.environment["HOME"] = str(directory)

    def __call__(self, *argv: object, environment: Mapping[str, str] | None = None) -> Ended:
        done = subprocess.run(
            [sys.executable, "-m", "tupletree", *map(str, argv)],
            cwd=self.directory,
            env={**self.environment, **(environment or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    def all(self, commands: Sequence[Sequence[object]]) -> list[Ended]:
        """Run commands, each in a process forked after the imports, which take longer than what a command does."""
        done = subprocess.run(
            [sys.executable, "-c", FORKS],
            cwd=self.directory,
            env={**self.environment, "GRPC_ENABLE_FORK_SUPPORT": "0"},
            input=json.dumps([[str(argument) for argument in argv] for argv in commands]),
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        return [Ended(*one) for one in json.loads(done.stdout)]

    def ask(self, *argv: object, **more: Any) -> Ended:
        """Run a command of the cluster."""
        return self(*argv, "--nimbus", self.seed, **more)

    def json(self, *argv: object) -> Any:
        """What a command of the cluster says, which must succeed."""
        ended = self.ask(*argv, "--json")
        assert ended.status == 0, ended.err
        return json.loads(ended.out)


def one_sentence(ended: Ended, status: int, *words: str) -> None:
    """The command failed with that status, printed nothing, and said what is wrong in one line with these words."""
    assert (ended.status, ended.out) == (status, ""), ended
    assert "Traceback" not in ended.err
    assert ended.err.count("\n") == 1, ended.err
    assert ended.err.endswith("\n")
    for word in words:
        assert word in ended.err


@contextmanager
def running(cluster: DevCluster, *names: str) -> Iterator[None]:
    """Ends the topologies that still run at the end, and waits until their workers are gone."""

    def present() -> set[str]:
        return {summary.record.name for summary in cluster.client.list()} & set(names)

    try:
        yield
    finally:
        for name in present():
            cluster.client.kill(name, wait_secs=0)
        wait_until(lambda: not present(), 60, what="they are gone")
