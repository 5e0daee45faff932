"""Surroundings that are not as they should be: ports in use, no ZooKeeper, no Java, no room on the disk."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from badinput_harness import CommandLine, Ended, one_sentence, running

from tupletree._net import bind
from tupletree.testing import DevCluster, wait_until

pytestmark = pytest.mark.long

DAEMONS = ["nimbus", "supervisor", "acker"]


@pytest.fixture
def settings(cluster: DevCluster, tmp_path: Path) -> dict[str, object]:
    """What a daemon of another cluster on the same ZooKeeper needs, every port a free one."""
    keys = [f"{role}.{kind}" for role in DAEMONS for kind in ("port", "http.port")]
    return {
        **dict.fromkeys(keys, 0),
        "zookeeper.port": cluster.conf["zookeeper.port"],
        "zookeeper.root": "/elsewhere",
        "local.dir": tmp_path / "data",
        "logs.dir": tmp_path / "logs",
    }


def options(settings: dict[str, object]) -> list[str]:
    return [option for key, value in settings.items() for option in ("-c", f"{key}={value}")]


@contextmanager
def port_in_use() -> Iterator[int]:
    with bind("127.0.0.1", 0) as taken:
        taken.listen()
        yield taken.getsockname()[1]


@pytest.mark.parametrize("kind", ["port", "http.port"])
def test_a_port_in_use(cli: CommandLine, settings: dict[str, object], kind: str) -> None:
    with port_in_use() as port:
        for ended in cli.all([[role, *options({**settings, f"{role}.{kind}": port})] for role in DAEMONS]):
            one_sentence(ended, 2, f"port {port} on 127.0.0.1 is in use")


def test_the_port_of_zookeeper_in_use(cli: CommandLine) -> None:
    with port_in_use() as port:
        ended = cli("zookeeper", "--port", port, "--dir", cli.directory / "zookeeper")
    one_sentence(ended, 2, f"port {port} on 127.0.0.1 is in use")


def test_a_port_in_use_for_a_whole_cluster(cli: CommandLine, settings: dict[str, object]) -> None:
    with port_in_use() as port, port_in_use() as free:
        changed = {key: 20_000 + i for i, key in enumerate(settings) if key.endswith("port")}
        changed |= {"zookeeper.port": port, "supervisor.slots.ports": [free]}
        ended = cli("dev", "--slots", 1, "--dir", cli.directory / "dev", "--json", *options(changed))
    one_sentence(ended, 1, f"port {port} on 127.0.0.1 is in use", "zookeeper.port")


@contextmanager
def daemon(cli: CommandLine, role: str, settings: dict[str, object]) -> Iterator[dict[str, Any]]:
    """A daemon of its own, and what it announces; it must not end by itself."""
    announced = cli.directory / "announce.json"
    command = [sys.executable, "-m", "tupletree", role, *options(settings), "--announce", str(announced)]
    with subprocess.Popen(command, cwd=cli.directory, env=cli.environment) as process:
        try:
            wait_until(announced.exists, 30, what=f"the {role} serves")
            yield json.loads(announced.read_text())
            assert process.poll() is None
        finally:
            process.terminate()


def get(port: int, path: str) -> tuple[int, bytes]:
    """Status and body of what a daemon's HTTP server answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as reply:
            return reply.status, reply.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


@contextmanager
def silent_port() -> Iterator[int]:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # bound and not listening: nobody else can take it, nobody answers
        yield silent.getsockname()[1]


@pytest.mark.parametrize("role", ["nimbus", "acker"])
def test_a_zookeeper_that_does_not_answer(cli: CommandLine, settings: dict[str, object], role: str) -> None:
    with silent_port() as port:
        settings |= {"zookeeper.port": port, "zookeeper.connection.timeout": 500}
        one_sentence(cli(role, *options(settings)), 1, "ZooKeeper", f"127.0.0.1:{port}")


def test_a_supervisor_looks_after_its_workers_while_zookeeper_does_not_answer(
    cli: CommandLine, settings: dict[str, object]
) -> None:
    with silent_port() as zookeeper:
        settings |= {"zookeeper.port": zookeeper, "zookeeper.connection.timeout": 500}
        with daemon(cli, "supervisor", settings) as announced:
            port = announced["http_port"]
            wait_until(lambda: b"did not answer" in get(port, "/readyz")[1], 30, what="it says what it lacks")
            assert (get(port, "/readyz")[0], get(port, "/healthz")[0]) == (503, 200)


@pytest.mark.parametrize(
    ("key", "value", "word"),
    [
        ("zookeeper.prt", 1, "'zookeeper.port'"),
        ("bind.host", "203.0.113.1", "203.0.113.1"),
        ("logs.dir", "/dev/null/logs", "/dev/null/logs"),
    ],
)
def test_daemons_that_are_wrongly_configured(
    cli: CommandLine, settings: dict[str, object], key: str, value: object, word: str
) -> None:
    for ended in cli.all([[role, *options({**settings, key: value})] for role in DAEMONS]):
        one_sentence(ended, 2, word)


@pytest.mark.parametrize("role", ["nimbus", "supervisor"])  # an acker keeps nothing on disk
def test_a_data_directory_that_cannot_be(cli: CommandLine, settings: dict[str, object], role: str) -> None:
    settings["local.dir"] = "/dev/null/data"
    one_sentence(cli(role, *options(settings)), 2, "/dev/null/data")


@pytest.mark.parametrize("command", [["dev", "--json"], ["zookeeper", "--port", "1234"]], ids=["dev", "zookeeper"])
def test_a_missing_java(cli: CommandLine, command: list[str]) -> None:
    """As on a machine that has none: nothing in the environment leads to one, and Debian has installed none."""
    program = (
        "import sys; from tupletree._devcluster import java; java._INSTALLED = '/nowhere/*';"
        "from tupletree.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    environment = {**cli.environment, "PATH": str(cli.directory)}
    environment.pop("JAVA_HOME", None)
    done = subprocess.run(
        [sys.executable, "-c", program, *command, "--dir", str(cli.directory / "data")],
        cwd=cli.directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    ended = Ended(done.returncode, done.stdout, done.stderr)
    one_sentence(ended, 2, "Java 17 or newer is needed", "apt-get install openjdk-17-jre-headless")


TOPOLOGY = """
from tupletree import Spout, TopologyBuilder

class Idle(Spout):
    outputs = ["nothing"]
    def next_tuple(self):
        pass

def topology():
    builder = TopologyBuilder()
    builder.set_spout("idle", Idle())
    return builder.create_topology()
"""

HOOKED = """
from pathlib import Path

import idle_app
from tupletree.hooks import WorkerHook

class Notes(WorkerHook):
    def __init__(self, file):
        self.file = file
    def start(self, conf, context):
        self.note("start")
    def shutdown(self):
        self.note("shutdown")
    def note(self, what):
        with open(self.file, "a") as file:
            file.write(what + "\\n")

def topology():
    built = idle_app.TopologyBuilder()
    built.set_spout("idle", idle_app.Idle())
    built.add_worker_hook(Notes(str(Path(__file__).with_name("notes"))))
    return built.create_topology()
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own, of half a megabyte."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(place)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("a small disk needs the right to mount one")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def test_a_full_disk_at_nimbus(cli: CommandLine, settings: dict[str, object], small_disk: Path) -> None:
    (cli.directory / "idle_app.py").write_text(TOPOLOGY)
    (cli.directory / "data.bin").write_bytes(os.urandom(1_000_000))
    settings["local.dir"] = small_disk / "data"
    with daemon(cli, "nimbus", settings) as announced:
        other = CommandLine(cli.directory, f"127.0.0.1:{announced['grpc_port']}")
        wait_until(lambda: other.ask("list").status == 0, 30, what="it leads")
        ended = other.ask("submit", "idle_app.py", "--include", "data.bin")
        one_sentence(ended, 1, "nimbus's disk is full", "needs more than")
        filler = small_disk / "filler"
        with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
            while True:
                file.write(bytes(1024))
        one_sentence(other.ask("submit", "idle_app.py"), 1, "nimbus's disk is full")
        assert other.json("list") == []
        filler.unlink()
        assert other.ask("submit", "idle_app.py").status == 0
        assert [one["name"] for one in other.json("list")] == ["idle_app"]


def test_the_port_of_a_worker_in_use(cluster: DevCluster, cli: CommandLine) -> None:
    """The slot is tried again until its port is free; meanwhile ``tupletree errors`` says what is wrong.

    Hooks of the worker that had to end are shut down.
    """
    (cli.directory / "idle_app.py").write_text(TOPOLOGY)
    (cli.directory / "hooked_app.py").write_text(HOOKED)
    notes = cli.directory / "notes"
    used = {process.grpc_port for process in cluster.processes if process.role == "worker"}
    [supervisor] = [daemon for daemon in cluster._cluster().daemons_of("supervisor")]
    free = [port for port in supervisor.plan.slots if port not in used]
    taken = [bind("127.0.0.1", port) for port in free]
    try:
        for one in taken:
            one.listen()
        assert cli.ask("submit", "hooked_app.py").status == 0
        with running(cluster, "hooked_app"):

            def told() -> bool:
                errors = cluster.client.describe("hooked_app").errors
                return any(f"port {error.port} on 127.0.0.1 is in use" in error.message for error in errors)

            wait_until(told, 60, what="the error is shown")
            wait_until(lambda: notes.read_text().startswith("start\nshutdown\n"), 60, what="the hook is shut down")
            for one in taken:
                one.close()
            wait_until(lambda: cluster.client.list()[0].workers_ready, 60, what="its worker runs")
    finally:
        for one in taken:
            one.close()
