"""Client calls that take savepoints, and the savepoint that a submission carries."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from tupletree._checkpoints.settings import ALIGNED
from tupletree._limits import shown
from tupletree._savepoints.compare import KINDS, compare, fields_of
from tupletree._savepoints.export import writer_of
from tupletree._savepoints.files import Place, unique
from tupletree._savepoints.manifest import ENCODED, FILE, Manifest, Part
from tupletree._savepoints.rows import write_rows
from tupletree._wire.plain_form import shown_form
from tupletree.client.leader import LeaderCalls
from tupletree.client.requests import request_of, seconds
from tupletree.client.savepoint_pages import Held, MovedError, Pages
from tupletree.errors import NotFoundError, TupletreeError, UnavailableError, UsageError
from tupletree.v1 import nimbus_pb2
from tupletree.v1 import topology_pb2 as pb

_CALL_S: Final = 10.0
_TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class Savepoint:
    """A savepoint that was taken.

    Attributes:
        address: its directory, or the address that was given.
        checkpoint: the checkpoint of which all states and positions are.
        entries: the number of entries of each component.
        took_s: the time for which checkpoints were held.
    """

    address: str
    checkpoint: int
    entries: Mapping[str, int]
    took_s: float


class SavepointCalls(LeaderCalls):
    """The part of ``NimbusClient`` that takes savepoints."""

    def savepoint(
        self, name: str, to: str | os.PathLike[str] | None = None, *, kill: bool = False, wait_secs: float | None = None
    ) -> Savepoint:
        """Write all states and positions of a running topology, of one checkpoint, to a directory.

        The topology goes on; no checkpoint begins while its states are read.

        Args:
            to: a directory, which is created, or an address such as ``s3://bucket/folder``; None: NAME-CHECKPOINT in
                the working directory.
            kill: stop the spouts first, and the topology afterwards: nothing is processed after the savepoint.
            wait_secs: the longest wait for a checkpoint, and for tuples in flight if ``kill``; None: 60.

        Raises:
            NotFoundError: there is no topology with that name, or it has no states.
            UsageError: there is a savepoint already, or a value is too large.
            UnavailableError: no checkpoint was committed in time, a worker or the store does not answer, or checkpoints
                went on each time that the states were read.
        """
        limit_s = seconds(60.0 if wait_secs is None else wait_secs) or 0.0
        address = None if to is None else os.fspath(to)
        if address is not None:
            Place(address).check_free()
        record = self._described(name).summary.record
        pages = Pages(self._call, name)
        is_done = False
        try:
            if kill:
                self._stop_spouts(pages, name, limit_s)
            made = self._take(pages, record, address, limit_s)
            if kill:
                _check_last(pages.settle(limit_s), made)  # a worker can have ended just now, and the hold with it
                request = request_of(nimbus_pb2.KillRequest, name=name, wait_s=0.0)
                self._call(lambda stub: stub.Kill(request, timeout=_CALL_S))
            is_done = True
        finally:
            if not (kill and is_done):
                pages.release()
            if kill and not is_done and record.status == pb.TOPOLOGY_STATUS_ACTIVE:
                with contextlib.suppress(TupletreeError):
                    self._call(lambda stub: stub.Activate(nimbus_pb2.ActivateRequest(name=name), timeout=_CALL_S))
        return made

    def export_state(
        self, name: str, component: str, file: str | os.PathLike[str], *, wait_secs: float | None = None
    ) -> tuple[int, int]:
        """Write all committed entries of a component to a file, and return the checkpoint and their number.

        Args:
            file: its ending says the format: ``.parquet``, ``.csv`` or ``.jsonl``. It is replaced when all is written.
            wait_secs: the longest wait for a checkpoint; None: 60.

        Raises:
            NotFoundError: there is no topology with that name, or the component has no state.
            UsageError: the ending is another one, or a value is too large.
            UnavailableError: as ``savepoint``.
        """
        write = writer_of(os.fspath(file))
        limit_s = seconds(60.0 if wait_secs is None else wait_secs) or 0.0
        pages = Pages(self._call, name)
        part = Path(f"{os.fspath(file)}.part")
        try:
            for _ in range(_TRIES):
                held = pages.settle(limit_s)
                if component not in held.tasks:
                    known = ", ".join(sorted(held.tasks))
                    raise NotFoundError(
                        f"topology '{name}' has no state of component {shown(component)}; it has {known}"
                    )
                with contextlib.suppress(MovedError):
                    count = write(part, pages.rows(held, component))
                    pages.check(held)
                    part.replace(file)
                    return held.txid, count
        finally:
            pages.release()
            part.unlink(missing_ok=True)
        raise UnavailableError(_steady(name))

    def _described(self, name: str) -> nimbus_pb2.DescribeTopologyReply:
        request = request_of(nimbus_pb2.DescribeTopologyRequest, name=name)
        return self._call(lambda stub: stub.DescribeTopology(request, timeout=_CALL_S))

    def _stop_spouts(self, pages: Pages, name: str, limit_s: float) -> None:
        pages.await_answer(limit_s)  # refuses a topology without states before anything is changed
        self._call(lambda stub: stub.Deactivate(nimbus_pb2.DeactivateRequest(name=name), timeout=_CALL_S))
        pages.await_quiet(limit_s)

    def _take(self, pages: Pages, record: pb.TopologyRecord, address: str | None, limit_s: float) -> Savepoint:
        name = record.name
        reason = UnavailableError(_steady(name))
        for _ in range(_TRIES):
            held = pages.settle(limit_s)
            place = Place(f"{name}-{held.txid}" if address is None else address)
            place.check_free()  # another attempt with the same address can have written it meanwhile
            place.create()
            written: list[str] = []
            id = f"{name}-{held.txid}-{uuid.uuid4().hex[:8]}"
            try:
                if held.topology_id != record.id:
                    raise MovedError(f"topology '{name}' has been replaced")
                manifest = _write(place, pages, held, self._described(name), id, written)
                pages.check(held)
                if self._described(name).summary.record.version != manifest.version:
                    raise MovedError(f"topology '{name}' has been updated")
                place.write_manifest(manifest)
            except UnavailableError as error:  # a worker that ends is replaced
                place.remove(written, id)
                reason = reason if isinstance(error, MovedError) else error
                continue
            except BaseException:
                place.remove(written, id)
                raise
            entries = {id: part.entries or 0 for id, part in manifest.components.items()}
            return Savepoint(place.address, held.txid, entries, round(time.monotonic() - held.since_s, 3))
        raise reason


def _check_last(held: Held, made: Savepoint) -> None:
    """Check that no checkpoint follows a savepoint. Raises UnavailableError."""
    if held.txid != made.checkpoint:
        raise UnavailableError(
            f"checkpoint {held.txid} was committed after the savepoint at {made.address}, which is of checkpoint "
            f"{made.checkpoint}, as a worker ended: the topology goes on; take another savepoint"
        )


def _steady(name: str) -> str:
    return (
        f"checkpoints of topology '{name}' went on each of {_TRIES} times that its states were read: a worker "
        f"ended, or was replaced; try again when it runs steadily"
    )


def _write(
    place: Place, pages: Pages, held: Held, described: nimbus_pb2.DescribeTopologyReply, id: str, written: list[str]
) -> Manifest:
    """Write the rows of all components, and return the manifest, which has this id.

    ``written``: takes the names of the files. They have a part of the id, so that no two attempts write the same file.
    """
    record = described.summary.record
    specs = {one.id: one for one in described.spec.components}
    if record.id != held.topology_id or not held.tasks.keys() <= specs.keys():
        raise MovedError(f"topology '{record.name}' has been replaced")
    components: dict[str, Part] = {}
    positions: dict[str, list[Any]] = {}
    for component, tasks in sorted(held.tasks.items()):
        spec = specs[component]
        is_spout = spec.kind == pb.COMPONENT_KIND_SPOUT
        name = f"{quote(component, safe='')}@{id[-8:]}.parquet"
        written.append(name)
        with place.writer(name) as rows:
            for page in pages.rows(held, component):
                rows.write(page)
                if is_spout:
                    positions.setdefault(component, []).extend(shown_form(value) for _, _, value in page)
        components[component] = Part(
            files=name,
            rows=ENCODED,
            kind=KINDS[spec.kind],
            state_form=spec.state_form,
            state_version=held.versions.get(component, 1),
            tasks=tasks,
            fields=fields_of(spec),
            entries=rows.entries,
        )
    return Manifest(
        components,
        id=id,
        topology=record.name,
        topology_id=record.id,
        version=record.version,
        checkpoint=held.txid,
        aligned=bool(json.loads(record.conf_json or "{}").get(ALIGNED)),
        bundle_sha256=record.bundle_sha256,
        taken_unix_s=round(time.time(), 3),
        tupletree=version("tupletree"),
        positions=positions,
    )


@contextlib.contextmanager
def carried(
    address: str, spec: pb.TopologySpec, conf: Mapping[str, Any], *, allow_lost: bool
) -> Iterator[tuple[Path, str]]:
    """Yield a folder with what a bundle carries of a savepoint, and the savepoint's id.

    ``spec``, ``conf``: of the program that is to begin with it. Raises UsageError if it cannot, or there is none.
    """
    place = Place(address)
    manifest = place.read_manifest()
    found = compare(manifest, spec, conf, allow_lost=allow_lost)
    forms = {one.id: one for one in spec.components}
    with tempfile.TemporaryDirectory(prefix="tupletree-savepoint-") as directory:
        parts = {}
        for number, id in enumerate(found.kept):
            part = manifest.components[id]
            name = f"{number}.rows"
            rows = place.read_rows(id, part, forms[id].state_form)
            if part.rows != ENCODED and forms[id].kind == pb.COMPONENT_KIND_BOLT:
                rows = unique(rows, f"{address}: component '{id}'")
            count = write_rows(Path(directory, name), rows)
            if part.entries not in (None, count):
                raise UsageError(
                    f"{address}: component '{id}' has {count:,} entries, not {part.entries:,} as {FILE} says"
                )
            parts[id] = replace(part, files=name, rows=ENCODED, entries=count)
        id = manifest.id or Path(address.rstrip("/")).name or "savepoint"
        packed = replace(manifest, components=parts, id=id, positions={})
        Path(directory, FILE).write_text(packed.encoded(), encoding="utf-8")
        yield Path(directory), id
