"""A dead letter as it is stored."""

from __future__ import annotations  # pure

import dataclasses
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from tupletree._wire.codec import decode_value, encode_value
from tupletree.errors import ProtocolError
from tupletree.tuples import Tuple

MAX_SHOWN = 2000
"""The most characters of a row that are shown."""


@dataclass(frozen=True, slots=True)
class Letter:
    """A message that was given up.

    Attributes:
        id: a hash of the topology, the spout, the message and its row: a letter stored again replaces the earlier one.
            A number is that of a message of one task.
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
        task = [tup.source_task] if isinstance(tup["message"], int) else []  # each task counts for itself
        key = encode_value([name, tup.source_component, tup["message"], row, *task])
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

    @staticmethod
    def from_stored(values: Any) -> Letter:
        """Return the letter that was stored as these values, in the order of ``FIELDS``. The row is not decoded.

        Raises ProtocolError if these are not the values of a letter.
        """
        if not isinstance(values, Sequence) or len(values) != len(FIELDS):
            raise ProtocolError(f"a letter is a list of {len(FIELDS)} values")
        found = dict(zip(FIELDS, values, strict=True))
        found["is_replayed"] = bool(found["is_replayed"])  # a number in SQLite
        for name, value in found.items():
            if not isinstance(value, _TYPES.get(name, str)):
                raise ProtocolError(f"{name} of a letter is not a {type(value).__name__}")
        if not math.isfinite(found["at_s"]):
            raise ProtocolError("at_s of a letter is a finite number")
        return Letter(**found)

    def stored(self) -> list[Any]:
        """Return the values to store: those of ``FIELDS``."""
        return [getattr(self, name) for name in FIELDS]

    def decoded(self) -> list[Any]:
        """Return the row. Raises ProtocolError if it is damaged, or has a class that is not known in this process."""
        try:
            row: Any = decode_value(self.row)
        except ProtocolError as error:
            raise ProtocolError(f"the row of the letter {self.id[:40]!r}: {error}") from error
        if not isinstance(row, list):
            raise ProtocolError(f"the row of the letter {self.id[:40]!r} is not a list of values")
        return row


FIELDS: Final = tuple(field.name for field in dataclasses.fields(Letter))
_TYPES: Final[dict[str, Any]] = {"at_s": int | float, "attempts": int, "task": int, "row": bytes, "is_replayed": bool}


def _shown(row: list[Any]) -> str:
    text = repr(row)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
