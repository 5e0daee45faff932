"""The acker as a process: health, overload, drain, kill -9, bad starts."""

from __future__ import annotations

import json
import random
import signal
import socket
import subprocess
import sys
import threading
from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import grpc
import pytest
from acker_harness import AckerProcess, HandWorker, http, update
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tupletree._coord.session import connect as connect_zookeeper
from tupletree._coord.session import disconnect
from tupletree._coord.store import Store
from tupletree._devcluster.zookeeper import EmbeddedZooKeeper
from tupletree._net import ReservedPorts, bind
from tupletree.config import load
from tupletree.testing.wait import wait_until
from tupletree.v1 import acker_pb2 as pb
from tupletree.v1 import topology_pb2

StartAcker = Callable[..., AckerProcess]
Connect = Callable[..., HandWorker]
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


@pytest.fixture
def ackers(zookeeper: EmbeddedZooKeeper, zookeeper_root: str) -> Callable[[], dict[str, topology_pb2.Presence]]:
    """The ackers that ZooKeeper knows of."""

    def look() -> dict[str, topology_pb2.Presence]:
        client = connect_zookeeper({**load(environ={}), "zookeeper.servers": [zookeeper.connect_string]})
        try:
            return Store(client, zookeeper_root).ackers()
        finally:
            disconnect(client)

    return look


def health(acker: AckerProcess) -> int:
    status: int = health_pb2_grpc.HealthStub(acker.channel).Check(health_pb2.HealthCheckRequest(), timeout=5).status
    return status


def many(count: int, rng: random.Random, task: int = 1) -> pb.ShardUpdate:
    """Inits of new trees."""
    roots, values = (array("Q", (rng.getrandbits(64) for _ in range(count))) for _ in range(2))
    return pb.ShardUpdate(
        init_roots=roots.tobytes(), init_values=values.tobytes(), init_tasks=array("I", [task] * count).tobytes()
    )


def acks_of(inits: pb.ShardUpdate) -> pb.ShardUpdate:
    return pb.ShardUpdate(ack_roots=inits.init_roots, ack_values=inits.init_values)


def test_health_and_presence(start_acker: StartAcker, ackers: Callable[[], dict[str, topology_pb2.Presence]]) -> None:
    acker = start_acker()
    assert health(acker) == SERVING
    assert acker.http("/healthz")[0] == 200
    assert json.loads(acker.http("/readyz")[1]) == {"ready": True, "reasons": []}
    presence = ackers()[acker.id]
    assert (presence.host, presence.grpc_port, presence.http_port) == ("127.0.0.1", acker.grpc_port, acker.http_port)
    assert presence.pid == acker.process.pid
    assert not presence.draining


def test_every_start_takes_a_new_id(start_acker: StartAcker) -> None:
    assert start_acker().id != start_acker().id


def test_above_its_limit_it_reads_no_more_and_is_not_ready(start_acker: StartAcker, connect: Connect) -> None:
    acker = start_acker("acker.max.pending=5000")
    rng = random.Random(1)
    first = many(6000, rng)
    worker, other = connect(acker), connect(acker, worker="w2", spouts=[2])
    worker.send(first)
    worker.confirm()
    status, text = acker.http("/readyz")
    assert status == 503
    assert json.loads(text)["reasons"] == ["ledger: 6000 entries are held, the limit is 5000"]
    wait_until(lambda: health(acker) == NOT_SERVING)
    other.send(many(1000, rng, task=2))
    worker.send(many(1000, rng))
    wait_until(lambda: "tupletree_acker_held_messages 2.0" in acker.http("/metrics")[1])
    assert (worker.confirmed, other.confirmed) == (1, 0)

    bolts = connect(acker, worker="w3", spouts=[])  # acks make room: they are still read
    bolts.send(acks_of(first))
    other.confirm()
    worker.confirm()
    assert acker.http("/readyz")[0] == 200
    assert len(worker.verdicts["acked"][1]) == 6000
    assert acker.ledger()["shards"][0]["pending"] == 2000  # nothing was dropped


def test_flow_control_reaches_the_sender(start_acker: StartAcker, connect: Connect) -> None:
    """While the acker does not read, gRPC stops taking messages: what lies between the two ends is bounded."""
    acker = start_acker("acker.max.pending=1000")
    rng = random.Random(1)
    taken = 0

    def requests() -> Iterator[pb.TrackRequest]:
        nonlocal taken
        yield pb.TrackRequest(hello=pb.TrackHello(topology_id="t", worker_id="w", tasks=[1], shards=1))
        for sequence in range(1, 1001):
            taken = sequence
            yield pb.TrackRequest(updates=pb.LedgerUpdates(sequence=sequence, shards=[many(5000, rng)]))

    call = acker.stub.Track(requests())

    def read() -> None:
        with suppress(grpc.RpcError):
            for _ in call:
                pass

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        wait_until(lambda: acker.http("/readyz")[0] == 503)
        seen: list[int] = []

        def settled() -> bool:
            seen.append(taken)
            return len(seen) > 10 and len(set(seen[-10:])) == 1

        wait_until(settled, 20)
        assert taken < 500  # of 1000 messages of 100 kB
        assert acker.ledger()["shards"][0]["pending"] == 5000
    finally:
        call.cancel()
        reader.join(5)


def test_health_answers_while_a_million_updates_stream_in(start_acker: StartAcker, connect: Connect) -> None:
    acker = start_acker()
    worker = connect(acker)
    inits = many(500_000, random.Random(1))
    worker.send(inits)
    worker.send(acks_of(inits))
    checks = 0
    while worker.confirmed < 2:
        assert health(acker) == SERVING
        assert acker.http("/healthz")[0] == 200
        checks += 1
        assert not worker.ended.is_set()
    assert checks > 3  # more often than between the two messages
    wait_until(lambda: len(worker.verdicts["acked"][1]) == 500_000)


def test_kill_9_breaks_the_streams_and_a_new_acker_knows_nothing(start_acker: StartAcker, connect: Connect) -> None:
    acker = start_acker()
    worker = connect(acker)
    worker.send(update(inits=[(10, 5, 1)]))
    worker.confirm()
    acker.signal(signal.SIGKILL)
    acker.wait()
    code, _ = worker.status()
    assert code is grpc.StatusCode.UNAVAILABLE
    again = start_acker()
    worker = connect(again)
    worker.send(update(fails=[10]))  # what a worker does after reconnecting
    worker.confirm()
    assert again.ledger()["shards"][0]["pending"] == 0
    assert not any(worker.verdicts.values())


def test_drain_with_nothing_to_do_ends_at_once(
    start_acker: StartAcker, ackers: Callable[[], dict[str, topology_pb2.Presence]]
) -> None:
    acker = start_acker()
    acker.signal(signal.SIGTERM)
    assert acker.wait() == 0
    assert ackers() == {}


def test_drain_waits_for_moved_shards_and_old_trees(
    start_acker: StartAcker, connect: Connect, ackers: Callable[[], dict[str, topology_pb2.Presence]]
) -> None:
    acker = start_acker()
    spout, bolts = connect(acker), connect(acker, spouts=[], worker="w2")
    spout.send(update(inits=[(10, 5, 1), (11, 5, 1)]), version=4)
    bolts.send(version=4)
    spout.confirm()
    bolts.confirm()

    acker.signal(signal.SIGTERM)
    wait_until(lambda: ackers()[acker.id].draining, what="the presence says draining")
    assert json.loads(acker.http("/readyz")[1])["reasons"] == ["draining: finishing the trees it holds"]
    wait_until(lambda: health(acker) == NOT_SERVING)
    assert acker.ledger()["draining"]

    bolts.send(update(acks=[(10, 5)]), version=5)  # one worker has moved, one tree is done
    wait_until(lambda: spout.verdicts["acked"] == {1: [10]})
    spout.send(update(inits=[(12, 5, 1)]), version=4)  # the other still starts trees here
    bolts.send(update(acks=[(11, 5), (12, 5)]), version=5)
    wait_until(lambda: sorted(spout.verdicts["acked"][1]) == [10, 11, 12])
    assert acker.process.poll() is None, "no tree is pending, but one worker has not moved"

    spout.send(update(acks=[(99, 5)]), version=5)
    assert acker.wait() == 0
    assert spout.status()[0] is bolts.status()[0] is grpc.StatusCode.OK
    assert spout.confirmed == spout.sent
    assert ackers() == {}


def test_drain_ends_when_its_time_is_over(start_acker: StartAcker, connect: Connect) -> None:
    acker = start_acker("acker.drain.timeout.secs=0.5")
    worker = connect(acker)
    worker.send(update(inits=[(10, 5, 1)]), version=4)
    worker.confirm()
    acker.signal(signal.SIGTERM)
    wait_until(lambda: acker.ledger()["draining"])
    worker.send(version=5)
    assert acker.wait() == 0
    code, details = worker.status()
    assert code is grpc.StatusCode.UNAVAILABLE
    assert "1 trees are pending" in details


def test_a_drained_acker_lets_old_trees_expire(start_acker: StartAcker, connect: Connect) -> None:
    acker = start_acker("acker.drain.timeout.secs=30")
    worker = connect(acker, timeout_s=0.3)
    worker.send(update(inits=[(10, 5, 1)]), version=4)
    worker.confirm()
    acker.signal(signal.SIGTERM)
    wait_until(lambda: acker.ledger()["draining"])
    worker.send(version=5)
    assert acker.wait() == 0
    assert worker.verdicts["expired"] == {1: [10]}
    assert worker.status()[0] is grpc.StatusCode.OK


def test_a_second_sigterm_ends_the_drain(start_acker: StartAcker, connect: Connect) -> None:
    acker = start_acker()
    worker = connect(acker)
    worker.send(update(inits=[(10, 5, 1)]))
    worker.confirm()
    acker.signal(signal.SIGTERM)
    wait_until(lambda: acker.ledger()["draining"])
    acker.signal(signal.SIGTERM)
    assert acker.wait(2) == 128 + signal.SIGTERM


def test_tuples_are_tracked_while_zookeeper_is_away(
    start_acker: StartAcker, connect: Connect, zookeeper: EmbeddedZooKeeper
) -> None:
    acker = start_acker()
    worker = connect(acker)
    zookeeper.stop()
    try:
        worker.send(update(inits=[(10, 5, 1)], acks=[(10, 5)]))
        wait_until(lambda: worker.verdicts["acked"] == {1: [10]})
        assert acker.http("/readyz")[0] == 200
    finally:
        zookeeper.start()


@pytest.mark.long
def test_it_ends_on_sigterm_while_zookeeper_is_away(start_acker: StartAcker, zookeeper: EmbeddedZooKeeper) -> None:
    acker = start_acker()
    zookeeper.stop()
    try:
        acker.signal(signal.SIGTERM)
        assert acker.wait(8) == 0
    finally:
        zookeeper.start()


def test_it_is_alive_but_not_ready_before_it_has_reached_zookeeper(tmp_path: Path) -> None:
    ports = ReservedPorts()
    http_port, nobody_listens = ports.reserve(2)
    settings = (f"zookeeper.servers=[127.0.0.1:{nobody_listens}]", f"acker.http.port={http_port}")
    process = subprocess.Popen(command(tmp_path, *settings), cwd=tmp_path, start_new_session=True)
    try:
        wait_until(lambda: http(http_port, "/healthz")[0] == 200)
        status, text = http(http_port, "/readyz")
        assert status == 503
        assert json.loads(text)["reasons"] == ["zookeeper: connecting"]
        process.terminate()
        assert process.wait(5) == 0
    finally:
        process.kill()
        process.wait()
        ports.release()


def command(directory: Path, *overrides: str) -> list[str]:
    settings = [f"local.dir={directory}", "acker.port=0", "acker.http.port=0", *overrides]
    arguments = [argument for setting in settings for argument in ("-c", setting)]
    return [sys.executable, "-m", "tupletree.acker", *arguments]


def start_and_fail(directory: Path, *overrides: str) -> tuple[int, str]:
    arguments = command(directory, *overrides)
    done = subprocess.run(arguments, cwd=directory, capture_output=True, text=True, timeout=30, check=False)
    return done.returncode, done.stderr.strip()


@pytest.mark.parametrize("key", ["acker.port", "acker.http.port"])
def test_a_port_in_use_gets_one_sentence(tmp_path: Path, key: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, said = start_and_fail(tmp_path, f"{key}={port}")
    assert code == 2
    assert said == f"port {port} on 127.0.0.1 is in use"


def test_no_zookeeper_gets_one_sentence(tmp_path: Path) -> None:
    with bind("127.0.0.1", 0) as nobody_listens:
        address = f"127.0.0.1:{nobody_listens.getsockname()[1]}"
        settings = (f"zookeeper.servers=[{address}]", "zookeeper.connection.timeout=500")
        code, said = start_and_fail(tmp_path, *settings)
    assert code == 1
    assert (
        said == f"ZooKeeper at {address} did not answer within 0.5 s: connections are refused, as nothing listens there"
    )


def test_an_unknown_key_gets_one_sentence(tmp_path: Path) -> None:
    code, said = start_and_fail(tmp_path, "acker.max.pendin=5")
    assert code == 2
    assert said == "unknown configuration key 'acker.max.pendin'; did you mean 'acker.max.pending'? (given with -c)"
