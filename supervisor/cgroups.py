"""Control groups of workers (cgroups v2): the group that a supervisor may divide, and what is written to the files.

    <root>/                              the group that the supervisor may divide; it has no process itself
        supervisor/                      the supervisor, unless ``supervisor.cgroup.root`` names the root
        worker-<supervisor>-<worker id>/ one worker with all its children; <supervisor> is a digest of its id

The kernel lets a group have either processes or children with controllers. A supervisor below systemd is therefore
started in ``<unit>/supervisor`` (``DelegateSubgroup=``), and divides the unit's group. It never leaves the unit's group
by itself: systemd starts the next supervisor there, which fails while children have controllers and live workers.
A supervisor elsewhere that is alone in its group moves into a child of it.
"""

from __future__ import annotations  # pure

import hashlib
from collections.abc import Collection
from typing import Final, NamedTuple

from tupletree.errors import UsageError

from .memory_limits import MemoryLimit

LEAF: Final = "supervisor"
"""The child for the supervisor's own process."""

_MB: Final = 1024 * 1024
_DEFAULT_WEIGHT: Final = 100
_MAX_WEIGHT: Final = 10_000
_UNITS: Final = (".service", ".scope", ".slice")


class Mount(NamedTuple):
    """The place where the cgroup v2 hierarchy is mounted, and the group that is seen there."""

    point: str
    group: str


class Division(NamedTuple):
    """A group to divide. ``leaf``: the child that the supervisor moves to first, or "" if it stays where it is."""

    root: str
    leaf: str


def mount_of(mountinfo: str) -> Mount | None:
    """Return the mount of cgroup v2 in the text of /proc/self/mountinfo, or None if there is none."""
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) >= 5 and after.split()[:1] == ["cgroup2"]:
            return Mount(fields[4], fields[3])
    return None


def own_group(text: str) -> str | None:
    """Return the group in the text of /proc/self/cgroup; None without cgroup v2."""
    return next((line[3:] for line in text.splitlines() if line.startswith("0::/")), None)


def group_directory(configured: str | None, own: str | None, mount: Mount | None) -> str:
    """Return the directory of the configured group, or of the supervisor's own. Raises UsageError."""
    if own is None or mount is None:
        raise UsageError("this system has no cgroups v2")
    group = own if configured is None else configured
    seen = mount.group.rstrip("/")
    if group != mount.group and not group.startswith(f"{seen}/"):
        raise UsageError(f"the group {group} is not among those in {mount.point}")
    return f"{mount.point}/{group[len(seen) :].strip('/')}".rstrip("/")


def division(own: str, processes: Collection[int], pid: int) -> Division:
    """Return how the supervisor ``pid`` divides the group of directory ``own``, which has these processes.

    Raises UsageError with the reason why it may not.
    """
    parent, _, name = own.rpartition("/")
    if name == LEAF:
        return Division(parent, "")
    if name.endswith(_UNITS):
        raise UsageError(
            f"{own} is systemd's: the supervisor needs a service with Delegate=yes and DelegateSubgroup={LEAF}, of "
            f"systemd 254 or newer"
        )
    if set(processes) != {pid}:
        raise UsageError(f"other processes are in {own} too: name a group for its workers in supervisor.cgroup.root")
    return Division(own, LEAF)


def controllers_to_enable(available: str, root: str) -> list[str]:
    """Return what to write to cgroup.subtree_control, in order, given the text of cgroup.controllers.

    Raises UsageError if memory cannot be limited.
    """
    names = available.split()
    if "memory" not in names:
        raise UsageError(f"{root} has no memory controller; its controllers: {', '.join(names) or 'none'}")
    return [f"+{name}" for name in ("memory", "cpu") if name in names]


def prefix_of(supervisor_id: str) -> str:
    """Return the beginning of the names of a supervisor's groups: several supervisors may divide one group."""
    return f"worker-{hashlib.sha256(supervisor_id.encode()).hexdigest()[:8]}-"


def settings(limit: MemoryLimit | None, margin_mb: float) -> dict[str, str]:
    """Return the values of a group's files, by name, in the order in which they are written.

    A worker with a limit uses no swap: it would be slow for minutes where it is to end. Only the resource scheduler
    knows a worker's processor time; without it all workers weigh the same.
    """
    cpu_percent = 0.0 if limit is None else limit.cpu_percent
    weight = max(1, min(round(cpu_percent), _MAX_WEIGHT)) if cpu_percent > 0 else _DEFAULT_WEIGHT
    most = "max" if limit is None else str(int((limit.memory_mb + margin_mb) * _MB))
    return {
        "memory.oom.group": "1",
        "memory.swap.max": "max" if limit is None else "0",
        "memory.max": most,
        "cpu.weight": str(weight),
    }


class MemoryEvents(NamedTuple):
    """Counts of the kernel for a group, from memory.events."""

    refused: int  # allocations beyond the limit of the group that nothing could be freed for
    killed: int  # processes ended for lack of memory, in this group or above

    @classmethod
    def parse(cls, text: str) -> MemoryEvents:
        """Return the counts in the text of memory.events. A line that is missing or malformed counts 0."""
        pairs = [line.split() for line in text.splitlines()]
        counts = {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}
        return cls(counts.get("oom", 0), counts.get("oom_kill", 0))


def end_for_memory(events: MemoryEvents, limit: MemoryLimit | None, margin_mb: float) -> str | None:
    """Return why the kernel ended a worker, or None if it did not."""
    if not events.killed:
        return None
    if not events.refused:
        return "the kernel ended it with its children, as the machine or its container had no memory left"
    if limit is None:  # not known yet, or no longer
        return "the kernel ended it with its children, as they needed more memory than their control group may use"
    return limit.kernel_sentence(margin_mb)
