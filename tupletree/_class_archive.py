"""Archives of the classes that a JVM loads: with one, a program in Java starts in about two thirds of the time.

An archive is the JVM's own application class-data sharing (JEP 350): classes come parsed and verified from a
memory-mapped file. A JVM that finds other jars than those in the archive ignores the archive. Archives lie in the
environment that the jars are installed in. An archive's name contains a hash of the Java and of the jars it was made
with.
"""

from __future__ import annotations

import os
import sys
import zlib
from pathlib import Path


def path_of(name: str, java: str, jars: str) -> Path:
    """Return the path of an archive, which need not exist. ``jars`` tells installations of jars apart.

    Raises FileNotFoundError if there is no such ``java``.
    """
    real = os.path.realpath(java)
    key = zlib.crc32(f"{real} {os.stat(real).st_mtime_ns} {jars}".encode())
    return Path(sys.prefix, "share", "tupletree", f"{name}-{key:08x}.jsa")


def options(path: Path) -> list[str]:
    """Return the JVM options for an archive; none if the file does not exist. A JVM that cannot use it logs nothing."""
    return [f"-XX:SharedArchiveFile={path}", "-Xlog:cds*=off"] if path.exists() else []


def making(path: Path) -> list[str]:
    """Return the JVM options with which a JVM that exits archives the classes that it loaded."""
    return [f"-XX:ArchiveClassesAtExit={path}", "-Xlog:disable"]


def keep(partial: Path, path: Path, replaced: str) -> None:
    """Put a complete archive in its place, at once. Older archives, which match the pattern ``replaced``, are removed.

    The archive is durable before it is in its place: a file truncated by a power cut would crash every JVM.
    """
    with partial.open("rb") as file:
        os.fsync(file.fileno())
    for old in path.parent.glob(replaced):
        old.unlink(missing_ok=True)
    partial.rename(path)
