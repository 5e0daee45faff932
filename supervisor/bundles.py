"""Topology bundles on this machine: fetched from the leader, verified, unpacked.

    <local.dir>/bundles/
        <sha256>.part         bytes received so far; a later attempt resumes the download
        <sha256>.*.unpacking/ being unpacked
        <sha256>/             complete: created by rename after the digest is verified
        <sha256>/venv/        see virtualenv.py
        <sha256>.lock         lock held while the environment is built

Everything except a complete directory is disposable and may be removed at any time.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import re
import uuid
import weakref
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

import grpc

from tupletree import bundle
from tupletree._log import event
from tupletree._rpc.channels import aio_channel
from tupletree._rpc.status import from_rpc_error
from tupletree.errors import NotFoundError, ProtocolError, TupletreeError, UnavailableError, UsageError
from tupletree.v1 import nimbus_pb2, nimbus_pb2_grpc

from .files import remove_tree

log = logging.getLogger(__name__)

_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_GET_LEADER_S: Final = 2.0
_FETCH_S: Final = 60.0
_FETCH_S_PER_MIB: Final = 1.0

Received = Callable[[int], None]


async def find_leader(addresses: Iterable[str]) -> str:
    """Ask the nimbuses at ``addresses`` for the leader's address. If they disagree, the newest epoch wins.

    Raises UnavailableError if no nimbus answers or there is no leader.
    """
    asked = list(dict.fromkeys(addresses))
    replies = await asyncio.gather(*(_ask_leader(address) for address in asked))
    known = [reply for reply in replies if reply is not None and reply.address]
    if known:
        return str(max(known, key=lambda reply: reply.epoch).address)
    if any(reply is not None for reply in replies):
        raise UnavailableError("no nimbus leads; see 'tupletree health'")
    raise UnavailableError(f"no nimbus answers (asked {', '.join(asked)})")


async def _ask_leader(address: str) -> nimbus_pb2.GetLeaderReply | None:
    async with aio_channel(address) as channel:
        try:
            stub = nimbus_pb2_grpc.NimbusStub(channel)
            return await stub.GetLeader(nimbus_pb2.GetLeaderRequest(), timeout=_GET_LEADER_S)
        except grpc.RpcError:
            return None


class Bundles:
    """The directory of bundles."""

    def __init__(self, root: Path, leader: Callable[[], Awaitable[str]], received: Received) -> None:
        self._root = root
        self._leader = leader
        self._received = received
        # By digest, while a task holds or awaits the lock: localization and removal exclude each other.
        self._locks: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()

    def directory(self, sha256: str) -> Path:
        return self._root / sha256

    async def localize(self, sha256: str, size: int) -> Path:
        """Return the directory of the unpacked bundle, which is fetched if necessary.

        Raises UnavailableError (try again later), or UsageError if the file is not a bundle, each in one sentence.
        """
        if not _SHA256.fullmatch(sha256):
            raise ProtocolError(f"{sha256!r} is not the digest of a bundle")
        directory = self.directory(sha256)
        async with self._lock(sha256):
            if directory.is_dir():
                return directory
            with _disk_errors():
                self._root.mkdir(parents=True, exist_ok=True)
                await self._fetch(sha256, size)
                await asyncio.to_thread(self._unpack, sha256)
        return directory

    def _lock(self, sha256: str) -> asyncio.Lock:
        return self._locks.setdefault(sha256, asyncio.Lock())

    async def _fetch(self, sha256: str, size: int) -> None:
        part = self._root / f"{sha256}.part"
        have = part.stat().st_size if part.exists() else 0
        if have > size:
            part.unlink()
            have = 0
        if have < size:
            await self._download(await self._leader(), sha256, have, size, part)
        found = await asyncio.to_thread(bundle.digest, part)
        if found.sha256 != sha256:
            part.unlink()
            raise UnavailableError(
                f"the bundle {sha256[:12]} arrived damaged: its {found.size} bytes have another digest"
            )

    async def _download(self, address: str, sha256: str, offset: int, size: int, part: Path) -> None:
        timeout = _FETCH_S + _FETCH_S_PER_MIB * size / 2**20
        request = nimbus_pb2.FetchBundleRequest(sha256=sha256, offset=offset)
        async with aio_channel(address) as channel:
            call = nimbus_pb2_grpc.NimbusStub(channel).FetchBundle(request, timeout=timeout)
            try:
                await self._append(part, _chunks(call), size - offset)
            except grpc.RpcError as error:
                fault = from_rpc_error(error, f"nimbus at {address}")
                if isinstance(fault, ProtocolError):  # no such offset: the part is of another bundle
                    part.unlink(missing_ok=True)
                raise _fetch_error(sha256, fault) from error
        if part.stat().st_size < size:
            raise UnavailableError(f"nimbus at {address} sent only a part of the bundle {sha256[:12]}")

    async def _append(self, part: Path, chunks: AsyncIterator[bytes], left: int) -> None:
        with open(part, "ab") as file:
            async for chunk in chunks:
                left -= len(chunk)
                if left < 0:
                    os.unlink(part)
                    raise UnavailableError(f"the bundle {part.stem[:12]} is longer than its recorded size")
                file.write(chunk)
                self._received(len(chunk))

    def _unpack(self, sha256: str) -> None:
        # Each attempt has its own directory: the thread of a cancelled attempt can still be running.
        part, unpacking = self._root / f"{sha256}.part", self._root / f"{sha256}.{uuid.uuid4().hex}.unpacking"
        try:
            bundle.unpack(part, unpacking)
            if not self.directory(sha256).exists():
                os.replace(unpacking, self.directory(sha256))
            part.unlink(missing_ok=True)
        except UsageError:
            part.unlink(missing_ok=True)
            raise
        finally:
            remove_tree(unpacking)

    def digests(self) -> set[str]:
        """Return the digests of all bundles with any file on disk."""
        if not self._root.is_dir():
            return set()
        return {name[:64] for name in os.listdir(self._root) if _SHA256.fullmatch(name[:64])}

    async def remove(self, sha256: str, needed: Callable[[], bool]) -> None:
        """Remove all files of a bundle, unless ``needed()`` returns True once the lock is held."""
        async with self._lock(sha256):
            if not needed():
                event(log, "bundle.removed", bundle=sha256[:12])
                await asyncio.to_thread(self._remove, sha256)

    def _remove(self, sha256: str) -> None:
        directory = self.directory(sha256)
        if directory.is_dir():
            # A half-removed directory must never pass for a complete one.
            os.replace(directory, self._root / f"{sha256}.{uuid.uuid4().hex}.doomed")
        for path in self._root.glob(f"{sha256}.*"):
            if path.is_dir():
                remove_tree(path)
            else:
                path.unlink(missing_ok=True)


async def _chunks(call: AsyncIterable[nimbus_pb2.FetchBundleReply]) -> AsyncIterator[bytes]:
    async for reply in call:
        yield reply.chunk


def _fetch_error(sha256: str, error: TupletreeError) -> TupletreeError:
    if isinstance(error, NotFoundError):
        return NotFoundError(f"the leading nimbus does not have the bundle {sha256[:12]}: {error}")
    return UnavailableError(f"the bundle {sha256[:12]} could not be fetched: {error}")


@contextlib.contextmanager
def _disk_errors() -> Iterator[None]:
    """Turn an OSError in the body into an UnavailableError of one sentence."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        what = "the disk is full" if full else f"{error.strerror} ({error.filename})"
        raise UnavailableError(f"the bundle cannot be stored: {what}") from error
