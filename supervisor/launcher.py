"""The workers of this machine on disk: launch parameters and process identity of each.

    <local.dir>/workers/<worker id>/
        work.json       port, launch time and work, needed for adoption (written first)
        launch.json     read by the worker itself (written before the process starts)
        blobs/, <name>  the worker's blobs, see blob_files.py (before the process starts)
        process.json    the process identity (written right after the start)
        own/            of workers that run as their users, see users.py

If the supervisor dies before it writes process.json, the process is found by its command line, which contains the path
of launch.json. The directory is removed when the process has ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tupletree._limits import environment_fault
from tupletree._security.current import current, worker_conf
from tupletree._wire.conf_changes import digest
from tupletree.config import merge
from tupletree.errors import InternalError, UnavailableError, UsageError

from .accounts import Account
from .blob_files import link
from .blob_plan import LocalBlob
from .config import SupervisorConfig
from .files import read_text, remove_tree
from .local_assignment import LocalAssignment
from .processes import Identity, WorkerProcess, end_session, find_by_argument, identify
from .users import OWN, copy_bundle, environment_of, hand_over, make_log_directory
from .virtualenv import python_environment
from .worker_groups import ENTER, WorkerGroups, entering_as

OUTPUT = "worker.out"
"""The file for a worker's stdout and stderr, next to the worker.log that the worker writes itself."""
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": str(32 * 1024 * 1024), "MALLOC_TRIM_THRESHOLD_": str(64 * 1024 * 1024)}
"""glibc's settings for workers; other libraries ignore them. Messages of up to a megabyte come and go all the time. By
default each is mapped anew and its pages are cleared, which takes a third of the time of large tuples."""


@dataclass(frozen=True)
class LaunchedWorker:
    """A worker as described by its directory."""

    worker_id: str
    port: int
    work: LocalAssignment
    launched_unix_s: float
    output_start: int = 0  # size of worker.out before this launch


@dataclass(frozen=True)
class FoundWorker:
    """A worker directory of an earlier supervisor process. ``launched`` is None if work.json is unreadable."""

    worker_id: str
    launched: LaunchedWorker | None
    identity: Identity | None  # None: the process has ended


@dataclass(frozen=True)
class _Place:
    """The directory in which a worker starts, its bundle, and its configuration."""

    directory: Path
    bundle_dir: Path
    conf: Mapping[str, Any]


class Launcher:
    """Launches workers and finds them after a restart. Methods block on disk I/O."""

    def __init__(
        self, config: SupervisorConfig, supervisor_id: str, supervisor_address: str, groups: WorkerGroups | None
    ) -> None:
        self._config = config
        self._groups = groups
        self._supervisor_id = supervisor_id
        self._root = Path(config.local_dir, "workers")
        self._supervisor_address = supervisor_address

    def log_dir(self, topology_id: str, port: int) -> Path:
        return Path(self._config.logs_dir, topology_id, str(port))

    def directory(self, worker_id: str) -> Path:
        """Return the directory of a worker, in which its process starts."""
        return self._root / worker_id

    def launch(
        self,
        worker_id: str,
        port: int,
        work: LocalAssignment,
        bundle_dir: Path,
        python: str,
        blobs: Mapping[str, LocalBlob],
    ) -> tuple[LaunchedWorker, WorkerProcess]:
        """Start a worker. On failure, neither the process nor the directory remains. ``blobs``: by local name.

        Raises UnavailableError or UsageError, in one sentence, or any other exception that a bad configuration causes.
        """
        directory = self.directory(worker_id)
        log_dir = self.log_dir(work.topology_id, port)
        process: WorkerProcess | None = None
        try:
            output = log_dir / OUTPUT
            printed = output.stat().st_size if output.exists() else 0
            launched = LaunchedWorker(worker_id, port, work, time.time(), printed)
            conf = merge(self._config.conf, json.loads(work.conf_json or "{}"))
            conf = worker_conf(conf, current(), work.topology_id)
            account = self.account_of(work)
            place = self._prepare(directory, log_dir, bundle_dir, conf, account)
            for name, blob in blobs.items():
                link(directory, name, blob.sha256, Path(blob.path))
            facts = {"port": port, "launched_unix_s": launched.launched_unix_s, "work": work.to_json()}
            _write(directory / "work.json", facts)
            _write(directory / "launch.json", self._launch_facts(launched, place, log_dir))
            if account is not None:
                os.chown(directory / "launch.json", account.uid, account.gid)
            command = [python, "-m", self._config.worker_module, "--launch", str(directory / "launch.json")]
            environment = _environment(conf, account)
            process = self._start(launched, command, place, environment, output, account)
            identity = identify(process.pid)
            if identity is not None:  # None: the process has already ended, as the watch will report
                with contextlib.suppress(OSError):  # without the file, the command line identifies the process
                    _write(directory / "process.json", identity.to_json())
        except BaseException as error:
            if process is not None:
                process.end()
            remove_tree(directory)
            if not isinstance(error, OSError):
                raise
            where = f" ({error.filename})" if error.filename else ""
            raise UnavailableError(f"the worker on port {port} cannot be launched: {error.strerror}{where}") from error
        return launched, process

    def _start(
        self,
        launched: LaunchedWorker,
        command: Sequence[str],
        place: _Place,
        environment: Mapping[str, str],
        output: Path,
        account: Account | None,
    ) -> WorkerProcess:
        """Start the process of a worker, in its control group if it has one."""
        start = partial(WorkerProcess.launch, cwd=str(place.directory), env=environment, output=str(output))
        if self._groups is None:
            return start(command, account=account)
        with self._groups.made(launched.worker_id, launched.port, launched.work.topology_id) as entrance:
            if account is None:
                return start([*ENTER, *command], stdin=entrance)
            with entering_as(account, environment) as (enter, facts):
                return start([*enter, *command], env=dict(os.environ), stdin=entrance, inherited=[facts])

    def account_of(self, work: LocalAssignment) -> Account | None:
        """Return the account of a worker; None: that of the supervisor. Raises UsageError if its owner has none."""
        return None if self._config.users is None else self._config.users.find(work.owner)

    def _prepare(
        self, directory: Path, log_dir: Path, bundle_dir: Path, conf: Mapping[str, Any], account: Account | None
    ) -> _Place:
        """Make the directories of a worker, which belong to its user."""
        directory.mkdir(parents=True)
        if account is None or self._config.users is None:
            log_dir.mkdir(parents=True, exist_ok=True)
            return _Place(directory, bundle_dir, conf)
        own = directory / OWN
        own.mkdir(mode=0o700)
        place = _Place(own, copy_bundle(bundle_dir, own), self._config.users.conf_of(account, conf, own))
        hand_over(own, account)
        make_log_directory(log_dir, account)
        directory.chmod(0o711)
        return place

    def find(self) -> list[FoundWorker]:
        """Return all worker directories, in order of launch."""
        if not self._root.is_dir():
            return []
        found = [self._read(directory) for directory in self._root.iterdir()]
        return sorted(found, key=lambda one: one.launched.launched_unix_s if one.launched else 0.0)

    def names(self) -> list[str]:
        """Return the ids of all workers with a directory or a control group."""
        names = set(os.listdir(self._root) if self._root.is_dir() else [])
        return sorted(names.union(self._groups.names() if self._groups is not None else []))

    def remove(self, worker_id: str) -> None:
        """Remove the directory and the control group of a worker whose process has ended, and end what is left of its
        session. Idempotent."""
        if (leader := _noted_identity(self._root / worker_id)) is not None:
            end_session(leader)
        remove_tree(self._root / worker_id)
        if self._groups is not None:
            self._groups.remove(worker_id)

    def end_for_memory(self, launched: LaunchedWorker) -> str | None:
        """Return why the kernel ended a worker for its memory, or None if it did not."""
        if self._groups is None:
            return None
        return self._groups.end_for_memory(launched.worker_id, launched.port, launched.work.topology_id)

    def _launch_facts(self, launched: LaunchedWorker, place: _Place, log_dir: Path) -> dict[str, Any]:
        return {
            "topology_id": launched.work.topology_id,
            "worker_id": launched.worker_id,
            "supervisor_id": self._supervisor_id,
            "supervisor_address": self._supervisor_address,
            "host": self._config.host,
            "port": launched.port,
            "bind_host": self._config.bind_host,
            "http_port": int(place.conf["worker.http.port"]),
            "bundle_dir": str(place.bundle_dir),
            "log_dir": str(log_dir),
            "worker_dir": str(place.directory),
            "conf": place.conf,
            "tasks": launched.work.tasks,
            "conf_digest": digest(launched.work.conf_json),
            "announce": None,
        }

    def _read(self, directory: Path) -> FoundWorker:
        identity = _live_identity(directory)
        try:
            facts = json.loads(read_text(directory / "work.json"))
            work = LocalAssignment.from_json(facts["work"])
            launched = LaunchedWorker(directory.name, int(facts["port"]), work, float(facts["launched_unix_s"]))
        except (OSError, KeyError, TypeError, ValueError, OverflowError, RecursionError, InternalError):
            launched = None
        return FoundWorker(directory.name, launched, identity)


def _live_identity(directory: Path) -> Identity | None:
    """Return the identity of a worker directory's process, or None if the process is not alive."""
    noted = _noted_identity(directory)
    if noted is None:
        pid = find_by_argument(str(directory / "launch.json"), _user_of(directory))
        return None if pid is None else identify(pid)
    return noted if identify(noted.pid) == noted else None


def _noted_identity(directory: Path) -> Identity | None:
    """Return the identity of a process, alive or not, by its worker's directory; None if it is not noted there."""
    try:
        return Identity(**json.loads(read_text(directory / "process.json")))
    except (OSError, TypeError, ValueError, RecursionError):
        return None


def _user_of(directory: Path) -> int:
    """Return the user id of a worker, by its directory."""
    own = directory / OWN
    try:
        return os.lstat(own).st_uid
    except OSError:
        return os.geteuid()


def _environment(conf: Mapping[str, Any], account: Account | None) -> dict[str, str]:
    """Return a worker's environment: the supervisor's, overridden by the topology's, with unbuffered output.

    A worker of another user gets only what is no secret of the supervisor's.

    gRPC's fork handlers are disabled: they crash one child process in ten between fork and exec if a call is in
    progress, and Spark's JVM would not start. ``ALLOCATOR`` holds for what neither sets. Raises UsageError if
    ``topology.environment`` is invalid.
    """
    own = conf.get("topology.environment") or {}
    fault = environment_fault(own)
    if fault:
        raise UsageError(f"topology.environment: {fault}")
    own = {str(name): str(value) for name, value in own.items()}
    inherited = python_environment()
    if account is not None:
        inherited = environment_of(account, inherited)
    return {"GRPC_ENABLE_FORK_SUPPORT": "0", **ALLOCATOR, **inherited, "PYTHONUNBUFFERED": "1", **own}


def _write(path: Path, facts: Mapping[str, Any]) -> None:
    """Write a JSON file atomically, readable by its owner only. A link in its place is removed, not followed."""
    partly = path.with_suffix(".partial")
    partly.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with open(os.open(partly, flags, 0o600), "w", encoding="utf-8") as file:
        json.dump(facts, file)
    os.replace(partly, path)
