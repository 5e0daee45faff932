"""Statistics as they are stored for the next leader: how much fits, and what is left out."""

from __future__ import annotations

import random

import pytest

from tupletree.nimbus.statistics.stats_encoding import decode_memory, encode_memory
from tupletree.nimbus.statistics.topology_statistics import ENDED, Memory
from tupletree.v1 import nimbus_pb2 as rpc

LIMIT = 900_000


def stats(component: str, chance: random.Random) -> rpc.TaskStats:
    """A bolt that reads three streams and has both histograms: two kilobytes of JSON."""
    one = rpc.TaskStats(component_id=component, executed=chance.getrandbits(40), acked=chance.getrandbits(40))
    for stream in ("default", "late", "errors"):
        one.streams.add(stream=stream, emitted=chance.getrandbits(40))
        one.inputs.add(source_component=f"source-of-{stream}", stream=stream, executed=chance.getrandbits(40))
    one.process_buckets.extend(chance.getrandbits(30) for _ in range(40))
    one.complete_buckets.extend(chance.getrandbits(30) for _ in range(40))
    return one


def memory(workers: int, components: int) -> Memory:
    chance = random.Random(7)
    names = [f"component-{number}" for number in range(components)]
    ids = [ENDED, *(f"{chance.getrandbits(128):032x}" for _ in range(workers))]
    return {worker: {one: stats(one, chance) for one in names} for worker in ids}


def test_a_thousand_pairs_of_worker_and_component_fit() -> None:
    before = memory(99, 10)
    data, missing = encode_memory(before, LIMIT)
    assert (missing, len(data) < LIMIT) == (0, True)
    assert decode_memory(data) == before


def test_what_does_not_fit_is_of_workers_that_will_report_again() -> None:
    before = memory(60, 10)
    data, missing = encode_memory(before, 100_000)
    after = decode_memory(data)
    assert len(data) <= 100_000
    assert after[ENDED] == before[ENDED]
    assert 0 < sum(map(len, after.values())) == 610 - missing
    assert all(after[worker][one] == before[worker][one] for worker in after for one in after[worker])
    assert encode_memory(before, 100_000) == (data, missing)


def test_nothing_at_all_fits_into_nothing() -> None:
    assert encode_memory(memory(1, 2), 2) == (b"{}", 4)


@pytest.mark.parametrize("data", [b"{", b"[1]", b'{"w": 3}', b'{"w": {"c": {"executed": []}}}', b"\0x", b'{"w": null}'])
def test_what_is_no_memory_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_memory(data)


def test_small_ones_are_json() -> None:
    data, _ = encode_memory({"w": {"c": rpc.TaskStats(component_id="c", executed=3)}})
    assert data == b'{"w": {"c": {"componentId": "c", "executed": "3"}}}'
    assert decode_memory(b"") == {}
