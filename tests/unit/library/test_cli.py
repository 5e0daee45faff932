"""The command line without a cluster: help, bad input, configuration, topology files, local runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tupletree import config
from tupletree.cli import version
from tupletree.cli.list import command_with_reason
from tupletree.cli.main import _ENTRIES, main
from tupletree.cli.rebalance import shortfall
from tupletree.cli.submit import client_overrides, topology_conf
from tupletree.client import TopologyRecord
from tupletree.errors import ConfigError
from tupletree.v1 import topology_pb2

TOPOLOGY = """
from tupletree import BasicBolt, Spout, TopologyBuilder

class Ticker(Spout):
    outputs = ["n"]
    def open(self, conf, context, collector):
        self.collector, self.n = collector, 0
    def next_tuple(self):
        if self.n < 10:
            self.n += 1
            self.collector.emit([self.n], msg_id=self.n)

class Double(BasicBolt):
    outputs = ["n"]
    def execute(self, tup, collector):
        collector.emit([2 * tup["n"]])

class Breaks(BasicBolt):
    def execute(self, tup, collector):
        raise ValueError("no more")

class Complains(BasicBolt):
    def execute(self, tup, collector):
        collector.report_error(ValueError(f"not {tup[0]}"))

def topology(bolt=Double):
    builder = TopologyBuilder()
    builder.set_spout("ticker", Ticker())
    builder.set_bolt("double", bolt()).shuffle_grouping("ticker")
    return builder.create_topology()

def with_conf():
    return topology(), {"topology.max.spout.pending": 3}

def breaking():
    return topology(Breaks)

def complaining():
    return topology(Complains)

def failing():
    return 1 / 0

def wrong():
    return "a string"

def unbuilt():
    builder = TopologyBuilder()
    builder.set_spout("ticker", Ticker())
    builder.set_bolt("double", Double()).shuffle_grouping("ticker")
    return builder

def invalid():
    return TopologyBuilder().create_topology()

class Pipe:
    def __init__(self, bolt=Double):
        self.bolt = bolt

    def topology(self):
        return topology(self.bolt)

class BrokenPipe(Pipe):
    def topology(self):
        return 1 / 0

class Wrong(Pipe):
    def topology(self):
        return "a string"

def pipe_with_conf():
    return Pipe(), {"topology.max.spout.pending": 3}

def pipe_class():
    return Pipe

number = 5
pipe = Pipe()
made = topology()
"""


@pytest.fixture
def topology_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A topology file in an empty working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / "numbers_example.py"
    file.write_text(TOPOLOGY)
    return file


def refused(capsys: pytest.CaptureFixture[str], status: int, *argv: object) -> str:
    """Run, expect that exit status, nothing on standard output and one sentence on standard error; return that."""
    assert main([str(argument) for argument in argv]) == status
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("tupletree: ")
    assert printed.err.count("\n") == 1
    assert "Traceback" not in printed.err
    return printed.err


def test_help_names_every_command_and_imports_none() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "tupletree", "--help"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert all(f"  {name} " in done.stdout for name in _ENTRIES)
    for module in ("rich", "kazoo", "tupletree.testing", "tupletree.cli.submit", "pyspark", "tupletree.acker"):
        assert f" {module}\n" not in done.stderr


@pytest.mark.parametrize("command", sorted(set(_ENTRIES)))
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        assert main([command, "--help"]) == 0
    except SystemExit as exit_:  # the daemons' own parsers
        assert exit_.code == 0
    assert command in capsys.readouterr().out


def test_without_arguments_it_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "Usage: tupletree" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["frobnicate"], "no command 'frobnicate'"),
        (["moniter"], "did you mean 'monitor'"),
        (["kill"], "Missing argument"),
        (["list", "--frob"], "--frob"),
        (["kill", "x", "--wait", "-1"], "-1"),
        (["rebalance", "x", "-e", "count"], "COMPONENT=N"),
        (["rebalance", "x", "-e", "count=0"], "COMPONENT=N"),
        (["rebalance", "x", "-n", "0"], "workers"),
        (["list", "-c", "nimbus.seed=a"], "did you mean 'nimbus.seeds'"),
        (["list", "-c", "nimbus.seeds"], "key=value"),
        (["list", "--conf", "nowhere.yaml"], "no configuration file nowhere.yaml"),
        (["config", "get", "topology.worker"], "did you mean 'topology.workers'"),
        (["config", "get", "my.key"], "no configuration key 'my.key'"),
        (["config", "list", "nothing."], "nothing."),
        (["submit", "nowhere.py"], "no topology file nowhere.py"),
        (["submit", "nowhere.py:make"], "no topology file nowhere.py"),
        (["submit", "numbers_example.py:nothing"], "no 'nothing' that is a topology"),
        (["submit", "numbers_example.py:number"], "no 'number' that is a topology"),
        (["submit", "numbers_example.py:failing"], "raised ZeroDivisionError: division by zero (line 42)"),
        (["submit", "numbers_example.py:wrong"], "must return a Topology, not str"),
        (["submit", "numbers_example.py:invalid"], "no spout"),
        (
            ["submit", "numbers_example.py:pipe_class"],
            "must return a Topology, not type",
        ),
        (
            ["submit", "numbers_example.py:BrokenPipe"],
            "BrokenPipe.topology() in numbers_example.py raised Zero",
        ),
        (
            ["submit", "numbers_example.py:Wrong"],
            "Wrong.topology() in numbers_example.py must return a",
        ),
        (["submit", "numbers_example.py:nobody"], "it defines BrokenPipe, Pipe, Wrong, breaking, complaining"),
        (["submit", "numbers_example.py:nobody"], "invalid, made, pipe, pipe_class, pipe_with_conf, topology, unbuilt"),
        (["local", "numbers_example"], "there is no topology file numbers_example; did you mean numbers_example.py?"),
        (["submit", "numbers_example.py", "--name", "a/b"], "topology name 'a/b'"),
        (["submit", "numbers_example.py", "--include", "nowhere"], "nowhere"),
        (["submit", "numbers_example.py", "--requirements", "nowhere"], "nowhere"),
        (["submit", "numbers_example.py", "-c", "supervisor.port=1"], "belongs to the cluster"),
        (["transactions", "-c", "transactional.zookeeper.port=99999"], "transactional.zookeeper.port"),
        (
            ["rebalance", "words", "-c", "topology.max.spout.pending=77"],
            "-c configures this command, and 'topology.max.spout.pending' configures a topology",
        ),
        (["kill", "words", "-c", " topology.workers=2"], "tupletree config set NAME topology"),
        (["activate", "words", "-c", "topology.workers=2"], "'topology.workers' configures a topology"),
        (["list", "-c", "zookeeper.port=99999"], "takes a whole number from 1 to 65535"),
        (["submit", "numbers_example.py", "-c", "topology.workers=none"], "takes a whole number"),
        (["local", "numbers_example.py", "-c", "topology.wrkers=1"], "did you mean 'topology.workers'"),
        (["local", "numbers_example.py", "--name", "a b"], "topology name 'a b'"),
    ],
)
def test_bad_input_is_one_sentence_and_status_2(
    topology_file: Path, capsys: pytest.CaptureFixture[str], argv: list[str], words: str
) -> None:
    assert words in refused(capsys, 2, *argv)


def test_without_a_cluster_commands_name_what_starts_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--nimbus", "127.0.0.1:1"]) == 1
    said = "nimbus at 127.0.0.1:1 cannot be reached: connection refused"
    remedy = "is a cluster running? 'tupletree dev' starts one on this machine"
    assert capsys.readouterr() == ("", f"tupletree: {said}; {remedy}\n")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("import nowhere_to_be_found\n", "ModuleNotFoundError: No module named 'nowhere_to_be_found' (line 1)"),
        ("\n\ndef topology(:\n", "SyntaxError"),
        ("raise RuntimeError('half way\\nthrough')\n", "RuntimeError: half way through (line 1)"),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3 (line 2)"),
    ],
)
def test_a_file_that_does_not_import(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, words: str
) -> None:
    (tmp_path / "broken.py").write_text(content)
    sentence = refused(capsys, 2, "submit", tmp_path / "broken.py")
    assert "cannot be imported" in sentence
    assert words in sentence


def test_config_get_prints_the_value_in_force(topology_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("tupletree.yaml").write_text("topology.workers: 3\nmy.key: [1]\n")
    assert main(["config", "get", "topology.workers"]) == 0
    assert capsys.readouterr().out == "3\n"
    assert main(["config", "get", "topology.workers", "-c", "topology.workers=4", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["value"], told["default"], told["set"]) == (4, 1, True)
    assert main(["config", "get", "my.key"]) == 0
    assert capsys.readouterr().out == "[1]\n"


def test_config_list_shows_all_keys(topology_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "list", "--json"]) == 0
    assert [entry["key"] for entry in json.loads(capsys.readouterr().out)] == list(config.KEYS)
    assert main(["config", "list", "acker."]) == 0
    printed = capsys.readouterr().out
    assert "acker.max.pending" in printed
    assert "nimbus" not in printed
    assert main(["config", "list", "--yaml"]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == config.defaults()


def test_version_in_words_and_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    words = capsys.readouterr().out
    assert main(["version", "--json"]) == 0
    assert f"tupletree {json.loads(capsys.readouterr().out)['tupletree']}" in words


def test_a_local_run_reports_what_was_emitted(topology_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["local", f"{topology_file}:with_conf", "--seconds", "0.5", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["name"] == "numbers_example"
    assert told["streams"] == [
        {"component": "double", "stream": "default", "emitted": 10},
        {"component": "ticker", "stream": "default", "emitted": 10},
    ]
    assert told["errors"] == []


@pytest.mark.parametrize("name", ["made", "unbuilt"])
def test_a_topology_and_a_builder_are_run(topology_file: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert main(["local", f"{topology_file}:{name}", "--seconds", "0.5", "--json"]) == 0
    assert [one["component"] for one in json.loads(capsys.readouterr().out)["streams"]] == ["double", "ticker"]


@pytest.mark.parametrize("name", ["Pipe", "pipe", "pipe_with_conf"])
def test_a_class_whose_objects_have_a_topology_is_run(
    topology_file: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert main(["local", f"{topology_file}:{name}", "--seconds", "0.5", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(one["component"], one["emitted"]) for one in told["streams"]] == [("double", 10), ("ticker", 10)]


def test_a_local_run_ends_with_what_components_reported(
    topology_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["local", f"{topology_file}:complaining", "--seconds", "0.5"]) == 0
    assert "component 'double' reported 10 errors, the newest: ValueError: not 10\n" in capsys.readouterr().err


def test_a_component_that_raises_ends_a_local_run_with_status_1(
    topology_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["local", f"{topology_file}:breaking", "--seconds", "30", "--json"]) == 1
    printed = capsys.readouterr()
    assert "'double' failed: ValueError: no more" in printed.err
    assert "Traceback" not in printed.err


def test_a_traceback_only_when_asked_for(
    topology_file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUPLETREE_TRACEBACK", "1")
    assert main(["submit", f"{topology_file}:failing"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_a_reader_that_leaves_is_no_error() -> None:
    command = f"{sys.executable} -m tupletree config list --yaml | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""
    assert done.stdout.splitlines()[1] == "0"


def test_what_a_topology_file_brings_is_above_file_and_environment_and_below_the_command_line(
    topology_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("tupletree.yaml").write_text(
        "topology.workers: 2\ntopology.tasks: 2\ntopology.flush.interval.ms: 2\nnimbus.port: 2\n"
    )
    monkeypatch.setenv("TUPLETREE_TOPOLOGY_MAX_TASK_PARALLELISM", "3")
    brought = {"topology.tasks": 4, "topology.flush.interval.ms": 4}
    assert topology_conf(brought, None, ("topology.flush.interval.ms=5", "nimbus.seeds=a")) == {
        "topology.workers": 2,
        "topology.max.task.parallelism": 3,
        "topology.tasks": 4,
        "topology.flush.interval.ms": 5,
    }


def test_the_command_line_of_a_submission_says_who_submits_where() -> None:
    client = ("nimbus.seeds=a", "security.as.user=alice", "security.token.file=token", "tls.ca=ca.crt")
    given = (*client, "topology.workers=2")
    assert topology_conf({}, None, given) == {"topology.workers": 2}
    assert client_overrides(given) == client
    with pytest.raises(ConfigError, match=r"'security\.tokens' belongs to the cluster"):
        topology_conf({}, None, ("security.tokens=true",))


@pytest.mark.parametrize(("ready", "used", "command"), [(0, 0, "describe"), (1, 1, "describe"), (0, 1, "errors")])
def test_the_list_names_the_command_that_knows_why_workers_are_missing(ready: int, used: int, command: str) -> None:
    assert command_with_reason({"workers": 2, "workers_used": used, "workers_ready": ready}) == command


def test_versions_are_counted_in_english() -> None:
    daemons = {"nimbus": {"1.0": 2}, "supervisor": {"1.0": 1, "1.1": 3}, "acker": {"1.0": 1}}
    sentence = version.cluster_sentence({"daemons": daemons}, "1.0")
    assert sentence == (
        "cluster: 2 nimbuses 1.0, 1 supervisor 1.0, 3 supervisors 1.1, 1 acker 1.0; versions differ from the local "
        "version"
    )


@pytest.mark.parametrize(
    ("asked", "own", "used", "said"),
    [
        (2, 1, 1, ""),
        (9, 2, 4, "words will have 2 of 9 workers: the cluster has 4 slots, 0 of them free"),
        (3, 1, 3, "words will have 2 of 3 workers: the cluster has 4 slots, 1 of them free"),
        (11, 4, 4, "words will have at most 10 of 11 workers: it has 10 executors"),
    ],
)
def test_a_rebalance_that_cannot_have_all_its_workers_says_so(asked: int, own: int, used: int, said: str) -> None:
    record = topology_pb2.TopologyRecord(name="words", workers=1, executors={"split": 2, "count": 4})
    record.pending.workers = asked
    record.pending.executors["count"] = 8
    sentence = shortfall(TopologyRecord.of(record), own, used, 4)
    assert sentence.startswith(said)
    assert bool(sentence) == bool(said)
