"""The bench of checkpoints comes to its end with each provider, and counts what a checkpoint writes."""

from __future__ import annotations

from argparse import Namespace

import pytest

from bench import state_checkpoint, state_division, state_recovery
from tests.integration.transactional.database_servers import PostgresServer, RedisServer, Server

SERVERS: dict[str, type[Server]] = {"postgres": PostgresServer, "redis": RedisServer}


@pytest.mark.parametrize("provider", ["memory", "sqlite", "rocksdb", "postgres", "redis"])
def test_a_checkpoint_writes_the_keys_that_changed(provider: str) -> None:
    if provider in SERVERS and (reason := SERVERS[provider].missing()):
        pytest.skip(reason)
    result = state_checkpoint.measure(Namespace(provider=provider, keys=300, changed=20, checkpoints=3))
    assert (result["first_entries"], result["entries"]) == (300, 20)
    assert 0 < result["checkpoint_ms"] <= result["checkpoint_max_ms"]


def test_a_checkpoint_in_a_shared_directory_goes_with_the_change() -> None:
    result = state_recovery.measure(Namespace(keys=20_000, value_bytes=100, changed=0.01, checkpoints=3))
    assert 0 < result["change_bytes"] <= result["checkpoint_bytes"] < 2 * result["change_bytes"]
    assert result["checkpoint_bytes"] * 40 < result["state_bytes"]
    assert result["here_s"] > 0 and result["elsewhere_s"] > 0


def test_a_state_in_a_shared_directory_is_divided_among_other_tasks() -> None:
    result = state_division.measure(Namespace(keys=20_000, value_bytes=100, before=2, after=3))
    assert result["state_bytes"] > 20_000 * 100
    assert 0 < result["base_mb"] <= result["peak_mb"]
