"""Division of ledger updates into messages of bounded size: windows may ack millions of tuples at once."""

from __future__ import annotations  # pure

import itertools
from collections.abc import Iterator, Sequence

from tupletree._wire.fail_reasons import MAX_WAITING_BYTES
from tupletree.v1 import acker_pb2

MAX_UPDATES = 131_072
"""The most updates in one message. Each update is 8 to 20 bytes."""

_WIDTHS = {"init_roots": 8, "init_values": 8, "init_tasks": 4, "ack_roots": 8, "ack_values": 8, "fail_roots": 8,
           "reset_roots": 8}  # fmt: skip
_KINDS = (("init_roots", "init_values", "init_tasks"), ("ack_roots", "ack_values"), ("fail_roots",), ("reset_roots",))


def count(updates: acker_pb2.ShardUpdate) -> int:
    """Return the number of updates."""
    columns = (updates.init_roots, updates.ack_roots, updates.fail_roots, updates.reset_roots)
    return sum(map(len, columns)) // 8


def messages(
    updates: Sequence[acker_pb2.ShardUpdate], most: int = MAX_UPDATES
) -> Iterator[list[acker_pb2.ShardUpdate]]:
    """Divide updates into messages of at most ``most`` updates each. Usually one message is enough.

    The reasons of the first shards are kept, up to ``MAX_WAITING_BYTES`` together, or those of one shard.
    """
    reasons = itertools.accumulate(shard.fail_reasons.ByteSize() for shard in updates)
    for shard, size in list(zip(updates, reasons, strict=True))[1:]:
        if size > MAX_WAITING_BYTES:
            shard.ClearField("fail_reasons")
    if sum(map(count, updates)) <= most:
        yield list(updates)
        return
    for shard in updates:
        for columns in _KINDS:
            for start in range(0, len(getattr(shard, columns[0])) // 8, most):
                part = acker_pb2.ShardUpdate(shard=shard.shard)
                for name in columns:
                    width = _WIDTHS[name]
                    setattr(part, name, getattr(shard, name)[width * start : width * (start + most)])
                if columns == ("fail_roots",) and start == 0:
                    # The acker needs the reasons no later than the fails.
                    part.fail_reasons.CopyFrom(shard.fail_reasons)
                yield [part]
