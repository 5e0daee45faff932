"""Reasons of failed trees as one message, with each distinct reason once.

Many trees fail for the same reason. And a message for each reason would cost more than everything else of its tree. If
each tree has a reason of its own, a message has room for some thousands: the other trees fail without one.
"""

from __future__ import annotations  # pure

import bisect
import itertools
from collections.abc import Iterable, Mapping

from tupletree._wire.fail_reasons import MAX_WAITING_BYTES
from tupletree._wire.packed import pack_u32, pack_u64, unpack_u32, unpack_u64
from tupletree.errors import ProtocolError
from tupletree.v1 import acker_pb2


def packed(by_root: Iterable[Mapping[int, bytes]]) -> acker_pb2.FailReasons | None:
    """Return reasons by root as a message; None if there are none. Of one root, that of the last mapping counts.

    The first reasons are taken, up to ``MAX_WAITING_BYTES`` together.
    """
    numbers: dict[bytes, int] = {}
    roots: list[int] = []
    which: list[int] = []
    for reasons in by_root:
        roots += reasons
        which += [numbers.setdefault(reason, len(numbers)) for reason in reasons.values()]
    if not roots:
        return None
    ends = list(itertools.accumulate(map(len, numbers)))
    if ends[-1] > MAX_WAITING_BYTES:
        taken = bisect.bisect_right(ends, MAX_WAITING_BYTES)
        roots, which = _taken(roots, which, taken)
        numbers = dict(itertools.islice(numbers.items(), taken))
    return acker_pb2.FailReasons(reasons=numbers, roots=pack_u64(roots), which=pack_u32(which))


def _taken(roots: list[int], which: list[int], taken: int) -> tuple[list[int], list[int]]:
    """Return the roots, and the numbers of their reasons, of the first ``taken`` reasons."""
    at = [place for place, number in enumerate(which) if number < taken]
    return [roots[place] for place in at], [which[place] for place in at]


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
