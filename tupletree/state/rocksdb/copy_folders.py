"""The folders of copies of states on one machine: which copy a process takes, and which are removed.

    <directory>/<digest>/<namespace>/0/lock     locked by the process that has the copy open
                                       db-0/    the copy
                                     1/...      another, made while a process had the first one open

The digest is of ``shared`` and of the user id: workers that run as their users cannot use each other's folders.

The lock ends with its process.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from contextlib import suppress
from itertools import count, islice
from typing import IO, Final

from tupletree._sinks.durable_files import lock_now
from tupletree.errors import UnavailableError
from tupletree.state.names import readable_name
from tupletree.state.rocksdb.stores import SharedStore

_NEW_COPIES: Final = 8  # are tried, since another process may take one at the same time


def remove_copies(namespace: str, directory: str, shared: str) -> None:
    """Remove the copies of a namespace on this machine that no process has open."""
    _remove_free(folder_of(namespace, directory, shared))


def remove_abandoned(directory: str, shared: SharedStore) -> None:
    """Remove the copies on this machine whose state does not exist any more, as far as that is possible."""
    folder = _folder_of_all(directory, shared.address)
    with suppress(OSError, UnavailableError):
        for name in shared.gone(os.listdir(folder)):
            _remove_free(os.path.join(folder, name))


def folder_of(namespace: str, directory: str, shared: str) -> str:
    """Return the folder of the copies of one namespace."""
    return os.path.join(_folder_of_all(directory, shared), readable_name(namespace))


def _folder_of_all(directory: str, shared: str) -> str:
    digest = hashlib.sha256(b"%d %s" % (os.geteuid(), os.fsencode(shared))).hexdigest()[:12]
    return os.path.join(os.path.abspath(directory), digest)


def taken(folder: str) -> tuple[str, IO[bytes]]:
    """Lock the copy that was opened last, or a new one, and remove the others. Raises OSError."""
    os.makedirs(folder, exist_ok=True)
    slots = sorted((name for name in os.listdir(folder) if name.isdecimal()), key=int)
    slots.sort(key=lambda name: _opened_at(os.path.join(folder, name)), reverse=True)
    unused = (str(number) for number in count() if str(number) not in slots)
    for name in [*slots, *islice(unused, _NEW_COPIES)]:
        path = os.path.join(folder, name)
        lock = _locked(path)
        if lock is not None:
            os.utime(lock.fileno())
            _remove_free(folder, but=name)
            return path, lock
    raise UnavailableError(f"{folder}: all copies of the state are in use by other processes")


def last_store(path: str) -> int:
    """Return the number of the store of a copy, and remove what an interrupted ``clear`` has left of earlier ones."""
    numbers = [int(name[3:]) for name in os.listdir(path) if name.startswith("db-") and name[3:].isdecimal()]
    for number in sorted(numbers)[:-1]:
        shutil.rmtree(os.path.join(path, f"db-{number}"), ignore_errors=True)
    return max(numbers, default=0)


def _opened_at(path: str) -> int:
    """Return the time at which a copy was taken last, in nanoseconds; 0 if it never was."""
    with suppress(OSError):
        return os.stat(os.path.join(path, "lock")).st_mtime_ns
    return 0


def _locked(path: str) -> IO[bytes] | None:
    """Lock a copy, which is created if it does not exist; None if another has it, or has just removed it."""
    os.makedirs(path, exist_ok=True)
    name = os.path.join(path, "lock")
    lock = open(name, "ab")  # noqa: SIM115 - the lock lasts as long as the file is open
    with suppress(FileNotFoundError):
        if lock_now(lock.fileno()) and os.path.samestat(os.fstat(lock.fileno()), os.stat(name)):
            return lock
    lock.close()
    return None


def _remove_free(folder: str, but: str = "") -> None:
    """Remove the copies in a folder that no process has open, as far as that is possible."""
    with suppress(OSError):
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            lock = _locked(path) if name != but else None
            if lock is not None:
                with lock:
                    shutil.rmtree(path, ignore_errors=True)
        os.rmdir(folder)
