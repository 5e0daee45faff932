"""Ports: reserved ones are kept apart, one in use is a sentence."""

from __future__ import annotations

import pytest

from tupletree._net import ReservedPorts, bind
from tupletree.errors import UsageError


def test_reserved_ports_are_free_distinct_and_outside_the_range_of_local_ends() -> None:
    reserved = ReservedPorts()
    try:
        ports = reserved.reserve(20)
        assert len(set(ports)) == 20
        assert ports == sorted(ports)
        with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
            low, high = map(int, file.read().split())
        assert not [port for port in ports if low <= port <= high]
        for port in ports:
            bind("127.0.0.1", port).close()
    finally:
        reserved.release()


def test_a_port_in_use_is_one_sentence() -> None:
    with bind("127.0.0.1", 0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"^port {port} on 127.0.0.1 is in use$"):
            bind("127.0.0.1", port)


def test_an_address_of_another_machine_is_one_sentence() -> None:
    with pytest.raises(UsageError, match=r"^cannot listen on 192\.0\.2\.1: it is not an address of this machine"):
        bind("192.0.2.1", 0)
