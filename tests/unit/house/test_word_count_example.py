"""The example that newcomers read first does what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples import word_count
from examples.demo.journals import Journals
from examples.demo.recorded_lines import RecordedLines
from examples.demo.truth import judge
from examples.word_count import Lines
from tupletree import BasicBolt, FailedException, TopologyBuilder, Tuple
from tupletree.collector import BasicCollector
from tupletree.testing import LocalCluster

LINES = 10_000
CONF = {"topology.max.spout.pending": 1_000}


def run(directory: Path, lines: int, source: type[Lines] = Lines, until: int | None = None) -> Journals:
    """Count until so many lines are acked, by default all, and stop in the midst of it."""
    journals = Journals(directory, lines, tasks=2)
    with LocalCluster() as cluster:
        cluster.submit("words", word_count.topology(lines, str(directory), source), CONF)
        cluster.wait_until(lambda: journals.acked() >= (until or lines), timeout=60)
    return journals


@pytest.mark.parametrize("source", [Lines, RecordedLines])
def test_every_line_is_acked_and_every_word_counted_exactly(tmp_path: Path, source: type[Lines]) -> None:
    journals = run(tmp_path, LINES, source)
    judgement = judge(LINES, word_count.text(), word_count.words, journals.outcome())
    assert judgement.held, judgement.faults
    assert judgement.exact == judgement.distinct
    assert judgement.replayed == 0
    assert journals.settled(journals.reached())


def test_a_second_run_in_the_same_directory_emits_only_what_is_not_acked(tmp_path: Path) -> None:
    run(tmp_path, LINES // 2)
    journals = run(tmp_path, LINES)
    judgement = judge(LINES, word_count.text(), word_count.words, journals.outcome())
    assert judgement.held, judgement.faults
    assert judgement.exact == judgement.distinct


def test_lines_that_a_stopped_run_may_have_counted_are_recorded_as_emitted_again(tmp_path: Path) -> None:
    stopped = run(tmp_path, LINES, RecordedLines, until=LINES // 5)
    reached, acked = stopped.reached(), stopped.outcome().acked.keys()
    outcome = run(tmp_path, LINES, RecordedLines).outcome()
    again = {line for task, count in enumerate(reached) for line in range(task, 2 * count, 2)} - acked
    assert again and again <= {line for line, replayed in outcome.acked.items() if replayed}
    judgement = judge(LINES, word_count.text(), word_count.words, outcome)
    assert judgement.held, judgement.faults


def test_a_line_that_failed_is_recorded_as_emitted_again(tmp_path: Path) -> None:
    builder = TopologyBuilder()
    builder.set_spout("lines", RecordedLines(20, tmp_path), parallelism=2)
    seen: list[str] = []

    class Fail(BasicBolt):
        def execute(self, tup: Tuple, collector: BasicCollector) -> None:
            seen.append(tup["line"])
            if len(seen) == 7:
                raise FailedException("once")

    builder.set_bolt("fail", Fail()).shuffle_grouping("lines")
    journals = Journals(tmp_path, 20, tasks=2)
    with LocalCluster() as cluster:
        cluster.submit("words", builder.create_topology())
        cluster.wait_until(lambda: journals.acked() >= 20, timeout=60)
    assert list(journals.outcome().acked.values()).count(True) == 1
