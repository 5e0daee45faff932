"""Reasons of failed trees as one message, with each distinct reason once.

Many trees fail for the same reason. And a message for each reason would cost more than everything else of its tree.
"""

from __future__ import annotations  # pure

from collections.abc import Iterable, Mapping

from tupletree._wire.packed import pack_u32, pack_u64, unpack_u32, unpack_u64
from tupletree.errors import ProtocolError
from tupletree.v1 import acker_pb2


def packed(by_root: Iterable[Mapping[int, bytes]]) -> acker_pb2.FailReasons | None:
    """Return reasons by root as a message; None if there are none. Of one root, that of the last mapping counts."""
    numbers: dict[bytes, int] = {}
    roots: list[int] = []
    which: list[int] = []
    for reasons in by_root:
        roots += reasons
        which += [numbers.setdefault(reason, len(numbers)) for reason in reasons.values()]
    if not roots:
        return None
    return acker_pb2.FailReasons(reasons=numbers, roots=pack_u64(roots), which=pack_u32(which))


def unpacked(message: acker_pb2.FailReasons) -> dict[int, bytes]:
    """Return the reasons of a message by root.

    Raises:
        ProtocolError: the columns do not fit each other.
    """
    roots, which, reasons = unpack_u64(message.roots), unpack_u32(message.which), list(message.reasons)
    if len(roots) != len(which):
        raise ProtocolError(f"{len(roots)} roots of fail reasons, but {len(which)} numbers of reasons")
    if max(which, default=-1) >= len(reasons):
        raise ProtocolError(f"fail reason {max(which)} of {len(reasons)}")
    return {root: reasons[number] for root, number in zip(roots, which, strict=True)}
