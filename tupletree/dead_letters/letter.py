"""A dead letter as it is stored."""

from __future__ import annotations  # pure

import hashlib
from dataclasses import dataclass
from typing import Any

from tupletree._wire.codec import decode_value, encode_value
from tupletree.tuples import Tuple

MAX_SHOWN = 2000
"""The most characters of a row that are shown."""


@dataclass(frozen=True, slots=True)
class Letter:
    """A message that was given up.

    Attributes:
        id: a hash of the topology, the spout, the message and its row: a letter stored again replaces the earlier one.
        name: the topology's name.
        at_s: the time at which the letter was first stored, in Unix seconds.
        message, values: the message's id and its row, as text.
        stream, attempts, component, task, error, traceback: as in the tuple (``LETTER_FIELDS``).
        row: the encoded row. Decoding needs the classes of its values.
        is_replayed: true from the request to replay the letter until it is processed.
    """

    id: str
    name: str
    at_s: float
    message: str
    values: str
    stream: str
    attempts: int
    component: str
    task: int
    error: str
    traceback: str
    row: bytes
    is_replayed: bool = False

    @staticmethod
    def of(tup: Tuple, name: str, at_s: float) -> Letter:
        """Make a letter from a tuple of a stream of dead letters."""
        row = encode_value(list(tup["values"]))
        key = encode_value([name, tup.source_component, tup["message"], row])
        return Letter(
            hashlib.sha256(key).hexdigest()[:16],
            name,
            at_s,
            repr(tup["message"]),
            _shown(list(tup["values"])),
            tup["stream"],
            tup["attempts"],
            tup["component"],
            tup["task"],
            tup["error"],
            tup["traceback"],
            row,
        )

    def decoded(self) -> list[Any]:
        """Return the row. Raises ProtocolError if the class of a value is not known in this process."""
        row: list[Any] = decode_value(self.row)
        return row


def _shown(row: list[Any]) -> str:
    text = repr(row)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
