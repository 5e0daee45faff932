"""LogPump: how the thread goes on when what it has read ahead is taken."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from tupletree.backoff import Backoff
from tupletree.connectors import log_pump
from tupletree.connectors.log_pump import LogPump, Read
from tupletree.connectors.log_source import Bounds, LogSource
from tupletree.connectors.messages import LogRecord
from tupletree.testing import wait_until

COUNT = 20_000
AHEAD = 1_000


class Numbers(LogSource):
    """One partition of a fixed length."""

    def open(self) -> None:
        pass

    def partitions(self) -> Sequence[str]:
        return ["all"]

    def bounds(self, partition: str) -> Bounds:
        return Bounds(0, COUNT)

    def read(self, partition: str, start: int, end: int) -> Iterator[Sequence[LogRecord]]:
        yield [LogRecord(b"%d" % at, at, at + 1) for at in range(start, end)]

    def close(self) -> None:
        pass


def test_the_thread_goes_on_as_soon_as_half_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty waits of the longest kind would take 20 minutes."""
    monkeypatch.setattr(log_pump, "WAIT_S", 60.0)
    pump = LogPump(Numbers(), 0, 1, None, AHEAD, 1 << 20, Backoff(first_s=0.01))
    pump.follow({})
    found: list[bytes] = []
    most_ahead = 0

    def has_come() -> bool:
        nonlocal most_ahead
        most_ahead = max(most_ahead, pump.outstanding)
        while len(found) < COUNT - AHEAD and (event := pump.poll()) is not None:
            if isinstance(event, Read):
                found.extend(record.data for record in event.records)
                event.lane.skip_to(event.next)
        return len(found) >= COUNT - AHEAD

    try:
        wait_until(has_come, 30, what="all but the last messages have come")
    finally:
        pump.close()
    assert found == [b"%d" % at for at in range(len(found))]
    assert most_ahead <= AHEAD
    assert not pump.is_alive()
