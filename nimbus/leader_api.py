"""The leader's API behind gRPC and HTTP: one way to view the cluster, one to change a topology."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from tupletree._address import address_of
from tupletree._coord import paths
from tupletree._coord.leader import Put
from tupletree._coord.store import Store, encode
from tupletree._daemon.ttl_cache import TtlCache
from tupletree._health.assessment import Verdict, judge
from tupletree._limits import parse_conf
from tupletree._log import event
from tupletree._security.current import current
from tupletree._security.guard import caller
from tupletree._security.rights import acl_of_past, may_read
from tupletree.config import validate
from tupletree.errors import AuthorityError, ConflictError, UnavailableError, UsageError
from tupletree.v1 import topology_pb2 as pb

from . import health_inputs, rpc_replies
from .action_notifiers import ActionNotifiers
from .blob_rules import changed_uses, check_uses
from .cluster_view import ClusterView, hidden_topologies, named
from .conf_changes import SetConf
from .leader import autoscale_settings, lifecycle
from .leader.cluster_state import ClusterState
from .leader.history import last_first, with_id
from .leader.known_leader import KnownLeader
from .leader.reconciler import Reconciler
from .leader.task_changes import check_task_change
from .progress_store import check_begun, check_readable
from .slot_cache import SlotCache
from .submission.blob_store import BlobStore
from .submission.submission import read_outline
from .threads import disk
from .updates import Rollback, changed_tasks, goes_back, versions_of

log = logging.getLogger("tupletree.nimbus")

_ATTEMPTS = 20
_ERRORS_KEPT_S = 10.0
_OLD_S = 1.0  # maximum age of the cached list of nimbuses


class LeaderApi:
    """The leader's operations. Methods that need the leadership raise UnavailableError on a standby nimbus."""

    def __init__(
        self,
        known: KnownLeader,
        store: Store,
        blobs: BlobStore,
        notifiers: ActionNotifiers,
        conf: Mapping[str, Any],
        version: str,
    ) -> None:
        self._known = known
        self._store = store
        self._blobs = blobs
        self._notifiers = notifiers
        self._conf = conf
        self._version = version
        self._outlines: dict[str, pb.TopologySpec] = {}  # by digest
        self._recent_errors: TtlCache[str, list[pb.ComponentError]] = TtlCache(_ERRORS_KEPT_S)
        self._slots = SlotCache()
        self._nimbuses: TtlCache[None, tuple[dict[str, pb.Presence], int]] = TtlCache(_OLD_S)  # and holders

    def reconciler(self) -> Reconciler:
        """Return the reconciler of the current leadership. Raises UnavailableError if this nimbus does not lead."""
        return self._known.reconciler()

    async def view(self, *, is_fresh: bool = False, is_whole: bool = False) -> ClusterView:
        """Return the cluster as the reconciler last loaded it. Reads ZooKeeper if the cluster may have changed since.

        ``is_fresh``: read ZooKeeper in any case. ``is_whole``: hide no topology from the caller.
        """
        reconciler = self.reconciler()
        state = None if is_fresh else reconciler.state
        if state is None:
            state = await reconciler.load()
        self._forget_outlines(state)
        nimbuses, holders = await self._nimbuses.get(None, self._read_nimbuses)
        leadership = self._known.leadership
        return ClusterView(
            state=state,
            nimbuses=nimbuses,
            leader_id=leadership.identity if leadership is not None else "",
            holders=holders,
            ackers=reconciler.ackers.alive(),
            ledgers=reconciler.ackers.ledgers,
            leader_state=reconciler.leader_state,
            version=self._version,
            now_s=time.monotonic(),
            now_unix_s=time.time(),
            silences=reconciler.ackers.silences,
            hidden=frozenset() if is_whole else hidden_topologies(state, caller.get(), current().admins),
        )

    async def _read_nimbuses(self) -> tuple[dict[str, pb.Presence], int]:
        return await asyncio.to_thread(self._store.nimbuses), await asyncio.to_thread(self._store.candidates)

    async def verdict(self) -> Verdict:
        """Return the verdict on the cluster, which covers only the topologies that the caller may see."""
        view = await self.view()
        slots = await self._slots.of(self.reconciler(), view.state.supervisors)
        errors = await self.recent_errors(one.id for one in view.records())
        topologies = [
            health_inputs.topology(view, one, await self.outline(one), errors.get(one.id, [])) for one in view.records()
        ]
        seeds = self._conf["nimbus.seeds"]
        absent = [address_of(host, port) for host, port in health_inputs.absent_nimbuses(view, seeds)]
        return judge(
            health_inputs.ackers(view), health_inputs.supervisors(view, slots), topologies, absent, view.unread
        )

    async def recent_errors(self, topology_ids: Iterable[str]) -> dict[str, list[pb.ComponentError]]:
        """Return the errors of the given topologies from a cache of a few seconds, newest first, by topology id."""
        return {one: await self._recent_errors.get(one, partial(self.errors, one)) for one in topology_ids}

    async def errors(self, topology_id: str) -> list[pb.ComponentError]:
        """Return the errors of a topology, newest first."""
        return await asyncio.to_thread(self._store.errors, topology_id)

    async def past_topologies(self, view: ClusterView) -> list[pb.PastTopology]:
        """Return the topologies that were removed, of those that the caller may see, the last one first.

        ``view``: the cluster as read before. A topology whose removal is not complete is not among them.
        """
        found = await asyncio.to_thread(self._store.past_topologies)
        who, admins = caller.get(), current().admins
        visible = [one.value for one in found.values() if may_read(who, admins, acl_of_past(one.value))]
        present = view.state.records.keys() | view.state.unread.keys()
        return last_first(one for one in visible if one.id not in present)

    async def past_topology(self, view: ClusterView, topology_id: str) -> pb.PastTopology:
        """Return a topology that was removed, by its id. Raises NotFoundError."""
        return with_id(await self.past_topologies(view), topology_id)

    async def change(self, name: str, request: lifecycle.Request) -> pb.TopologyRecord:
        """Apply an operator's request and return the new record. Retries after a concurrent change.

        Raises NotFoundError for an unknown name, UsageError if the request is not valid in the current state, and
        UnavailableError if nothing could be written.
        """
        reconciler, store = self.reconciler(), self._store
        for _ in range(_ATTEMPTS):
            stored = named(name, await asyncio.to_thread(store.topologies))
            await self._check(stored.value, request)
            record = lifecycle.ask(stored.value, request, time.time())
            if record == stored.value:
                return record
            await self._check_blobs(stored.value, record)
            write = Put(paths.topology(store.root, record.id), encode(record), stored.version)
            try:
                await asyncio.to_thread(reconciler.write, [write])
            except ConflictError:
                continue
            except AuthorityError as error:
                raise UnavailableError(f"nothing was changed: {error}") from error
            reconciler.leader_state.failed_writes.again(record.id)
            reconciler.wake()
            status = lifecycle.status_name(record.status)
            was = lifecycle.status_name(stored.value.status)
            event(log, "topology.status", topology=record.id, status=status, was=was, cause=type(request).__name__)
            self._notifiers.changed(request, record)
            return record
        raise UnavailableError(f"other requests keep changing topology '{name}'; try again")

    async def restart_worker(self, topology_name: str, host: str, port: int) -> None:
        """Tell a worker's supervisor to restart the worker. Raises NotFoundError or UnavailableError."""
        view = await self.view(is_fresh=True)
        record = view.named(topology_name)
        worker = rpc_replies.worker_at(view, record, host, port)
        await self.reconciler().restart_worker(view.state.supervisors.get(worker.supervisor_id), record.id, worker)

    async def outline(self, record: pb.TopologyRecord | pb.TopologyVersion) -> pb.TopologySpec:
        """Return the spec without its objects; an empty spec while the bundle is being copied from another nimbus."""
        sha256 = record.bundle_sha256
        if sha256 not in self._outlines:
            try:
                outline = await disk.run(read_outline, self._blobs.path(sha256))
            except UsageError:
                return pb.TopologySpec()
            self._outlines[sha256] = outline
            return outline
        return self._outlines[sha256]

    async def whole_outline(
        self, record: pb.TopologyRecord, version: pb.TopologyVersion | None = None
    ) -> pb.TopologySpec:
        """Return the spec without its objects, of what runs or of another version.

        Raises UnavailableError while the bundle is copied to this nimbus.
        """
        outline = await self.outline(version or record)
        if not outline.components:
            raise UnavailableError(f"nimbus has no copy of the code of topology '{record.name}' yet; try again")
        return outline

    async def _check(self, record: pb.TopologyRecord, request: lifecycle.Request) -> None:
        """Check what the outlines of the topology tell of a request. Raises UsageError or UnavailableError."""
        match request:
            case SetConf(conf_json=text) if autoscale_settings.BOUNDS in text:
                await self._check_autoscale(record, text)
            case lifecycle.Rebalance(tasks=tasks) if tasks:
                check_task_change(record, await self.whole_outline(record), tasks, self._conf)
            case Rollback() if goes_back(record):
                outline = await self.whole_outline(record, record.previous)
                check_task_change(record, outline, changed_tasks(record, record.previous), self._conf)
                await self.check_states(record, outline)
            case _:
                pass

    async def _check_blobs(self, before: pb.TopologyRecord, after: pb.TopologyRecord) -> None:
        """Check blobs that a change of the configuration, or the way back to an earlier version, names anew."""
        uses = set(changed_uses(before, after))
        if uses:
            stored = await asyncio.to_thread(self._store.blobs_of, {use.key for use in uses})
            blobs = {key: one.value for key, one in stored.items()}
            check_uses(after.name, sorted(uses), blobs, caller.get(), current().admins)

    async def _check_autoscale(self, record: pb.TopologyRecord, conf_json: str) -> None:
        """Check the bounds of autoscaling in a change of the configuration. Raises ConfigError or UnavailableError."""
        asked = parse_conf(conf_json, "the request")
        validate(asked)
        if {autoscale_settings.BOUNDS, autoscale_settings.MAX_WORKERS} & asked.keys():
            conf = {**json.loads(record.conf_json or "{}"), **asked}
            outline = await self.whole_outline(record)
            autoscale_settings.check_autoscale(conf, record.executors, record.tasks, record.workers, outline)

    async def check_states(self, record: pb.TopologyRecord, spec: pb.TopologySpec) -> None:
        """Check that other code of a topology reads its stored states. Raises UsageError or UnavailableError."""
        await asyncio.to_thread(check_readable, self._store, record, spec)

    async def check_begun(self, record: pb.TopologyRecord) -> None:
        """Check that a topology has restored the savepoint that it begins with. Raises UsageError, UnavailableError."""
        await asyncio.to_thread(check_begun, self._store, record)

    def _forget_outlines(self, state: ClusterState) -> None:
        """Drop the outlines of bundles that no topology uses."""
        if len(self._outlines) > 3 * len(state.records):
            used = {one.bundle_sha256 for stored in state.records.values() for one in versions_of(stored.value)}
            self._outlines = {one: outline for one, outline in self._outlines.items() if one in used}
