"""Every path of every HTTP port, and odd ones, with odd and mutated requests: answered, and nothing breaks."""

from __future__ import annotations

import asyncio
import json
import random
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

import pytest
from fuzz_calls import INPUTS, PARTS, Outcome
from fuzz_http import HttpFuzzer
from fuzz_memory import MemoryWatch

from tupletree.testing import DevCluster

SHARE = {"nimbus": 0.2, "supervisor": 0.03, "acker": 0.04, "worker": 0.03}
COMMON = ["/healthz", "/readyz", "/metrics", "/", "/favicon.ico", "//", "/../etc/passwd", "/%2e%2e/", "*"]


def described(port: int) -> list[str]:
    """The paths that a port says it has, in its OpenAPI description, if it has one."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/openapi.json", timeout=10) as reply:
            return list(json.load(reply)["paths"])
    except urllib.error.HTTPError:
        return []


@pytest.mark.timeout(900)
@pytest.mark.parametrize("role", SHARE)
def test_every_request_is_answered(
    cluster: DevCluster, words: Mapping[str, list[Any]], loop: asyncio.Runner, role: str
) -> None:
    process = next(p for p in cluster.processes if p.role == role and p.topology_id[:6] in ("", "steady"))
    paths = [*COMMON, "/ledger", "/states/questions", *described(process.http_port) * 3]
    steady, victim = words["topology_id"]
    values = [
        victim,
        *words["name"],
        "ticks",
        "swallow",
        "600",
        ":all-time",
        "worker.log",
        "0",
        "10",
    ]
    inputs = round(INPUTS * SHARE[role])
    fuzzer = HttpFuzzer(process.http_port, paths, values, random.Random(f"{role} {INPUTS}"), [steady])
    outcome, memory = Outcome(), MemoryWatch(process.pid)
    for _ in range(PARTS):
        loop.run(fuzzer.run(inputs // PARTS, outcome))
        memory.note()
    print(role, outcome.inputs, dict(sorted(outcome.codes.items())), memory)
    assert not outcome.faults, "\n".join(outcome.faults)
    assert outcome.inputs == inputs // PARTS * PARTS
    assert memory.is_flat, memory
