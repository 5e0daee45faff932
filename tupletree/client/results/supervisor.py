"""Replies of supervisors as a client sees them: slots, logs and profiles of workers. Pure."""

from __future__ import annotations  # pure

from dataclasses import dataclass, field

from tupletree.client.results.conversion import Result
from tupletree.v1 import supervisor_pb2


@dataclass(frozen=True, slots=True)
class SlotSummary(Result):
    """One slot and its contents.

    Attributes:
        state: the state of the slot, for people.
        topology_id: "": the slot is free.
        pid: the worker's process id; 0: no worker runs.
        launches: the workers started in this slot.
        last_exit: a sentence on how the last worker ended.
        deaths: the consecutive early deaths of workers, for the present assignment.
        misses: the consecutive failures to fetch the bundle or to install its requirements.
    """

    port: int
    state: str
    topology_id: str
    worker_id: str
    pid: int
    http_port: int
    launches: int
    last_exit: str
    deaths: int
    misses: int
    raw: supervisor_pb2.SlotSummary = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class SupervisorSlots(Result):
    """The slots of one supervisor."""

    supervisor_id: str
    slots: tuple[SlotSummary, ...]
    raw: supervisor_pb2.ListSlotsReply = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class LogChunk(Result):
    """A part of a log file.

    Attributes:
        offset: of the first byte of ``data``.
        file_id: the file that holds ``data``; another file after a rotation.
    """

    offset: int
    data: bytes
    file_id: int
    raw: supervisor_pb2.TailLogReply = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class LogFile(Result):
    """A log file of the worker in slot ``port``. ``size`` is in bytes."""

    port: int
    name: str
    size: int
    modified_unix_s: float
    raw: supervisor_pb2.LogFile = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class LogMatch(Result):
    """A line that matches a search, with the lines around it.

    Attributes:
        offset: of the line in ``file``, in bytes.
        line: of a very long line the beginning.
        before: the preceding lines.
        after: the following lines.
    """

    file: str
    offset: int
    line: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    raw: supervisor_pb2.LogMatch = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class SearchEnd(Result):
    """The end of a search. ``incomplete``: a sentence on why not all bytes were searched; "": all were."""

    searched_bytes: int
    incomplete: str
    raw: supervisor_pb2.SearchEnd = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class ProfileChunk(Result):
    """A part of a profile. ``file``: the name of the file, on the first chunk only."""

    file: str
    data: bytes
    raw: supervisor_pb2.ProfileWorkerReply = field(repr=False, compare=False)
