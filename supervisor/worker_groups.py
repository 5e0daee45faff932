"""The control groups of this supervisor's workers: makes them, writes their limits, and removes them. See cgroups.py.

A worker enters its group before its program starts, so that everything it allocates and every child counts there.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tupletree._log import event
from tupletree.errors import ConfigError, UsageError

from . import enter
from .accounts import Account
from .cgroups import (
    Division,
    MemoryEvents,
    controllers_to_enable,
    division,
    end_for_memory,
    group_directory,
    mount_of,
    own_group,
    prefix_of,
    settings,
)
from .memory_limits import MemoryLimit

log = logging.getLogger(__name__)

ENTER: Final = ("/bin/sh", "-c", 'echo 0 >&0 && exec "$@" </dev/null || exit 125', "sh")
"""The beginning of a command line that enters the group of which it has cgroup.procs as standard input.

For programs of this process's user. Whoever has the file open can move other processes into the group.
"""
_PROBE: Final = "probe"
_PROBE_TIMEOUT_S: Final = 5.0


@contextlib.contextmanager
def entering_as(account: Account, environment: Mapping[str, str]) -> Iterator[tuple[list[str], int]]:
    """Yield what ENTER is for the program of another user, and the descriptor that it inherits. Raises OSError.

    It is started as root, in this process's environment: nothing of the user runs before the group is entered.
    """
    facts = {"uid": account.uid, "gid": account.gid, "groups": account.groups, "environment": dict(environment)}
    with tempfile.TemporaryFile("w+", encoding="ascii") as file:
        json.dump(facts, file)
        file.seek(0)
        yield [sys.executable, "-I", "-S", enter.__file__, str(file.fileno())], file.fileno()


class WorkerGroups:
    """The groups below ``root``. Methods block on disk I/O, except ``set_limits``."""

    def __init__(self, root: Path, supervisor_id: str, margin_mb: float) -> None:
        self._root = root
        self._prefix = prefix_of(supervisor_id)
        self._margin_mb = margin_mb
        self._limits: Mapping[int, MemoryLimit] = {}
        self._written: dict[str, dict[str, str]] = {}

    @property
    def root(self) -> Path:
        return self._root

    def set_limits(self, limits: Mapping[int, MemoryLimit]) -> None:
        """Replace all limits. They hold for workers that start; ``apply`` writes those of others."""
        self._limits = limits

    @contextlib.contextmanager
    def made(self, worker_id: str, port: int, topology_id: str) -> Iterator[int]:
        """Make the group of a worker, and open what ENTER needs as standard input. Raises OSError."""
        group = self._group(worker_id)
        group.mkdir()
        self._write(worker_id, self._limit(port, topology_id))
        entrance = os.open(group / "cgroup.procs", os.O_WRONLY)
        try:
            yield entrance
        finally:
            os.close(entrance)

    def apply(self, workers: Mapping[str, tuple[int, str]]) -> None:
        """Write the limits of live workers where they have changed. ``workers``: port and topology, by id."""
        for worker_id, (port, topology_id) in workers.items():
            if not self._group(worker_id).exists():
                continue  # an earlier supervisor has launched it without a group
            try:
                self._write(worker_id, self._limit(port, topology_id))
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.ENODEV):  # it has just ended
                    raise

    def end_for_memory(self, worker_id: str, port: int, topology_id: str) -> str | None:
        """Return why the kernel ended a worker for its memory, or None if it did not."""
        try:
            events = MemoryEvents.parse((self._group(worker_id) / "memory.events").read_text())
        except OSError:
            return None
        return end_for_memory(events, self._limit(port, topology_id), self._margin_mb)

    def names(self) -> list[str]:
        """Return the ids of all workers with a group, of this supervisor process or an earlier one."""
        names = os.listdir(self._root)
        return [name.removeprefix(self._prefix) for name in names if name.startswith(self._prefix)]

    def remove(self, worker_id: str) -> None:
        """Kill what is left in the group of a worker that has ended, and remove the group. Idempotent.

        What does not end at once keeps the group: then the next call removes it.
        """
        group = self._group(worker_id)
        self._written.pop(worker_id, None)
        if not group.exists():
            return
        if (group / "cgroup.kill").exists():  # since Linux 5.14
            _put(group / "cgroup.kill", "1")
        try:
            for folder, _, _ in os.walk(group, topdown=False):
                os.rmdir(folder)
        except OSError as error:
            if error.errno not in (errno.EBUSY, errno.ENOENT):
                raise

    def _limit(self, port: int, topology_id: str) -> MemoryLimit | None:
        limit = self._limits.get(port)
        return limit if limit is not None and limit.topology_id == topology_id else None

    def _group(self, worker_id: str) -> Path:
        return self._root / f"{self._prefix}{worker_id}"

    def _write(self, worker_id: str, limit: MemoryLimit | None) -> None:
        written = self._written.setdefault(worker_id, {})
        for name, value in settings(limit, self._margin_mb).items():
            path = self._group(worker_id) / name
            if written.get(name) != value and (name == "memory.max" or path.exists()):
                _put(path, value)
                written[name] = value


def find_groups(use: str, root: str | None, supervisor_id: str, margin_mb: float) -> WorkerGroups | None:
    """Return the groups of this supervisor's workers, or None if they have none.

    ``use`` and ``root`` are supervisor.cgroup.use and .root. Raises ConfigError if groups are required and impossible.
    """
    if use == "never":
        return None
    try:
        groups = _divide(root, supervisor_id, margin_mb)
    except UsageError as error:
        if use == "required":
            raise ConfigError(f"configuration key 'supervisor.cgroup.use' is 'required', but {error}") from error
        event(log, "cgroup.unused", cause=str(error))
        return None
    event(log, "cgroup.used", root=groups.root)
    return groups


def _divide(root: str | None, supervisor_id: str, margin_mb: float) -> WorkerGroups:
    """Prepare the group to divide. Raises UsageError with the reason why there is none."""
    try:
        found = _division(root)
        commands = controllers_to_enable(Path(found.root, "cgroup.controllers").read_text(), found.root)
        with _moved(found):
            for command in commands:
                _put(Path(found.root, "cgroup.subtree_control"), command)
            groups = WorkerGroups(Path(found.root), supervisor_id, margin_mb)
            _probe(groups)
    except OSError as error:
        if error.errno == errno.EBUSY:
            raise UsageError(
                f"processes run in {found.root} itself, such as workers that were launched before: end them first"
            ) from error
        raise UsageError(f"{error.filename}: {error.strerror}") from error
    return groups


def _division(configured: str | None) -> Division:
    """Return the group to divide. Raises UsageError or OSError."""
    try:
        own = own_group(Path("/proc/self/cgroup").read_text())
        mount = mount_of(Path("/proc/self/mountinfo").read_text())
    except OSError:
        own = mount = None
    directory = group_directory(configured, own, mount)
    if configured is not None:
        return Division(directory, "")
    return division(directory, [int(pid) for pid in Path(directory, "cgroup.procs").read_text().split()], os.getpid())


@contextlib.contextmanager
def _moved(found: Division) -> Iterator[None]:
    """Move this process into the leaf, and back if the body raises. Raises OSError."""
    if not found.leaf:
        yield
        return
    leaf = Path(found.root, found.leaf)
    leaf.mkdir(exist_ok=True)
    try:
        _put(leaf / "cgroup.procs", "0")
        yield
    except BaseException:
        for name in ("memory", "cpu"):  # with controllers for its children, the group takes no process back
            with contextlib.suppress(OSError):
                _put(Path(found.root, "cgroup.subtree_control"), f"-{name}")
        with contextlib.suppress(OSError):
            _put(Path(found.root, "cgroup.procs"), "0")
            leaf.rmdir()
        raise


def _probe(groups: WorkerGroups) -> None:
    """Run a program in a group, as workers will. Raises UsageError or OSError."""
    groups.remove(_PROBE)
    try:
        with groups.made(_PROBE, 0, "") as entrance:
            result = subprocess.run(
                [*ENTER, "true"], stdin=entrance, capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S, check=False
            )
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"a program in a group below {groups.root} does not run: is that group frozen?") from error
    finally:
        groups.remove(_PROBE)
    if result.returncode:
        raise UsageError(f"no program can be started in a group below {groups.root}: {result.stderr.strip()}")


def _put(path: Path, text: str) -> None:
    """Write a file of a group with one call. Raises OSError with the path."""
    try:
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
