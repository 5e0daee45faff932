"""Files with secrets, which are read only if they are not open to every user."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from tupletree.errors import ConfigError

_OTHERS: Final = stat.S_IRWXO
MIN_SECRET_BYTES: Final = 32


def read_secret(path: str, key: str) -> bytes:
    """Return the content of a secret file, stripped of white space. ``key``: the configuration key with its path.

    Raises ConfigError if the file is unreadable, empty, or open to every user of this machine. Its group may read it.
    """
    content = read_private(path, key).strip()
    if not content:
        raise ConfigError(f"the file {path} ({key}) is empty")
    return content


def read_private(path: str, key: str) -> bytes:
    """Return the content of a secret file unstripped. Like ``read_secret``, but accepts an empty file."""
    found = Path(path).expanduser()
    try:
        with found.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & _OTHERS:
                raise ConfigError(f"the file {path} ({key}) is open to every user of this machine: chmod 600 {path}")
            return file.read()
    except OSError as error:
        raise ConfigError(f"cannot read the file {path} ({key}): {error.strerror}") from None


def read_public(path: str, key: str) -> bytes:
    """Return the content of a public file. Raises ConfigError if the file is unreadable."""
    try:
        return Path(path).expanduser().read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read the file {path} ({key}): {error.strerror}") from None


def write_private(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Write a file atomically, with permissions that are never wider than ``mode``."""
    partial = path.with_name(f".{path.name}.partial")
    partial.unlink(missing_ok=True)
    with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        os.fchmod(file.fileno(), mode)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)
