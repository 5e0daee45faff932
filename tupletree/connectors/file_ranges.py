"""File listing and line-aligned ranges, for coordinators that assign files piece by piece.

A file's *name* is its path relative to the root: the leading part of the requested path that contains no pattern. An
existing path is never a pattern, even with special characters: ``/data/run[1]`` can be a directory. A file requested by
its own path has the name ``"."``.
"""

from __future__ import annotations

import codecs
import errno
import glob
import os
import re
import stat
from pathlib import Path
from typing import Any

from tupletree._limits import is_encodable
from tupletree.errors import UsageError

_UNITS = {"": 1, "B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}

BLOCK = 1 << 16
"""The number of bytes read at a time."""

LOOK = 1 << 23
"""The maximum number of bytes scanned for the first line end per call, so that other files get their turn."""


def check_encoding(owner: str, encoding: str, errors: str) -> None:
    """Raise UsageError, naming ``owner``, for an encoding in which a line end is not the byte 10."""
    try:
        codecs.lookup_error(errors)
        is_one_byte = b"\n".decode(encoding, errors) == "\n"
    except LookupError as error:
        raise UsageError(f"{owner}: {error}") from None
    except UnicodeDecodeError:
        is_one_byte = False
    if not is_one_byte:
        raise UsageError(f"{owner}: a line does not end with the byte 10 in the encoding {encoding!r}")


def absolute(owner: str, files: str | Path, argument: str = "files") -> str:
    """Return the user's files as an absolute path. UsageError, naming owner and argument, if they are invalid."""
    if not isinstance(files, str | Path) or not str(files):
        raise UsageError(f"{owner}: {argument} is {files!r}; a file, a directory or a pattern was expected")
    return os.path.abspath(files)


def root_of(files: str) -> str:
    """Return the root directory, to which file names are relative."""
    while glob.has_magic(files) and not os.path.lexists(files):
        files = os.path.dirname(files)
    return files


def path_of(files: str, name: str) -> str:
    """Return the path of a file by its name."""
    return files if name == "." else os.path.join(root_of(files), name)


def sizes_of(files: str) -> list[tuple[str, int]]:
    """Return name and size of every file of a directory, a pattern or a single file, sorted by name.

    Raises OSError, also for a name that is not valid UTF-8.
    """
    root = root_of(files)
    if files != root:
        names = glob.glob(os.path.relpath(files, root), root_dir=root, recursive=True)
    elif os.path.isfile(root):
        names = ["."]
    else:
        names = [name for name in os.listdir(root) if not name.startswith(".")]
    sizes = []
    for name in sorted(names):
        try:
            status = os.stat(path_of(files, name))
        except FileNotFoundError:
            continue  # deleted in between
        if stat.S_ISREG(status.st_mode):
            sizes.append((_checked(name), status.st_size))
    return sizes


def _checked(name: str) -> str:
    if not is_encodable(name):
        raise OSError(errno.EILSEQ, "its name is not UTF-8", ascii(name))
    return name


class LineEnds:
    """Finds the line ends at which ranges can end, and remembers the scanned parts of files without a line end.

    ``are_complete``: a last line without a line end counts as a line.
    """

    def __init__(self, are_complete: bool) -> None:
        self._are_complete = are_complete
        self.looked: dict[str, tuple[int, int]] = {}
        """Name -> (start, end) of the scanned part that has no line end."""

    def end(self, name: str, path: str, start: int, size: int, take: int) -> int:
        """Return the end of the range from ``start``: the position after the last line end within ``take`` bytes.

        If there is no line end within ``take`` bytes, return the position after the first line end. Return ``start`` if
        there is no such line end either. Raises OSError.
        """
        limit = min(start + take, size)
        if start == size or (limit == size and self._are_complete):
            return limit
        begin, looked = self.looked.get(name, (start, start))
        if begin != start:
            looked = start
        if self._is_looked_through(looked, size):
            return start
        try:
            with open(path, "rb", buffering=0) as file:
                end = last_line_end(file, looked, limit)
                if end is None:
                    looked = max(looked, limit)
                    end, looked = first_line_end(file, looked, min(size, looked + LOOK))
        except FileNotFoundError:
            return start
        if end is None and looked == size and self._are_complete:
            end = size
        if end is None:
            self.looked[name] = start, looked
            return start
        self.looked.pop(name, None)
        return end

    def _is_looked_through(self, looked: int, size: int) -> bool:
        return looked >= size and not self._are_complete


def last_line_end(file: Any, start: int, limit: int) -> int | None:
    """Return the position after the last line end between two positions, or None."""
    while limit > start:
        begin = max(start, limit - BLOCK)
        found = _read(file, begin, limit).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        limit = begin
    return None


def first_line_end(file: Any, start: int, limit: int) -> tuple[int | None, int]:
    """Return the position after the first line end between two positions (or None), and the end of the scanned part."""
    while start < limit:
        block = _read(file, start, min(start + BLOCK, limit))
        found = block.find(b"\n")
        if found >= 0:
            return start + found + 1, start
        if not block:
            break
        start += len(block)
    return None, start


def _read(file: Any, start: int, end: int) -> bytes:
    file.seek(start)
    data: bytes = file.read(end - start)
    return data


def byte_size(owner: str, name: str, size: int | str) -> int:
    """Parse a number of bytes, such as 4096, "512KB", "4MB" or "1GB". UsageError for anything else."""
    match = re.fullmatch(r"(\d+) ?([KMG]?B)?", size, re.IGNORECASE) if isinstance(size, str) else None
    if match is not None:
        size = int(match[1]) * _UNITS[(match[2] or "").upper()]
    if type(size) is not int or size < 1:
        raise UsageError(f"{owner}: {name} is {size!r}; a number of bytes was expected, such as 4096, '512KB' or '4MB'")
    return size
