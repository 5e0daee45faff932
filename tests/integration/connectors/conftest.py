"""A place for each kind of queue, at a server for each module; and a proxy that can cut connections."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from every_place import PLACES
from queue_places import QueuePlace
from tcp_proxy import Proxy


@pytest.fixture(scope="module")
def queue_servers() -> Iterator[dict[str, Any]]:
    """The servers of this module, started when a test needs them."""
    servers: dict[str, Any] = {}
    try:
        yield servers
    finally:
        for server in servers.values():
            server.close()


QUICK = ("beanstalkd", "redis_streams")
"""The queues of which every test is part of make test; those of the others are long."""


@pytest.fixture(params=[pytest.param(name, marks=() if name in QUICK else pytest.mark.long) for name in sorted(PLACES)])
def place(request: pytest.FixtureRequest, queue_servers: dict[str, Any]) -> QueuePlace:
    server_class, place_class = PLACES[request.param]
    if reason := server_class.missing():
        pytest.skip(reason)
    server = queue_servers.get(server_class.__name__)
    if server is None:
        server = queue_servers[server_class.__name__] = server_class()
        server.start()
    return place_class(server, f"q{uuid.uuid4().hex[:8]}")


@pytest.fixture
def proxy(place: QueuePlace) -> Iterator[Proxy]:
    """A proxy through which the place's spouts and bolts connect."""
    with Proxy(place.server.port) as proxy:
        place.port = proxy.port
        yield proxy
