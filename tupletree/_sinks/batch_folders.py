"""Directories of committed batches, as a pipeline leaves them: their names, and the note in each.

    <path>/txid=<20 digits>/             a committed batch
    <path>/txid=<20 digits>/_attempt     its note: {txid, attempt, positions}

``positions`` has the position after the batch, of each partition of a log from which the batch was read. Names that
begin with an underscore are not for readers. The commit is in tupletree/spark/sinks/directory_batches.py.
"""

from __future__ import annotations

import os
import re
from typing import Any, Final

from tupletree._sinks.durable_files import read_note
from tupletree.errors import UsageError

ATTEMPT: Final = "_attempt"

_COMMITTED: Final = re.compile(r"txid=(\d{20})")


def batch_folder(path: str, txid: int) -> str:
    """Return the directory of a batch."""
    return os.path.join(path, f"txid={txid:020}")


def committed_batches(path: str) -> list[int]:
    """Return the committed txids, in no particular order. Raises OSError."""
    return [int(match[1]) for name in os.listdir(path) if (match := _COMMITTED.fullmatch(name))]


def batch_note(folder: str) -> dict[str, Any]:
    """Return the note of a batch. UsageError if there is none."""
    try:
        note = read_note(os.path.join(folder, ATTEMPT))
        return {"txid": note["txid"], "attempt": note["attempt"], "positions": note.get("positions", {})}
    except (FileNotFoundError, KeyError) as error:
        raise UsageError(
            f"{folder} has no valid file {ATTEMPT}: another program than a pipeline's sink has written the directory"
        ) from error
