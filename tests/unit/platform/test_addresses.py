"""Addresses as text: IPv6 in brackets, a port by default."""

from __future__ import annotations

import pytest

from tupletree._address import address_of, split_address, with_port
from tupletree._coord.session import connect_string
from tupletree.client import NimbusClient
from tupletree.config import defaults
from tupletree.errors import ConfigError
from tupletree.supervisor.config import SupervisorConfig


def test_an_ipv6_address_is_in_brackets() -> None:
    assert address_of("node7", 6627) == "node7:6627"
    assert address_of("::1", 6627) == "[::1]:6627"


@pytest.mark.parametrize(
    ("given", "host", "port"),
    [("a", "a", 1), ("b:2", "b", 2), ("::1", "::1", 1), ("[::1]", "::1", 1), ("[::1]:2", "::1", 2)],
)
def test_an_address_without_a_port_has_the_default(given: str, host: str, port: int) -> None:
    assert split_address(given, 1) == (host, port)
    assert with_port(given, 1) == address_of(host, port)


@pytest.mark.parametrize("given", ["127.0.0.1:abc", "b:70000", ":2", "", "b:2:3"])
def test_what_is_no_address_of_a_nimbus_is_refused(given: str) -> None:
    with pytest.raises(
        ConfigError, match=r"^'.*' is not the address of a nimbus: HOST or HOST:PORT was expected, such as"
    ):
        NimbusClient(["a", given])


def test_seeds_and_zookeeper_servers_are_read_alike() -> None:
    places = ["a", "b:2", "::1", "[::1]", "[::1]:2"]
    conf = {**defaults(), "nimbus.seeds": places, "zookeeper.servers": places, "nimbus.port": 1, "zookeeper.port": 1}
    expected = [with_port(place, 1) for place in places]
    assert list(SupervisorConfig.from_conf(conf).seeds) == NimbusClient(conf=conf).seeds == expected
    assert connect_string(conf) == ",".join(expected)
