"""What a client refuses before it asks anybody."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tupletree import Bolt, NimbusClient, Spout, Topology, TopologyBuilder
from tupletree.errors import ConfigError, TopologyError, UsageError


class Source(Spout):
    outputs = ["x"]


def topology(bolt: Bolt | None = None) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("s", Source())
    builder.set_bolt("b", bolt or Bolt()).shuffle_grouping("s")
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
    with pytest.raises(ConfigError, match=r"nimbus\.seeds is empty"):
        NimbusClient(" , ")


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (lambda: ("a b", topology()), UsageError, "topology name 'a b'"),
        (lambda: ("n", TopologyBuilder()), UsageError, "not TopologyBuilder"),
        (lambda: ("n", topology(), {"topology.workers": 0}), ConfigError, "'topology.workers'"),
        (lambda: ("n", topology(), {"nimbus.port": 1}), ConfigError, "belongs to the cluster"),
        (lambda: ("n", topology(), {"my.key": object()}), ConfigError, "'my.key'"),
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
    bolt = Bolt()
    made = topology(bolt)
    bolt.lock = threading.Lock()  # type: ignore[attr-defined]
    with pytest.raises(TopologyError, match=r"Bolt\.lock"):
        client.submit("n", made)


def test_negative_waits_and_counts(client: NimbusClient) -> None:
    with pytest.raises(UsageError, match="negative"):
        client.kill("n", wait_secs=-1)
    with pytest.raises(UsageError, match="workers must be at least 1"):
        client.rebalance("n", workers=0)
    with pytest.raises(UsageError, match="count must be at least 1"):
        client.rebalance("n", executors={"count": 0})
