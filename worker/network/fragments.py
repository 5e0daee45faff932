"""A batch that is too large for one frame: cut by its sender, put together by its receiver."""

from __future__ import annotations

from google.protobuf.message import DecodeError

from tupletree.errors import ProtocolError
from tupletree.v1 import worker_pb2

PIECE_BYTES = 1024 * 1024
MARGIN_BYTES = 64 * 1024
"""What an encoded batch may take beyond the limit of its tuple."""


class FragmentCutter:
    """An encoded batch that is being sent in pieces."""

    def __init__(self, batch: worker_pb2.Batch) -> None:
        self._data = batch.SerializeToString()
        self._sent = 0

    def fill(self, piece: worker_pb2.Piece) -> int:
        """Make ``piece`` the next one; return its bytes."""
        piece.size = len(self._data)
        piece.offset = self._sent
        piece.data = self._data[self._sent : self._sent + PIECE_BYTES]
        self._sent += len(piece.data)
        return len(piece.data)

    @property
    def is_over(self) -> bool:
        """Whether the last piece was made."""
        return self._sent == len(self._data)


class Reassembly:
    """Puts the pieces that come on one stream together. Takes no more memory than has come."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes + MARGIN_BYTES
        self._parts: list[bytes] = []
        self._size = 0
        self._received = 0

    @property
    def is_open(self) -> bool:
        """Whether a part of a batch has come, and a part has not."""
        return bool(self._parts)

    def take(self, piece: worker_pb2.Piece) -> worker_pb2.Batch | None:
        """Take the next piece; the batch, if it was the last.

        Raises:
            ProtocolError: it is not the next one, or the batch is too large or no batch.
        """
        if not self._parts:
            if piece.size > self._max_bytes:
                raise ProtocolError(f"a batch of {piece.size} bytes is announced, the limit is {self._max_bytes}")
            self._size = piece.size
        if piece.size != self._size or piece.offset != self._received:
            raise ProtocolError(
                f"a piece at {piece.offset} of {piece.size} bytes came where one at {self._received} of {self._size} "
                f"was expected"
            )
        if not piece.data or self._received + len(piece.data) > self._size:
            raise ProtocolError(f"a piece of {len(piece.data)} bytes at {piece.offset} of {piece.size}")
        self._parts.append(piece.data)
        self._received += len(piece.data)
        return self._whole() if self._received == self._size else None

    def _whole(self) -> worker_pb2.Batch:
        data = b"".join(self._parts)
        self._parts.clear()
        self._received = 0
        try:
            return worker_pb2.Batch.FromString(data)
        except DecodeError as error:
            raise ProtocolError(f"pieces that are no batch when they are put together: {error}") from error
