"""A large batch goes in pieces; whatever else a peer sends in their place is refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tupletree.errors import ProtocolError
from tupletree.v1 import worker_pb2
from tupletree.worker.core.batches import EncodedBatch
from tupletree.worker.network.fragments import MARGIN_BYTES, PIECE_BYTES, FragmentCutter, Reassembly

LIMIT = 4 * PIECE_BYTES


def pieces(batch: EncodedBatch) -> list[worker_pb2.Piece]:
    cut, made = FragmentCutter(batch), []
    while not cut.is_over:
        made.append(worker_pb2.Piece())
        cut.fill(made[-1])
    return made


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 3 * PIECE_BYTES), min_size=1, max_size=3))
def test_batches_arrive_as_they_were_one_after_the_other(sizes: list[int]) -> None:
    assembly = Reassembly(LIMIT)
    for size in sizes:
        batch = EncodedBatch(1, "s", 2, 1, bytes(size))
        *first, last = pieces(batch)
        assert all(len(piece.data) == PIECE_BYTES for piece in first)
        for piece in first:
            assert assembly.add(piece) is None
            assert assembly.is_open
        arrived = assembly.add(last)
        assert arrived is not None and arrived.to_bytes() == batch.to_bytes()
        assert not assembly.is_open


def piece(size: int, offset: int, data: bytes) -> worker_pb2.Piece:
    return worker_pb2.Piece(size=size, offset=offset, data=data)


@pytest.mark.parametrize(
    "sent",
    [
        [piece(LIMIT + MARGIN_BYTES + 1, 0, b"x")],
        [piece(2**64 - 1, 0, b"x")],
        [piece(0, 0, b"")],
        [piece(0, 0, b"x")],
        [piece(10, 0, b"")],
        [piece(10, 1, b"x")],
        [piece(10, 0, b"x" * 11)],
        [piece(10, 0, b"x"), piece(10, 0, b"x")],
        [piece(10, 0, b"x"), piece(10, 2, b"x")],
        [piece(10, 0, b"x"), piece(11, 1, b"x")],
        [piece(10, 0, b"x"), piece(10, 1, b"")],
        [piece(10, 0, b"x"), piece(10, 1, b"x" * 10)],
        [piece(3, 0, b"\xff\xff"), piece(3, 2, b"\xff")],
    ],
)
def test_pieces_that_no_correct_peer_sends_are_refused(sent: list[worker_pb2.Piece]) -> None:
    assembly = Reassembly(LIMIT)
    *first, last = sent
    for one in first:
        assert assembly.add(one) is None
    with pytest.raises(ProtocolError):
        assembly.add(last)
