"""Planned batches of a log that is not as it was: what is refused, and what is reported."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import pytest
from partition_sources import Kept, context

from tupletree.attempt import TransactionAttempt
from tupletree.connectors.kafka import KafkaLog
from tupletree.connectors.log_source import Bounds, DeletedError, LogSource
from tupletree.connectors.messages import LogRecord
from tupletree.errors import FailedException, ReportedFailedException, UsageError
from tupletree.transactional import PlannedLogSpout
from tupletree.transactional.planned_log import PlanningCoordinator, RangesEmitter


class Numbers(LogSource):
    """One partition with numbers, of which the first can be deleted. ``is_away``: no answer now."""

    def __init__(self, first: int, end: int) -> None:
        self.extent = Bounds(first, end)
        self.is_away = False

    def open(self) -> None:
        pass

    def partitions(self) -> Sequence[str]:
        return ["numbers"]

    def bounds(self, partition: str) -> Bounds:
        return self.extent

    def read(self, partition: str, start: int, end: int) -> Iterator[Sequence[LogRecord]]:
        if self.is_away:
            raise FailedException("no broker leads the partition")
        if start < self.extent.first:
            raise DeletedError(f"numbers {start} to {self.extent.first - 1} were deleted", self.extent.first)
        yield [LogRecord(b"%d" % at, at, at + 1) for at in range(start, end)]

    def close(self) -> None:
        pass


class FromTheEnd(Numbers):
    begins_at_end = True


@pytest.mark.parametrize(
    "source",
    [
        KafkaLog("broker:9092", "orders", start="latest"),
        KafkaLog("broker:9092", "orders", start={"orders/0": 7}),
        KafkaLog("broker:9092", "orders", start=datetime(2026, 1, 2, tzinfo=UTC)),
        FromTheEnd(0, 9),
    ],
    ids=["latest", "offsets", "time", "end"],
)
def test_a_log_that_does_not_begin_at_its_first_position_is_refused(source: LogSource) -> None:
    expected = (
        f"PlannedLogSpout: source is a {type(source).__name__} that begins elsewhere than at .* TransactionalLogSpout"
    )
    with pytest.raises(UsageError, match=expected):
        PlannedLogSpout(source, limit=10)


def test_a_log_that_begins_at_its_first_position_is_taken() -> None:
    assert PlannedLogSpout(KafkaLog("broker:9092", "orders"), limit=10).limit == 10


def test_a_log_that_ends_before_what_was_read_is_reported_and_goes_on_behind_it() -> None:
    coordinator = PlanningCoordinator(PlannedLogSpout(Numbers(0, 7), limit=10), "source", lambda: 0.0)
    previous = {"read": {"numbers": 9}, "turn": None, "ranges": []}
    with pytest.raises(ReportedFailedException) as raised:
        coordinator.initialize_transaction(2, previous)
    assert str(raised.value) == (
        "component 'source', partition 'numbers': the topology has read up to position 9, but the log ends at 7; if "
        "the log was deleted and created again, the topology needs another transactional id"
    )
    log = coordinator._source
    assert isinstance(log, Numbers)
    log.extent = Bounds(0, 11)
    assert coordinator.initialize_transaction(2, previous)["ranges"] == [["numbers", 9, 11]]


@pytest.mark.parametrize("is_away", [False, True])
def test_a_range_that_cannot_be_read_is_reported(is_away: bool) -> None:
    emitter = RangesEmitter(PlannedLogSpout(Numbers(5, 9), limit=10), context("source"))
    log = emitter.log.source
    assert isinstance(log, Numbers)
    log.is_away = is_away
    with pytest.raises(ReportedFailedException) as raised:
        emitter.emit_batch(TransactionAttempt(1, 1), {"ranges": [["numbers", 3, 9]]}, Kept())
    what = "no broker leads the partition" if is_away else "numbers 3 to 4 were deleted"
    assert str(raised.value) == f"component 'source', {what}"
