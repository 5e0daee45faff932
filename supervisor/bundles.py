"""Topology bundles on this machine: fetched from the leader, verified, unpacked.

    <local.dir>/bundles/
        <sha256>.part         bytes received so far; a later attempt resumes the download
        <sha256>.*.unpacking/ being unpacked
        <sha256>/             complete: verified, unpacked, on the disk, and then renamed
        <sha256>/venv/        see virtualenv.py
        <sha256>.lock         lock held while the environment is built

Everything except a complete directory is disposable and may be removed at any time.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Final

import grpc

from tupletree import bundle
from tupletree._rpc.channels import aio_channel
from tupletree.errors import ProtocolError, UnavailableError, UsageError
from tupletree.v1 import nimbus_pb2, nimbus_pb2_grpc

from .downloads import SHA256, Downloads, Received, disk_errors
from .files import publish_tree, remove_tree

log = logging.getLogger(__name__)

_GET_LEADER_S: Final = 2.0


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


class Bundles(Downloads):
    """The directory of bundles."""

    def __init__(self, root: Path, leader: Callable[[], Awaitable[str]], received: Received) -> None:
        super().__init__(root, leader, received, "bundle")

    def directory(self, sha256: str) -> Path:
        return self._root / sha256

    async def localize(self, sha256: str, size: int) -> Path:
        """Return the directory of the unpacked bundle, which is fetched if necessary.

        Raises UnavailableError (try again later), or UsageError if the file is not a bundle, each in one sentence.
        """
        if not SHA256.fullmatch(sha256):
            raise ProtocolError(f"{sha256!r} is not the digest of a bundle")
        directory = self.directory(sha256)
        async with self._lock(sha256):
            if directory.is_dir():
                return directory
            with disk_errors("the bundle"):
                await self.fetch(sha256, size, f"the bundle {sha256[:12]}")
                await asyncio.to_thread(self._unpack, sha256)
        return directory

    def _unpack(self, sha256: str) -> None:
        # Each attempt has its own directory: the thread of a cancelled attempt can still be running.
        part, unpacking = self._root / f"{sha256}.part", self._root / f"{sha256}.{uuid.uuid4().hex}.unpacking"
        try:
            bundle.unpack(part, unpacking)
            publish_tree(unpacking, self.directory(sha256))
            part.unlink(missing_ok=True)
        except UsageError:
            part.unlink(missing_ok=True)
            raise
        finally:
            remove_tree(unpacking)
