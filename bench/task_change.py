"""Pauses of a stateful topology whose number of counting tasks or whose code changes, on a cluster with one machine.

    python -m bench.task_change --provider sqlite --keys 1000000 --json

A positioned spout emits each of ``--keys`` keys once, and then keys at ``--rate``, to counting tasks on ``--workers``
workers, with aligned checkpoints every 200 ms. Then a rebalance changes ``--before`` tasks to ``--after``, and back;
an update counts in another way, and a rollback in the first again. ``pause_s``, ``back_pause_s``, ``update_pause_s``
and ``rollback_pause_s``: the longest time between two commits during the change, without the interval. They contain the
wait for tuples in flight, the end of the old workers, the start of the new ones, and for another number of tasks the
move of the states: ``move_s`` and ``back_move_s``, as the worker of the checkpoint spout logs it.

The states must hold every key, and as many counts as the spout's position says, else the exit status is 1.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from bench import _cli
from bench._cli import WrongResultError
from bench._redis import redis_server
from tupletree import Spout, StatefulBolt, Topology, TopologyBuilder
from tupletree._checkpoints.places import namespace_of
from tupletree._checkpoints.record import Checkpoint, stored_checkpoint
from tupletree._stores.zookeeper_nodes import open_store
from tupletree.component import SpoutCollector, TopologyContext
from tupletree.state.providers import open_state
from tupletree.testing import DevCluster, wait_until
from tupletree.tuples import Tuple

NAME: Final = "changing"
INTERVAL_S: Final = 0.2
BLOCK: Final = 100
MAX_S: Final = 180.0


class Keys(Spout):
    """Emits ``user-0`` to the last key as fast as it may, and then all over again at a rate."""

    outputs = ("user",)

    def __init__(self, keys: int, rate: float) -> None:
        self.keys = keys
        self.rate = rate

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutCollector) -> None:
        self.next = 0
        self.began_s = time.monotonic()
        self.sent = 0

    def next_tuple(self) -> None:
        if self.next >= self.keys:
            if self.sent >= (time.monotonic() - self.began_s) * self.rate:
                return
            self.sent += BLOCK
        for number in range(self.next, self.next + BLOCK):
            self.collector.emit([f"user-{number % self.keys}"], number)
        self.next += BLOCK

    def checkpoint_state(self) -> int:
        return self.next

    def restore_state(self, state: int) -> None:
        self.next = state


class Count(StatefulBolt):
    """Counts users in its state."""

    def execute(self, tup: Tuple) -> None:
        self.state.add(tup["user"], 1)
        self.collector.ack(tup)


class CountAgain(Count):
    """Counts users in another way."""

    def execute(self, tup: Tuple) -> None:
        user = tup["user"]
        self.state.put(user, self.state.get(user, 0) + 1)
        self.collector.ack(tup)


def topology(keys: int, rate: float, tasks: int, count: type[Count] = Count) -> Topology:
    """keys → count."""
    builder = TopologyBuilder()
    builder.set_spout("keys", Keys(keys, rate))
    builder.set_bolt("count", count(), tasks).fields_grouping("keys", ["user"])
    return builder.create_topology()


@contextlib.contextmanager
def provider_conf(provider: str) -> Iterator[dict[str, Any]]:
    """Yield the configuration of an empty store."""
    if provider in ("sqlite", "rocksdb"):
        with tempfile.TemporaryDirectory(prefix="bench-task-change-") as directory:
            places = {"directory": f"{directory}/states"}
            if provider == "rocksdb":
                places["shared"] = f"{directory}/shared"
                Path(places["shared"]).mkdir()
            yield {"topology.state.provider": provider, "topology.state.provider.config": places}
    else:
        with redis_server(is_durable=True) as (url, _):
            yield {"topology.state.provider": provider, "topology.state.provider.config": {"url": url}}


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure one provider.

    Raises:
        WrongResultError: the states do not hold what was emitted.
    """
    with (
        provider_conf(arguments.provider) as provider,
        DevCluster(supervisors=1, slots=arguments.workers, ackers=1) as cluster,
        contextlib.closing(open_store(cluster.conf)) as store,
    ):
        conf = {
            "topology.workers": arguments.workers,
            "topology.max.spout.pending": 20_000,
            "topology.state.checkpoint.aligned": True,
            "topology.state.checkpoint.interval.ms": int(1000 * INTERVAL_S),
            **provider,
        }
        client, made = cluster.client, functools.partial(topology, arguments.keys, arguments.rate, arguments.before)
        client.submit(NAME, made(), conf)

        def stored() -> Checkpoint:
            return stored_checkpoint(store, NAME)

        def has_tasks(count: int) -> bool:
            return stored().tasks["count"] == count

        def runs(version: int) -> bool:
            record = client.describe(NAME).summary.record
            return record.version == version and record.pending is None and not record.trial_began_unix_s

        def acked() -> int:
            return sum(
                one.total.executed for one in cluster.client.describe(NAME).components if one.component_id == "count"
            )

        wait_until(lambda: acked() >= arguments.keys, MAX_S, what="every key is counted")
        pauses_s = {}
        for name, count in (("pause_s", arguments.after), ("back_pause_s", arguments.before)):
            rebalance = functools.partial(client.rebalance, NAME, tasks={"count": count})
            pauses_s[name] = pause_s(stored, rebalance, functools.partial(has_tasks, count))
        moves = moves_s(cluster)
        update = functools.partial(client.update, NAME, made(CountAgain), conf)
        pauses_s["update_pause_s"] = pause_s(stored, update, functools.partial(runs, 1))
        pauses_s["rollback_pause_s"] = pause_s(stored, lambda: client.rollback(NAME), functools.partial(runs, 0))
        cluster.client.kill(NAME, wait_secs=0)
        wait_until(lambda: all(one.role != "worker" for one in cluster.processes), MAX_S, what="the workers end")
        check(conf, stored(), arguments.keys)
    return {**pauses_s, "move_s": moves[0], "back_move_s": moves[1]}


def pause_s(stored: Callable[[], Checkpoint], change: Callable[[], object], is_done: Callable[[], bool]) -> float:
    """Make a change; return the longest time between two commits until it is done, without the interval, in seconds."""
    txid = stored().txid
    wait_until(lambda: stored().txid >= txid + 3, MAX_S, what="checkpoints go on")
    change()
    last_txid, last_s, longest_s = stored().txid, time.monotonic(), 0.0
    while True:
        now, now_s = stored(), time.monotonic()
        if now.txid > last_txid and now.phase == "committed":
            longest_s = max(longest_s, now_s - last_s)
            last_txid, last_s = now.txid, now_s
            if is_done():
                return round(longest_s - INTERVAL_S, 2)
        if now_s - last_s > MAX_S:
            raise TimeoutError(f"no checkpoint was committed within {MAX_S:g} s of the change")
        time.sleep(0.02)


def moves_s(cluster: DevCluster) -> list[float]:
    """Return how long each move of states took, in seconds, as the workers have logged it."""
    logs = [path.read_text(errors="replace") for path in Path(cluster.directory).rglob("worker.log")]
    found = [one for log in logs for one in re.findall(r"^(\S+) .*states\.moved .*took_s=([\d.]+)", log, re.MULTILINE)]
    return [float(took_s) for _, took_s in sorted(found)]


def check(conf: Mapping[str, Any], stored: Checkpoint, keys: int) -> None:
    """Compare the states with the spout's position. Raises WrongResultError."""
    values = []
    for component in ("count", "keys"):
        for index in range(stored.tasks[component]):
            name = namespace_of(NAME, component, index, stored.tasks[component], stored.layouts.get(component, 0))
            _, state = open_state(name, conf, SimpleNamespace(conf=conf))  # type: ignore[arg-type]
            with contextlib.closing(state):
                if stored.phase == "committing" and state.prepared is not None:
                    state.commit(state.prepared)
                values.append(dict(state.items()))
    *counts, position = values
    if len({key for one in counts for key in one}) != keys or sum(map(len, counts)) != keys:
        raise WrongResultError(f"the states hold {sum(map(len, counts)):,} keys, not {keys:,}")
    counted = sum(sum(one.values()) for one in counts)
    if counted != position["position"]:
        raise WrongResultError(f"the states hold {counted:,} counts; the spout has emitted {position['position']:,}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this bench."""
    parser.add_argument("--provider", choices=("sqlite", "redis", "rocksdb"), default="sqlite")
    parser.add_argument("--keys", type=int, default=1_000_000, help="keys in the state (%(default)s)")
    parser.add_argument(
        "--rate", type=float, default=5_000, help="tuples per second once all are counted (%(default)s)"
    )
    parser.add_argument("--before", type=int, default=2, help="counting tasks at first (%(default)s)")
    parser.add_argument("--after", type=int, default=6, help="counting tasks after the change (%(default)s)")
    parser.add_argument("--workers", type=int, default=2)


if __name__ == "__main__":
    sys.exit(_cli.run("task_change", __doc__, add_arguments, measure))
