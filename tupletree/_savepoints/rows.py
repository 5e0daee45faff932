"""Rows of a savepoint as a bundle carries them: encoded, one after the other, so that a worker needs no PyArrow.

savepoint/savepoint.json    the manifest, of which the ``files`` are names in this folder
savepoint/0.rows            [task or None, key, value] in MessagePack, repeated
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgpack

from tupletree._savepoints.manifest import FILE, Manifest, decoded
from tupletree.errors import UsageError

FOLDER: Final = "savepoint"
"""The folder in a bundle, where bundle.py puts it."""

Row = tuple[int | None, bytes, bytes]
"""The index of the task, the encoded key and the encoded value."""


def write_rows(path: Path, rows: Iterable[Row]) -> int:
    """Write rows to a file, and return their number."""
    count = 0
    pack = msgpack.Packer(use_bin_type=True).pack
    with path.open("wb") as file:
        for row in rows:
            file.write(pack(row))
            count += 1
    return count


def read_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a file. Raises UsageError if it holds others."""
    with path.open("rb") as file:
        for found in msgpack.Unpacker(file, raw=False, max_buffer_size=0):
            match found:
                case [int() | None as task, bytes(key), bytes(value)]:
                    yield task, key, value
                case _:
                    raise UsageError(f"{path.name} does not hold rows of a savepoint")


def load_carried(bundle_dir: str) -> tuple[Manifest, Path] | None:
    """Return the savepoint that an unpacked bundle carries, and its folder; None if it carries none.

    ``bundle_dir``: "" if there is no bundle.
    """
    if not bundle_dir:
        return None
    folder = Path(bundle_dir, FOLDER)
    try:
        text = (folder / FILE).read_text(encoding="utf-8")
    except OSError:
        return None
    return decoded(text, FOLDER), folder
