"""Downloads of bundles and blobs from the leader: resumed where they broke off, verified, and removed by digest.

<directory>/
    <sha256>             complete, as a file or a directory
    <sha256>.unpacked/   likewise
    <sha256>.part        bytes received so far
    <sha256>.*           disposable
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
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final

import grpc

from tupletree import bundle
from tupletree._log import event
from tupletree._rpc.channels import aio_channel
from tupletree._rpc.status import from_rpc_error
from tupletree.errors import NotFoundError, ProtocolError, TupletreeError, UnavailableError
from tupletree.v1 import nimbus_pb2, nimbus_pb2_grpc

from .files import remove_tree

log = logging.getLogger(__name__)

SHA256: Final = re.compile(r"[0-9a-f]{64}")

_FETCH_S: Final = 60.0
_FETCH_S_PER_MIB: Final = 1.0

Received = Callable[[int], None]


class Downloads:
    """Downloads into one directory, and what a subclass makes of them there. ``kind``: their name in events."""

    def __init__(self, root: Path, leader: Callable[[], Awaitable[str]], received: Received, kind: str) -> None:
        self._root = root
        self._leader = leader
        self._received = received
        self._kind = kind
        # By digest, while a task holds or awaits the lock: localization and removal exclude each other.
        self._locks: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()

    def _lock(self, sha256: str) -> asyncio.Lock:
        return self._locks.setdefault(sha256, asyncio.Lock())

    def digests(self) -> set[str]:
        """Return all digests with any file on disk."""
        if not self._root.is_dir():
            return set()
        return {name[:64] for name in os.listdir(self._root) if SHA256.fullmatch(name[:64])}

    async def remove(self, sha256: str, needed: Callable[[], bool]) -> None:
        """Remove all files of a digest, unless ``needed()`` returns True once the lock is held."""
        async with self._lock(sha256):
            if not needed():
                named: dict[str, Any] = {self._kind: sha256[:12]}
                event(log, f"{self._kind}.removed", **named)
                await asyncio.to_thread(self._remove, sha256)

    def _remove(self, sha256: str) -> None:
        for complete in (self._root / sha256, self._root / f"{sha256}.unpacked"):
            if complete.is_dir():  # a half-removed directory must never pass for a complete one
                os.replace(complete, self._root / f"{sha256}.{uuid.uuid4().hex}.doomed")
            else:
                complete.unlink(missing_ok=True)
        for path in self._root.glob(f"{sha256}.*"):
            if path.is_dir():
                remove_tree(path)
            else:
                path.unlink(missing_ok=True)

    async def fetch(self, sha256: str, size: int, what: str) -> Path:
        """Return the path of the complete and verified bytes, with the lock held. ``what``: their name in errors.

        Raises UnavailableError or NotFoundError (try again later), in one sentence, or OSError.
        """
        self._root.mkdir(parents=True, exist_ok=True)
        part = self._root / f"{sha256}.part"
        have = part.stat().st_size if part.exists() else 0
        if have > size:
            part.unlink()
            have = 0
        if have < size:
            await self._download(await self._leader(), sha256, have, size, part, what)
        found = await asyncio.to_thread(bundle.digest, part)
        if found.sha256 != sha256:
            part.unlink()
            raise UnavailableError(f"{what} arrived damaged: its {found.size} bytes have another digest")
        return part

    async def _download(self, address: str, sha256: str, offset: int, size: int, part: Path, what: str) -> None:
        timeout = _FETCH_S + _FETCH_S_PER_MIB * size / 2**20
        request = nimbus_pb2.FetchBundleRequest(sha256=sha256, offset=offset)
        async with aio_channel(address) as channel:
            call = nimbus_pb2_grpc.NimbusStub(channel).FetchBundle(request, timeout=timeout)
            try:
                await self._append(part, _chunks(call), size - offset, what)
            except grpc.RpcError as error:
                fault = from_rpc_error(error, f"nimbus at {address}")
                if isinstance(fault, ProtocolError):  # no such offset: the part is of other bytes
                    part.unlink(missing_ok=True)
                raise _fetch_error(fault, what) from error
        if part.stat().st_size < size:
            raise UnavailableError(f"nimbus at {address} sent only a part of {what}")

    async def _append(self, part: Path, chunks: AsyncIterator[bytes], left: int, what: str) -> None:
        with open(part, "ab") as file:
            async for chunk in chunks:
                left -= len(chunk)
                if left < 0:
                    os.unlink(part)
                    raise UnavailableError(f"{what} is longer than its recorded size")
                file.write(chunk)
                self._received(len(chunk))


async def _chunks(call: AsyncIterable[nimbus_pb2.FetchBundleReply]) -> AsyncIterator[bytes]:
    async for reply in call:
        yield reply.chunk


def _fetch_error(error: TupletreeError, what: str) -> TupletreeError:
    if isinstance(error, NotFoundError):
        return NotFoundError(f"the leading nimbus does not have {what}: {error}")
    return UnavailableError(f"{what} could not be fetched: {error}")


@contextlib.contextmanager
def disk_errors(what: str) -> Iterator[None]:
    """Turn an OSError in the body into an UnavailableError of one sentence."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        cause = "the disk is full" if full else f"{error.strerror} ({error.filename})"
        raise UnavailableError(f"{what} cannot be stored: {cause}") from error
