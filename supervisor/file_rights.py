"""Access to a user's files with the rights of that user.

A worker that runs as another user owns the directory of its logs. There it can put links to what it may not read or
write itself. So the supervisor, which is root, opens files in it as that user: a link then leads no further than the
user could go. Linux gives each thread a user id of its own for files, and takes the capabilities for files from a
thread while that id is not root's.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from typing import Final

_UNCHANGED: Final = -1


@contextlib.contextmanager
def rights_of_owner(directory: str | os.PathLike[str]) -> Iterator[None]:
    """Act on files as the owner of a directory, in this thread and for the body. Never await in the body.

    No effect if this process is not root, or if root owns the directory. ``directory`` must lie in one that only root
    writes. Raises OSError.
    """
    facts = os.lstat(directory)
    if os.geteuid() != 0 or facts.st_uid == 0:
        yield
        return
    libc = ctypes.CDLL(None)
    libc.setfsgid(facts.st_gid)
    libc.setfsuid(facts.st_uid)
    try:
        if libc.setfsuid(_UNCHANGED) != facts.st_uid or libc.setfsgid(_UNCHANGED) != facts.st_gid:
            raise PermissionError(1, "the rights of its owner cannot be taken", os.fspath(directory))
        yield
    finally:
        libc.setfsuid(0)
        libc.setfsgid(os.getegid())


def give(path: str | os.PathLike[str], directory: str | os.PathLike[str]) -> None:
    """Let the owner of ``directory`` own a file that root has just made elsewhere. Raises OSError."""
    facts = os.lstat(directory)
    if os.geteuid() == 0 and facts.st_uid != 0:
        os.chown(path, facts.st_uid, facts.st_gid, follow_symlinks=False)
