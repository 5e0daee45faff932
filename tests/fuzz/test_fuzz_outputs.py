"""What a running topology puts out, of any size, nesting and kind: its neighbour and every daemon go on."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import fuzz_codec
import pytest
from fuzz_calls import ODD_INPUTS
from fuzz_emitting import OddValues, Outcomes, emitting, odd, what_of
from fuzz_neighbour import Neighbour
from fuzz_topologies import free_slots
from fuzz_values import LARGE, evaluate, large

from tupletree.testing import DevCluster, wait_until

SHARE = {"codec": 0.45, "emitted": 0.35}  # submissions and arguments have the rest
NAME = "odd"
STALLED_S = 60.0
"""No topology of ours takes so long for any next emission."""
LARGE_VALUES = max(len(LARGE), ODD_INPUTS // 5000)
ARRIVES = 20_000_000
"""Bytes of a value that every topology may send."""
FAILS = 80_000_000
"""Bytes of a value that is larger than topology.tuple.max.bytes, so that the other worker never gets it."""
CONF = {"topology.workers": 2, "topology.message.timeout.secs": 30, "topology.max.error.report.per.interval": 100}


@pytest.mark.timeout(1800)
def test_the_codec_refuses_or_returns_what_it_is_given(tmp_path: Path) -> None:
    seed, count = f"codec {ODD_INPUTS}", round(ODD_INPUTS * SHARE["codec"])
    notes = tmp_path / "notes"
    command = [sys.executable, fuzz_codec.__file__, seed, "0", str(count), str(notes)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=1700, check=False)
    last = int(notes.read_text())
    assert ended.returncode == 0, (
        f"ended by {-ended.returncode} at input {last} of seed {seed!r}, fuzz_codec.made({seed!r}, {last}): "
        f"{fuzz_codec.made(seed, last)[:1000]} {ended.stderr[-1000:]}"
    )
    faults = [json.loads(line) for line in ended.stdout.splitlines()]
    assert not faults, f"seed {seed!r}:\n" + "\n".join(faults)
    assert last == count - 1


@pytest.mark.timeout(1800)
def test_odd_values_harm_nobody(cluster: DevCluster, acks: Path, tmp_path: Path) -> None:
    seed, count = f"values {ODD_INPUTS}", round(ODD_INPUTS * SHARE["emitted"])
    outcomes, longest_s = run(cluster, acks, OddValues(seed, None, count, tmp_path / "outcomes"))
    lost = [f"{n // 2}: {odd(seed, n // 2)[:200]}" for n in sorted(outcomes.lost) if n % 2 == 0]
    assert not lost, f"seed {seed!r}: a worker ended with these pending, most likely of the last: {lost}"
    assert len(outcomes.worker) == CONF["topology.workers"], f"seed {seed!r}: workers {outcomes.worker} ran it"
    failed = {n // 2: odd(seed, n // 2) for n in sorted(outcomes.failed) if n % 2 == 0}
    wrongly = {n: one[:200] for n, one in failed.items() if what_of(evaluate(one)) == "writable"}
    assert not wrongly, f"seed {seed!r}: failed although they can leave a worker: {wrongly}"
    print("odd values", dict(outcomes.counts()), f"longest silence of the neighbour {longest_s:.2f} s")


@pytest.mark.timeout(1800)
def test_large_values_harm_nobody(cluster: DevCluster, acks: Path, tmp_path: Path) -> None:
    seed = f"large {ODD_INPUTS}"
    rng = random.Random(seed)
    expressions = [large(LARGE[n % len(LARGE)], rng) for n in range(LARGE_VALUES)]
    spout = OddValues(seed, expressions, len(expressions), tmp_path / "outcomes")
    outcomes, longest_s = run(cluster, acks, spout)
    sizes = {2 * n: LARGE[n % len(LARGE)] for n in range(len(expressions))}
    lost = [expressions[n // 2] for n, size in sizes.items() if size <= ARRIVES and n not in outcomes.acked]
    assert not lost, f"seed {seed!r}: not acked at the first attempt: {lost}"
    sent = [expressions[n // 2] for n, size in sizes.items() if size >= FAILS and n not in outcomes.failed]
    assert not sent, f"seed {seed!r}: larger than allowed and not failed: {sent}"
    assert len(outcomes.worker) == CONF["topology.workers"], f"seed {seed!r}: workers {outcomes.worker} ran it"
    print("large values", dict(outcomes.counts()), f"longest silence of the neighbour {longest_s:.2f} s")


def run(cluster: DevCluster, acks: Path, spout: OddValues) -> tuple[Outcomes, float]:
    """Have a topology emit all that its spout has, the neighbour and the plain tuples beside going on."""
    client = cluster.client
    free_slots(cluster)
    with Neighbour(acks) as neighbour:
        client.submit(NAME, emitting(spout), CONF)
        try:
            while settle_some(spout, neighbour):
                pass
            reports = client.describe(NAME).errors
        except TimeoutError as error:
            raise AssertionError(f"{error}; {complaints(cluster)}") from None
        finally:
            client.kill(NAME, 0)
            wait_until(lambda: all(one.record.name != NAME for one in client.list()), 60)
    killed = Counter(one.message for one in reports if "killed by" in one.message)
    assert not killed, f"seed {spout.seed!r}: {killed}"
    wait_until(lambda: client.health().verdict == "healthy", 60, what="health is healthy")
    outcomes = Outcomes.read(spout.path)
    if spout.expressions is not None:  # of a component that reports more, only its last errors are kept
        said = [one.message for one in reports if "the tuple fails" in one.message]
        assert bool(said) == any(n % 2 == 0 for n in outcomes.failed), f"seed {spout.seed!r}: {said}, {outcomes.failed}"
    return outcomes, neighbour.longest_s


def complaints(cluster: DevCluster) -> str:
    """What the cluster says of the topology when it gets nowhere."""
    errors = Counter(one.message[:200] for one in cluster.client.describe(NAME).errors)
    return f"errors {errors.most_common(10)}; health {[one.sentence for one in cluster.client.health().faults]}"


def settle_some(spout: OddValues, neighbour: Neighbour) -> bool:
    """Wait until fewer emissions are unsettled; whether there are any left."""
    before = Outcomes.read(spout.path).unsettled(spout.count)
    neighbour.must_go_on(f"emissions of seed {spout.seed!r} near {suspect(spout, before)}")
    if not before:
        return False
    wait_until(
        lambda: len(Outcomes.read(spout.path).unsettled(spout.count)) < len(before),
        STALLED_S,
        what=f"one more emission is settled; {len(before)} are not, the first odd one: {suspect(spout, before)}",
        pause_s=0.1,
    )
    return True


def suspect(spout: OddValues, unsettled: list[int]) -> str:
    """The first odd input of which nothing is known, as an expression."""
    for number in unsettled:
        if number % 2 == 0:
            known = spout.expressions
            expression = odd(spout.seed, number // 2) if known is None else known[number // 2]
            return f"input {number // 2}, {expression[:500]}"
    return "none"
