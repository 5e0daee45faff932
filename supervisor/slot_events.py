"""What a slot is told and what it asks for: the events and effects of ``slot.step``, as values.

An event says what happened, an effect what to do; the shell (``slots.py``) carries out effects in the order given.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from .local_assignment import LocalAssignment


class StopReason(Enum):
    """Why a live worker is stopped."""

    REASSIGNED = "reassigned"
    REQUESTED = "requested"
    START_TIMEOUT = "start_timeout"
    SILENT = "silent"


class ExitKind(Enum):
    """How a process ended by itself."""

    CLEAN = "clean"
    ERROR = "error"
    SIGNAL = "signal"
    UNKNOWN = "unknown"  # it was adopted, so its status went to another parent


@dataclass(frozen=True)
class Worker:
    """One incarnation: a new id for every launch."""

    worker_id: str
    pid: int


# ---- events -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Assigned:
    """The assignments say that this work belongs here; None: nothing does."""

    work: LocalAssignment | None


@dataclass(frozen=True)
class BundleReady:
    """The bundle and its environment are on disk. ``worker_id`` is a fresh id for the worker that may be launched."""

    sha256: str
    worker_id: str


@dataclass(frozen=True)
class BundleFailed:
    sha256: str
    reason: str


@dataclass(frozen=True)
class WorkerLaunched:
    worker: Worker


@dataclass(frozen=True)
class LaunchFailed:
    worker_id: str
    reason: str


@dataclass(frozen=True)
class WorkerAdopted:
    """A worker of an earlier supervisor process was found alive. Only for an empty slot, before anything else."""

    work: LocalAssignment
    worker: Worker


@dataclass(frozen=True)
class WorkerBeat:
    worker_id: str
    ready: bool
    http_port: int = 0


@dataclass(frozen=True)
class WorkerExited:
    worker_id: str
    kind: ExitKind
    text: str

    @property
    def has_said_why(self) -> bool:
        """Whether it ended as a worker does that has reported what its component raised: nothing is to be added."""
        return self.kind is ExitKind.ERROR and self.text.partition(":")[0] == "exit status 1"


@dataclass(frozen=True)
class RestartRequested:
    """An operator or nimbus wants this worker started afresh."""


@dataclass(frozen=True)
class Ticked:
    """Time passed. Due at ``next_deadline_s``; more often does no harm."""


@dataclass(frozen=True)
class Overslept:
    """The supervisor itself was stopped for so long: no worker's silence in that time counts."""

    seconds: float


Event: TypeAlias = (
    Assigned
    | BundleReady
    | BundleFailed
    | WorkerLaunched
    | LaunchFailed
    | WorkerAdopted
    | WorkerBeat
    | WorkerExited
    | RestartRequested
    | Ticked
    | Overslept
)

# ---- effects ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Localize:
    """Fetch and unpack the bundle, build its environment; answer BundleReady or BundleFailed. Idempotent."""

    work: LocalAssignment


@dataclass(frozen=True)
class Launch:
    """Start the process; answer WorkerLaunched or LaunchFailed."""

    work: LocalAssignment
    worker_id: str


@dataclass(frozen=True)
class PutPresence:
    work: LocalAssignment
    worker: Worker


@dataclass(frozen=True)
class RemovePresence:
    """The process is gone: tell the other workers at once, and keep trying until they can know."""

    work: LocalAssignment
    worker: Worker


@dataclass(frozen=True)
class Terminate:
    """SIGTERM to the worker's process group."""

    worker: Worker


@dataclass(frozen=True)
class Kill:
    """SIGKILL to the worker's process group."""

    worker: Worker


@dataclass(frozen=True)
class ForgetWorker:
    """The process is gone: count it by ``cause``, kill what is left of its group, remove its directory."""

    work: LocalAssignment
    worker: Worker
    cause: str
    text: str


@dataclass(frozen=True)
class ReportError:
    """Tell the topology's users what keeps it from running here."""

    work: LocalAssignment
    message: str


Effect: TypeAlias = Localize | Launch | PutPresence | RemovePresence | Terminate | Kill | ForgetWorker | ReportError
