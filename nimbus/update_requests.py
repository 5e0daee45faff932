"""Processing of an update: header, comparison with what runs, bytes, record.

    header checked, compared -> bytes to a temporary file -> digest, topology.pb compared -> rename
    -> record with the version to go on with -> standbys have the bundle -> reply

A crash before the record leaves an unneeded blob, removed after the deletion delay. After a crash later than that, the
topology is updated although its client got no reply.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

from tupletree._coord.store import Store
from tupletree._log import event
from tupletree.errors import UnavailableError, UsageError
from tupletree.v1 import nimbus_pb2 as rpc
from tupletree.v1 import topology_pb2 as pb

from . import rpc_replies
from .cluster_view import named
from .config import NimbusConfig
from .leader.lifecycle import ask, check_totals
from .leader.task_changes import check_task_change
from .leader_api import LeaderApi
from .submission.submission import CONFIRM_TIMEOUT_S, Submissions, header_of
from .submission.validation import check_header, new_record
from .updates import Update, changed_tasks, check_update, differences, is_same, migrated, next_version, updated

log = logging.getLogger("tupletree.nimbus")


class UpdateRequests:
    """Accepts updates of running topologies, one at a time for each."""

    def __init__(self, config: NimbusConfig, store: Store, leader_api: LeaderApi, submissions: Submissions) -> None:
        self._config = config
        self._store = store
        self._leader_api = leader_api
        self._submissions = submissions

    async def update(self, requests: AsyncIterator[rpc.SubmitRequest]) -> rpc.UpdateReply:
        """Accept an update. Raises NotFoundError, UsageError or UnavailableError; then nothing has changed."""
        header = await header_of(requests)
        try:
            return await self._update(header, requests)
        except (UsageError, UnavailableError) as error:
            event(log, "update.refused", topology=header.name, cause=error)
            raise

    async def _update(self, header: rpc.SubmitHeader, requests: AsyncIterator[rpc.SubmitRequest]) -> rpc.UpdateReply:
        reconciler = self._leader_api.reconciler()
        with reconciler.leader_state.reserving(header.name, header.sha256):
            check_header(header, self._config.max_bundle_bytes)
            record = named(header.name, await asyncio.to_thread(self._store.topologies)).value
            running = await self._leader_api.whole_outline(record)
            request = checked_update(record, running, header, self._config.conf)
            await self._leader_api.check_begun(record)
            await self._leader_api.check_states(record, header.spec)
            await self._submissions.check_blobs(header.name, request.version.conf_json)
            found = differences(record, request.version)
            if is_same(record, request.version):
                pass
            elif header.only_check:
                record = ask(record, request, time.time())
            else:
                await self._submissions.receive(header, requests)
                record = await self._leader_api.change(header.name, request)
                event(log, "update.accepted", topology=record.id, version=request.version.number)
                bundle = request.version.bundle_sha256, request.version.bundle_bytes
                await self._submissions.replication.confirm(*bundle, CONFIRM_TIMEOUT_S)
        shown = rpc_replies.shown(record, reconciler.leader_state.unfinished(record.id))
        return rpc.UpdateReply(
            record=shown,
            added=found.added,
            removed=found.removed,
            conf_keys=found.conf_keys,
            migrated=migrated(running, header.spec),
        )


def checked_update(
    record: pb.TopologyRecord, running: pb.TopologySpec, header: rpc.SubmitHeader, cluster_conf: Mapping[str, Any]
) -> Update:
    """Return the request for a checked update. Raises UsageError."""
    fresh = new_record(header, cluster_conf, record.id, time.time())
    version = next_version(record, running, fresh, header.spec)
    check_totals(record.name, version.executors, version.tasks)  # those that operators have changed are among them
    check_update(record, running, version, header.spec, cluster_conf, header.drop_states)
    changed = changed_tasks(record, version)
    check_task_change(record, header.spec, changed, cluster_conf)
    try:
        check_task_change(updated(record, version, 0.0), running, changed, cluster_conf)
    except UsageError as error:
        raise UsageError(f"the update could not be taken back: {error}") from None
    return Update(record, version, header.wait_s if header.HasField("wait_s") else None)
