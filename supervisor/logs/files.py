"""The files that a worker leaves in its log directory, by name.

    worker.log  worker.log.1 …        its log, and what was rotated away, ever older
    worker.out  worker.out.1          what it printed
    events.jsonl  events.jsonl.1 …    sampled tuples and traced trees
    profile-20260131T120000.svg       profiles

Only these are ever read for others, only as regular files, and never through a symbolic link: the directory belongs to
user code, and a name comes from a stranger.
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
_PROFILE: Final = re.compile(rf"profile-\d{{8}}T\d{{6}}\.({'|'.join(PROFILE_SUFFIXES.values())})")


@dataclass(frozen=True)
class LogFile:
    """One file as a listing shows it."""

    port: int
    name: str
    size: int
    modified_unix_s: float


def check_name(name: str) -> str:
    """The name of a file to read; empty stands for the log. Raises UsageError for what no worker writes."""
    if not name:
        return LOG
    if name in LOGS or _ROTATED.fullmatch(name) or _PROFILE.fullmatch(name):
        return name
    raise UsageError(
        f"{name[:100]!r} is no file of a worker; there are {', '.join(LOGS)}, what was rotated, and profiles"
    )


def files_of(directory: Path, name: str) -> list[Path]:
    """The files that a checked name stands for, oldest first: a log's with those rotated, else the one itself.

    A worker that died before it had a log has only left ``worker.out``, which is then shown instead.
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
    """Every file of one worker's directory that may be read, by name."""
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = []
    for entry in entries:
        known = entry.name in LOGS or _ROTATED.fullmatch(entry.name) or _PROFILE.fullmatch(entry.name)
        try:
            if known and entry.is_file(follow_symlinks=False):
                facts = entry.stat(follow_symlinks=False)
                found.append(LogFile(port, entry.name, facts.st_size, facts.st_mtime))
        except FileNotFoundError:  # rotated away meanwhile
            continue
    return found


def topology_directory(logs_dir: Path, topology_id: str) -> Path:
    """Where a topology's workers write. Raises NotFoundError for what is no topology id."""
    if not topology_id.isprintable() or "/" in topology_id or topology_id in ("", ".", "..") or len(topology_id) > 200:
        raise NotFoundError(f"{topology_id[:200]!r} is no topology id")
    return logs_dir / topology_id


def last_written_unix_s(logs_dir: Path) -> dict[str, float]:
    """When anything was last written below the directory of each topology, by topology id.

    What is not named like one is left alone: other things may lie beside them.
    """
    found = {}
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(logs_dir):
            directory = logs_dir / name
            if _TOPOLOGY_ID.fullmatch(name) and directory.is_dir() and not directory.is_symlink():
                found[name] = last_modified_unix_s(directory)
    return found


def ports_in(directory: Path) -> list[int]:
    """The slots whose workers of a topology have written here, ascending."""
    try:
        return sorted(int(name) for name in os.listdir(directory) if name.isdecimal() and name.isascii())
    except (FileNotFoundError, NotADirectoryError):
        return []


def open_log(path: Path) -> BinaryIO | None:
    """A log to read; None if there is none, or something else under its name."""
    try:
        return open_regular(path)
    except OSError:
        return None


def size_of(path: Path) -> int:
    """In bytes; 0 if there is no such file."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def inode_of(path: Path) -> int:
    """What a file keeps when it is renamed; -1 if there is no such file."""
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return -1
