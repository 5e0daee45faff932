"""The events and effects of ``slot.step``, as values.

An event says what happened, an effect says what to do. ``slots.py`` has the effects of a step carried out in order.
"""

from __future__ import annotations  # pure

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from .local_assignment import LocalAssignment


class StopReason(Enum):
    """The reason for stopping a live worker."""

    REASSIGNED = "reassigned"
    REQUESTED = "requested"
    START_TIMEOUT = "start_timeout"
    SILENT = "silent"
    MEMORY = "memory"


class ExitKind(Enum):
    """The way in which a process ended without the supervisor."""

    CLEAN = "clean"
    ERROR = "error"
    SIGNAL = "signal"
    MEMORY = "memory"  # the kernel ended it for its memory
    UNKNOWN = "unknown"  # the process was adopted: another parent received the exit status


@dataclass(frozen=True)
class Worker:
    """One incarnation of a worker, with a new id per launch."""

    worker_id: str
    pid: int


# ---- events -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Assigned:
    """The assignments give this work to the slot; None: no work."""

    work: LocalAssignment | None


@dataclass(frozen=True)
class BundleReady:
    """The bundle and its environment are on disk. ``worker_id`` is a new id for the worker to be launched."""

    sha256: str
    worker_id: str


@dataclass(frozen=True)
class BundleFailed:
    sha256: str
    reason: str
    is_final: bool = False  # the bundle itself is at fault
    topology_id: str = ""  # whose blobs are at fault; "": every topology with this bundle


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
        """True if the exit status means that the worker itself has reported its component's exception."""
        return self.kind is ExitKind.ERROR and self.text.partition(":")[0] == "exit status 1"


@dataclass(frozen=True)
class MemoryExceeded:
    """The worker uses more memory than it was given. ``text``: how much, and by which components."""

    worker_id: str
    text: str


@dataclass(frozen=True)
class RestartRequested:
    """An operator or nimbus has requested a restart of the worker."""


@dataclass(frozen=True)
class Ticked:
    """Time has passed. Due at ``next_deadline_s``; additional events are harmless."""


@dataclass(frozen=True)
class Overslept:
    """The supervisor itself was suspended for ``seconds``. Missing heartbeats during that time do not count."""

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
    | MemoryExceeded
    | RestartRequested
    | Ticked
    | Overslept
)

# ---- effects ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Localize:
    """Fetch and unpack the bundle, build its environment, and fetch the blobs. Idempotent.

    Answered by BundleReady or BundleFailed.
    """

    work: LocalAssignment


@dataclass(frozen=True)
class Launch:
    """Start the process. Answered by WorkerLaunched or LaunchFailed."""

    work: LocalAssignment
    worker_id: str


@dataclass(frozen=True)
class PutPresence:
    work: LocalAssignment
    worker: Worker


@dataclass(frozen=True)
class RemovePresence:
    """The process has ended: tell the other workers at once, with retries until ZooKeeper has stored the removal."""

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
    """The process has ended: count the exit by ``cause`` and remove the worker's directory."""

    work: LocalAssignment
    worker: Worker
    cause: str
    text: str


@dataclass(frozen=True)
class ReportError:
    """Report to the topology's users an error that keeps the topology from running here."""

    work: LocalAssignment
    message: str
    is_failed_start: bool = False


Effect: TypeAlias = Localize | Launch | PutPresence | RemovePresence | Terminate | Kill | ForgetWorker | ReportError
