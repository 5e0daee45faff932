"""Safe access to files that user code can change: workers share the supervisor's disk, and often its user.

A worker can replace a log by a pipe or a directory by a symbolic link, or nest directories a thousand deep. Nothing
here blocks on a pipe, follows a link in the last part of a path, or fails on deep nesting. A file in a directory of
another user is opened with the rights of that user (file_rights.py).
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import shutil
import stat
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from tupletree._sinks.durable_files import sync

from .file_rights import rights_of_owner

_SAFE: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_DEPTH: Final = 16


def open_regular(path: str | os.PathLike[str], flags: int = os.O_RDONLY, mode: str = "rb") -> BinaryIO:
    """Open a regular file. Raises OSError if the path is anything else."""
    with rights_of_owner(os.path.dirname(os.path.abspath(path))):
        number = os.open(path, flags | _SAFE, 0o644)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError(0, "it is not a regular file", os.fspath(path))
    return cast(BinaryIO, os.fdopen(number, mode))


def open_output(path: str | os.PathLike[str], *, is_new: bool = False) -> BinaryIO:
    """Open a file for appending, truncated first if ``is_new``. Raises OSError."""
    return open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | (os.O_TRUNC if is_new else 0), "ab")


def read_text(path: str | os.PathLike[str]) -> str:
    """Return the text of a regular file. Raises OSError or ValueError."""
    with open_regular(path) as file:
        return file.read().decode("utf-8")


def publish_tree(directory: Path, target: Path) -> None:
    """Give a directory the name by which it counts as complete, with all that is in it on the disk.

    Nothing is changed if another attempt has been faster. Raises OSError.
    """
    waiting = [os.fspath(directory)]
    while waiting:
        path = waiting.pop()
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                else:
                    sync(entry.path)
        sync(path)
    if not target.exists():
        os.replace(directory, target)
        sync(target.parent)


def sync_file_system(directory: Path) -> None:
    """Have all that was written to the file system of a directory on the disk, by one call. Raises OSError.

    File by file, an environment with ten thousand files would take a minute.
    """
    syncfs: Any = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if syncfs is None:  # not Linux
        os.sync()
        return
    descriptor = os.open(directory, _DIRECTORY)
    try:
        if syncfs(descriptor):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), os.fspath(directory))
    finally:
        os.close(descriptor)


def remove_tree(path: str | os.PathLike[str]) -> None:
    """Remove a directory tree as far as possible. Never raises."""
    with contextlib.suppress(OSError, RecursionError):
        shutil.rmtree(path, ignore_errors=True)
    with contextlib.suppress(OSError):
        root = os.open(path, _DIRECTORY)  # still there: too deep, or with files that cannot be removed
        try:
            numbers = itertools.count()
            while _remove_level(root, numbers):
                pass
        finally:
            os.close(root)
        os.rmdir(path)


def _remove_level(root: int, numbers: itertools.count[int]) -> bool:
    """Remove a directory's entries, and move entries of subdirectories up one level. False if nothing changed."""
    has_changed = False
    for name in os.listdir(root):
        with contextlib.suppress(OSError):
            if not stat.S_ISDIR(os.lstat(name, dir_fd=root).st_mode):
                os.unlink(name, dir_fd=root)
                has_changed = True
                continue
            inner = os.open(name, _DIRECTORY, dir_fd=root)
            try:
                for entry in os.listdir(inner):
                    os.rename(entry, f".removing-{next(numbers)}-{os.getpid()}", src_dir_fd=inner, dst_dir_fd=root)
                    has_changed = True
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=root)
            has_changed = True
    return has_changed


def last_modified_unix_s(directory: Path) -> float:
    """Return the newest modification time in a directory, or 0 if it is gone. Very deep levels are ignored."""
    newest = 0.0
    waiting = [(os.fspath(directory), 0)]
    while waiting:
        path, depth = waiting.pop()
        with contextlib.suppress(OSError):  # removed or rotated away meanwhile
            newest = max(newest, os.lstat(path).st_mtime)
            with os.scandir(path) as entries:
                for entry in entries:
                    newest = max(newest, entry.stat(follow_symlinks=False).st_mtime)
                    if depth < _MAX_DEPTH and entry.is_dir(follow_symlinks=False):
                        waiting.append((entry.path, depth + 1))
    return newest
