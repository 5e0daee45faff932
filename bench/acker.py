"""Completed tuple trees per second of one real acker process: inits, acks and verdicts over gRPC.

    python -m bench.acker [--clients 2] [--batch 1000] [--acks 2] [--trees 2000000] [--window 50000] [--json] [--record]

Each client is a process with one Track stream, like a worker. A message holds the inits of ``batch`` trees and, for
each ack that a tree gets, ``batch`` acks of trees begun some messages before. At most ``window`` trees are pending per
client, so a client waits for verdicts. Messages are made before the clock starts, so that a client costs little. Each
client counts its verdicts, and every tree must be acked once. ``trees_per_s`` is from the first message to the last
verdict; clients and acker share the machine, so ``trees_per_acker_cpu_s`` is the rate of the acker on a core of its
own. ``--clients 0`` passes the messages to the acker's service in this process, without gRPC: this leaves decoding,
ledger and verdicts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from bench import _cli
from bench._processes import cpu_s, peak_rss_mb
from tupletree._daemon.health import Readiness
from tupletree._daemon.task_group import TaskGroup
from tupletree._devcluster.zookeeper import EmbeddedZooKeeper
from tupletree._rpc.channels import channel
from tupletree.acker.admission import Admission
from tupletree.acker.registry import Registry
from tupletree.acker.service import AckerService
from tupletree.testing.wait import wait_until
from tupletree.v1 import acker_pb2 as pb

TOPOLOGY: Final = "bench-1"
SPOUTS: Final = 4  # of each client
METHOD: Final = "/tupletree.v1.Acker/Track"
TIMEOUT_S: Final = 120.0


def hello(client: int) -> bytes:
    """Return the first message of a client."""
    tasks = range(1 + client * SPOUTS, 1 + (client + 1) * SPOUTS)
    said = pb.TrackHello(topology_id=TOPOLOGY, worker_id=f"w{client}", tasks=tasks, message_timeout_s=30, shards=1)
    return pb.TrackRequest(hello=said).SerializeToString()


def messages(client: int, trees: int, batch: int, acks: int, lag: int) -> Iterator[bytes]:
    """Yield all messages of a client, serialised. The k-th acks follow ``k * lag`` messages after the inits."""
    rng = np.random.default_rng(client)
    tasks = (np.arange(batch, dtype=np.uint32) % SPOUTS + 1 + client * SPOUTS).tobytes()
    count = trees // batch
    begun: list[list[Any]] = []
    for number in range(count + acks * lag):
        update = pb.ShardUpdate()
        if number < count:
            begun.append([rng.integers(1, 1 << 64, batch, dtype=np.uint64) for _ in range(1 + acks)])
            update.init_roots, update.init_values = begun[-1][0].tobytes(), begun[-1][1].tobytes()
            update.init_tasks = tasks
        for ack in range(1, acks + 1):
            if 0 <= number - ack * lag < count:
                roots, *edges = begun[number - ack * lag]
                values = edges[ack - 1] ^ edges[ack] if ack < acks else edges[ack - 1]
                update.ack_roots += roots.tobytes()
                update.ack_values += values.tobytes()
        updates = pb.LedgerUpdates(sequence=number + 1, shard_version=1, shards=[update])
        yield pb.TrackRequest(updates=updates).SerializeToString()


def acked(reply: Any) -> int:
    """Return the number of trees acked by a reply. Raises WrongResultError if the reply has other verdicts."""
    if any(verdicts.failed or verdicts.expired or verdicts.reset for verdicts in reply.verdicts):
        raise _cli.WrongResultError("trees failed or expired")
    roots: int = sum(len(verdicts.acked) for verdicts in reply.verdicts) // 8
    return roots


def client(number: int, address: str, options: argparse.Namespace, begin: Any, results: Any) -> None:
    """Run one client process: send all messages, and report the start and the time when all trees were acked."""
    trees = options.trees // options.clients
    count = trees // options.batch
    work = list(messages(number, trees, options.batch, options.acks, lag(options)))
    room = threading.Semaphore(max(lag(options) * options.acks + 2, options.window // options.batch))

    def requests() -> Iterator[bytes]:
        yield hello(number)
        begin.wait()
        for position, message in enumerate(work):
            if position < count:
                room.acquire()
            yield message
        ended.wait(TIMEOUT_S)

    ended, ended_trees, freed, began_s = threading.Event(), 0, 0, 0.0
    with channel(address) as opened:
        track: Any = opened.stream_stream(METHOD)  # raw bytes, not parsed
        stream = track(requests())
        for reply in stream:
            message = pb.TrackReply.FromString(reply)
            if message.acker_id:
                results.put(("ready", number))
                begin.wait()
                began_s = time.monotonic()
            ended_trees += acked(message)
            while freed < ended_trees // options.batch:
                room.release()
                freed += 1
            if ended_trees >= count * options.batch:
                break
        results.put(("done", ended_trees, began_s, time.monotonic()))
        ended.set()
        stream.cancel()


def lag(options: argparse.Namespace) -> int:
    """Return the number of messages between two updates of a tree, so that half of the window is pending."""
    count: int = options.window // options.batch // (2 * options.acks)
    return max(1, count)


def over_grpc(options: argparse.Namespace) -> dict[str, Any]:
    """Run the acker as a process of its own, with clients."""
    with tempfile.TemporaryDirectory() as place, EmbeddedZooKeeper(Path(place) / "zookeeper") as zookeeper:
        told = Path(place) / "announce.json"
        settings = {
            "zookeeper.servers": f"[{zookeeper.connect_string}]",
            "local.dir": place,
            "acker.port": 0,
            "acker.http.port": 0,
        }
        arguments = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        acker = subprocess.Popen([sys.executable, "-m", "tupletree.acker", *arguments, "--announce", str(told)])
        try:
            wait_until(lambda: told.exists() or acker.poll() is not None, 30, what="the acker serves")
            return with_clients(f"127.0.0.1:{json.loads(told.read_text())['grpc_port']}", acker.pid, options)
        finally:
            acker.kill()
            acker.wait()


def with_clients(address: str, pid: int, options: argparse.Namespace) -> dict[str, Any]:
    """Start all clients at once and wait for them.

    Raises:
        WrongResultError: not every tree was acked.
    """
    spawn = multiprocessing.get_context("spawn")
    begin, results = spawn.Event(), spawn.Queue()
    clients = [
        spawn.Process(target=client, args=(number, address, options, begin, results), daemon=True)
        for number in range(options.clients)
    ]
    for one in clients:
        one.start()
    try:
        for _ in clients:
            results.get(timeout=TIMEOUT_S)
        before_s = cpu_s([pid])
        begin.set()
        ends = [results.get(timeout=TIMEOUT_S) for _ in clients]
        spent_s = cpu_s([pid]) - before_s
        peak_mb = peak_rss_mb([pid])
    finally:
        for one in clients:
            one.join(5)
            one.kill()
    expected = options.trees // options.clients // options.batch * options.batch * options.clients
    ended = sum(end[1] for end in ends)
    if ended != expected:
        raise _cli.WrongResultError(f"{ended} of {expected} trees were acked")
    took_s = max(end[3] for end in ends) - min(end[2] for end in ends)
    return {**figures(ended, took_s, spent_s, options), "acker_busy": round(spent_s / took_s, 2), "peak_mb": peak_mb}


def figures(ended: int, took_s: float, spent_s: float, options: argparse.Namespace) -> dict[str, Any]:
    """Return the metrics of a run."""
    return {
        "trees_per_s": round(ended / took_s),
        "updates_per_s": round(ended * (1 + options.acks) / took_s),
        "trees_per_acker_cpu_s": round(ended / spent_s),
        "acker_ns_per_tree": round(spent_s / ended * 1e9),
    }


def within_this_process(options: argparse.Namespace) -> dict[str, Any]:
    """Run the acker's service in this process, with serialised messages and replies."""
    work = list(messages(0, options.trees, options.batch, options.acks, lag(options)))
    count = options.trees // options.batch * options.batch

    async def requests() -> AsyncIterator[pb.TrackRequest]:
        yield pb.TrackRequest.FromString(hello(0))
        for message in work:
            yield pb.TrackRequest.FromString(message)
            await asyncio.sleep(0)

    async def track() -> int:
        service, ended = AckerService("bench", Registry(), Admission(20_000_000), Readiness(), TaskGroup().fail), 0
        async for reply in service.Track(requests(), None):
            ended += len(reply.SerializeToString()) and acked(reply)
            if ended >= count:
                break
        return ended

    before_s, began_s = time.process_time(), time.monotonic()
    ended = asyncio.run(track())
    return figures(ended, time.monotonic() - began_s, time.process_time() - before_s, options)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Measure with clients, or without."""
    return over_grpc(options) if options.clients else within_this_process(options)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this bench."""
    parser.add_argument("--clients", type=int, default=2, help="processes, each with a stream (%(default)s)")
    parser.add_argument("--batch", type=int, default=1000, help="trees that begin in a message (%(default)s)")
    parser.add_argument("--acks", type=int, default=2, help="acks of each tree (%(default)s)")
    parser.add_argument("--trees", type=int, default=2_000_000, help="trees of all clients together (%(default)s)")
    parser.add_argument("--window", type=int, default=50_000, help="trees pending for each client (%(default)s)")


if __name__ == "__main__":
    sys.exit(_cli.run("acker", __doc__, add_arguments, measure))
