"""Candidacy of a nimbus: the nimbus stands for election while it has every bundle, and leads while it is elected.

bundles complete -> stands for election -> elected: schedules
     |
     +-- bundle unavailable: stands down, not ready, retries
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import time
from collections.abc import Callable, Sequence, Set

from tupletree._coord.acls import share_roots
from tupletree._coord.leader import Front, LeaderElection
from tupletree._daemon.health import Readiness
from tupletree._daemon.task_group import TaskGroup
from tupletree._daemon.zookeeper_session import ZooKeeperSession
from tupletree._log import event
from tupletree.backoff import Backoff
from tupletree.errors import UnavailableError
from tupletree.v1.topology_pb2 import TopologyRecord

from .config import NimbusConfig
from .leader import cluster_state
from .leader.known_leader import KnownLeader
from .leader.leader_state import LeaderState
from .leader.leader_watch import LeaderWatch
from .leader.reconciler import Reconciler
from .metrics import NimbusMetrics
from .submission.replication import Replication

log = logging.getLogger("tupletree.nimbus")

_RETRY_S = 1.0
_BLOB_RETRIES = Backoff(first_s=1.0, factor=2.0, max_s=30.0)


class Candidacy:
    """Takes part in the election from ``start`` to ``stop``, and keeps ``known`` up to date."""

    def __init__(
        self,
        config: NimbusConfig,
        session: ZooKeeperSession,
        known: KnownLeader,
        address: str,
        replication: Replication,
        readiness: Readiness,
        metrics: NimbusMetrics,
        tasks: TaskGroup,
    ) -> None:
        self._config = config
        self._store = session.store
        self._known = known
        self._replication = replication
        self._readiness = readiness
        self._metrics = metrics
        self._tasks = tasks
        self._loop = asyncio.get_running_loop()
        self._replicate_now = asyncio.Event()
        self._replicate_blobs_now = asyncio.Event()
        self._look_now = asyncio.Event()
        self._leading: asyncio.Task[None] | None = None
        self._election = LeaderElection(
            session.client,
            config.root,
            known.identity,
            address,
            on_elected=lambda epoch: self._post(self._elected, epoch),
            on_deposed=lambda epoch: self._post(self._deposed),
        )
        self._leader_watch = LeaderWatch(address, self._unseat)
        self._ends = contextlib.ExitStack()

    async def start(self) -> None:
        """Create the cluster's tree in ZooKeeper, watch it, and begin to replicate. Raises UnavailableError."""
        await asyncio.to_thread(self._election.start)
        progress_root = str(self._config.conf["transactional.zookeeper.root"])
        await asyncio.to_thread(share_roots, self._store.client, progress_root)
        for watch in (
            self._store.watch_topologies(lambda: self._post(self._topologies_changed)),
            self._store.watch_blobs(lambda: self._post(self._replicate_all)),
            self._store.watch_presence("nimbus", lambda: self._post(self._replicate_all)),
            self._store.watch_presence("supervisor", lambda: self._post(self._wake_reconciler)),
            self._store.watch_presence("acker", lambda: self._post(self._wake_reconciler)),
            self._store.watch_leadership(lambda: self._post(self._look_now.set)),
        ):
            self._ends.callback(watch.cancel)
        self._tasks.start(self._keep_replicating(), "replication")
        self._tasks.start(self._keep_replicating_blobs(), "replication of blobs")
        self._tasks.start(self._follow_leader(), "leadership")

    async def stop(self) -> None:
        """Leave the election and end this nimbus's leadership."""
        self._ends.close()
        await asyncio.to_thread(self._election.stop)
        self._deposed()
        if self._leading is not None:
            await asyncio.wait({self._leading})
        await self._leader_watch.close()

    # Wake-ups

    def _post(self, call: Callable[..., None], *arguments: int) -> None:
        """Schedule a call in the event loop. Safe to use from Kazoo's threads."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: the process is ending
            self._loop.call_soon_threadsafe(call, *arguments)

    def _wake_reconciler(self) -> None:
        if self._known.own is not None:
            self._known.own.wake()

    def _topologies_changed(self) -> None:
        self._replicate_now.set()
        self._wake_reconciler()

    def _replicate_all(self) -> None:
        self._replicate_now.set()
        self._replicate_blobs_now.set()

    # Leading

    def _elected(self, epoch: int) -> None:
        self._leading = self._tasks.start(self._lead(epoch, self._leading), "leading")

    def _deposed(self) -> None:
        self._known.own = None
        self._metrics.follows()
        if self._leading is not None:
            self._leading.cancel()

    async def _lead(self, epoch: int, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait({before})
        while True:
            try:
                missing = await self._replication.sync(frozenset)
                break
            except UnavailableError:
                await asyncio.sleep(_RETRY_S)
        if missing:
            self._give_up(missing)
            self._replicate_now.set()
            return
        config = self._config
        leader_state = LeaderState(
            epoch, config.task_timeout_s, config.task_launch_s, time.monotonic(), config.scheduling
        )
        reconciler = Reconciler(
            leader_state,
            self._store,
            self._election,
            self._readiness,
            self._metrics,
            config.monitor_s,
            config.history_max,
        )
        self._known.own = reconciler
        self._metrics.leads(epoch)
        log.info("This nimbus leads as of epoch %d.", epoch)
        try:
            await reconciler.run()
        except Exception:
            log.exception("leader.failed epoch=%d", epoch)
            self._election.stand_down()  # another nimbus may succeed; this one stands again after a replication

    def _give_up(self, missing: Sequence[TopologyRecord]) -> None:
        names = ", ".join(f"'{record.name}'" for record in missing)
        event(log, "leader.gives_up", level=logging.WARNING, cause=f"the bundles of {names} are missing")
        self._election.stand_down()

    # Following

    async def _keep_replicating(self) -> None:
        """Replicate every bundle, and stand for election while none is missing."""
        while True:
            self._replicate_now.clear()
            pause_s = self._config.monitor_s
            own = self._known.own
            try:
                missing = await self._replication.sync(functools.partial(_blobs_in_use, own))
                if own is None:  # if this nimbus leads next, it then reads only what has changed
                    await asyncio.to_thread(cluster_state.load, self._store)
            except UnavailableError as error:
                event(log, "replication.waits", level=logging.DEBUG, cause=error)
                pause_s = _RETRY_S
            else:
                self._on_replicated(missing)
                removal_s = self._replication.next_removal_s()
                if removal_s is not None:
                    pause_s = min(pause_s, max(0.05, removal_s - time.monotonic()))
                if missing:
                    pause_s = _RETRY_S
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._replicate_now.wait(), pause_s)

    async def _keep_replicating_blobs(self) -> None:
        """Replicate every blob, which may take long, and which no election waits for."""
        failures = 0
        while True:
            self._replicate_blobs_now.clear()
            try:
                missing = [one.key for one in await self._replication.sync_blobs()]
            except UnavailableError as error:
                event(log, "replication.waits", level=logging.DEBUG, cause=error)
                missing = ["?"]
            failures = failures + 1 if missing else 0
            pause_s = _BLOB_RETRIES.pause_s(failures) if missing else self._config.monitor_s
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._replicate_blobs_now.wait(), pause_s)

    def _on_replicated(self, missing: Sequence[TopologyRecord]) -> None:
        if not missing:
            self._readiness.set("bundles", None)
            self._election.stand()
            return
        names = ", ".join(f"'{record.name}'" for record in missing)
        self._readiness.set("bundles", f"no reachable nimbus has the bundle of {names}: start a nimbus that has it")
        if self._election.epoch is not None:
            self._give_up(missing)
        self._election.stand_down()

    async def _follow_leader(self) -> None:
        """Record the current leader, and watch the health of the nimbus at the front of the election."""
        while True:
            self._look_now.clear()
            try:
                self._known.leadership = await asyncio.to_thread(self._store.leadership)
                self._leader_watch.watch(await asyncio.to_thread(self._election.front))
            except UnavailableError:
                await asyncio.sleep(_RETRY_S)
                continue
            await self._look_now.wait()

    async def _unseat(self, front: Front) -> None:
        await asyncio.to_thread(self._election.unseat, front)


def _blobs_in_use(own: Reconciler | None) -> Set[str]:
    """Return the digests of uploads that this nimbus accepts as the leader, if it leads."""
    return own.leader_state.blobs_in_use if own is not None else frozenset()
