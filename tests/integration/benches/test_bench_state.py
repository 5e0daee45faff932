"""The bench of checkpoints comes to its end with each provider, and counts what a checkpoint writes."""

from __future__ import annotations

import shutil
from argparse import Namespace

import pytest

from bench import state_checkpoint


@pytest.mark.parametrize("provider", ["memory", "sqlite", "redis"])
def test_a_checkpoint_writes_the_keys_that_changed(provider: str) -> None:
    if provider == "redis" and not shutil.which("redis-server"):
        pytest.skip("redis-server is not installed")
    result = state_checkpoint.measure(Namespace(provider=provider, keys=300, changed=20, checkpoints=3))
    assert (result["first_entries"], result["entries"]) == (300, 20)
    assert 0 < result["checkpoint_ms"] <= result["checkpoint_max_ms"]
