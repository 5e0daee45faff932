"""How far a log is read ahead of the spout: bounded in messages and in bytes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tupletree.backoff import RECONNECT
from tupletree.connectors import log_pump
from tupletree.connectors.files import TextFileLog
from tupletree.connectors.log_pump import FIRST_GUESS_BYTES, LogPump, Read
from tupletree.connectors.log_source import LogSource
from tupletree.connectors.parquet import ParquetLog
from tupletree.testing import wait_until

LARGE, COUNT, BOUND = 1_000_000, 30, 5_000_000


@contextlib.contextmanager
def reading(source: LogSource, max_ahead: int, max_ahead_bytes: int) -> Iterator[LogPump]:
    pump = LogPump(source, 0, 1, None, max_ahead, max_ahead_bytes, RECONNECT)
    pump.follow({})
    try:
        yield pump
    finally:
        pump.close()


def taken(pump: LogPump, count: int) -> list[Any]:
    """Take ``count`` messages, a list of them at a time."""
    found: list[Any] = []

    def take() -> bool:
        event = pump.poll()
        if isinstance(event, Read):
            found.extend(record.data for record in event.records)
        return len(found) >= count

    wait_until(take, 30, what=f"{count} messages arrive")
    return found


def text_log(path: Path, lines: Sequence[bytes]) -> TextFileLog:
    (path / "a").write_bytes(b"".join(line + b"\n" for line in lines))
    return TextFileLog(path)


def parquet_log(path: Path, lines: Sequence[bytes]) -> ParquetLog:
    pq.write_table(pa.table({"line": lines}), path / "a.parquet", row_group_size=2)
    return ParquetLog(path, ["line"])


@pytest.mark.parametrize("log", [text_log, parquet_log])
def test_large_messages_are_read_as_far_as_their_bytes_allow(tmp_path: Path, log: Any) -> None:
    lines = [b"%d" % (number % 10) * LARGE for number in range(COUNT)]
    ahead: list[int] = []
    with reading(log(tmp_path, lines), 4000, BOUND) as pump:
        found: list[Any] = []
        while len(found) < COUNT:
            left = (COUNT - len(found)) * LARGE
            wait_until(lambda: pump.ahead_bytes >= min(BOUND, left), 30, what="the log is read ahead")  # noqa: B023
            ahead.append(pump.ahead_bytes)
            found += taken(pump, 1)
    assert [one if isinstance(one, bytes) else one[0] for one in found] == lines
    assert ahead[0] <= BOUND // FIRST_GUESS_BYTES * LARGE
    assert max(ahead[1:], default=0) <= BOUND + 2 * LARGE  # of a row group


def test_small_messages_are_read_as_far_as_their_number_allows(tmp_path: Path) -> None:
    with reading(text_log(tmp_path, [b"12345678"] * 5000), 4000, BOUND) as pump:
        wait_until(lambda: pump.outstanding >= 4000, 30, what="the log is read ahead")
        assert len(taken(pump, 5000)) == 5000


def test_a_log_of_which_a_part_cannot_be_read_says_why_until_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_pump, "REFUSED_S", 0.3)
    with reading(text_log(tmp_path, [b"12345678"] * 10), 4000, BOUND) as pump:
        assert len(taken(pump, 10)) == 10
        assert pump.refusal == ""
        (tmp_path / "a").write_bytes(b"1234\n")
        wait_until(lambda: pump.refusal, 30, what="the file is refused")
        assert pump.refusal.endswith(
            "90 bytes were already read, but the file has only 5: a file may grow, but never shrink"
        )
        assert pump.is_connected
        (tmp_path / "a").write_bytes(b"12345678\n" * 11)
        assert len(taken(pump, 1)) == 1
        wait_until(lambda: pump.refusal == "", 30, what="the file is read again")
