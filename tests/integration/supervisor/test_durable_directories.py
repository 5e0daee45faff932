"""Unpacked bundles and blobs are on the disk before they have the name by which a directory counts as complete."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import tarfile
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from supervisor_harness import BundleServer, make_bundle

from tupletree.supervisor.blob_files import BlobFiles
from tupletree.supervisor.bundles import Bundles, find_leader
from tupletree.v1.topology_pb2 import BlobRecord

Leader = Callable[[], Awaitable[str]]


@pytest.fixture
def server() -> Iterator[BundleServer]:
    with contextlib.closing(BundleServer()) as one:
        yield one


@pytest.fixture
def unsynced(monkeypatch: pytest.MonkeyPatch) -> dict[str, set[str]]:
    """The files and directories that were not synced when a directory got its name, by that name."""
    synced: set[int] = set()
    found: dict[str, set[str]] = {}
    sync, rename = os.fsync, os.replace

    def fsync(descriptor: int) -> None:
        sync(descriptor)
        synced.add(os.fstat(descriptor).st_ino)

    def replace(old: Path, new: Path) -> None:
        if Path(old).is_dir():
            below = [Path(old), *Path(old).rglob("*")]
            found[Path(new).name] = {path.name for path in below if path.stat().st_ino not in synced}
        rename(old, new)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    return found


async def unpack_bundle(server: BundleServer, root: Path, directory: Path, leader: Leader) -> Path:
    info = server.add(make_bundle(directory))
    return await Bundles(root, leader, [].append).localize(info.sha256, info.size)


async def unpack_blob(server: BundleServer, root: Path, directory: Path, leader: Leader) -> Path:
    archive = directory / "model.tar"
    with tarfile.open(archive, "w") as tar:
        for name in ("model/weights", "model/deep/er/weights", "words"):
            info = tarfile.TarInfo(name)
            info.size = 5
            tar.addfile(info, io.BytesIO(b"12345"))
    info = server.add(archive)
    record = BlobRecord(key="model", version=1, sha256=info.sha256, bytes=info.size)
    return await BlobFiles(root, leader, [].append).localize(record, is_unpacked=True)


@pytest.mark.parametrize("unpack", [unpack_bundle, unpack_blob])
def test_a_directory_has_its_name_when_all_that_is_in_it_is_on_the_disk(
    server: BundleServer,
    tmp_path: Path,
    unsynced: dict[str, set[str]],
    unpack: Callable[[BundleServer, Path, Path, Leader], Coroutine[Any, Any, Path]],
) -> None:
    async def leader() -> str:
        return await find_leader([server.address])

    directory = asyncio.run(unpack(server, tmp_path / "local", tmp_path, leader))
    assert unsynced == {directory.name: set()}
