"""The bench of checkpoints comes to its end with each provider, and counts what a checkpoint writes."""

from __future__ import annotations

from argparse import Namespace

import pytest

from bench import state_checkpoint
from tests.integration.transactional.database_servers import PostgresServer, RedisServer, Server

SERVERS: dict[str, type[Server]] = {"postgres": PostgresServer, "redis": RedisServer}


@pytest.mark.parametrize("provider", ["memory", "sqlite", "postgres", "redis"])
def test_a_checkpoint_writes_the_keys_that_changed(provider: str) -> None:
    if provider in SERVERS and (reason := SERVERS[provider].missing()):
        pytest.skip(reason)
    result = state_checkpoint.measure(Namespace(provider=provider, keys=300, changed=20, checkpoints=3))
    assert (result["first_entries"], result["entries"]) == (300, 20)
    assert 0 < result["checkpoint_ms"] <= result["checkpoint_max_ms"]
