"""Blobs at nimbuses: whole or not there, on every nimbus, and kept as long as they are needed."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from nimbus_harness import Bench, NimbusProcess

from tupletree._rpc.channels import channel
from tupletree._rpc.status import from_rpc_error
from tupletree.errors import NameInUseError, NotFoundError, UnavailableError, UsageError
from tupletree.testing.wait import wait_until
from tupletree.v1 import nimbus_pb2 as rpc
from tupletree.v1.nimbus_pb2_grpc import NimbusStub


def file_of(directory: Path, data: bytes) -> Path:
    path = directory / hashlib.sha256(data).hexdigest()
    path.write_bytes(data)
    return path


def put(nimbus: NimbusProcess, *requests: rpc.PutBlobRequest) -> rpc.BlobReply:
    """Put a blob by hand. Raises what the client would."""
    with channel(nimbus.address) as one:
        try:
            return NimbusStub(one).PutBlob(iter(requests), timeout=20)
        except grpc.RpcError as error:
            raise from_rpc_error(error, "nimbus") from None


def header(key: str, data: bytes, **wrong: object) -> rpc.PutBlobRequest:
    facts: dict[str, object] = {"key": key, "sha256": hashlib.sha256(data).hexdigest(), "size": len(data), **wrong}
    return rpc.PutBlobRequest(header=rpc.BlobHeader(**facts))  # type: ignore[arg-type]


def chunk(data: bytes) -> rpc.PutBlobRequest:
    return rpc.PutBlobRequest(chunk=data)


def test_every_nimbus_has_each_version_and_old_ones_go(bench: Bench, tmp_path: Path) -> None:
    quick = "nimbus.topology.blobstore.deletion.delay.ms=200"
    leader = bench.leader("n1", quick)
    client = bench.client(leader)
    first, second = file_of(tmp_path, b"1" * 5000), file_of(tmp_path, b"2" * 6000)
    assert client.put_blob("model", first).record.sha256 == first.name
    standby = bench.nimbus("n2", quick)
    wait_until(lambda: standby.files() == [first.name], 10, what="a late standby fetches it")
    assert client.update_blob("model", second).record.version == 2
    assert second.name in standby.files(), "before the reply"
    wait_until(lambda: leader.files() == standby.files() == [second.name], 10, what="the first version is removed")
    client.delete_blob("model")
    wait_until(lambda: leader.files() == standby.files() == [], 10, what="the second one too")


def test_a_standby_without_the_bytes_leads_and_gets_them_later(bench: Bench, tmp_path: Path) -> None:
    leader, standby = bench.leader("n1"), bench.nimbus("n2")
    client = bench.client(leader, standby)
    path = file_of(tmp_path, b"x" * 5000)
    client.put_blob("model", path)
    standby.stop()
    (standby.blobs / path.name).unlink()
    leader.kill()
    alone = bench.leader("n2")
    client = bench.client(alone)
    assert client.blob("model").record.bytes == 5000
    with pytest.raises(UnavailableError, match=r"blob 'model' is still being copied to the leading nimbus; try again"):
        client.get_blob("model", tmp_path / "taken")
    assert sorted(os.listdir(tmp_path)) == [path.name], "no part of a file is left"
    bench.nimbus("n1")
    wait_until(lambda: alone.files() == [path.name], 40, what="it fetches them from the other one")
    client.get_blob("model", tmp_path / "taken")
    assert (tmp_path / "taken").read_bytes() == path.read_bytes()


@pytest.mark.long
def test_an_update_with_the_same_bytes_brings_back_lost_ones(bench: Bench, tmp_path: Path) -> None:
    leader = bench.leader("n1")
    path = file_of(tmp_path, b"x" * 5000)
    bench.client(leader).put_blob("model", path)
    leader.stop()
    (leader.blobs / path.name).unlink()
    client = bench.client(again := bench.leader("n1"))
    assert client.update_blob("model", path).record.version == 1
    assert again.files() == [path.name]
    client.get_blob("model", tmp_path / "taken")


@pytest.mark.parametrize(
    ("sent", "refusal"),
    [
        ([], r"must begin with a header"),
        ([chunk(b"abc")], r"must begin with a header"),
        ([header("odd", b"abc"), chunk(b"ab")], r"the upload is corrupt: 2 of 3 bytes arrived"),
        ([header("odd", b"abc"), chunk(b"abd")], r"the upload is corrupt: its sha256 is .*, but .* was announced"),
        ([header("odd", b"abc"), chunk(b"abcd")], r"the upload is corrupt: more than the announced 3 bytes arrived"),
        ([header("odd", b"abc"), header("odd", b"abc")], r"must be one header followed by chunks"),
        ([header("odd", b"abc", size=2**40)], r"the cluster accepts 1 to 4294967296 \(nimbus\.max\.blob\.bytes\)"),
    ],
)
def test_an_upload_that_is_wrong_leaves_nothing(
    leader: NimbusProcess, shared: Bench, sent: list[rpc.PutBlobRequest], refusal: str
) -> None:
    with pytest.raises(UsageError, match=refusal):
        put(leader, *sent)
    assert leader.files() == []
    with pytest.raises(NotFoundError, match=r"there is no blob 'odd'"):
        shared.client(leader).blob("odd")


def test_a_key_is_put_by_one_call_at_a_time(leader: NimbusProcess, shared: Bench) -> None:
    data = b"x" * 10

    def first() -> Iterator[rpc.PutBlobRequest]:
        yield header("slow", data)
        yield chunk(data[:5])
        wait_until(lambda: leader.files() != [], 10, what="the first call has begun")
        with pytest.raises(NameInUseError, match=r"^blob 'slow' is being put or updated by another call; try again"):
            put(leader, header("slow", data), chunk(data))
        yield chunk(data[5:])

    with channel(leader.address) as one:
        assert NimbusStub(one).PutBlob(first(), timeout=20).blob.record.version == 1
    shared.client(leader).delete_blob("slow")


def test_a_full_disk_is_one_sentence(bench: Bench, tmp_path: Path) -> None:
    place = bench.directory / "n1" / "nimbus"
    place.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(place)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("a small disk needs the right to mount one")
    try:
        client = bench.client(bench.leader("n1"))
        full = r"nimbus's disk is full: blob 'model' of 400000 bytes needs more than the \d+ bytes that are free"
        with pytest.raises(UnavailableError, match=full):
            client.put_blob("model", file_of(tmp_path, bytes(400_000)))
        assert client.blobs() == ()
    finally:
        bench.close()
        subprocess.run(["umount", "-l", place], check=True)
