"""Processing of a submission: header, bytes, record, in an order that makes an interruption harmless.

    name reserved -> header checked -> bytes to a temporary file -> digest, topology.pb compared -> rename
    -> record, in one transaction with its folders and the counter -> standbys have the bundle -> reply

A crash before the transaction leaves a temporary file (removed at the next start) or an unneeded blob (removed after
the deletion delay). After a crash later than the transaction, the topology runs although its client got no reply.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import ParamSpec, TypeVar

from tupletree._blobs import uses_in
from tupletree._coord import paths
from tupletree._coord.leader import Create, Put, Write
from tupletree._coord.store import Store, encode
from tupletree._log import event
from tupletree._security.current import current
from tupletree._security.guard import caller
from tupletree.bundle import read_spec
from tupletree.errors import ConflictError, TupletreeError, UnavailableError, UsageError
from tupletree.v1 import nimbus_pb2 as rpc
from tupletree.v1 import topology_pb2 as pb

from ..action_notifiers import ActionNotifiers
from ..blob_rules import check_uses
from ..config import NimbusConfig
from ..leader.reconciler import Reconciler
from ..threads import disk
from .blob_store import BlobStore
from .replication import Replication
from .state_ids import shared_state_id
from .validation import check_header, check_name, check_unreadable, new_record, topology_id, without_objects

log = logging.getLogger("tupletree.nimbus")

P = ParamSpec("P")
T = TypeVar("T")

CONFIRM_TIMEOUT_S = 5.0
_STORE_TIMEOUT_S = 20.0
_RETRY_S = 0.25


class Submissions:
    """Accepts submissions, any number concurrently."""

    def __init__(
        self,
        config: NimbusConfig,
        store: Store,
        blobs: BlobStore,
        replication: Replication,
        notifiers: ActionNotifiers,
    ) -> None:
        self._config = config
        self._store = store
        self._blobs = blobs
        self.replication = replication
        self._notifiers = notifiers

    async def submit(self, requests: AsyncIterator[rpc.SubmitRequest], reconciler: Reconciler) -> str:
        """Accept one submission and return its topology id. Raises UsageError or UnavailableError."""
        header = await header_of(requests)
        try:
            with reconciler.leader_state.reserving(header.name, header.sha256):
                found = await asyncio.to_thread(self._store.topologies)
                check_name(header.name, [one.value for one in found.values()], time.time())
                check_unreadable(header.name, found.unreadable)
                check_header(header, self._config.max_bundle_bytes)
                wanted = new_record(header, self._config.conf, header.name, 0.0)  # also rejects what is too large
                await self.check_blobs(header.name, wanted.conf_json)
                await self.receive(header, requests)
                await self.check_blobs(header.name, wanted.conf_json)  # the upload can have taken long
                record = await self._store_record(header, reconciler)
                reconciler.wake()
                await self._warn_of_state_id(record, [one.value for one in found.values()], reconciler)
        except (UsageError, UnavailableError) as error:
            event(log, "submission.refused", topology=header.name, owner=header.owner, cause=error)
            raise
        event(
            log,
            "topology.submitted",
            topology=record.id,
            owner=record.owner,
            bytes=record.bundle_bytes,
            workers=record.workers,
            tasks=sum(record.tasks.values()),
        )
        self._notifiers.put("submit", record)
        await self.replication.confirm(record.bundle_sha256, record.bundle_bytes, CONFIRM_TIMEOUT_S)
        return record.id

    async def _warn_of_state_id(
        self, record: pb.TopologyRecord, others: Sequence[pb.TopologyRecord], reconciler: Reconciler
    ) -> None:
        """Add an error to a topology that has the state id of another one."""
        if warning := shared_state_id(record, others, caller.get(), current().admins):
            event(log, "submission.warned", level=logging.WARNING, topology=record.id, cause=warning)
            with contextlib.suppress(TupletreeError):
                await asyncio.to_thread(self._store.report_error, record.id, reconciler.error(warning))

    async def receive(self, header: rpc.SubmitHeader, requests: AsyncIterator[rpc.SubmitRequest]) -> None:
        """Store the bundle that follows a header. Raises UsageError or UnavailableError."""
        with self._blobs.receive(header.sha256, header.size) as incoming:
            async for request in requests:
                if request.WhichOneof("kind") != "chunk":
                    raise UsageError("a submission must be one header followed by chunks")
                await to_the_end(incoming.write, request.chunk)
            partial = await to_the_end(incoming.verify)
            await to_the_end(check_bundle, partial, header.spec)
            await to_the_end(incoming.publish)

    async def check_blobs(self, name: str, conf_json: str) -> None:
        """Check that the blobs of a configuration exist, and that the caller may read them. Raises UsageError."""
        if uses := uses_in(conf_json):
            stored = await asyncio.to_thread(self._store.blobs_of, [use.key for use in uses])
            blobs = {key: one.value for key, one in stored.items()}
            check_uses(name, uses, blobs, caller.get(), current().admins)

    async def _store_record(self, header: rpc.SubmitHeader, reconciler: Reconciler) -> pb.TopologyRecord:
        """Write the record. If ZooKeeper's response is lost, check first if an earlier attempt was written."""
        now_unix_s = time.time()
        deadline_s = time.monotonic() + _STORE_TIMEOUT_S
        tried: set[str] = set()
        while True:
            try:
                for earlier in tried:
                    if (found := await asyncio.to_thread(self._store.topology, earlier)) is not None:
                        return found.value
                counter = await asyncio.to_thread(self._store.counter)
                number = counter.value + 1
                record = new_record(header, self._config.conf, topology_id(header.name, number, now_unix_s), now_unix_s)
                tried.add(record.id)
                writes = _creation(self._store.root, record, number, counter.version)
                await asyncio.to_thread(reconciler.write, writes)
                return record
            except (ConflictError, UnavailableError) as error:
                if time.monotonic() > deadline_s:
                    raise UnavailableError(f"the topology could not be stored: {error}") from error
                if isinstance(error, UnavailableError):
                    await asyncio.sleep(_RETRY_S)


async def to_the_end(call: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Run ``call`` in a thread. Wait for its end even if cancelled, so that no cleanup runs during a write."""
    work = asyncio.ensure_future(disk.run(call, *arguments, **named))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait({work})
        raise


def check_bundle(path: Path, header_spec: pb.TopologySpec) -> None:
    """Reject a bundle whose topology differs from the one in the submission's header. Raises UsageError."""
    if read_outline(path) != without_objects(header_spec):
        raise UsageError("the topology in the bundle differs from the topology in the submission's header")


def read_outline(path: Path) -> pb.TopologySpec:
    """Read the topology in a bundle, without objects. Raises UsageError if the file is not a bundle."""
    try:
        return without_objects(read_spec(path))
    except UsageError as error:
        raise UsageError(str(error).replace(str(path), "the upload")) from None


async def header_of(requests: AsyncIterator[rpc.SubmitRequest]) -> rpc.SubmitHeader:
    """Return the header with which a submission or an update begins. Raises UsageError."""
    async for request in requests:
        if request.WhichOneof("kind") == "header":
            return request.header
        break
    raise UsageError("a submission must begin with a header")


def _creation(root: str, record: pb.TopologyRecord, number: int, counter_version: int) -> list[Write]:
    path, data = paths.counter(root), str(number).encode()
    return [
        Create(path, data) if counter_version < 0 else Put(path, data, counter_version),
        Create(paths.topology(root, record.id), encode(record), reader=record.owner),
        Create(paths.workers_of(root, record.id), reader=record.owner),
        Create(paths.errors_of(root, record.id), writer=record.owner),
        Create(paths.statistics_of(root, record.id)),
    ]
