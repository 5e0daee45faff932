"""Submissions and calls with odd values in every field: refused in a sentence, or done; nobody else suffers."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from fuzz_calls import MAX_SENTENCE_LENGTH, ODD_INPUTS, OWN_WORDS, UNDUE, ask
from fuzz_neighbour import Neighbour
from fuzz_submissions import asks_much, changes, submission
from fuzz_topologies import victim_topology
from fuzz_values import evaluate, number, text, value

from tupletree._rpc.channels import aio_channel
from tupletree.bundle import portable_spec
from tupletree.client import LogLevel
from tupletree.errors import InternalError, NotFoundError, TupletreeError
from tupletree.testing import DevCluster, wait_until
from tupletree.v1 import nimbus_pb2

SHARE = {"submitted": 0.03, "asked": 0.17}  # emitted values and the codec have the rest
LEFT_TO_RUN = max(4, ODD_INPUTS // 4000)
"""How many of the accepted topologies have their workers started; the others are killed at once."""
SUBMIT = nimbus_pb2.DESCRIPTOR.services_by_name["Nimbus"].methods_by_name["Submit"]
SUBMIT_S = 60.0


@pytest.mark.timeout(1800)
def test_odd_submissions_harm_nobody(cluster: DevCluster, acks: Path, tmp_path: Path, loop: asyncio.Runner) -> None:
    seed, counts, left = f"submissions {ODD_INPUTS}", Counter[str](), LEFT_TO_RUN
    sound, faults = portable_spec(victim_topology()), list[str]()
    pids = daemons(cluster)
    with Neighbour(acks) as neighbour:
        for at in range(round(ODD_INPUTS * SHARE["submitted"])):
            made = changes(random.Random(f"{seed} {at}"))
            requests = submission(sound, f"odd-{at}", made, tmp_path)
            code, details = loop.run(send(cluster.client.leader(), requests))
            counts[code.name] += 1
            what = f"submission {at} of seed {seed!r}, {str(made)[:1000]}"
            is_ours = details == OWN_WORDS  # the stream was ended while it was being written
            if (code in UNDUE and not is_ours) or "Traceback" in details or len(details) > MAX_SENTENCE_LENGTH:
                faults.append(f"{code.name} {details[:300]!r} for {what}")
            if code is grpc.StatusCode.OK:
                may_run = left > 0 and not asks_much(made)
                left -= may_run
                counts["left to run"] += may_run
                remove_new(cluster, may_run, what)
            neighbour.must_go_on(what)
            assert daemons(cluster) == pids, f"a daemon ended after {what}"
    print("submissions", dict(counts), f"longest silence of the neighbour {neighbour.longest_s:.2f} s")
    assert not faults, f"{len(faults)} faults:\n" + "\n".join(faults[:8])
    wait_until(lambda: len(cluster.client.list()) <= 2, 60, what="all odd topologies are gone")
    wait_until(lambda: cluster.client.health().verdict == "healthy", 60, what="health is healthy")


async def send(address: str, requests: list[bytes]) -> tuple[Any, str]:
    async with aio_channel(address) as channel:
        return await ask(channel, SUBMIT, "/tupletree.v1.Nimbus/Submit", requests, SUBMIT_S)


def remove_new(cluster: DevCluster, may_run: bool, what: str) -> None:
    """Kill the topology that was accepted; if it may run, only after something came of it."""
    client = cluster.client
    new = [one.record.name for one in client.list() if one.record.owner == "fuzz" or one.record.name.startswith("odd-")]
    for name in new:
        if may_run:
            wait_until(lambda name=name: has_settled(cluster, name), 60, what=f"something came of {what}")  # type: ignore[misc]
        with contextlib.suppress(NotFoundError):  # an earlier one, which has just ended
            client.kill(name, 0)


def has_settled(cluster: DevCluster, name: str) -> bool:
    """True if the topology runs, or somebody says why it does not."""
    found = cluster.client.describe(name)
    is_ready = found.summary.workers_used > 0 and found.summary.workers_ready == found.summary.workers_used
    return bool(is_ready or found.errors or found.unscheduled)


def daemons(cluster: DevCluster) -> dict[str, int]:
    return {one.name: one.pid for one in cluster.processes if one.role != "worker"}


@pytest.mark.timeout(1800)
def test_a_client_with_odd_arguments_gets_a_sentence(cluster: DevCluster, acks: Path) -> None:
    seed, counts = f"asked {ODD_INPUTS}", Counter[str]()
    faults: list[str] = []
    with Neighbour(acks) as neighbour:
        for at in range(round(ODD_INPUTS * SHARE["asked"])):
            rng = random.Random(f"{seed} {at}")
            name = rng.choice(sorted(CALLS))
            arguments = CALLS[name](rng)
            what = f"call {at} of seed {seed!r}, client.{name}({', '.join(arguments)[:1000]})"
            given = [evaluate(one, level=level, topology=victim_topology) for one in arguments]
            try:
                counts[f"{name} {outcome(getattr(cluster.client, name), given)}"] += 1
            except Exception as error:
                faults.append(f"{type(error).__name__} {str(error)[:200]} for {what}")
            if at % 20 == 0:
                neighbour.must_go_on(what)
    print("calls", dict(sorted(counts.items())), f"longest silence of the neighbour {neighbour.longest_s:.2f} s")
    assert not faults, f"{len(faults)} faults:\n" + "\n".join(faults[:8])


def outcome(call: Callable[..., Any], arguments: list[Any]) -> str:
    """How a call ended. Raises what a user is not to see."""
    try:
        call(*arguments)
    except InternalError:
        raise
    except TupletreeError as error:
        if len(str(error)) > MAX_SENTENCE_LENGTH:
            raise AssertionError(f"a sentence of {len(str(error))} characters") from error
        return type(error).__name__
    return "done"


def level(*arguments: Any) -> LogLevel:
    return LogLevel(level=arguments[0], until_unix_s=arguments[1])


def _name(rng: random.Random) -> str:
    return rng.choice(("'victim'", "'victim'", text(rng)))


def _executors(rng: random.Random) -> str:
    component = rng.choice(("'swallow'", text(rng)))
    return f"{{{component}: {number(rng)}}}"


def _settings(rng: random.Random) -> str:
    key = rng.choice(("'topology.workers'", "'topology.environment'", "'my.key'", text(rng)))
    return f"{{{key}: {rng.choice((number, value))(rng)}}}"


CALLS: dict[str, Callable[[random.Random], list[str]]] = {
    "activate": lambda rng: [text(rng)],
    "deactivate": lambda rng: [text(rng)],
    "describe": lambda rng: [text(rng)],
    "kill": lambda rng: [text(rng), number(rng)],
    "rebalance": lambda rng: [_name(rng), number(rng), number(rng), _executors(rng)],
    "set_conf": lambda rng: [_name(rng), f"{{{text(rng)}: {number(rng)}}}", f"[{text(rng)}]", number(rng)],
    "set_log_levels": lambda rng: [_name(rng), f"{{{text(rng)}: level({text(rng)}, {number(rng)})}}", f"[{text(rng)}]"],
    "set_sampling": lambda rng: [_name(rng), text(rng), number(rng), number(rng)],
    "set_tracing": lambda rng: [_name(rng), number(rng), number(rng)],
    "submit": lambda rng: ["'victim'", "topology()", _settings(rng)],  # a name in use: never accepted
    "restart_worker": lambda rng: [_name(rng), text(rng), number(rng)],
}
