"""The supervisor's own state in its local directory: id, ports, and the lock that keeps other supervisors out."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import socket
import uuid
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import IO

from tupletree._net import ReservedPorts, bind
from tupletree.errors import TupletreeError, UnavailableError, UsageError

_FORBIDDEN = re.compile(r"[^A-Za-z0-9._-]+")


def claim(local_dir: str) -> IO[str]:
    """Lock the directory for this supervisor until the process ends or the returned file is closed.

    Raises UsageError if another supervisor holds the lock or the directory is not writable, and UnavailableError if the
    disk is full.
    """
    try:
        os.makedirs(local_dir, exist_ok=True)
        file = open(os.path.join(local_dir, "supervisor.lock"), "a", encoding="ascii")  # noqa: SIM115 - kept open
    except OSError as error:
        raise _refused(f"the local directory {local_dir}", error) from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise UsageError(f"another supervisor uses local.dir {local_dir}: configure another local.dir") from error
    return file


def load_id(local_dir: str, configured: str | None) -> str:
    """Return this supervisor's id: as configured, or as generated at the first start. Raises like ``claim``."""
    path = Path(local_dir, "supervisor-id")
    if configured is not None:
        _store(path, configured)
        return configured
    if path.is_file() and (stored := path.read_text(encoding="utf-8").strip()):
        return stored
    made = f"{_FORBIDDEN.sub('-', socket.gethostname())}-{uuid.uuid4().hex[:8]}"
    _store(path, made)
    return made


def choose_slots(
    local_dir: str, host: str, configured: Sequence[int], occupied: Collection[int], reserved: ReservedPorts
) -> tuple[int, ...]:
    """Return the slots' ports: as configured, with each 0 replaced by a free port that is kept across restarts.

    ``occupied`` ports are in use by live workers of this supervisor. A kept port that another process has taken
    meanwhile is replaced.
    """
    path = Path(local_dir, "slots.json")
    kept = iter([port for port in _load_ports(path) if port not in configured])
    chosen: list[int] = []
    for port in configured:
        if port:
            chosen.append(port)
            continue
        former = next(kept, 0)
        free = former in occupied or (former and _is_free(host, former))
        chosen.append(former if free else reserved.reserve(1, host)[0])
    dealt = [port for port, wanted in zip(chosen, configured, strict=True) if not wanted]
    if dealt:
        _store(path, json.dumps(dealt))
    return tuple(chosen)


def choose_port(local_dir: str, host: str, configured: int, reserved: ReservedPorts) -> int:
    """Return the gRPC port to bind: as configured; for 0, the last run's port if free (live workers know that port)."""
    path = Path(local_dir, "grpc-port.json")
    former = next(iter(_load_ports(path)), 0)
    port = configured or (former if former and _is_free(host, former) else reserved.reserve(1, host)[0])
    _store(path, json.dumps([port]))
    return port


def _load_ports(path: Path) -> list[int]:
    try:
        return [int(port) for port in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError):
        return []


def _is_free(host: str, port: int) -> bool:
    try:
        bind(host, port).close()
    except UsageError:
        return False
    return True


def _store(path: Path, text: str) -> None:
    """Store a text, unless it is stored already. Raises UsageError, or UnavailableError if the disk is full."""
    partial = path.with_suffix(".partial")
    try:
        if path.is_file() and path.read_bytes() == f"{text}\n".encode():
            return
        partial.write_text(text + "\n", encoding="utf-8")
        os.replace(partial, path)
    except OSError as error:
        raise _refused(str(path), error) from error


def _refused(what: str, error: OSError) -> TupletreeError:
    """Return the error for what cannot be written: a full disk has room again some day, anything else is a mistake."""
    kind = UnavailableError if error.errno in (errno.ENOSPC, errno.EDQUOT) else UsageError
    return kind(f"cannot write {what}: {error.strerror}")
