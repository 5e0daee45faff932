"""The blobs of this machine's workers, kept at their newest version.

    watch --> records read --> outdated ones fetched, each in a task of its own --> links replaced, workers restarted

A version that cannot be fetched is tried again, with growing pauses; until then, workers keep the one they have. So do
workers whose blob is deleted. Old versions are removed when no worker has had them for a while (``remove_unneeded``).
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from tupletree._daemon.task_group import TaskGroup
from tupletree._log import event
from tupletree.errors import NotFoundError, UnavailableError
from tupletree.v1.topology_pb2 import BlobRecord

from .backoff import retry_delay_s
from .blob_files import BlobFiles, link, linked, unlink_version
from .blob_plan import (
    Form,
    LinkedWorker,
    LocalBlob,
    Relink,
    adopted,
    changes,
    digests_in_use,
    form_of,
    forms_of,
    outdated,
    uses_of_work,
)
from .faults import reason
from .launcher import LaunchedWorker, Launcher
from .local_assignment import LocalAssignment
from .retention import BundleAges
from .zookeeper_session import EventualSession

log = logging.getLogger(__name__)

Links = Mapping[str, LocalBlob]
"""The version that each local name of a worker leads to."""


class Blobs:
    """The blobs of one supervisor. Use from the event loop only.

    ``works``: returns the work of every slot, now and next. ``restart``: restarts the worker in a slot.
    ``complain``: reports to a topology's users.
    """

    def __init__(
        self,
        files: BlobFiles,
        launcher: Launcher,
        session: EventualSession,
        tasks: TaskGroup,
        works: Callable[[], Sequence[LocalAssignment]],
        restart: Callable[[int, str], None],
        complain: Callable[[LocalAssignment, str], None],
        monitor_s: float,
    ) -> None:
        self._files = files
        self._launcher = launcher
        self._session = session
        self._tasks = tasks
        self._works = works
        self._restart = restart
        self._complain = complain
        self._monitor_s = monitor_s
        self._ready: dict[Form, LocalBlob] = {}
        self._locks: dict[Form, asyncio.Lock] = {}
        self._refreshing: set[Form] = set()
        self._failures: dict[Form, tuple[int, float]] = {}  # number in a row, and the time of the next attempt
        self._live: Callable[[], Sequence[LaunchedWorker]] = lambda: []
        self._ages = BundleAges()
        self._wake = asyncio.Event()

    # Starting workers

    async def prepare(self, bundle_sha256: str) -> dict[str, Exception]:
        """Localize the blobs of all work with this bundle, so that its workers can start.

        If a new version cannot be fetched or unpacked, whatever the reason, the earlier one serves. Returns, by its id,
        why a topology lacks one: UnavailableError (try again later), NotFoundError if a blob is deleted, or UsageError
        if it cannot be unpacked. Other topologies with this bundle can start.
        """
        failed: dict[Form, Exception] = {}
        done: set[Form] = set()
        while todo := forms_of(one for one in self._works() if one.bundle_sha256 == bundle_sha256) - done:
            for form in sorted(todo):
                try:
                    await self._refresh(form)
                except Exception as error:
                    if isinstance(error, NotFoundError) or form not in self._ready:
                        failed[form] = error
                    else:
                        event(log, "blob.not_refreshed", level=logging.WARNING, key=form.key, cause=error)
            done |= todo
        works = [one for one in self._works() if one.bundle_sha256 == bundle_sha256]
        return {one.topology_id: failed[form] for one in works for form in forms_of([one]) & failed.keys()}

    def links(self, work: LocalAssignment) -> Links:
        """Return the links of a worker about to start. Raises UnavailableError if a blob is not on this machine."""
        for use in uses_of_work(work):
            if form_of(use) not in self._ready:
                raise UnavailableError(f"blob '{use.key}' is not on this machine yet")
        return {use.local_name: self._ready[form_of(use)] for use in uses_of_work(work)}

    def wake(self) -> None:
        """Look at the links again soon: a worker has started, or a record has changed."""
        self._wake.set()

    # Following updates

    async def follow(self, live: Callable[[], Sequence[LaunchedWorker]]) -> None:
        """Give the ``live`` workers every new version, forever."""
        self._live = live
        workers = await asyncio.to_thread(self._linked_workers, list(live()))
        self._ready = adopted(workers, self._files.path) | self._ready
        await self._session.connected.wait()
        loop = asyncio.get_running_loop()

        def wake_loop() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the supervisor is shutting down
                loop.call_soon_threadsafe(self._wake.set)

        await self._session.call(lambda store: store.watch_blobs(wake_loop))
        while True:
            self._wake.clear()
            forms = forms_of(self._works())
            self._ready = {form: blob for form, blob in self._ready.items() if form in forms}
            if forms:
                await self._look_for_updates(forms)
                await self._apply()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), self._pause_s())

    def _pause_s(self) -> float:
        waiting = self._failures.keys() - self._refreshing
        due_s = min((self._failures[form][1] for form in waiting), default=float("inf"))
        return max(0.05, min(self._monitor_s, due_s - time.monotonic()))

    async def _look_for_updates(self, forms: frozenset[Form]) -> None:
        try:
            records = await self._records({form.key for form in forms})
        except UnavailableError as error:
            event(log, "blobs.unread", level=logging.DEBUG, cause=error)
            return
        late = outdated(forms, records, self._ready)
        self._failures = {form: failure for form, failure in self._failures.items() if form in late}
        for form in late - self._refreshing:
            if self._failures.get(form, (0, 0.0))[1] <= time.monotonic():
                self._refreshing.add(form)
                self._tasks.start(self._refresh_in_background(form), f"blob-{form.key}")

    async def _refresh_in_background(self, form: Form) -> None:
        try:
            await self._refresh(form)
        except Exception as error:
            failures = self._failures.get(form, (0, 0.0))[0] + 1
            self._failures[form] = failures, time.monotonic() + retry_delay_s(failures)
            cause = reason(log, "blob.failed", error, key=form.key, failures=failures)
            if failures == 1:
                for work in {one.topology_id: one for one in self._works() if form in forms_of([one])}.values():
                    self._complain(work, f"a new version of blob '{form.key}' is not here yet: {cause}")
        else:
            self._failures.pop(form, None)
        finally:
            self._refreshing.discard(form)
            self._wake.set()

    async def _refresh(self, form: Form) -> None:
        """Have the newest version on this machine. One at a time for each blob, so that none goes back to an older."""
        async with self._locks.setdefault(form, asyncio.Lock()):
            record = (await self._records([form.key])).get(form.key)
            if record is None:
                raise NotFoundError(
                    f"blob '{form.key}', which topology.blobstore.map names, does not exist any more: "
                    f"put it again, with 'tupletree blob put {form.key} FILE'"
                )
            path = await self._files.localize(record, is_unpacked=form.is_unpacked)
            if self._ready.get(form) != LocalBlob(record.sha256, str(path)):
                self._ready[form] = LocalBlob(record.sha256, str(path))
                event(log, "blob.localized", key=form.key, version=record.version, bytes=record.bytes)

    async def _records(self, keys: Iterable[str]) -> dict[str, BlobRecord]:
        found = await self._session.call(lambda store: store.blobs_of(keys))
        return {key: one.value for key, one in found.items()}

    # Links of live workers

    async def _apply(self) -> None:
        """Let links lead to the newest versions, and restart workers that are to be restarted instead."""
        workers = await asyncio.to_thread(self._linked_workers, list(self._live()))
        for change in changes(workers, self._ready):
            worker, use = change.worker, change.use
            if isinstance(change, Relink):
                with self._contained(worker, use.key):
                    directory = self._launcher.directory(worker.worker_id)
                    await asyncio.to_thread(link, directory, use.local_name, change.blob.sha256, Path(change.blob.path))
                    event(log, "blob.linked", key=use.key, worker=worker.worker_id, sha256=change.blob.sha256[:12])
                continue
            with contextlib.suppress(NotFoundError):  # the slot has other work by now
                event(log, "blob.restarts_worker", key=use.key, worker=worker.worker_id, slot=worker.port)
                self._restart(worker.port, worker.topology_id)

    @contextlib.contextmanager
    def _contained(self, worker: LinkedWorker, key: str) -> Iterator[None]:
        """Log an OSError in the body: the worker has ended, or has a directory where the link would be."""
        try:
            yield
        except OSError as error:
            event(log, "blob.unlinked", level=logging.WARNING, key=key, worker=worker.worker_id, cause=error)

    def _linked_workers(self, live: Sequence[LaunchedWorker]) -> list[LinkedWorker]:
        found = []
        for one in live:
            uses, directory = uses_of_work(one.work), self._launcher.directory(one.worker_id)
            links = {use.local_name: linked(directory, use.local_name) for use in uses}
            found.append(LinkedWorker(one.worker_id, one.port, one.work.topology_id, uses, links))
        return found

    # Clean-up

    async def remove_unneeded(self, delay_s: float) -> None:
        """Remove versions that no worker has had for ``delay_s``, from this machine and from the workers' links."""
        on_disk = await asyncio.to_thread(self._files.digests)
        live = list(self._live())
        workers = await asyncio.to_thread(self._linked_workers, live)
        in_use = on_disk & digests_in_use(workers, self._ready) if not self._refreshing else on_disk
        self._ages, stale = self._ages.observe(on_disk, in_use, time.monotonic(), delay_s)
        for sha256 in stale:
            await self._files.remove(sha256, functools.partial(self._is_ready, sha256))
            if self._is_ready(sha256):
                continue  # the newest again: links lead to it
            for one in live:
                await asyncio.to_thread(unlink_version, self._launcher.directory(one.worker_id), sha256)

    def _is_ready(self, sha256: str) -> bool:
        return any(blob.sha256 == sha256 for blob in self._ready.values())
