"""NimbusClient and the command line against a real cluster, one for the whole module."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tupletree import NimbusClient
from tupletree.cli.main import main
from tupletree.errors import NameInUseError, NotFoundError, UnavailableError, UsageError
from tupletree.testing import DevCluster, wait_until

TOPOLOGY = '''
"""A spout that never runs dry, a helper module beside the file, and a bolt that reports an error at 3."""

import logging
import time

import arithmetic
from tupletree import BasicBolt, Spout, TopologyBuilder


class Numbers(Spout):
    outputs = ["n"]

    def open(self, conf, context, collector):
        self.collector, self.n, self.due_s = collector, 0, 0.0

    def next_tuple(self):  # ten at a time, a hundred a second: one by one each would take a message to every process
        if time.monotonic() >= self.due_s:
            self.due_s = time.monotonic() + 0.1
            for _ in range(10):
                self.n += 1
                self.collector.emit([self.n], msg_id=self.n)


class Double(BasicBolt):
    outputs = ["n"]

    def execute(self, tup, collector):
        if tup["n"] == 3:
            collector.report_error(ValueError("three is odd"))
            logging.getLogger(__name__).warning("doubling three")
        collector.emit([arithmetic.double(tup["n"])])


class Sink(BasicBolt):
    def prepare(self, conf, context):
        self.last = None
        context.register_status(lambda: {"last": self.last, "colour": "\\x1b[31mred"})

    def execute(self, tup, collector):
        self.last = tup["n"]


def topology():
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers())
    builder.set_bolt("double", Double(), parallelism=2).shuffle_grouping("numbers").set_num_tasks(4)
    builder.set_bolt("sink", Sink()).fields_grouping("double", ["n"])
    return builder.create_topology(), {"topology.workers": 2, "topology.max.spout.pending": 500}
'''


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    with DevCluster(supervisors=1, slots=3, ackers=2) as running:
        yield running


@pytest.fixture(scope="module")
def topology_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("application")
    (directory / "arithmetic.py").write_text("def double(n):\n    return 2 * n\n")
    (directory / "numbers_app.py").write_text(TOPOLOGY)
    return directory / "numbers_app.py"


class Cli:
    """Runs commands in this process against the module's cluster."""

    def __init__(self, seed: str, capsys: pytest.CaptureFixture[str]) -> None:
        self._seed = seed
        self._capsys = capsys

    def __call__(self, *argv: object, status: int = 0) -> str:
        self._capsys.readouterr()
        ended = main([str(argument) for argument in argv] + ["--nimbus", self._seed])
        printed = self._capsys.readouterr()
        assert ended == status, printed.err
        return printed.err if status == 2 else printed.out

    def json(self, *argv: object, status: int = 0) -> Any:
        return json.loads(self(*argv, "--json", status=status))


@pytest.fixture
def cli(cluster: DevCluster, capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(cluster.client.seeds[0], capsys)


@pytest.fixture
def running(cli: Cli, topology_file: Path) -> str:
    """A topology with both workers ready, submitted where a test before has ended it."""
    if not cli.json("list"):
        cli("submit", topology_file, "--name", "numbers")
    wait_until(lambda: cli.json("describe", "numbers")["workers_ready"] == 2, 60)
    return str(cli.json("list")[0]["id"])


def ended(cluster: DevCluster, name: str) -> bool:
    return name not in {summary.record.name for summary in cluster.client.list()}


def acked(cli: Cli) -> int:
    components = {component["component"]: component for component in cli.json("describe", "numbers")["components"]}
    return int(components["numbers"]["acked"]) if "numbers" in components else 0


def statuses(cli: Cli) -> dict[str, Any]:
    return {one["component"]: one["status"] for one in cli.json("describe", "numbers")["statuses"]}


@pytest.mark.long
def test_a_submitted_topology_is_listed_and_described(cli: Cli, running: str) -> None:
    [listed] = cli.json("list")
    assert (listed["name"], listed["id"], listed["status"]) == ("numbers", running, "active")
    assert (listed["workers"], listed["executors"], listed["tasks"]) == (2, 4, 6)
    assert "numbers" in cli("list")
    wait_until(lambda: acked(cli) > 100, 30)

    described = cli.json("describe", "numbers")
    assert {f["component"]: (f["executors"], f["tasks"]) for f in described["components"]} == {
        "double": (2, 4),
        "numbers": (1, 1),
        "sink": (1, 1),
    }
    assert "double" in cli("describe", "numbers")


def test_rates_and_statuses_are_shown(cli: Cli, running: str) -> None:
    wait_until(lambda: acked(cli) > 100, 30)
    [view] = [json.loads(line) for line in cli("monitor", "numbers", "-i", "1.5", "-n", "1", "--json").splitlines()]
    assert view["total"]["acked_per_s"] > 0
    assert {f["component"] for f in view["components"]} == {"double", "numbers", "sink"}
    assert "numbers is active" in cli("monitor", "numbers", "-i", "0.5", "-n", "1", "-m", "sink")

    wait_until(lambda: statuses(cli).get("sink", {}).get("last"), 30, what="the status of the sink is shown")
    assert list(statuses(cli)) == ["sink"]
    assert "    colour: \\x1b[31mred\n" in cli("describe", "numbers")
    assert view["statuses"][0]["status"]["colour"] == "\x1b[31mred"
    assert "colour: \\x1b[31mred" in cli("monitor", "numbers", "-i", "0.5", "-n", "1")


def test_ackers_and_a_healthy_cluster_are_shown(cli: Cli, running: str) -> None:
    wait_until(lambda: acked(cli) > 100, 30)
    ackers = cli.json("ackers")
    assert [acker["ready"] for acker in ackers] == [True, True]
    assert sum(len(acker["shards"]) for acker in ackers) == 2
    assert all(s["topology_id"] == running and s["inits"] > 0 for acker in ackers for s in acker["shards"])
    assert running in cli("ackers")

    assert cli.json("health") | {"epoch": 1, "notes": []} == {  # it may have seen a three by now
        "verdict": "healthy",
        "reasons": [],
        "faults": [],
        "notes": [],
        "nimbuses": 1,
        "supervisors": 1,
        "ackers": 2,
        "slots": 3,
        "slots_used": 2,
        "topologies": 1,
        "epoch": 1,
    }
    assert cli("health").startswith("healthy\n")


def test_errors_of_components_are_shown(cli: Cli, running: str) -> None:
    wait_until(lambda: cli.json("errors", "numbers"), 30)
    error = cli.json("errors", "numbers")[0]
    assert (error["component_id"], error["message"]) == ("double", "ValueError: three is odd")
    assert "three is odd" in cli("errors", "numbers")
    assert cli("errors", "numbers", "-m", "sink") == "no errors\n"


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["describe", "nobody"], "nobody"),
        (["kill", "nobody"], "nobody"),
        (["activate", "nobody"], "nobody"),
        (["logs", "nobody"], "nobody"),
        (["monitor", "nobody", "-n", "1"], "nobody"),
        (["ackers", "--topology", "nobody"], "nobody"),
    ],
)
def test_an_unknown_topology_is_one_sentence_and_status_2(cli: Cli, argv: list[str], words: str) -> None:
    sentence = cli(*argv, status=2)
    assert words in sentence
    assert sentence.count("\n") == 1


def test_a_name_in_use_is_refused_and_the_first_goes_on(
    cli: Cli, cluster: DevCluster, running: str, topology_file: Path
) -> None:
    assert "numbers" in cli("submit", topology_file, "--name", "numbers", status=2)
    assert [summary.record.id for summary in cluster.client.list()] == [running]
    cli("rebalance", "numbers", "-e", "double=5", "--wait", "0", status=2)
    cli("rebalance", "numbers", "-e", "nobody=1", "--wait", "0", status=2)
    assert "no component 'nobody'" in cli("monitor", "numbers", "-m", "nobody", status=2)
    assert "no component 'nobody'" in cli("logs", "numbers", "-m", "nobody", status=2)
    assert "no such worker" in cli("logs", "numbers", "--worker", "1", status=2)


@pytest.mark.long
def test_errors_of_the_client_have_their_types(cluster: DevCluster, running: str, topology_file: Path) -> None:
    from tupletree.cli.topology_file import load_topology

    topology, conf, _ = load_topology(str(topology_file))
    with pytest.raises(NameInUseError):
        cluster.client.submit("numbers", topology, conf)
    with pytest.raises(NotFoundError):
        cluster.client.describe("nobody")
    with pytest.raises(UsageError):
        cluster.client.rebalance("numbers", executors={"double": 99})


def test_a_topology_is_deactivated_activated_rebalanced_and_killed(cli: Cli, running: str) -> None:
    [record] = cli.json("deactivate", "numbers")
    assert record["status"] == "inactive"
    cli("activate", "numbers")
    before = acked(cli)
    wait_until(lambda: acked(cli) > before, 30)

    cli("rebalance", "numbers", "-n", "1", "-e", "double=4", "--wait", "0")
    wait_until(lambda: (now := cli.json("list")[0])["workers_used"] == 1 == now["workers_ready"], 60)
    assert cli.json("list")[0]["executors"] == 6

    [record] = cli.json("kill", "numbers", "--wait", "0")
    assert record["status"] == "killed"
    wait_until(lambda: cli.json("list") == [], 60)
    assert cli("list") == "no topologies\n"


@pytest.mark.long
def test_logs_are_shown_and_followed(cli: Cli, cluster: DevCluster, running: str) -> None:
    wait_until(lambda: "doubling three" in cli("logs", "numbers", "-m", "double", "-n", "1000"), 30)
    lines = [json.loads(line) for line in cli("logs", "numbers", "--json").splitlines()]
    places = {f"{w.host}:{w.port}" for w in cluster.client.describe("numbers").assignment.workers}
    assert {line["worker"] for line in lines} == places
    port = min(places).rpartition(":")[2]
    assert "|" not in cli("logs", "numbers", "--worker", port, "-n", "1").partition(" ")[0]

    seed = cluster.client.seeds[0]
    command = [sys.executable, "-m", "tupletree", "logs", "numbers", "-f", "-n", "1", "--nimbus", seed]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
        try:
            seen: list[str] = []
            stream = following.stdout or ()
            threading.Thread(target=lambda: seen.extend(stream), daemon=True).start()
            wait_until(lambda: len(seen) >= 2, 30, what="the last line of each log is shown")
            before = len(seen)
            cli("kill", "numbers", "--wait", "0")  # workers log their end
            wait_until(lambda: len(seen) > before, 30, what="a line written since is shown")
        finally:
            following.terminate()
    wait_until(lambda: ended(cluster, "numbers"), 60)


@pytest.mark.long
def test_named_code_reaches_the_workers_and_progress_is_told(
    cluster: DevCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "shipped_part"
    package.mkdir()
    (package / "__init__.py").write_text("from shipped_part.bolts import Late\n")
    (package / "late.py").write_text("WORD = 'late import'\n")
    (package / "data.bin").write_bytes(bytes(range(256)) * 20_000)
    (package / "bolts.py").write_text(
        "from tupletree import BasicBolt\n"
        "class Late(BasicBolt):\n"
        "    def execute(self, tup, collector):\n"
        "        from shipped_part.late import WORD\n"
        "        collector.report_error(ValueError(WORD))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    from shipped_part import Late  # type: ignore[import-not-found]

    from tupletree import Spout, TopologyBuilder

    class Once(Spout):
        outputs = ["x"]

        def open(self, conf: Any, context: Any, collector: Any) -> None:
            self.collector, self.done = collector, False

        def next_tuple(self) -> None:
            if not self.done:
                self.done = True
                self.collector.emit([1], msg_id=1)

    builder = TopologyBuilder()
    builder.set_spout("once", Once())
    builder.set_bolt("late", Late()).shuffle_grouping("once")
    told: list[tuple[int, int]] = []
    client = cluster.client
    client.submit("shipped", builder.create_topology(), code=[package], progress=lambda *sent: told.append(sent))
    try:
        assert told[-1][0] == told[-1][1] > 0
        assert [done for done, _ in told] == sorted(done for done, _ in told)
        wait_until(lambda: [e for e in client.describe("shipped").errors if "late import" in e.message], 60)
    finally:
        client.kill("shipped", wait_secs=0)
        wait_until(lambda: ended(cluster, "shipped"), 60)


def test_an_unreachable_nimbus_is_one_sentence_and_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # bound and not listening: nobody else can take it, nobody answers
        address = f"127.0.0.1:{free.getsockname()[1]}"
        for argv in (["list"], ["kill", "x"], ["ackers"], ["monitor", "x"]):
            assert main([*argv, "--nimbus", address]) == 1
            printed = capsys.readouterr()
            assert (printed.out, printed.err.count("\n")) == ("", 1)
            assert address in printed.err
        assert main(["health", "--json", "--nimbus", address]) == 2
        assert json.loads(capsys.readouterr().out)["verdict"] == "down"
        with pytest.raises(UnavailableError, match="connection refused"), NimbusClient(address) as client:
            client.list()


YAML = """
name: numbers-in-yaml
config: {topology.max.spout.pending: 50}
spouts:
  - {id: numbers, className: yaml_numbers.Numbers}
bolts:
  - {id: double, className: yaml_numbers.Double, parallelism: 2}
  - {id: sink, className: yaml_numbers.Sink}
streams:
  - {from: numbers, to: double, grouping: {type: SHUFFLE}}
  - {from: double, to: sink, grouping: {type: FIELDS, args: ["${field}"]}}
"""


@pytest.mark.long
def test_a_topology_in_yaml_is_submitted_with_its_classes(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "arithmetic.py").write_text("def double(n):\n    return 2 * n\n")
    (tmp_path / "yaml_numbers.py").write_text(TOPOLOGY)
    (tmp_path / "numbers.yaml").write_text(YAML)
    (tmp_path / "values").write_text("field = n\n")
    monkeypatch.delitem(sys.modules, "arithmetic", raising=False)
    told = cli("submit", tmp_path / "numbers.yaml", "--filter", tmp_path / "values")
    assert told.startswith("submitted numbers-in-yaml as ")
    wait_until(lambda: _acked_in_yaml(cli) > 100, 60, what="its tuples are processed")
    cli("kill", "numbers-in-yaml", "--wait", 0)


def _acked_in_yaml(cli: Cli) -> int:
    components = cli.json("describe", "numbers-in-yaml")["components"]
    return int(next(one["acked"] or 0 for one in components if one["component"] == "numbers"))
