"""What a client refuses before it asks anybody."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tupletree import Bolt, NimbusClient, Spout, Topology, TopologyBuilder
from tupletree.client import LogLevel
from tupletree.errors import ConfigError, TopologyError, UsageError
from tupletree.tuples import Tuple


class Source(Spout):
    outputs = ["x"]


class Idle(Bolt):
    def execute(self, tup: Tuple) -> None:
        pass


def topology(bolt: Bolt | None = None) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("s", Source())
    builder.set_bolt("b", bolt or Idle()).shuffle_grouping("s")
    return builder.create_topology()


@pytest.fixture
def client() -> NimbusClient:
    return NimbusClient("127.0.0.1:1", conf={"nimbus.seeds": ["unused"]})


@pytest.mark.parametrize(
    ("seeds", "addresses"),
    [
        ("a", ["a:7000"]),
        ("a:1, b", ["a:1", "b:7000"]),
        (["a", "b:2"], ["a:7000", "b:2"]),
        ("[::1]:3", ["[::1]:3"]),
        (["::1"], ["[::1]:7000"]),
        ("[::1]", ["[::1]:7000"]),
        (None, ["c:7000"]),
    ],
)
def test_seeds_without_a_port_get_the_configured_one(seeds: Any, addresses: list[str]) -> None:
    assert NimbusClient(seeds, {"nimbus.seeds": ["c"], "nimbus.port": 7000}).seeds == addresses


def test_no_seed_at_all() -> None:
    with pytest.raises(ConfigError, match=r"or set nimbus\.seeds"):
        NimbusClient(" , ")


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (lambda: ("a b", topology()), UsageError, "topology name 'a b'"),
        (lambda: ("n", TopologyBuilder()), UsageError, "not TopologyBuilder"),
        (lambda: ("n", topology(), {"topology.workers": 0}), ConfigError, "'topology.workers'"),
        (lambda: ("n", topology(), {"nimbus.port": 1}), ConfigError, "belongs to the cluster"),
        (lambda: ("n", topology(), {"my.key": object()}), ConfigError, "'my.key'"),
        (lambda: ("n", topology(), {"my.key": {None: 1, "a": 2}}), ConfigError, "'my.key'"),
        (lambda: ("n", topology(), {}, ["/nowhere"]), UsageError, "/nowhere"),
    ],
)
def test_faulty_submissions_never_leave_this_process(
    client: NimbusClient, arguments: Callable[[], tuple[Any, ...]], error: type[Exception], words: str
) -> None:
    with pytest.raises(error) as caught:
        client.submit(*arguments())
    assert words in str(caught.value)


def test_a_component_spoiled_after_it_was_checked(client: NimbusClient) -> None:
    bolt = Idle()
    made = topology(bolt)
    bolt.lock = threading.Lock()  # type: ignore[attr-defined]
    with pytest.raises(TopologyError, match=r"Idle\.lock"):
        client.submit("n", made)


def test_negative_waits_and_counts(client: NimbusClient) -> None:
    with pytest.raises(UsageError, match="wait_secs must be a number of seconds, 0 or more"):
        client.kill("n", wait_secs=-1)
    with pytest.raises(UsageError, match="workers must be at least 1"):
        client.rebalance("n", workers=0)
    with pytest.raises(UsageError, match="count must be at least 1"):
        client.rebalance("n", executors={"count": 0})


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda client: client.kill("\ud800"), "Kill: name cannot be"),
        (lambda client: client.kill("n", "soon"), "wait_secs must be a number of seconds"),
        (lambda client: client.kill("n", float("nan")), "wait_secs must be a number of seconds"),
        (lambda client: client.kill("n", 10**400), "Kill: wait_s cannot be"),
        (lambda client: client.kill("n", -(10**5000)), "not an integer of 16610 bits"),
        (lambda client: client.describe(1), "DescribeTopology: name cannot be 1"),
        (lambda client: client.rebalance("n", workers="two"), "workers must be at least 1"),
        (lambda client: client.rebalance("n", workers=2**40), "Rebalance: workers cannot be"),
        (lambda client: client.rebalance("n", executors={"a\udfff": 1}), "Rebalance: executors cannot be"),
        (lambda client: client.rebalance("n", executors={"workers": 0}), "workers must be at least 1"),
        (lambda client: client.set_sampling("n", "c", "all"), "SetSampling: percent cannot be"),
        (lambda client: client.set_tracing("n", -1), "SetTracing: one_in cannot be -1"),
        (lambda client: client.set_conf("n", {"topology.tasks": 2}), "cannot be changed in a running topology"),
        (lambda client: client.set_conf("n", {"a": object()}), "configuration key 'a'"),
        (lambda client: client.set_conf("n", [1]), "set_conf: conf is a mapping"),
        (lambda client: client.set_conf("n", {}, "topology.debug"), "set_conf: remove is a sequence of keys"),
        (lambda client: client.set_conf("n", {}, ["\ud800"]), "configuration key must be a name"),
        (lambda client: client.set_conf("\ud800", {"a": 1}), "SetConf: name cannot be"),
        (lambda client: client.set_conf("n", {"a": 1}, wait_secs="1"), "wait_secs must be a number of seconds"),
        (lambda client: client.set_log_levels("n", {}, ["\ud800"]), "SetLogLevels: remove cannot be"),
        (
            lambda client: client.set_log_levels("n", ["a"]),
            "set_log_levels: levels is a mapping of loggers",
        ),
        (lambda client: client.set_log_levels("n", {"a": "INFO"}), "SetLogLevels: levels cannot be"),
        (
            lambda client: client.set_log_levels("n", {"a": LogLevel("INFO", until_unix_s="1")}),
            "until_unix_s cannot be",
        ),
        (lambda client: client.restart_worker("n", "h", 2**32), "RestartTopologyWorker: port cannot be"),
    ],
)
def test_values_that_no_message_holds_are_refused_in_a_sentence(
    client: NimbusClient, call: Callable[[Any], Any], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        call(client)
