"""Real Spark servers on this machine, from the jars that PySpark brings, and programs in processes of their own.

A session is one for each process, so tests on other masters run their pipelines in a program of its own, written to a
directory that no executor has on its path.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import pyspark
from local_spark import SHORT_LIVED

from tupletree.testing.wait import wait_until

HOME = Path(pyspark.__file__).parent
START_S = 90.0
_PR_SET_PDEATHSIG = 1
T = TypeVar("T")


class Process:
    """A process with its output in a file, which ends with the test, even if that is killed."""

    def __init__(self, command: Sequence[str], directory: Path, name: str, env: dict[str, str] | None = None) -> None:
        self.output = directory / f"{name}.log"
        own = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        own |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", **(env or {})}
        with self.output.open("wb") as file:
            self.popen = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, cwd=directory, env=own,
                start_new_session=True, preexec_fn=_end_with_parent,  # noqa: PLW1509
            )  # fmt: skip
        self.pid = self.popen.pid

    @property
    def text(self) -> str:
        return self.output.read_text(errors="replace")

    def wait_for(self, pattern: str, timeout_s: float = START_S) -> re.Match[str]:
        """Wait until it has said something."""

        def said() -> re.Match[str] | None:
            found = re.search(pattern, self.text)
            if found is None and self.popen.poll() is not None:
                raise AssertionError(f"ended with {self.popen.returncode}:\n{self.text}")
            return found

        found = self.wait_until(said, timeout_s, f"{self.output.name} says {pattern!r}")
        assert found is not None
        return found

    def wait_until(self, predicate: Callable[[], T], timeout_s: float, what: str) -> T:
        """Wait for something that it does. AssertionError, with its output, if that takes too long."""
        try:
            return wait_until(predicate, timeout_s, what=what)
        except TimeoutError as error:
            raise AssertionError(f"{error}. It said:\n{self.text}") from None

    def __enter__(self) -> Process:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def wait(self, timeout_s: float) -> int:
        """Wait for its end; the status."""
        try:
            return self.popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still runs after {timeout_s} s:\n{self.text}") from None

    def kill(self) -> None:
        """It and all that it has started in its session."""
        for pid in session_of(self.pid):
            _kill(pid)
        self.popen.wait()


def session_of(leader: int) -> list[int]:
    """The processes of a session, that is, what its leader has started and what those have started."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == leader and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def command_of(pid: int) -> str:
    try:
        return (Path("/proc") / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def children_of(pid: int, what: str) -> list[int]:
    """The processes of a session whose command line has a word in it."""
    return [found for found in session_of(pid) if what in command_of(found)]


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@contextmanager
def standalone_cluster(directory: Path) -> Iterator[tuple[str, Process]]:
    """A master and a worker with two cores; the URL of the master, and the worker, which starts executors."""
    with standalone_workers(directory, 1, cores=2, memory="1g") as (url, (worker,)):
        yield url, worker


@contextmanager
def standalone_workers(
    directory: Path, count: int, *, cores: int, memory: str
) -> Iterator[tuple[str, tuple[Process, ...]]]:
    """A master and its workers. Their executors keep their files in ``directory / "scratch"``."""
    run, env = str(HOME / "bin" / "spark-class"), {
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": f"-Dspark.master.rest.enabled=false {SHORT_LIVED}",
        "SPARK_LOCAL_DIRS": str(directory / "scratch"),
    }  # fmt: skip
    ports = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    with contextlib.ExitStack() as stack:
        command = [run, "org.apache.spark.deploy.master.Master", *ports]
        url = stack.enter_context(Process(command, directory, "master", env)).wait_for(
            r"Starting Spark master at (spark://\S+)"
        )[1]
        size = ["--cores", str(cores), "--memory", memory, "--work-dir", str(directory / "executors")]
        command = [run, "org.apache.spark.deploy.worker.Worker", *ports, *size, url]
        workers = [stack.enter_context(Process(command, directory, f"worker-{number}", env)) for number in range(count)]
        for worker in workers:
            worker.wait_for("Successfully registered with master")
        yield url, tuple(workers)


@contextmanager
def connect_server(directory: Path) -> Iterator[tuple[str, Process]]:
    """A Spark Connect server on two cores; its URL, and its process."""
    conf = {
        "spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": "0",
        "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.sql.warehouse.dir": str(directory),
    }  # fmt: skip
    command = [
        str(HOME / "bin" / "spark-submit"), "--class", "org.apache.spark.sql.connect.service.SparkConnectServer",
        "--master", "local[2]", "--driver-memory", "1g", "--driver-java-options", SHORT_LIVED,
        *(part for key, value in conf.items() for part in ("--conf", f"{key}={value}")),
    ]  # fmt: skip
    with Process(command, directory, "connect") as server:
        port = server.wait_for(r"Spark Connect server started at: \S*:(\d+)")[1]
        yield f"sc://127.0.0.1:{port}", server


def program(directory: Path, conf: Mapping[str, Any], body: str, env: dict[str, str] | None = None) -> Process:
    """Run ``body`` in a process, with the modules of ``directory``, and ``CONF`` and ``HERE`` as globals."""
    lines = [f"CONF = {json.loads(json.dumps(conf))!r}", "from pathlib import Path", "HERE = Path(__file__).parent"]
    (directory / "main.py").write_text("\n".join([*lines, body]))
    return Process([sys.executable, "main.py"], directory, "program", env)


def table(path: Path, query: str) -> list[tuple[Any, ...]]:
    """What a query of an SQLite file finds; nothing if there is no such table yet."""
    try:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            return connection.execute(query).fetchall()
    except sqlite3.OperationalError:
        return []
