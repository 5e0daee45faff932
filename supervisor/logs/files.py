"""The files in a worker's log directory, by name.

    worker.log  worker.log.1 …        its log, and rotated logs, newest first
    worker.out  worker.out.1          stdout and stderr
    events.jsonl  events.jsonl.1 …    sampled tuples and traced trees
    profile-20260131T120000.svg       profiles
    memory-20260131T120000.txt        dumps of its memory

Only these files are served, only if they are regular files, and never through a symbolic link: user code controls the
directory, and file names in requests are untrusted.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from tupletree.errors import NotFoundError, UsageError

from ..files import last_modified_unix_s, open_regular
from ..launcher import OUTPUT

LOG: Final = "worker.log"
EVENTS: Final = "events.jsonl"
LOGS: Final = (LOG, OUTPUT, EVENTS)
PROFILE_SUFFIXES: Final = {"flamegraph": "svg", "speedscope": "json", "raw": "txt"}

_ROTATED: Final = re.compile(rf"({'|'.join(map(re.escape, LOGS))})\.([1-9]\d{{0,5}})")
_TOPOLOGY_ID: Final = re.compile(r".+-[0-9]+-[0-9]{9,}")
_DUMP: Final = re.compile(
    rf"profile-\d{{8}}T\d{{6}}\.({'|'.join(PROFILE_SUFFIXES.values())})|memory-\d{{8}}T\d{{6}}\.txt"
)


@dataclass(frozen=True)
class LogFile:
    """One file in a listing."""

    port: int
    name: str
    size: int
    modified_unix_s: float


def check_name(name: str) -> str:
    """Check the name of a file to read; "" means the log. Raises UsageError for a name that no worker writes."""
    if not name:
        return LOG
    if name in LOGS or _ROTATED.fullmatch(name) or _DUMP.fullmatch(name):
        return name
    raise UsageError(
        f"{name[:100]!r} is not a file of a worker; choose from {', '.join(LOGS)}, their rotated files, and dumps"
    )


def files_of(directory: Path, name: str) -> list[Path]:
    """Return the files for a checked name, oldest first: a log with its rotated files, else the single file.

    A worker that died before it opened its log leaves only ``worker.out``, which then replaces the log.
    """
    try:
        names = os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
    if name not in LOGS:
        return [directory / name] if name in names else []
    rotated = [(int(match[2]), one) for one in names if (match := _ROTATED.fullmatch(one)) and match[1] == name]
    ordered = [one for _, one in sorted(rotated, reverse=True)] + ([name] if name in names else [])
    if not ordered and name == LOG and OUTPUT in names and size_of(directory / OUTPUT):
        ordered = [OUTPUT]
    return [directory / one for one in ordered]


def list_files(directory: Path, port: int) -> list[LogFile]:
    """Return the files in a worker's directory that may be read, sorted by name."""
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = []
    for entry in entries:
        known = entry.name in LOGS or _ROTATED.fullmatch(entry.name) or _DUMP.fullmatch(entry.name)
        try:
            if known and entry.is_file(follow_symlinks=False):
                facts = entry.stat(follow_symlinks=False)
                found.append(LogFile(port, entry.name, facts.st_size, facts.st_mtime))
        except FileNotFoundError:  # rotated away meanwhile
            continue
    return found


def topology_directory(logs_dir: Path, topology_id: str) -> Path:
    """Return the log directory of a topology. Raises NotFoundError if the id is invalid."""
    if not topology_id.isprintable() or "/" in topology_id or topology_id in ("", ".", "..") or len(topology_id) > 200:
        raise NotFoundError(f"{topology_id[:200]!r} is not a topology id")
    return logs_dir / topology_id


def last_written_unix_s(logs_dir: Path) -> dict[str, float]:
    """Return the time of the newest write in each topology's log directory, by topology id.

    Other files and directories are ignored: only names of the form of a topology id count.
    """
    found = {}
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(logs_dir):
            directory = logs_dir / name
            if _TOPOLOGY_ID.fullmatch(name) and directory.is_dir() and not directory.is_symlink():
                found[name] = last_modified_unix_s(directory)
    return found


def ports_in(directory: Path) -> list[int]:
    """Return the ports of the slots with logs in a topology's directory, ascending."""
    try:
        return sorted(int(name) for name in os.listdir(directory) if name.isdecimal() and name.isascii())
    except (FileNotFoundError, NotADirectoryError):
        return []


def open_log(path: Path) -> BinaryIO | None:
    """Open a log for reading, or return None if the path is not a regular file."""
    try:
        return open_regular(path)
    except OSError:
        return None


def size_of(path: Path) -> int:
    """Return the size of a file in bytes; 0 if there is no such file."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def inode_of(path: Path) -> int:
    """Return the inode number of a file, which survives renaming; -1 if there is no such file."""
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return -1
