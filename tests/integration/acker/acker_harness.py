"""Real acker processes, and a worker by hand at the other end of a Track stream."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from array import array
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc

from tupletree._devcluster.zookeeper import EmbeddedZooKeeper
from tupletree._rpc.channels import channel
from tupletree.testing.wait import wait_until
from tupletree.v1 import acker_pb2 as pb
from tupletree.v1 import acker_pb2_grpc


class AckerProcess:
    """One `python -m tupletree.acker`, ready when constructed."""

    def __init__(self, directory: Path, zookeeper: EmbeddedZooKeeper, root: str, overrides: Sequence[str] = ()) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.log = directory / "logs" / "acker.log"
        told = directory / "announce.json"
        told.unlink(missing_ok=True)
        settings = [
            f"zookeeper.servers=[{zookeeper.connect_string}]",
            f"zookeeper.root={root}",
            f"local.dir={directory}",
            "acker.port=0",
            "acker.http.port=0",
            *overrides,
        ]
        arguments = [argument for setting in settings for argument in ("-c", setting)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tupletree.acker", *arguments, "--announce", str(told)],
            cwd=directory,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        wait_until(lambda: told.exists() or self.process.poll() is not None, 20, what="the acker serves")
        assert self.process.poll() is None, self.stderr()
        facts = json.loads(told.read_text())
        self.id: str = facts["id"]
        self.grpc_port: int = facts["grpc_port"]
        self.http_port: int = facts["http_port"]
        assert facts["role"] == "acker"
        assert facts["pid"] == self.process.pid
        self.channel = channel(f"127.0.0.1:{self.grpc_port}")
        self.stub = acker_pb2_grpc.AckerStub(self.channel)

    def stderr(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()

    def http(self, path: str) -> tuple[int, str]:
        return http(self.http_port, path)

    def ledger(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.http("/ledger")[1])
        return answer

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def wait(self, timeout_s: float = 10) -> int:
        return self.process.wait(timeout_s)

    def close(self) -> None:
        self.channel.close()
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        if self.process.stderr is not None:
            self.process.stderr.close()


class HandWorker:
    """A worker by hand: sends what it is told to, and keeps the verdicts that come."""

    def __init__(
        self,
        acker: AckerProcess,
        topology: str = "wc-1",
        spouts: Sequence[int] = (1,),
        *,
        shards: int = 1,
        timeout_s: float = 30.0,
        worker: str = "w1",
    ) -> None:
        self.verdicts: dict[str, defaultdict[int, list[int]]] = {
            kind: defaultdict(list) for kind in ("acked", "failed", "expired", "reset")
        }
        self.confirmed = 0
        self.sent = 0
        self.acker_id = ""
        self.error: grpc.RpcError | None = None
        self.ended = threading.Event()
        self._requests: queue.SimpleQueue[pb.TrackRequest | None] = queue.SimpleQueue()
        self._requests.put(
            pb.TrackRequest(
                hello=pb.TrackHello(
                    topology_id=topology,
                    worker_id=worker,
                    tasks=spouts,
                    message_timeout_s=timeout_s,
                    shards=shards,
                )
            )
        )
        self._call = acker.stub.Track(iter(self._requests.get, None))
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        try:
            for reply in self._call:
                self.acker_id = self.acker_id or reply.acker_id
                for verdicts in reply.verdicts:
                    for kind, found in self.verdicts.items():
                        roots = array("Q")
                        roots.frombytes(getattr(verdicts, kind))
                        found[verdicts.task] += roots
                self.confirmed = max(self.confirmed, reply.confirmed)
        except grpc.RpcError as error:
            self.error = error
        finally:
            self.ended.set()

    def send_raw(self, request: pb.TrackRequest | None) -> None:
        self._requests.put(request)

    def send(self, *shards: pb.ShardUpdate, version: int = 1) -> int:
        """Send updates; returns their sequence."""
        self.sent += 1
        updates = pb.LedgerUpdates(sequence=self.sent, shard_version=version, shards=shards)
        self.send_raw(pb.TrackRequest(updates=updates))
        return self.sent

    def confirm(self, timeout: float = 10.0) -> None:
        """Wait until all that was sent is confirmed."""
        wait_until(lambda: self.confirmed == self.sent or self.ended.is_set(), timeout, what="confirmation")
        assert self.error is None, self.error
        assert self.confirmed == self.sent

    def status(self, timeout: float = 10.0) -> tuple[grpc.StatusCode, str]:
        """How the stream ended."""
        assert self.ended.wait(timeout), "the stream has not ended"
        return self._call.code(), self._call.details()

    def close(self) -> None:
        self._requests.put(None)
        self._call.cancel()
        self._reader.join(5)


def http(port: int, path: str) -> tuple[int, str]:
    """Status and body of a page; status 0 where nobody listens."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except urllib.error.URLError as error:
        return 0, str(error)


def update(
    inits: Sequence[tuple[int, int, int]] = (),
    acks: Sequence[tuple[int, int]] = (),
    fails: Sequence[int] = (),
    resets: Sequence[int] = (),
    shard: int = 0,
) -> pb.ShardUpdate:
    return pb.ShardUpdate(
        shard=shard,
        init_roots=array("Q", [root for root, _, _ in inits]).tobytes(),
        init_values=array("Q", [value for _, value, _ in inits]).tobytes(),
        init_tasks=array("I", [task for _, _, task in inits]).tobytes(),
        ack_roots=array("Q", [root for root, _ in acks]).tobytes(),
        ack_values=array("Q", [value for _, value in acks]).tobytes(),
        fail_roots=array("Q", fails).tobytes(),
        reset_roots=array("Q", resets).tobytes(),
    )
