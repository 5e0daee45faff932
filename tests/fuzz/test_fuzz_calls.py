"""Every gRPC method of every daemon and the tuple stream, with odd and mutated inputs: answered, and nothing breaks."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Any

import pytest
from fuzz_calls import INPUTS, PARTS, CallFuzzer, Outcome
from fuzz_memory import MemoryWatch, resident_kb

from tupletree.testing import DevCluster
from tupletree.v1 import acker_pb2, nimbus_pb2, supervisor_pb2, worker_pb2

SERVICES = {
    "nimbus": nimbus_pb2.DESCRIPTOR.services_by_name["Nimbus"],
    "supervisor": supervisor_pb2.DESCRIPTOR.services_by_name["Supervisor"],
    "acker": acker_pb2.DESCRIPTOR.services_by_name["Acker"],
    "worker": worker_pb2.DESCRIPTOR.services_by_name["Worker"],
}
SHARE = {"nimbus": 0.25, "supervisor": 0.15, "acker": 0.15, "worker": 0.15}  # HTTP has the rest


@pytest.mark.timeout(900)
@pytest.mark.parametrize("role", SERVICES)
def test_every_call_is_answered(
    cluster: DevCluster, words: Mapping[str, list[Any]], loop: asyncio.Runner, role: str
) -> None:
    process = next(p for p in cluster.processes if p.role == role and p.topology_id[:6] in ("", "steady"))
    inputs = round(INPUTS * SHARE[role])
    fuzzer = CallFuzzer(f"127.0.0.1:{process.grpc_port}", SERVICES[role], words, random.Random(f"{role} {INPUTS}"))
    outcome, memory = Outcome(), MemoryWatch(process.pid)
    for _ in range(PARTS):
        loop.run(fuzzer.run(inputs // PARTS, outcome))
        memory.note()
    print(role, outcome.inputs, dict(sorted(outcome.codes.items())), memory)
    assert not outcome.faults, "\n".join(outcome.faults)
    assert outcome.inputs == inputs // PARTS * PARTS
    assert memory.is_flat, memory
    large = loop.run(fuzzer.run_large(outcome))
    print(role, large, "large inputs", resident_kb(process.pid) // 1024, "MB")
    assert not outcome.faults, "\n".join(outcome.faults)
    assert outcome.inputs == inputs // PARTS * PARTS + large
