"""The example that newcomers read first does what it says."""

from __future__ import annotations

from pathlib import Path

from examples import word_count
from examples.demo.journals import Journals
from examples.demo.truth import judge
from tupletree.testing import LocalCluster

LINES = 10_000
CONF = {"topology.max.spout.pending": 1_000}


def run(directory: Path, lines: int) -> Journals:
    journals = Journals(directory, lines, tasks=2)
    with LocalCluster() as cluster:
        cluster.submit("words", word_count.topology(lines, str(directory)), CONF)
        cluster.wait_until(lambda: journals.acked() >= lines, timeout=60)
    return journals


def test_every_line_is_acked_and_every_word_counted_exactly(tmp_path: Path) -> None:
    journals = run(tmp_path, LINES)
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
