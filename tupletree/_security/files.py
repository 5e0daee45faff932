"""Files that hold secrets: read only if nobody else can read them."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from tupletree.errors import ConfigError

_OTHERS: Final = stat.S_IRWXO
MIN_SECRET_BYTES: Final = 32


def read_secret(path: str, key: str) -> bytes:
    """What a secret file holds, without white space around it. ``key`` is the configuration key that names it.

    Raises ConfigError if it cannot be read, is empty, or is open to everybody on this machine. Its group may read it.
    """
    content = read_private(path, key).strip()
    if not content:
        raise ConfigError(f"the file {path} ({key}) is empty")
    return content


def read_private(path: str, key: str) -> bytes:
    """As ``read_secret``, as it is."""
    found = Path(path).expanduser()
    try:
        with found.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & _OTHERS:
                raise ConfigError(f"the file {path} ({key}) is open to every user of this machine: chmod 600 {path}")
            return file.read()
    except OSError as error:
        raise ConfigError(f"cannot read the file {path} ({key}): {error.strerror}") from None


def read_public(path: str, key: str) -> bytes:
    """What a file holds that anybody may see. Raises ConfigError if it cannot be read."""
    try:
        return Path(path).expanduser().read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read the file {path} ({key}): {error.strerror}") from None


def write_private(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Write a file that is there complete or not at all, and never open to others meanwhile."""
    partial = path.with_name(f".{path.name}.partial")
    partial.unlink(missing_ok=True)
    with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        os.fchmod(file.fileno(), mode)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)
