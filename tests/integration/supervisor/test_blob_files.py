"""Blobs on a supervisor's machine: fetched over gRPC, verified, and switched while others read."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io
import os
import random
import shutil
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest
from small_disk import remount, small_disk
from supervisor_harness import BundleServer

from tupletree.config import defaults
from tupletree.errors import ProtocolError, UnavailableError, UsageError
from tupletree.supervisor.blob_files import BlobFiles, link, linked, unlink_version
from tupletree.supervisor.blob_plan import Form, LocalBlob
from tupletree.supervisor.blobs import Blobs
from tupletree.supervisor.bundles import find_leader
from tupletree.supervisor.config import SupervisorConfig
from tupletree.supervisor.launcher import LaunchedWorker, Launcher
from tupletree.supervisor.local_assignment import LocalAssignment
from tupletree.testing import wait_until
from tupletree.v1.topology_pb2 import BlobRecord


@pytest.fixture
def server() -> Iterator[BundleServer]:
    with contextlib.closing(BundleServer()) as one:
        yield one


def files_from(server: BundleServer, root: Path) -> BlobFiles:
    async def leader() -> str:
        return await find_leader([server.address])

    return BlobFiles(root, leader, [].append)


def record_of(server: BundleServer, data: bytes) -> BlobRecord:
    sha256 = hashlib.sha256(data).hexdigest()
    server.files[sha256] = data
    return BlobRecord(key="model", version=1, sha256=sha256, bytes=len(data))


def test_a_blob_is_fetched_once_and_cannot_be_written(server: BundleServer, tmp_path: Path) -> None:
    record, files = record_of(server, b"x" * 1000), files_from(server, tmp_path / "blobs")
    path = asyncio.run(files.localize(record, is_unpacked=False))
    assert path.read_bytes() == b"x" * 1000
    assert path.stat().st_mode & 0o222 == 0
    assert asyncio.run(files.localize(record, is_unpacked=False)) == path
    assert len(server.requests) == 1 and files.digests() == {record.sha256}


def test_a_broken_download_goes_on_and_a_damaged_one_begins_anew(server: BundleServer, tmp_path: Path) -> None:
    record, files = record_of(server, b"x" * 1000), files_from(server, tmp_path)
    server.spoil = True
    with pytest.raises(UnavailableError, match=r"^blob 'model' arrived damaged: its 1000 bytes have another digest$"):
        asyncio.run(files.localize(record, is_unpacked=False))
    server.spoil, server.cut_after = False, 200
    with pytest.raises(UnavailableError, match=r"^blob 'model' could not be fetched: .*the leader is going down"):
        asyncio.run(files.localize(record, is_unpacked=False))
    server.cut_after = None
    assert asyncio.run(files.localize(record, is_unpacked=False)).read_bytes() == b"x" * 1000
    assert [request.offset for request in server.requests] == [0, 0, 200]
    assert os.listdir(tmp_path) == [record.sha256]


def test_what_cannot_be_had_is_one_sentence(server: BundleServer, tmp_path: Path) -> None:
    files = files_from(server, tmp_path)
    with pytest.raises(UnavailableError, match=r"^the leading nimbus does not have blob 'model': "):
        asyncio.run(files.localize(BlobRecord(key="model", sha256="ab" * 32, bytes=1), is_unpacked=False))
    with pytest.raises(ProtocolError, match=r"^blob 'model' has no valid digest: '\.\./x'$"):
        asyncio.run(files.localize(BlobRecord(key="model", sha256="../x", bytes=1), is_unpacked=False))
    record = record_of(server, b"no archive")
    with pytest.raises(UsageError, match=r"^blob 'model' cannot be unpacked: it is neither a tar nor a zip archive"):
        asyncio.run(files.localize(record, is_unpacked=True))
    assert [name for name in os.listdir(tmp_path) if not name.endswith(".part")] == [record.sha256]


def test_workers_start_with_the_version_before_while_the_newest_cannot_be_unpacked(
    server: BundleServer, tmp_path: Path
) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz") as tar:
        info = tarfile.TarInfo("weights")
        info.size = 100_000
        tar.addfile(info, io.BytesIO(random.Random(1).randbytes(50_000).hex().encode()))
    good = packed.getvalue()
    damaged = good[:-25_000] + bytes(100) + good[-24_900:]
    records = {"model": record_of(server, good)}
    option = '{"topology.blobstore.map": {"model": {"uncompress": true}}}'
    work = LocalAssignment("words-1-1", "90" * 32, 1, option, ((1, 1),))

    async def stored(read: object) -> dict[str, Mock]:
        return {key: Mock(value=record) for key, record in records.items()}

    files, session = files_from(server, tmp_path), Mock(call=stored)
    blobs = Blobs(files, Mock(), session, Mock(), lambda: [work], Mock(), Mock(), 1.0)
    assert asyncio.run(blobs.prepare("90" * 32)) == {}
    records["model"] = record_of(server, damaged)
    with pytest.raises(UsageError, match=r"^blob 'model' cannot be unpacked: "):
        asyncio.run(files.localize(records["model"], is_unpacked=True))
    assert asyncio.run(blobs.prepare("90" * 32)) == {}
    assert len(Path(blobs.links(work)["model"].path, "weights").read_bytes()) == 100_000
    del records["model"]
    assert "does not exist any more" in str(asyncio.run(blobs.prepare("90" * 32))["words-1-1"])


def test_a_full_disk_leaves_the_old_version_and_the_next_attempt_goes_on(server: BundleServer, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        files = files_from(server, disk)
        old = asyncio.run(files.localize(record_of(server, b"old"), is_unpacked=False))
        new = record_of(server, os.urandom(700_000))
        with pytest.raises(UnavailableError, match=r"^blob 'model' cannot be stored: the disk is full$"):
            asyncio.run(files.localize(new, is_unpacked=False))
        assert old.read_bytes() == b"old"
        remount(disk, "size=4m")
        assert asyncio.run(files.localize(new, is_unpacked=False)).stat().st_size == 700_000


def test_a_blob_is_removed_unless_it_is_needed_by_then(server: BundleServer, tmp_path: Path) -> None:
    record, files = record_of(server, b"x"), files_from(server, tmp_path)
    asyncio.run(files.localize(record, is_unpacked=False))
    asyncio.run(files.remove(record.sha256, lambda: True))
    assert files.digests() == {record.sha256}
    asyncio.run(files.remove(record.sha256, lambda: False))
    assert os.listdir(tmp_path) == []


def test_whoever_opens_a_link_reads_one_whole_version(tmp_path: Path) -> None:
    """Several threads read by both kinds of path, while another one switches between versions all the time."""
    worker = tmp_path / "worker"
    worker.mkdir()
    versions = []
    for number in range(4):
        data = bytes([number]) * 300_000
        path = tmp_path / f"copy-{number}"
        path.write_bytes(hashlib.sha256(data).digest() + data)
        versions.append((f"{number}" * 64, path))
    link(worker, "model.bin", *versions[0])
    reads: list[bool] = []
    is_over = threading.Event()

    def read() -> None:
        while not is_over.is_set():
            for path in (worker / "model.bin", worker / os.readlink(worker / "model.bin")):
                found = path.read_bytes()
                reads.append(hashlib.sha256(found[32:]).digest() == found[:32])

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for turn in range(500):
        link(worker, "model.bin", *versions[turn % 4])
    wait_until(lambda: len(reads) > 200, 30, what="they have read much")
    is_over.set()
    for reader in readers:
        reader.join()
    assert all(reads)
    assert linked(worker, "model.bin") == versions[3][0]
    unlink_version(worker, versions[0][0])
    assert sorted(os.listdir(worker / "blobs")) == [sha256 for sha256, _ in versions[1:]]
    assert linked(worker, "none") == "" == linked(worker, "blobs")


def test_a_link_that_cannot_be_put_in_place_leaves_nothing(tmp_path: Path) -> None:
    worker, copy = tmp_path / "worker", tmp_path / ("a" * 64)
    (worker / "model").mkdir(parents=True)  # by a component
    copy.touch()
    for _ in range(3):
        with pytest.raises(OSError, match="irectory"):
            link(worker, "model", copy.name, copy)
    assert os.listdir(worker / "blobs") == [copy.name]
    (worker / "model").rmdir()
    link(worker, "model", copy.name, copy)
    assert linked(worker, "model") == copy.name
    assert os.listdir(worker / "blobs") == [copy.name]


@pytest.mark.parametrize("name", ["work.partial", "launch.partial", "process.partial", "model"])
def test_a_launch_writes_through_no_link(tmp_path: Path, name: str) -> None:
    conf = defaults() | {"local.dir": str(tmp_path / "local"), "logs.dir": str(tmp_path / "logs")}
    launcher = Launcher(SupervisorConfig.from_conf(conf), "machine", "127.0.0.1:1", None)
    copy = tmp_path / ("a" * 64)
    copy.write_text("shared by all workers")
    copy.chmod(0o444)
    work = LocalAssignment("words-1-1", "90" * 32, 1, "{}", ((1, 1),))
    blobs = {name: LocalBlob(copy.name, str(copy))}
    _, process = launcher.launch("w", 6700, work, tmp_path, shutil.which("true") or "", blobs)
    process.end()
    assert copy.read_text() == "shared by all workers"
    for written in ("work.json", "launch.json"):
        path = launcher.directory("w") / written
        assert path.is_file() and not path.is_symlink()
        assert path.stat().st_mode & 0o777 == 0o600


def test_a_version_that_is_the_newest_again_while_it_is_removed_keeps_its_links(tmp_path: Path) -> None:
    old, new, form = "a" * 64, "b" * 64, Form("model", False)
    root, worker = tmp_path / "blobs", tmp_path / "worker"
    root.mkdir()
    for sha256 in (old, new):
        (root / sha256).write_text(sha256)
        link(worker, "model", sha256, root / sha256)
    work = LocalAssignment("words-1-1", "90" * 32, 1, '{"topology.blobstore.map": {"model": {}}}', ((1, 1),))
    launcher = Mock(directory=lambda worker_id: worker)
    blobs = Blobs(Mock(digests=lambda: {old, new}), launcher, Mock(), Mock(), list, Mock(), Mock(), 1.0)
    blobs._live = lambda: [LaunchedWorker("w", 6700, work, 0.0)]
    blobs._ready = {form: LocalBlob(new, str(root / new))}

    async def updated_meanwhile(sha256: str, needed: object) -> None:
        assert sha256 == old
        blobs._ready = {form: LocalBlob(old, str(root / old))}
        link(worker, "model", old, root / old)

    blobs._files.remove = updated_meanwhile  # type: ignore[method-assign]
    asyncio.run(blobs.remove_unneeded(0.0))
    assert (worker / "model").read_text() == old
