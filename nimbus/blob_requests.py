"""Requests about blobs, the files for workers.

    header checked -> bytes to a temporary file -> digest verified -> rename -> record in ZooKeeper
    -> supervisors and standbys are woken by the record -> standbys have the bytes -> reply

The bytes lie in the store of bundles. A crash before the record leaves bytes that nothing needs, which are removed
after the deletion delay; a client that then gets no reply finds in ``show`` which version holds.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator

from tupletree._coord import paths
from tupletree._coord.leader import Create, Delete, Put, Write
from tupletree._coord.store import Found, Store, encode
from tupletree._log import event
from tupletree._security.current import current
from tupletree._security.guard import caller
from tupletree._security.rights import acl_of_blob, may_read
from tupletree.errors import AuthorityError, ConflictError, UnavailableError, UsageError
from tupletree.v1 import nimbus_pb2 as rpc
from tupletree.v1 import topology_pb2 as pb

from .blob_rules import check_blob_header, check_deletion, first_version, found, naming, next_version, summary
from .config import NimbusConfig
from .leader.known_leader import KnownLeader
from .submission.blob_store import BlobStore
from .submission.replication import Replication
from .submission.submission import CONFIRM_TIMEOUT_S, to_the_end
from .threads import disk

log = logging.getLogger("tupletree.nimbus")

_CHUNK_BYTES = 1024 * 1024
_CONFIRMED_BYTES_PER_S = 10 * 1024 * 1024


class BlobRequests:
    """Stores, shows and deletes blobs. Every method raises UnavailableError on a standby nimbus."""

    def __init__(
        self, config: NimbusConfig, store: Store, known: KnownLeader, blobs: BlobStore, replication: Replication
    ) -> None:
        self._config = config
        self._store = store
        self._known = known
        self._blobs = blobs
        self._replication = replication

    async def put(self, requests: AsyncIterator[rpc.PutBlobRequest], *, is_update: bool) -> rpc.BlobReply:
        """Store the first or the next version of a blob. Raises UsageError, NotFoundError or UnavailableError."""
        leader_state = self._known.reconciler().leader_state
        header = await _header_of(requests)
        check_blob_header(header, self._config.max_blob_bytes)
        with leader_state.receiving_blob(header.key, header.sha256):
            stored = await asyncio.to_thread(self._store.blobs)
            records = {key: one.value for key, one in stored.items()}
            record = (next_version if is_update else first_version)(header, records, time.time())
            is_new = record != records.get(header.key)
            if is_new or not await disk.run(self._blobs.has, record.sha256, record.bytes):  # or the bytes were lost
                await self._receive(header, requests)
            if is_new:
                await self._write(self._put(record, stored))
        event(log, "blob.put", key=record.key, version=record.version, bytes=record.bytes, owner=record.owner)
        timeout_s = CONFIRM_TIMEOUT_S + record.bytes / _CONFIRMED_BYTES_PER_S
        await self._replication.confirm(record.sha256, record.bytes, timeout_s)
        return await self._shown(record)

    async def delete(self, key: str, *, is_forced: bool) -> None:
        """Delete a blob. Raises NotFoundError, or UsageError if a topology names it and ``is_forced`` is False."""
        self._known.reconciler()
        stored = await asyncio.to_thread(self._store.blobs)
        found(key, {one: blob.value for one, blob in stored.items()})
        if not is_forced:
            topologies = await asyncio.to_thread(self._store.topologies)
            check_deletion(key, [one.value for one in topologies.values()], caller.get(), current().admins)
        await self._write(Delete(paths.blob(self._store.root, key), stored[key].version))
        event(log, "blob.deleted", key=key, forced=is_forced)

    async def list_blobs(self) -> rpc.ListBlobsReply:
        """Return the blobs that the caller may read."""
        self._known.reconciler()
        who, admins = caller.get(), current().admins
        stored = await asyncio.to_thread(self._store.blobs)
        named = await self._naming()
        visible = [one.value for _, one in sorted(stored.items()) if may_read(who, admins, acl_of_blob(one.value))]
        return rpc.ListBlobsReply(blobs=[summary(one, named, who, admins) for one in visible])

    async def describe(self, key: str) -> rpc.BlobReply:
        """Return one blob. Raises NotFoundError."""
        return await self._shown(await self._find(key))

    async def fetch(self, key: str) -> AsyncIterator[rpc.FetchBlobReply]:
        """Yield the record of a blob, and then its bytes. Raises NotFoundError."""
        record = await self._find(key)
        if not await disk.run(self._blobs.has, record.sha256, record.bytes):
            raise UnavailableError(f"blob '{key}' is still being copied to the leading nimbus; try again later")
        chunks = await disk.run(self._blobs.read, record.sha256, 0, _CHUNK_BYTES)
        yield rpc.FetchBlobReply(record=record)
        while chunk := await disk.run(next, chunks, b""):
            yield rpc.FetchBlobReply(chunk=chunk)

    async def _find(self, key: str) -> pb.BlobRecord:
        self._known.reconciler()
        stored = await asyncio.to_thread(self._store.blobs)
        return found(key, {one: blob.value for one, blob in stored.items()})

    async def _shown(self, record: pb.BlobRecord) -> rpc.BlobReply:
        return rpc.BlobReply(blob=summary(record, await self._naming(), caller.get(), current().admins))

    async def _naming(self) -> dict[str, list[pb.TopologyRecord]]:
        records = await asyncio.to_thread(self._store.topologies)
        return naming(one.value for one in records.values())

    async def _receive(self, header: rpc.BlobHeader, requests: AsyncIterator[rpc.PutBlobRequest]) -> None:
        """Store the bytes that follow a header. Raises UsageError or UnavailableError."""
        with self._blobs.receive(header.sha256, header.size, f"blob '{header.key}'") as incoming:
            async for request in requests:
                if request.WhichOneof("kind") != "chunk":
                    raise UsageError("the upload of a blob must be one header followed by chunks")
                await to_the_end(incoming.write, request.chunk)
            await to_the_end(incoming.verify)
            await to_the_end(incoming.publish)

    def _put(self, record: pb.BlobRecord, stored: Found[pb.BlobRecord]) -> Write:
        path, data = paths.blob(self._store.root, record.key), encode(record)
        before = stored.get(record.key)
        return Create(path, data) if before is None else Put(path, data, before.version)

    async def _write(self, write: Write) -> None:
        """Write in the name of this leadership. Raises UnavailableError."""
        try:
            await asyncio.to_thread(self._known.reconciler().write, [write])
        except ConflictError as error:
            raise UnavailableError("another call has changed the blob at the same time; try again") from error
        except AuthorityError as error:
            raise UnavailableError(f"no blob was changed: {error}") from error


async def _header_of(requests: AsyncIterator[rpc.PutBlobRequest]) -> rpc.BlobHeader:
    """Return the header with which an upload begins. Raises UsageError."""
    async for request in requests:
        if request.WhichOneof("kind") == "header":
            return request.header
        break
    raise UsageError("the upload of a blob must begin with a header")
