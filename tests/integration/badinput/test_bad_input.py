"""Bad input at the command line, end to end: one clear sentence, the documented exit status, and nothing is lost.

Exit status 2 says that the request was wrong, 1 that the cluster could not do it (tupletree/cli/main.py).
"""

from __future__ import annotations

import shlex
import socket
from collections.abc import Iterator

import pytest
from badinput_harness import STEADY, CommandLine, Ended, one_sentence

from tupletree.testing import DevCluster

TOPOLOGY = """
import threading
from tupletree import BasicBolt, Spout, TopologyBuilder

class Numbers(Spout):
    outputs = {"default": ["number"], "others": ["other"]}
    def next_tuple(self):
        pass

class Double(BasicBolt):
    outputs = ["doubled"]
    def execute(self, tup, collector):
        collector.emit([2 * tup["number"]])

def built(change=lambda builder, double: None):
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers())
    change(builder, builder.set_bolt("double", Double()).shuffle_grouping("numbers"))
    return builder.create_topology()

def topology():
    return built()

def failing():
    return {}["missing"]

def leaving():
    raise SystemExit("not today")

def wrong():
    return [1, 2]

def unbuilt():
    return TopologyBuilder()

def with_unknown_key():
    return built(), {"topology.max.spout.pendng": 10}

def with_wrong_value():
    return built(), {"topology.workers": "many"}

def with_foreign_key():
    return built(), {"nimbus.port": 1}

def no_spout():
    return TopologyBuilder().create_topology()

class Lock(BasicBolt):
    def __init__(self):
        self.lock = threading.Lock()
    def execute(self, tup, collector):
        pass

class Direct(Spout):
    def declare_output_fields(self, declarer):
        declarer.declare_stream("orders", ["order"], direct=True)
    def next_tuple(self):
        pass

class Twice(Spout):
    outputs = ["a", "a"]
    def next_tuple(self):
        pass

def directly(grouping):
    def change(builder, double):
        builder.set_spout("direct", Direct())
        grouping(builder.set_bolt("obey", Double()))
    return change

MISTAKES = {
    "duplicate_id": lambda builder, double: builder.set_bolt("numbers", Double()),
    "reserved_id": lambda builder, double: builder.set_bolt("__double", Double()),
    "unknown_source": lambda builder, double: double.shuffle_grouping("nmbers"),
    "unknown_stream": lambda builder, double: double.shuffle_grouping("numbers", "othrs"),
    "unknown_field": lambda builder, double: double.fields_grouping("numbers", ["othr"], "others"),
    "subscribed_twice": lambda builder, double: double.all_grouping("numbers"),
    "no_input": lambda builder, double: builder.set_bolt("idle", Double()),
    "no_executor": lambda builder, double: builder.set_bolt("more", Double(), 0),
    "fewer_tasks": lambda builder, double: builder.set_bolt("more", Double(), 4).set_num_tasks(2),
    "a_bolt_as_spout": lambda builder, double: builder.set_spout("more", Double()),
    "a_class": lambda builder, double: builder.set_bolt("more", Double),
    "field_twice": lambda builder, double: builder.set_spout("more", Twice()),
    "shuffled_direct": directly(lambda obey: obey.shuffle_grouping("direct", "orders")),
    "direct_shuffled": lambda builder, double: builder.set_bolt("obey", Double()).direct_grouping("numbers"),
    "unpicklable": lambda builder, double: builder.set_bolt("lock", Lock()).shuffle_grouping("numbers"),
    "unknown_key": lambda builder, double: double.add_configuration("topology.debgu", True),
    "wrong_value": lambda builder, double: double.add_configuration("topology.debug", "loud"),
}
for _name, _change in MISTAKES.items():
    globals()[_name] = lambda change=_change: built(change)
"""

MISTAKES = [
    ("duplicate_id", ["numbers", "in use already"]),
    ("reserved_id", ["__double", "reserved"]),
    ("unknown_source", ["double", "nmbers"]),
    ("unknown_stream", ["double", "othrs", "others"]),
    ("unknown_field", ["double", "othr", "other"]),
    ("subscribed_twice", ["double", "numbers", "twice"]),
    ("no_input", ["idle", "no input"]),
    ("no_executor", ["more", "parallelism", "0"]),
    ("fewer_tasks", ["more", "2 tasks", "4 executors"]),
    ("a_bolt_as_spout", ["more", "must be a Spout", "Double"]),
    ("a_class", ["more", "not the class"]),
    ("field_twice", ["more", "'a'", "twice"]),
    ("shuffled_direct", ["obey", "orders", "is declared direct"]),
    ("direct_shuffled", ["obey", "not declared direct"]),
    ("unpicklable", ["lock", "Lock.lock"]),
    ("unknown_key", ["double", "topology.debgu", "'topology.debug'"]),
    ("wrong_value", ["double", "topology.debug", "true or false"]),
    ("no_spout", ["no spout"]),
    ("missing", ["no 'missing' that is a topology"]),
    ("failing", ["failing()", "KeyError: 'missing'"]),
    ("leaving", ["leaving()", "SystemExit: not today"]),
    ("wrong", ["must return a Topology, not list"]),
    ("unbuilt", ["the topology has no spout", "set_spout"]),
    ("with_unknown_key", ["topology.max.spout.pendng", "'topology.max.spout.pending'"]),
    ("with_wrong_value", ["topology.workers", "whole number", "many"]),
    ("with_foreign_key", ["nimbus.port", "belongs to the cluster"]),
]


REQUESTS = [
    ("submit nowhere.py", ["no topology file nowhere.py"]),
    (f"submit numbers_app.py --name {STEADY}", [STEADY, "exists already"]),
    ("submit numbers_app.py --name 'a b'", ["'a b'"]),
    ("submit numbers_app.py -c topology.workrs=2", ["topology.workrs", "'topology.workers'"]),
    ("submit numbers_app.py -c topology.workers=-1", ["topology.workers", "-1"]),
    ("submit numbers_app.py -c topology.workers", ["key=value"]),
    ("submit numbers_app.py -c acker.port=1", ["acker.port", "belongs to the cluster"]),
    ("submit numbers_app.py --include nowhere", ["nowhere"]),
    ("submit numbers_app.py --requirements nowhere.txt", ["nowhere.txt"]),
    ("list --conf nowhere.yaml", ["nowhere.yaml"]),
    ("list --conf broken.yaml", ["broken.yaml"]),
    ("list --conf misspelt.yaml", ["nimbus.seds", "'nimbus.seeds'"]),
    ("describe nobody", ["nobody"]),
    ("monitor nobody -n 1", ["nobody"]),
    ("errors nobody", ["nobody"]),
    ("logs nobody", ["nobody"]),
    ("activate nobody", ["nobody"]),
    ("deactivate nobody", ["nobody"]),
    ("rebalance nobody -n 2", ["nobody"]),
    ("kill nobody", ["nobody"]),
    ("ackers --topology nobody", ["nobody"]),
    (f"rebalance {STEADY} -e nobody=2", ["nobody"]),
    (f"rebalance {STEADY} -e ticks=100", ["ticks", "100"]),
    (f"logs {STEADY} --worker 1", ["no such worker"]),
    (f"errors {STEADY} -m nobody", ["nobody"]),
]


COMMANDS = [
    "submit numbers_app.py",
    "list",
    *(f"{command} {STEADY}" for command in ("describe", "monitor", "errors", "logs", "activate", "deactivate", "kill")),
    f"rebalance {STEADY} -n 2",
    "ackers",
]


@pytest.fixture(scope="module")
def app(common_cli: CommandLine) -> CommandLine:
    """A command line beside a topology file."""
    (common_cli.directory / "numbers_app.py").write_text(TOPOLOGY)
    (common_cli.directory / "broken.yaml").write_text("nimbus.seeds: [a\n")
    (common_cli.directory / "misspelt.yaml").write_text("nimbus.seds: [a]\n")
    return common_cli


@pytest.fixture(scope="module")
def mistakes(app: CommandLine) -> dict[str, Ended]:
    """How each submission of a mistake ended."""
    names = [name for name, _ in MISTAKES]
    ended = app.all([["submit", f"numbers_app.py:{name}", "--nimbus", app.seed] for name in names])
    return dict(zip(names, ended, strict=True))


@pytest.fixture(scope="module")
def wrong_requests(app: CommandLine) -> dict[str, Ended]:
    """How each wrong request ended."""
    ended = app.all([[*shlex.split(line), "--nimbus", app.seed] for line, _ in REQUESTS])
    return dict(zip([line for line, _ in REQUESTS], ended, strict=True))


@pytest.fixture(autouse=True)
def nothing_is_submitted(cluster: DevCluster) -> Iterator[None]:
    yield
    assert [summary.record.name for summary in cluster.client.list()] == [STEADY]


@pytest.mark.parametrize(("mistake", "words"), MISTAKES)
def test_a_mistake_in_a_topology_file(mistakes: dict[str, Ended], mistake: str, words: list[str]) -> None:
    one_sentence(mistakes[mistake], 2, *words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import surely_not_installed\n", ["cannot be imported", "No module named 'surely_not_installed'", "(line 1)"]),
        ("def topology(:\n", ["cannot be imported", "SyntaxError", "(line 1)"]),
        ("x = 1\n", ["no 'topology' that is a topology"]),
        ("topology = 'a string'\n", ["no 'topology' that is a topology"]),
        ("\x00\x01\xff", ["cannot be imported"]),
    ],
)
def test_a_file_that_is_no_topology_file(cli: CommandLine, text: str, words: list[str]) -> None:
    (cli.directory / "broken_app.py").write_bytes(text.encode("latin-1"))
    one_sentence(cli.ask("submit", "broken_app.py"), 2, "broken_app.py", *words)


@pytest.mark.parametrize(("line", "words"), REQUESTS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_wrong_request(wrong_requests: dict[str, Ended], line: str, words: list[str]) -> None:
    one_sentence(wrong_requests[line], 2, *words)


def test_a_command_that_is_none(cli: CommandLine) -> None:
    one_sentence(cli("lst"), 2, "no command 'lst'", "'list'")


def test_arguments_that_daemons_do_not_take(cli: CommandLine) -> None:
    for ended in cli.all([[role, "--frob"] for role in ("nimbus", "supervisor", "acker")]):
        one_sentence(ended, 2, "--frob", "--help")


def test_a_wrong_value_in_the_environment(cli: CommandLine) -> None:
    ended = cli.ask("list", environment={"TUPLETREE_ZOOKEEPER_PORT": "many"})
    one_sentence(ended, 2, "TUPLETREE_ZOOKEEPER_PORT", "many")


def test_an_unreachable_nimbus(app: CommandLine) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # bound and not listening: nobody else can take it, nobody answers
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        ended = app.all([[*line.split(), "--nimbus", address] for line in COMMANDS])
    for one in ended:
        one_sentence(one, 1, address, "connection refused")


def test_health_of_an_unreachable_cluster_is_down(cli: CommandLine) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        ended = cli("health", "--nimbus", address)
    assert (ended.status, ended.err) == (2, "")
    assert ended.out.startswith("down")
    assert address in ended.out


def test_a_nimbus_whose_name_does_not_resolve(cli: CommandLine) -> None:
    one_sentence(cli("list", "--nimbus", "nowhere.invalid"), 1, "nowhere.invalid:6627", "does not resolve")


def test_something_else_where_a_nimbus_should_be(cli: CommandLine, cluster: DevCluster) -> None:
    """Another daemon's gRPC port, an HTTP port, ZooKeeper's port."""
    [acker] = [process for process in cluster.processes if process.role == "acker"]
    [zookeeper] = [process for process in cluster.processes if process.role == "zookeeper"]
    for port in (acker.grpc_port, acker.http_port, zookeeper.grpc_port):
        one_sentence(cli("list", "--nimbus", f"127.0.0.1:{port}"), 1, f"127.0.0.1:{port}")
