"""Requests and responses of the log viewer, in the form of Storm's log viewer.

A file is named ``TOPOLOGY/PORT/NAME``. If two machines have a worker of the topology at the same port, the client
selects the machine with ``host``. All links to worker logs in responses contain ``host``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from tupletree.errors import NotFoundError, UsageError
from tupletree.v1 import supervisor_pb2
from tupletree.v1 import topology_pb2 as pb

from ..cluster_view import ClusterView
from ..rpc_clients import address_of
from .formatting import worker_log_link
from .requests import ApiCall

MAX_BYTES: Final = 10 * 1024 * 1024  # longest part of a log in a response
DEFAULT_BYTES: Final = 51_200
MAX_MATCHES: Final = 1000
DEFAULT_MATCHES: Final = 10
DUMPS: Final = ("profile-", "memory-")
"""The beginnings of the names of profiles and of dumps of memory."""
CONTEXT_LINES: Final = 3


@dataclass(frozen=True)
class WorkerPlace:
    """A worker's slot, and the supervisor that serves the worker's files."""

    topology_id: str
    host: str
    port: int
    supervisor: str  # host:port of its gRPC service


def file_of(call: ApiCall) -> tuple[str, int, str]:
    """Return topology id, port and file name from the ``file`` parameter. Raises UsageError."""
    parts = call.query.get("file", "").split("/")
    if len(parts) == 3 and all(parts) and parts[1].isascii() and parts[1].isdigit() and len(parts[1]) <= 5:
        return parts[0], int(parts[1]), parts[2]
    raise UsageError("file must be TOPOLOGY/PORT/NAME, such as words-1-1700000000/6700/worker.log")


@dataclass(frozen=True)
class Logged:
    """A topology that the caller may see, with its workers; of a removed topology, those that ran at the end."""

    view: ClusterView
    topology_id: str
    workers: Sequence[pb.WorkerAssignment]


def place_of(topology: Logged, port: int, host: str) -> WorkerPlace:
    """Return the place of a worker's files: the supervisor with the assigned slot, else any with a slot at the port.

    Raises NotFoundError if no supervisor matches, UsageError if several match.
    """
    view = topology.view
    assigned = [
        view.state.supervisors[one.supervisor_id]
        for one in topology.workers
        if one.port == port and one.supervisor_id in view.state.supervisors
    ]
    offered = [one for one in view.state.supervisors.values() if port in one.slots]
    for candidates in (assigned, offered):
        found = [one for one in candidates if not host or one.host == host]
        if len({one.id for one in found}) > 1:
            hosts = ", ".join(sorted(one.host for one in found))
            raise UsageError(f"several machines have a slot {port}: select one with the parameter host, one of {hosts}")
        if found:
            return WorkerPlace(topology.topology_id, found[0].host, port, address_of(found[0]))
    where = f" at {host[:200]}" if host else ""
    raise NotFoundError(f"no registered supervisor has a slot {port}{where}")


def places_of(topology: Logged, port: int = 0) -> list[WorkerPlace]:
    """Return every worker of a topology whose supervisor is registered, or those at ``port``."""
    supervisors = topology.view.state.supervisors
    return [
        WorkerPlace(topology.topology_id, one.host, one.port, address_of(supervisors[one.supervisor_id]))
        for one in topology.workers
        if (not port or one.port == port) and one.supervisor_id in supervisors
    ]


def page(place: WorkerPlace, name: str, part: tuple[int, bytes, int], grep: str) -> dict[str, Any]:
    """Return part of a log as JSON: its offset, its bytes, and the offset from which it goes on."""
    start, data, following = part
    return {
        "file": f"{place.topology_id}/{place.port}/{name}",
        "host": place.host,
        "port": place.port,
        "topologyId": place.topology_id,
        "start": start,
        "length": len(data),
        "next": following,
        "grep": grep or None,
        "data": matching(data, grep),
    }


def matching(data: bytes, grep: str) -> str:
    """Decode the data; with ``grep``, return only the lines that contain the word."""
    text = data.decode("utf-8", "replace")
    return text if not grep else "".join(line for line in text.splitlines(keepends=True) if grep in line)


def listed(files: Sequence[tuple[WorkerPlace, supervisor_pb2.LogFile]]) -> list[str]:
    """``listLogs`` and ``searchLogs``: names for the ``file`` parameter."""
    return sorted({f"{place.topology_id}/{file.port}/{file.name}" for place, file in files})


def dumps(base: str, place: WorkerPlace, files: Sequence[supervisor_pb2.LogFile]) -> dict[str, Any]:
    """``dumps/{topology}/{hostPort}``: the profiles of a worker, and the dumps of its memory."""
    found = [one for one in files if one.name.startswith(DUMPS)]
    where = f"{quote(place.topology_id, safe='')}/{quote(f'{place.host}:{place.port}', safe='')}"
    return {
        "topologyId": place.topology_id,
        "host": place.host,
        "port": place.port,
        "files": [
            {
                "name": one.name,
                "size": one.size,
                "modifiedUnixSeconds": one.modified_unix_s,
                "link": f"{base}/api/v1/dumps/{where}/{quote(one.name, safe='')}",
            }
            for one in found
        ],
    }


def search_result(
    call: ApiCall,
    place: WorkerPlace,
    matches: Sequence[supervisor_pb2.LogMatch],
    start: int,
    most: int,
    incomplete: str,
) -> dict[str, Any]:
    """``search``, in the form of Storm's log viewer."""
    return {
        "isDaemon": "no",
        "searchString": call.query.get("search-string", ""),
        "startByteOffset": start,
        "matches": [match(call, place, one) for one in matches[:most]],
        "nextByteOffset": matches[most].offset if len(matches) > most else None,
        "incomplete": incomplete,
    }


def match(call: ApiCall, place: WorkerPlace, one: supervisor_pb2.LogMatch) -> dict[str, Any]:
    """Return one match with its context."""
    text = call.query.get("search-string", "")
    before, found, after = one.line.partition(text)
    if not found:
        before, found, after = "", one.line, ""
    return {
        "byteOffset": one.offset,
        "beforeString": "\n".join([*one.before, before]),
        "matchString": found,
        "afterString": "\n".join([after, *one.after]),
        "line": one.line,
        "fileName": one.file,
        "logviewerURL": f"{worker_log_link(call.base, place.topology_id, place.host, place.port, one.file)}"
        f"&start={max(0, one.offset - 1000)}&length={DEFAULT_BYTES}",
    }


def deep_result(
    call: ApiCall, found: Sequence[tuple[WorkerPlace, Sequence[Mapping[str, Any]]]], reasons: Sequence[str]
) -> dict[str, Any]:
    """``deepSearch/{topology}``: matches in the logs of all workers, by file."""
    files: dict[tuple[str, int, str], list[Mapping[str, Any]]] = {}
    for place, matches in found:
        for one in matches:
            files.setdefault((place.host, place.port, str(one["fileName"])), []).append(one)
    return {
        "searchString": call.query.get("search-string", ""),
        "fileOffset": 0,
        "numberOfMatches": sum(map(len, files.values())),
        "matches": [
            {
                "fileName": name,
                "host": host,
                "port": port,
                "numMatches": len(matches),
                "matches": matches,
                "isDaemon": "no",
            }
            for (host, port, name), matches in sorted(files.items())
        ],
        "incomplete": [one for one in reasons if one],
    }
