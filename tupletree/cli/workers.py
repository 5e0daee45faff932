"""Selection of a topology's workers by slot or component, and access to their files through their supervisors."""

from __future__ import annotations

import queue
import re
import threading
import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from tupletree.errors import NotFoundError, TupletreeError, UnavailableError, UsageError

if TYPE_CHECKING:
    from tupletree.client import LogChunk, NimbusClient, PastTopology, TopologyDescription

_RETRY_S: Final = 1.0
_REFRESH_S: Final = 2.0
_IDLE_S: Final = 0.2
_STAMP: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")

worker_option = click.option("--worker", metavar="[HOST:]PORT", help="Only the worker in this slot.")


class Source(NamedTuple):
    """One worker of a topology, and its supervisor."""

    worker: str  # host:port
    host: str
    port: int
    supervisor_address: str  # "" if the supervisor is not registered
    topology_id: str

    @property
    def supervisor(self) -> str:
        """The supervisor's address. Raises UnavailableError if the supervisor is not registered."""
        if not self.supervisor_address:
            raise UnavailableError(f"the supervisor of worker {self.worker} is unavailable")
        return self.supervisor_address


class Position(NamedTuple):
    """A place in a file that may be rotated."""

    offset: int = 0
    file_id: int = 0


def sources(client: NimbusClient, name: str, worker: str | None = None, component: str | None = None) -> list[Source]:
    """Return the selected workers of a topology, by host and port. Raises UsageError if none matches."""
    return sources_of(client, client.describe(name), worker, component)


def sources_of(
    client: NimbusClient,
    reply: TopologyDescription,
    worker: str | None = None,
    component: str | None = None,
) -> list[Source]:
    """Return the workers that ``sources`` returns, for a topology that is already described."""
    name = reply.summary.record.name
    check_component(reply, component)
    tasks = _tasks_of(reply, component)
    addresses = {one.presence.id: one.presence.address for one in client.cluster().supervisors}
    found = []
    for assigned in reply.assignment.workers:
        place = f"{assigned.host}:{assigned.port}"
        if worker is not None and worker not in (place, str(assigned.port)):
            continue
        if not any(r.first_task <= task <= r.last_task for r in assigned.executors for task in tasks):
            continue
        address = addresses.get(assigned.supervisor_id, "")
        found.append(Source(place, assigned.host, assigned.port, address, reply.summary.record.id))
    if not found:
        places = ", ".join(f"{a.host}:{a.port}" for a in reply.assignment.workers) or "no worker yet"
        raise UsageError(f"no such worker of topology '{name}': it has {places} (for former workers: logs --past)")
    return sorted(found)


def past_sources(
    client: NimbusClient, name: str, worker: str | None = None
) -> tuple[list[Source], list[UnavailableError]]:
    """Return the slots with stored logs that the topology no longer uses, and the errors of unavailable supervisors."""
    reply = client.describe(name)
    present = {(one.host, one.port) for one in reply.assignment.workers}
    return _stored_sources(client, reply.summary.record.id, worker, present)


def gone_sources(
    client: NimbusClient, name: str, worker: str | None = None
) -> tuple[PastTopology, list[Source], list[UnavailableError]]:
    """Return the last removed topology with a name or id, and its slots as ``past_sources``. Raises NotFoundError."""
    topology = client.history(name)[0]
    return topology, *_stored_sources(client, topology.id, worker, set())


def _stored_sources(
    client: NimbusClient, topology_id: str, worker: str | None, present: Container[tuple[str, int]]
) -> tuple[list[Source], list[UnavailableError]]:
    found: set[Source] = set()
    away: list[UnavailableError] = []
    for supervisor in client.cluster().supervisors:
        host, address = supervisor.presence.host, supervisor.presence.address
        try:
            ports = {file.port for file in client.list_logs(address, topology_id, 0)}
        except UnavailableError as error:
            away.append(error)
            continue
        places = {f"{host}:{port}": port for port in ports if (host, port) not in present}
        found |= {
            Source(place, host, port, address, topology_id)
            for place, port in places.items()
            if worker in (None, place, str(port))
        }
    return sorted(found), away


def one_source(client: NimbusClient, name: str, worker: str | None) -> Source:
    """Return the selected worker; the selection is optional if there is only one."""
    found = sources(client, name, worker)
    if len(found) > 1:
        places = ", ".join(source.worker for source in found)
        raise UsageError(f"topology '{name}' has several workers, choose one: {places}")
    return found[0]


def check_component(reply: TopologyDescription, component: str | None) -> None:
    """Raise UsageError if the topology has no component of that name."""
    name = reply.summary.record.name
    known = [spec.id for spec in reply.spec.components] or sorted(reply.summary.record.tasks)
    if component is not None and component not in known:
        raise UsageError(f"topology '{name}' has no component '{component}'; it has {', '.join(known)}")


def _tasks_of(reply: TopologyDescription, component: str | None) -> set[int]:
    from tupletree.parallelism import tasks_of_record

    ranges = tasks_of_record(reply.summary.record.raw)
    return {task for name, ids in ranges.items() if component in (None, name) for task in ids}


def last_lines(client: NimbusClient, source: Source, file: str, last_bytes: int) -> tuple[list[str], Position]:
    """Return the complete lines in the last bytes of a file, and their end. No lines if there is no such file yet."""
    data, position = b"", Position()
    try:
        replies = client.tail_log(source.supervisor, source.topology_id, source.port, last_bytes=last_bytes, file=file)
        for reply in replies:
            data += reply.data
            position = Position(reply.offset + len(reply.data), reply.file_id)
    except NotFoundError:
        return [], position
    whole, _, rest = data.rpartition(b"\n")
    lines = [line.decode(errors="replace") for line in whole.split(b"\n")] if whole else []
    return lines, Position(max(0, position.offset - len(rest)), position.file_id)


def in_order(lines: Iterable[tuple[Source, Sequence[str]]]) -> list[tuple[Source, str]]:
    """Return the lines of several logs by timestamp. A line without a timestamp stays behind the line before it."""
    records: list[tuple[str, Source, list[str]]] = []
    for source, some in lines:
        stamp = ""
        for line in some:
            match = _STAMP.match(line)
            if match or not records or records[-1][1] != source:
                stamp = line[:23] if match else stamp
                records.append((stamp, source, [line]))
            else:
                records[-1][2].append(line)
    records.sort(key=lambda record: record[0])
    return [(source, line) for _, source, some in records for line in some]


class Following:
    """Lines that workers append to a file, across restarts and moves of the workers.

    An unavailable supervisor is asked again; a worker that appears in another slot is followed there; the supervisor
    takes care of rotation. One thread per worker reads, and all fill one queue. Ends when the topology is removed.

    ``away``: workers whose supervisor is unavailable now. Once it is back, they are followed from where ``begin`` says,
    which returns the lines to show first, and their end. New workers are followed from the beginning of their files.
    """

    def __init__(
        self,
        client: NimbusClient,
        name: str,
        file: str,
        positions: dict[Source, Position],
        select: Callable[[], list[Source]],
        away: Iterable[Source] = (),
        begin: Callable[[Source], tuple[Sequence[str], Position]] | None = None,
    ) -> None:
        self._client = client
        self._name = name
        self._file = file
        self._select = select
        self._begin = begin
        self._arrived: queue.Queue[tuple[Source, str]] = queue.Queue()
        self._followed: set[Source] = set()
        self._is_over = threading.Event()
        self._refresh_at_s = time.monotonic() + _REFRESH_S
        for source, position in positions.items():
            self._follow(source, position)
        for source in away:
            self._follow(source, None)

    def lines(self) -> Iterator[tuple[Source, str] | None]:
        """Yield (worker, line); None if no line arrives for a while. Ends with the topology."""
        while True:
            try:
                yield self._arrived.get(timeout=_IDLE_S)
            except queue.Empty:
                if self._is_over.is_set():
                    return
                yield None
            if time.monotonic() >= self._refresh_at_s:
                self._refresh()
                self._refresh_at_s = time.monotonic() + _REFRESH_S

    def close(self) -> None:
        """Stop following."""
        self._is_over.set()

    def _refresh(self) -> None:
        try:
            found = self._select()
        except NotFoundError:
            self._is_over.set()
            return
        except TupletreeError:  # nobody leads at the moment, or the topology has no worker
            return
        for source in found:
            if source not in self._followed:
                self._follow(source, Position())

    def _follow(self, source: Source, position: Position | None) -> None:
        self._followed.add(source)
        threading.Thread(target=self._read, args=(source, position), daemon=True).start()

    def _read(self, source: Source, position: Position | None) -> None:
        rest = b""
        while not self._is_over.is_set():
            try:
                if position is None:
                    position = self._show_last(source)
                for reply in self._tail(source, position):
                    if reply.file_id != position.file_id:
                        rest = b""  # files end with a whole line, unless a writer was killed
                    position = Position(reply.offset + len(reply.data), reply.file_id)
                    *whole, rest = (rest + reply.data).split(b"\n")
                    for line in whole:
                        self._arrived.put((source, line.decode(errors="replace")))
                    if self._is_over.is_set():
                        return
            except (TupletreeError, ValueError):  # the supervisor is unavailable, or the client is closed
                pass
            self._is_over.wait(_RETRY_S)

    def _show_last(self, source: Source) -> Position:
        """Show the last lines of a worker that was away; return where to go on."""
        if self._begin is None:
            return Position()
        last, position = self._begin(source)
        for line in last:
            self._arrived.put((source, line))
        return position

    def _tail(self, source: Source, position: Position) -> Iterator[LogChunk]:
        return self._client.tail_log(
            source.supervisor,
            source.topology_id,
            source.port,
            offset=position.offset,
            file_id=position.file_id,
            file=self._file,
            follow=True,
        )


def end_of(client: NimbusClient, source: Source, file: str) -> Position:
    """Return the current end of a file."""
    return last_lines(client, source, file, 1)[1] if _is_there(client, source, file) else Position()


def _is_there(client: NimbusClient, source: Source, file: str) -> bool:
    return any(one.name == file for one in client.list_logs(source.supervisor, source.topology_id, source.port))
