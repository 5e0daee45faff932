"""Replication of bundles and blobs. Every nimbus holds the bundle of every live topology, so that any can lead.

So does every other version of a topology that was updated (updates.py), but without one that it can only go back to, a
nimbus leads all the same. A nimbus fetches a missing bundle from the leader first, then from any other nimbus that has
it. Blobs are fetched in the same way, in a row of their own, since they are larger: a nimbus leads without one, too,
and asks again until another nimbus has it. What neither a topology nor a blob needs is removed
``nimbus.topology.blobstore.deletion.delay.ms`` after the nimbus first found it unneeded.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Sequence, Set

import grpc
import grpc.aio

from tupletree._coord.store import Leadership, Store
from tupletree._coord.versioned import Found
from tupletree._log import event
from tupletree._rpc.channels import aio_channel
from tupletree._rpc.status import from_rpc_error
from tupletree.errors import TupletreeError, UnavailableError
from tupletree.v1 import nimbus_pb2 as rpc
from tupletree.v1.nimbus_pb2_grpc import NimbusStub
from tupletree.v1.topology_pb2 import BlobRecord, Presence, TopologyRecord, TopologyVersion

from ..leader import lifecycle
from ..rpc_clients import address_of
from ..threads import disk
from ..updates import needed_versions, versions_of
from .blob_store import BlobStore

log = logging.getLogger("tupletree.nimbus")

_PROBE_S = 0.02
_MIB = 1024 * 1024


class Replication:
    """Keeps one nimbus's blob store in line with the bundles that topologies need."""

    def __init__(
        self, store: Store, blobs: BlobStore, identity: str, delay_s: float, clock: Callable[[], float]
    ) -> None:
        self._store = store
        self._blobs = blobs
        self._identity = identity
        self._delay_s = delay_s
        self._clock = clock
        self._unneeded_since: dict[str, float] = {}
        self._lock = asyncio.Lock()  # one sync at a time: a new leader waits for the running sync
        self._fetching: set[str] = set()  # digests of blobs

    async def sync(self, in_use: Callable[[], Collection[str]]) -> list[TopologyRecord]:
        """Fetch missing bundles and remove unneeded ones. Raises UnavailableError.

        Returns the live topologies whose bundle is still missing. ``in_use``: returns the digests of uploads whose
        topology is not stored yet.
        """
        async with self._lock:
            records = await asyncio.to_thread(self._store.topologies)
            named = await asyncio.to_thread(self._store.blobs)
            live = [stored.value for stored in records.values() if stored.value.status != lifecycle.KILLED]
            missing = []
            for one in live:
                for version in await disk.run(self._lacking, versions_of(one)):
                    is_lacking = await disk.run(self._lacking, [version])  # another topology can have the same bundle
                    fetched = not is_lacking or await self._fetch(version.bundle_sha256, version.bundle_bytes)
                    if not fetched and version in needed_versions(one):
                        missing.append(one)
            await self._sweep(records, named, lambda: self._fetching | set(in_use()))
            return missing

    async def sync_blobs(self) -> list[BlobRecord]:
        """Fetch missing blobs; return those that are still missing. Not twice at a time. Raises UnavailableError."""
        missing = []
        for stored in (await asyncio.to_thread(self._store.blobs)).values():
            one = stored.value
            if await disk.run(self._blobs.has, one.sha256, one.bytes):
                continue
            self._fetching.add(one.sha256)
            try:
                if not await self._fetch(one.sha256, one.bytes):
                    missing.append(one)
            finally:
                self._fetching.discard(one.sha256)
        return missing

    async def confirm(self, sha256: str, size: int, timeout_s: float) -> None:
        """Wait until every other nimbus has these bytes or fails to answer, for at most ``timeout_s``.

        Never raises UnavailableError: the record that names the bytes is written already.
        """
        try:
            others = await self._others()
        except UnavailableError as error:  # each nimbus asks for the bytes by itself, as soon as it reads the record
            event(log, "blob.unconfirmed", level=logging.WARNING, sha256=sha256, cause=error)
            return
        await asyncio.gather(*(self._wait_for(sha256, size, address, timeout_s) for address in others))

    def _lacking(self, versions: Iterable[TopologyVersion]) -> list[TopologyVersion]:
        """Return the versions whose bundle this nimbus does not hold."""
        return [one for one in versions if not self._blobs.has(one.bundle_sha256, one.bundle_bytes)]

    async def _fetch(self, sha256: str, size: int) -> bool:
        for address in await self._others():
            try:
                await self._fetch_from(address, sha256, size)
            except TupletreeError as error:
                event(log, "blob.not_fetched", level=logging.WARNING, sha256=sha256, cause=error)
            else:
                event(log, "blob.fetched", sha256=sha256, bytes=size, source=address)
                return True
        return False

    async def _others(self) -> Sequence[str]:
        """Return the addresses of the other nimbuses, the leader's first."""
        presences = await asyncio.to_thread(self._store.nimbuses)
        leader: Leadership | None = await asyncio.to_thread(self._store.leadership)
        leader_id = leader.identity if leader is not None else ""
        others: list[Presence] = [one for one in presences.values() if one.id != self._identity]
        return [address_of(one) for one in sorted(others, key=lambda one: (one.id != leader_id, one.id))]

    async def _fetch_from(self, address: str, sha256: str, size: int) -> None:
        incoming = await disk.run(self._blobs.receive, sha256, size)
        try:
            async with aio_channel(address) as channel:
                request = rpc.FetchBundleRequest(sha256=sha256)
                async for reply in NimbusStub(channel).FetchBundle(request, timeout=60 + size / _MIB):
                    await disk.run(incoming.write, reply.chunk)
            await disk.run(incoming.verify)
            await disk.run(incoming.publish)
        except grpc.aio.AioRpcError as error:
            raise from_rpc_error(error, f"nimbus at {address}") from error
        finally:
            await disk.run(incoming.discard)

    async def _wait_for(self, sha256: str, size: int, address: str, timeout_s: float) -> None:
        deadline_s = self._clock() + timeout_s
        # Request the bytes from their end: a nimbus that has them sends no chunk; one that lacks them sends NOT_FOUND.
        request = rpc.FetchBundleRequest(sha256=sha256, offset=size)
        async with aio_channel(address) as channel:
            while (left_s := deadline_s - self._clock()) > 0:
                try:
                    async for _ in NimbusStub(channel).FetchBundle(request, timeout=left_s):
                        pass
                    return
                except grpc.aio.AioRpcError as error:
                    if error.code() != grpc.StatusCode.NOT_FOUND:
                        event(log, "blob.unconfirmed", level=logging.WARNING, nimbus=address, cause=error.details())
                        return
                await asyncio.sleep(_PROBE_S)
        event(log, "blob.unconfirmed", level=logging.WARNING, nimbus=address, cause=f"missing after {timeout_s:g} s")

    async def _sweep(
        self, records: Found[TopologyRecord], named: Found[BlobRecord], in_use: Callable[[], Set[str]]
    ) -> None:
        if records.unreadable or named.unreadable:
            return  # what unreadable records need is unknown
        unneeded = await disk.run(self._blobs.digests) - _needed(records, named) - in_use()
        now_s = self._clock()
        self._unneeded_since = {one: self._unneeded_since.get(one, now_s) for one in unneeded}
        due = {one for one, since_s in self._unneeded_since.items() if now_s - since_s >= self._delay_s}
        if not due:
            return
        due -= in_use()  # before the records are read again: an upload that ends in between has a record
        named = await asyncio.to_thread(self._store.blobs)
        records = await asyncio.to_thread(self._store.topologies)
        if records.unreadable or named.unreadable:
            return
        for sha256 in due - _needed(records, named):
            if sha256 not in in_use():
                await disk.run(self._blobs.remove, sha256)
                del self._unneeded_since[sha256]
                event(log, "blob.removed", sha256=sha256)

    def next_removal_s(self) -> float | None:
        """Return the time, by ``clock``, of the next removal of an unneeded blob; None if no blob is unneeded."""
        return min((since_s + self._delay_s for since_s in self._unneeded_since.values()), default=None)


def _needed(records: Found[TopologyRecord], named: Found[BlobRecord]) -> set[str]:
    """Return the digests of the bundles and blobs that records name."""
    bundles = {one.bundle_sha256 for stored in records.values() for one in versions_of(stored.value)}
    return bundles | {stored.value.sha256 for stored in named.values()}
