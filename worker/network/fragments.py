"""Fragmentation of batches that are too large for one frame, and their reassembly by the receiver."""

from __future__ import annotations  # pure

from google.protobuf.message import DecodeError

from tupletree.errors import ProtocolError
from tupletree.v1 import worker_pb2

from ..core.batches import EncodedBatch

PIECE_BYTES = 1024 * 1024
MARGIN_BYTES = 64 * 1024
"""The size by which an encoded batch may exceed the limit of its tuple."""


class FragmentCutter:
    """An encoded batch that is being sent in pieces."""

    def __init__(self, batch: EncodedBatch) -> None:
        self._data = batch.to_bytes()
        self._sent = 0

    def fill(self, piece: worker_pb2.Piece) -> int:
        """Fill ``piece`` with the next part of the batch; return the number of bytes."""
        piece.size = len(self._data)
        piece.offset = self._sent
        piece.data = self._data[self._sent : self._sent + PIECE_BYTES]
        self._sent += len(piece.data)
        return len(piece.data)

    @property
    def is_over(self) -> bool:
        """True once the last piece was filled."""
        return self._sent == len(self._data)


class Reassembly:
    """Reassembly of the pieces that arrive on one stream. Memory use is bounded by the bytes received."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes + MARGIN_BYTES
        self._parts: list[bytes] = []
        self._size = 0
        self._received = 0

    @property
    def is_open(self) -> bool:
        """True while a batch has arrived only in part."""
        return bool(self._parts)

    def add(self, piece: worker_pb2.Piece) -> EncodedBatch | None:
        """Add the next piece; return the batch if the piece was the last, else None.

        Raises:
            ProtocolError: the piece is not the next piece, the batch is too large, or the pieces form no valid batch.
        """
        if not self._parts:
            if piece.size > self._max_bytes:
                raise ProtocolError(f"a piece announces a batch of {piece.size} bytes; the limit is {self._max_bytes}")
            self._size = piece.size
        if piece.size != self._size or piece.offset != self._received:
            raise ProtocolError(
                f"received a piece at offset {piece.offset} of a batch of {piece.size} bytes, expected offset "
                f"{self._received} of a batch of {self._size} bytes"
            )
        if not piece.data or self._received + len(piece.data) > self._size:
            raise ProtocolError(
                f"a piece of {len(piece.data)} bytes at {piece.offset} is invalid in a batch of {piece.size}"
            )
        self._parts.append(piece.data)
        self._received += len(piece.data)
        return self._whole() if self._received == self._size else None

    def _whole(self) -> EncodedBatch:
        data = b"".join(self._parts)
        self._parts.clear()
        self._received = 0
        try:
            return EncodedBatch.from_bytes(data)
        except DecodeError as error:
            raise ProtocolError(f"the assembled pieces are not a valid batch: {error}") from error
