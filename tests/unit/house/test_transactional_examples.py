"""The examples of transactional topologies do what they say, and their judge knows wrong from right."""

from __future__ import annotations

from pathlib import Path

from bench.crashes.feed import Feed
from bench.crashes.kills import PAUSE_S, ROLES, plan
from examples import global_count, transactional_words, word_count
from examples.demo.exactly_once import Judgement, judge
from tupletree.testing import LocalCluster
from tupletree.transactional import SqliteDatabase, TransactionalMap

CONF = {"topology.max.spout.pending": 4}


def test_global_count_counts_every_word_once_also_in_two_runs(tmp_path: Path) -> None:
    totals = TransactionalMap(SqliteDatabase(tmp_path / "totals.db"), "totals")
    words = len(global_count.WORDS)
    with LocalCluster() as cluster:
        for enough in (words // 3, words):
            cluster.submit("global-count", global_count.topology(str(tmp_path)), CONF)
            cluster.wait_until(lambda enough=enough: totals.get_one("words", 0) >= enough, 60)
            cluster.kill("global-count")
    assert totals.items() == {"words": words}


def test_transactional_words_agree_with_the_truth(tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    feed = Feed(lines, word_count.text()[:400], files=3, rate=10_000, seed=1)
    feed.start()
    words, buckets = transactional_words.tables(str(tmp_path))
    with LocalCluster() as cluster:
        cluster.submit("words", transactional_words.topology(str(lines), str(tmp_path), 1_000), CONF)
        cluster.wait_until(words.items, 60)
        feed.stop()
        written = read(lines)
        total = sum(len(transactional_words.words(line)) for line in written)
        cluster.wait_until(lambda: sum(words.items().values()) == total, 60)
    assert len(written) == feed.written
    assert judged(written, words.items(), buckets.items()).held


def test_the_files_of_python_itself_are_read_if_there_are_no_others(tmp_path: Path) -> None:
    words, _ = transactional_words.tables(str(tmp_path))
    with LocalCluster() as cluster:
        cluster.submit("words", transactional_words.topology(directory=str(tmp_path)), CONF)
        cluster.wait_until(lambda: words.get_one("import", 0) > 0, 60)


def test_every_difference_is_a_fault() -> None:
    lines = ["one two", "two"]
    assert judged(lines, {"one": 1, "two": 2}, {"0-9": 2, "10-19": 0}).held
    assert judged(lines, {"one": 1, "two": 1}, {"0-9": 2}).faults == ("word 'two': 1 instead of 2",)
    assert judged(lines, {"one": 1}, {"0-9": 2}).faults == ("word 'two': nothing instead of 2",)
    assert judged(lines, {"one": 1, "two": 2, "three": 1}, {"0-9": 3}).faults == (
        "word 'three': 1 instead of nothing",
        "bucket '0-9': 3 instead of 2",
    )
    many = judged(lines, {str(number): 1 for number in range(20)}, {"0-9": 2}).faults
    assert len(many) == 6
    assert many[-1] == "and 17 words more"


def test_who_is_killed_follows_from_the_seed() -> None:
    kills = plan(60, seed=1)
    assert kills == plan(60, seed=1) != plan(60, seed=2)
    assert [kill.at_s for kill in kills] == sorted(kill.at_s for kill in kills)
    assert [kill.at_s for kill in kills if kill.role == "zookeeper"] == [30]
    roles = [kill.role for kill in kills if kill.role != "zookeeper"]
    assert len(roles) >= 60 / PAUSE_S[1]
    for first in range(0, len(roles) - len(ROLES) + 1, len(ROLES)):
        assert set(roles[first : first + len(ROLES)]) == set(ROLES)


def judged(lines: list[str], words: dict[str, int], buckets: dict[str, int]) -> Judgement:
    return judge(lines, transactional_words.words, transactional_words.bucket, words, buckets)


def read(directory: Path) -> list[str]:
    return [line for file in directory.iterdir() for line in file.read_text().splitlines()]
