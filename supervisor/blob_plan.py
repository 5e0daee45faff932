"""Decisions about blobs on one machine: which to fetch, which links to replace, which workers to restart.

    records in ZooKeeper --outdated--> fetched beside the earlier version --ready--> changes: links, restarts

Level-triggered: each round starts from what the links say now, so doing a round twice changes nothing.
"""

from __future__ import annotations  # pure

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tupletree._blobs import BlobUse, uses_in
from tupletree.v1.topology_pb2 import BlobRecord

from .local_assignment import LocalAssignment


class Form(NamedTuple):
    """A blob in one of its two forms: the file, or the directory with what is in it."""

    key: str
    is_unpacked: bool


@dataclass(frozen=True)
class LocalBlob:
    """The newest complete version of a blob in one form on this machine."""

    sha256: str
    path: str


@dataclass(frozen=True)
class LinkedWorker:
    """A live worker, with the digest that each of its local names leads to."""

    worker_id: str
    port: int
    topology_id: str
    uses: tuple[BlobUse, ...]
    links: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Relink:
    """Let a local name of a worker lead to another version."""

    worker: LinkedWorker
    use: BlobUse
    blob: LocalBlob


@dataclass(frozen=True)
class Restart:
    """Restart a worker, which then starts with the newest versions."""

    worker: LinkedWorker
    use: BlobUse


def form_of(use: BlobUse) -> Form:
    return Form(use.key, use.is_unpacked)


@functools.lru_cache(maxsize=256)
def uses_of_work(work: LocalAssignment) -> tuple[BlobUse, ...]:
    """Return the blobs that a worker has beside it."""
    return uses_in(work.conf_json)


def forms_of(works: Iterable[LocalAssignment]) -> frozenset[Form]:
    """Return the blobs that any of these workers needs."""
    return frozenset(form_of(use) for work in works for use in uses_of_work(work))


def outdated(
    forms: Iterable[Form], records: Mapping[str, BlobRecord], ready: Mapping[Form, LocalBlob]
) -> frozenset[Form]:
    """Return the blobs of which this machine has an earlier version than the newest.

    A deleted blob stays as it is. The first version is fetched before the first worker that needs it starts.
    """
    return frozenset(
        form
        for form in forms
        if form in ready and form.key in records and ready[form].sha256 != records[form.key].sha256
    )


def changes(workers: Iterable[LinkedWorker], ready: Mapping[Form, LocalBlob]) -> list[Relink | Restart]:
    """Return what gives the workers the newest versions that are on this machine.

    A worker that is restarted for one blob gets the others with its restart.
    """
    found: list[Relink | Restart] = []
    for worker in workers:
        late = [use for use in worker.uses if (blob := ready.get(form_of(use))) and _leads_elsewhere(worker, use, blob)]
        restarting = [use for use in late if use.restarts_worker]
        if restarting:
            found.append(Restart(worker, restarting[0]))
        else:
            found += [Relink(worker, use, ready[form_of(use)]) for use in late]
    return found


def adopted(workers: Iterable[LinkedWorker], path: Callable[[str, bool], str]) -> dict[Form, LocalBlob]:
    """Return the versions that workers of an earlier supervisor process have: newer ones are found by their records.

    ``path``: returns where a version is on this machine, given its digest and whether it is unpacked.
    """
    return {
        form_of(use): LocalBlob(sha256, path(sha256, use.is_unpacked))
        for worker in workers
        for use in worker.uses
        if (sha256 := worker.links.get(use.local_name, ""))
    }


def digests_in_use(workers: Iterable[LinkedWorker], ready: Mapping[Form, LocalBlob]) -> frozenset[str]:
    """Return the versions that a local name leads to, or that the next worker gets."""
    linked = {sha256 for worker in workers for sha256 in worker.links.values() if sha256}
    return frozenset(linked | {blob.sha256 for blob in ready.values()})


def _leads_elsewhere(worker: LinkedWorker, use: BlobUse, blob: LocalBlob) -> bool:
    return worker.links.get(use.local_name, "") != blob.sha256
