"""Blobs on this machine: one copy for all workers, and the links by which each worker opens its own.

    <local.dir>/blobs/
        <sha256>                complete: renamed when the digest is verified; never changed afterwards
        <sha256>.unpacked/      what is in the archive; renamed when it is on the disk
        <sha256>.part           see downloads.py
        <sha256>.*.unpacking/   being unpacked

    <local.dir>/workers/<worker id>/
        blobs/<sha256>/<name>   -> the copy above: stays what it is, for as long as somebody reads it
        <name>                  -> blobs/<sha256>/<name> of the newest version, replaced by rename

Who opens ``<name>`` reads one whole version, whenever the link is replaced.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

from tupletree._archives import free_bytes, unpack_archive
from tupletree.errors import NotFoundError, ProtocolError, UnavailableError
from tupletree.v1.topology_pb2 import BlobRecord

from .downloads import SHA256, Downloads, Received, disk_errors
from .files import publish_tree, remove_tree

log = logging.getLogger(__name__)


class BlobFiles(Downloads):
    """The directory of blobs."""

    def __init__(self, root: Path, leader: Callable[[], Awaitable[str]], received: Received) -> None:
        super().__init__(root, leader, received, "blob")

    async def localize(self, record: BlobRecord, *, is_unpacked: bool) -> Path:
        """Return the path of a blob's file, or of the directory with what is in it; fetched if necessary.

        Raises UnavailableError (try again later), or UsageError if it cannot be unpacked.
        """
        sha256, what = record.sha256, f"blob '{record.key}'"
        if not SHA256.fullmatch(sha256):
            raise ProtocolError(f"{what} has no valid digest: {sha256!r}")
        file, unpacked = Path(self.path(sha256, False)), Path(self.path(sha256, True))
        async with self._lock(sha256):
            with disk_errors(what):
                if not file.exists() or file.stat().st_size != record.bytes:
                    part = await self._fetch(record, what)
                    await asyncio.to_thread(_publish, part, file)
                if is_unpacked and not unpacked.is_dir():
                    await asyncio.to_thread(self._unpack, file, unpacked, what)
        return unpacked if is_unpacked else file

    def path(self, sha256: str, is_unpacked: bool) -> str:
        """Return where a version is, on this machine or not yet."""
        return str(self._root / (f"{sha256}.unpacked" if is_unpacked else sha256))

    async def _fetch(self, record: BlobRecord, what: str) -> Path:
        try:
            return await self.fetch(record.sha256, record.bytes, what)
        except NotFoundError as error:  # a leader without the bytes fetches them from another nimbus
            raise UnavailableError(str(error)) from error

    def _unpack(self, file: Path, unpacked: Path, what: str) -> None:
        # Each attempt has its own directory: the thread of a cancelled attempt can still be running.
        unpacking = self._root / f"{file.name}.{uuid.uuid4().hex}.unpacking"
        try:
            unpack_archive(file, unpacking, what, free_bytes(self._root))
            publish_tree(unpacking, unpacked)
        finally:
            remove_tree(unpacking)


def _publish(part: Path, file: Path) -> None:
    """Make complete bytes durable and give them their name. Raises OSError."""
    with open(part, "rb") as written:
        os.fsync(written.fileno())
    part.chmod(0o444)
    os.replace(part, file)


def link(directory: Path, name: str, sha256: str, target: Path) -> None:
    """Let a worker's local name lead to a version. Raises OSError."""
    version = directory / "blobs" / sha256
    version.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.symlink(target, version / name)
    fresh = directory / "blobs" / f".{uuid.uuid4().hex}"
    os.symlink(Path("blobs", sha256, name), fresh)
    try:
        os.replace(fresh, directory / name)
    except OSError:  # a component has put a directory there
        os.unlink(fresh)
        raise


def linked(directory: Path, name: str) -> str:
    """Return the digest of the version that a worker's local name leads to; "" if it leads to none."""
    try:
        sha256 = Path(os.readlink(directory / name)).parent.name
    except OSError:
        return ""
    return sha256 if SHA256.fullmatch(sha256) else ""


def unlink_version(directory: Path, sha256: str) -> None:
    """Remove a worker's links to a version that its local names no longer lead to. Idempotent."""
    remove_tree(directory / "blobs" / sha256)
