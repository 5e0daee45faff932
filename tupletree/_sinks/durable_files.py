"""Files and directories that survive a crash of the machine, locks, and notes: small JSON files."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import time
from collections.abc import Iterator
from typing import Any, Final

from tupletree.errors import UnavailableError, UsageError

LOCK_PAUSE_S: Final = 0.01
"""The pause before a lock that another process holds is tried again."""


def sync(path: str | os.PathLike[str]) -> None:
    """Sync a file, or the entries of a directory, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(path: str) -> None:
    """Make a directory, whose parent exists, unless it is there."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(path)
        sync(os.path.dirname(path))


def read_note(path: str) -> dict[str, Any]:
    """Return a note. Raises UsageError if the file is none, and OSError."""
    with open(path, encoding="utf-8") as file:
        try:
            note = json.load(file)
        except ValueError as error:
            raise UsageError(f"{path} is not a record of a pipeline or sink: {error}") from error
    return note if isinstance(note, dict) else {}


def write_note(path: str, note: dict[str, Any]) -> None:
    """Replace a note atomically. Its content is on disk; sync the directory for its name."""
    temporary = path + ".new"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(note, file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(temporary, path)


@contextlib.contextmanager
def locked(path: str, timeout_s: float) -> Iterator[None]:
    """Exclude other processes and threads by the lock of a file, which ends with its process.

    Raises UnavailableError while another has it for longer than ``timeout_s``, and OSError on a file system without
    locks.
    """
    deadline_s = time.monotonic() + timeout_s
    with open(path, "ab") as file:
        while not lock_now(file.fileno()):
            if time.monotonic() > deadline_s:
                raise UnavailableError(f"{path}: another process has the lock")
            time.sleep(LOCK_PAUSE_S)
        yield


def lock_now(descriptor: int) -> bool:
    """Lock an open file. False if another has the lock. Raises OSError on a file system without locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unavailable(path: str, error: OSError) -> UnavailableError:
    """Return the error to raise for a file system error, which can be temporary."""
    name = error.filename if isinstance(error.filename, str) else path
    return UnavailableError(f"{name}: {os.strerror(error.errno or errno.EIO)}")
