"""A program that reads complete files ends when every line is processed, and one whose files may grow does not."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from tupletree import FailedException, Tumbling
from tupletree.connectors.files import FileSpout
from tupletree.streams import StreamBuilder
from tupletree.testing import LocalCluster

LINES = [f"line {number}" for number in range(50)]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name, lines in (("a", LINES[:20]), ("b", LINES[20:]), ("empty", [])):
        (tmp_path / name).write_text("\n".join(lines))  # the last line of each file has no line end
    return tmp_path


def test_a_program_ends_when_complete_files_are_read(files: Path) -> None:
    builder = StreamBuilder()
    lines = builder.source(FileSpout(files, are_complete=True), name="lines", parallelism=2)
    assert sorted(lines.collect(1_000, seconds=0)) == sorted(LINES)


def test_a_line_that_fails_is_read_again_before_the_end(files: Path) -> None:
    failed: set[str] = set()

    def once(line: str) -> None:
        if line not in failed:
            failed.add(line)
            raise FailedException("the first attempt fails")

    builder = StreamBuilder()
    lines = builder.source(FileSpout(files, are_complete=True), name="lines").peek(once)
    assert sorted(lines.collect(1_000, seconds=0)) == sorted(LINES)


@pytest.mark.long
def test_the_last_window_of_a_file_that_is_read_earlier_is_not_late_for_a_join(tmp_path: Path) -> None:
    """Its tasks have nothing to come, but have a result that is still to come."""
    second = timedelta(seconds=1)
    builder = StreamBuilder()
    for name, end_ms in (("long", 400_000), ("short", 5_000)):
        (tmp_path / name).write_text("".join(f"{at_ms}\n" for at_ms in range(0, end_ms, 20)))
    long, short = (
        builder.source(FileSpout(tmp_path / name, are_complete=True), name=name)
        .map(int)
        .event_time(lambda at_ms: at_ms, max_lag=timedelta(0))
        .key_by(lambda at_ms: 0)
        for name in ("long", "short")
    )
    counts = short.window(Tumbling(10 * second)).count()
    joined = long.join(counts, lambda at_ms, other: (at_ms, other.value), before=second, after=second)
    expected = [(at_ms, 250) for at_ms in range(9_000, 11_000, 20)]
    assert sorted(joined.values().collect(1_000, seconds=0)) == expected


def test_files_that_may_grow_have_no_end(files: Path) -> None:
    builder = StreamBuilder()
    builder.source(FileSpout(files), name="lines").key_by(len).count()
    seen: list[str] = []
    with LocalCluster() as cluster:
        cluster.submit(
            "t",
            builder.topology(),
            observer=lambda component, _, row: seen.append(row[0]) if component == "lines" else None,
        )
        cluster.wait_until(lambda: len(seen) == 48, timeout=60)  # two last lines wait for their line ends
        cluster.wait_quiet(timeout=60)
        assert not cluster.is_at_end("t")


@pytest.mark.long
@pytest.mark.parametrize("are_complete", [True, False])
def test_a_pattern_without_files_is_reported_until_one_matches(tmp_path: Path, are_complete: bool) -> None:
    builder = StreamBuilder()
    builder.source(FileSpout(tmp_path / "*.txt", are_complete=are_complete), name="lines").key_by(len).count()
    seen: list[str] = []
    with LocalCluster() as cluster:
        cluster.submit(
            "t",
            builder.topology(),
            observer=lambda component, _, row: seen.append(row[0]) if component == "lines" else None,
        )
        cluster.wait_until(lambda: bool(cluster.errors("t")), timeout=60)
        [(component, error)] = cluster.errors("t")
        assert component == "lines" and f"no file matches the pattern {tmp_path}/*.txt; it was" in str(error)
        assert not cluster.is_at_end("t")
        (tmp_path / "a.txt").write_text("one\n")
        cluster.wait_until(lambda: seen == ["one"], timeout=60)
        if are_complete:
            cluster.wait_until(lambda: cluster.is_at_end("t"), timeout=60)
        assert len(cluster.errors("t")) == 1


@pytest.mark.parametrize("is_timed_first", [True, False])
def test_one_case_of_a_branch_gives_event_times_and_another_goes_on_elsewhere(
    files: Path, is_timed_first: bool
) -> None:
    """The branch runs in the source, as the way to event times does, and the source runs no flat_map."""
    builder = StreamBuilder()
    lines = builder.source(FileSpout(files, are_complete=True), name="lines")

    def is_odd(line: str) -> bool:
        return int(line.split()[1]) % 2 == 1

    def is_even(line: str) -> bool:
        return not is_odd(line)

    if is_timed_first:
        odd, even = lines.branch(is_odd, is_even)
    else:
        even, odd = lines.branch(is_even, is_odd)
    timed = odd.event_time(lambda line: int(line.split()[1]), max_lag=timedelta(seconds=1)).key_by(lambda line: 0)
    windows = timed.window(Tumbling(timedelta(seconds=1))).count()
    counts = windows.map(lambda window: window.value).sum().values()
    numbers = even.flat_map(str.split).filter(str.isdigit).map(int)
    assert sorted(counts.merge(numbers).collect(1_000, seconds=0)) == sorted([25, *range(0, 50, 2)])
