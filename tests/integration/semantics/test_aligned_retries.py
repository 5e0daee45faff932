"""Exactly once beside messages that cannot be processed: their last attempt, their letters, and everything else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from local_components import DoBasic, Log
from stateful_scene import ALIGNED

from tupletree import Backoff, BasicStatefulBolt, FailedException, Message, ReliableSpout, Spout, TopologyBuilder
from tupletree.connectors.files import FileSpout
from tupletree.connectors.formats import Text
from tupletree.streams import StreamBuilder
from tupletree.testing import LocalCluster

WORDS = [f"w{number}" for number in range(60)]
POISON = {"w0", "w20", "w21", "w59"}
TWICE = Backoff(first_s=0, factor=1, max_attempts=2)


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster() as running:
        yield running


class Counted(ReliableSpout):
    """Rows, that are known by their number."""

    outputs = ("word",)

    def read(self) -> Iterator[list[str]]:
        yield from ([word] for word in WORDS)


class Positioned(ReliableSpout):
    outputs = ("word",)

    def read(self) -> Iterator[Message]:
        for number in range(self.position or 0, len(WORDS)):
            yield Message([WORDS[number]], position=number + 1)


def counted(path: Path) -> Spout:
    return Counted()


def positioned(path: Path) -> Spout:
    return Positioned()


def of_a_log(path: Path) -> Spout:
    (path / "words.txt").write_text("\n".join(WORDS) + "\n")
    return FileSpout(path / "words.txt", Text("word"), are_complete=True)


class CountInState(BasicStatefulBolt):
    """Counts words, of letters the row's only value, in a state that is in the checkpoints; shows those committed."""

    def __init__(self, shown: Log) -> None:
        self.shown = shown

    def execute(self, tup: Any) -> None:
        word = tup["values"][0] if "values" in tup.fields else tup["word"]
        self.state.add(word, 1)

    def pre_commit(self, txid: int) -> None:
        self.shown.append(dict(self.state.items()))


def refuse(tried: Log, *, retry: bool = True) -> Callable[[Any, Any], None]:
    def do(tup: Any, collector: Any) -> None:
        word = tup["word"]
        if word in POISON:
            tried.append(word)
            raise FailedException(f"no {word}", retry=retry)
        collector.emit([word])

    return do


class Scene:
    """words -> step -> counts, and words -> letters."""

    def __init__(self, spout: Spout, *, retry: bool = True, letters: Any = None) -> None:
        self.tried, self.counts, self.letters = Log(), Log(), Log()
        builder = TopologyBuilder()
        words = builder.set_spout("words", spout).set_retry(TWICE).set_dead_letters("rejected")
        step = builder.set_bolt("step", DoBasic(refuse(self.tried, retry=retry), ["word"])).shuffle_grouping(words)
        builder.set_bolt("counts", CountInState(self.counts)).fields_grouping(step, "word")
        builder.set_bolt("letters", letters or CountInState(self.letters)).shuffle_grouping(words, "rejected")
        self.topology = builder.create_topology()

    def is_done(self) -> bool:
        return newest(self.counts) == each_once(set(WORDS) - POISON) and newest(self.letters) == each_once(POISON)


def newest(shown: Log) -> dict[str, int]:
    found: dict[str, int] = shown[-1] if len(shown) else {}
    return found


def each_once(words: set[str]) -> dict[str, int]:
    return dict.fromkeys(words, 1)


@pytest.mark.parametrize("make", [counted, positioned, of_a_log])
def test_what_fails_each_time_is_a_letter_once_and_everything_else_is_counted_once(
    cluster: LocalCluster, make: Callable[[Path], Spout], tmp_path: Path
) -> None:
    scene = Scene(make(tmp_path))
    cluster.submit("t", scene.topology, ALIGNED)
    cluster.wait_until(scene.is_done, 60)
    assert set(Counter(scene.tried).values()) == {2}


def test_a_final_failure_is_not_tried_again(cluster: LocalCluster, tmp_path: Path) -> None:
    scene = Scene(Counted(), retry=False)
    cluster.submit("t", scene.topology, ALIGNED)
    cluster.wait_until(scene.is_done, 60)
    assert set(Counter(scene.tried).values()) == {1}
    [(_, error)] = cluster.errors("t")
    begin, _, end = str(error).partition("; ")
    assert begin in {f"component 'step' failed a tuple: FailedException: no {word}" for word in POISON}
    assert end.endswith("everything since the last one is processed again, and its message is given up")


def test_a_letter_that_fails_comes_again_until_it_is_processed(cluster: LocalCluster) -> None:
    class FailsThrice(CountInState):
        def execute(self, tup: Any) -> None:
            if len(failed) < 3:
                failed.append(tup["message"])
                raise FailedException("not now")
            super().execute(tup)

    failed = Log()
    scene = Scene(Counted(), letters=FailsThrice(letters := Log()))
    scene.letters = letters
    cluster.submit("t", scene.topology, ALIGNED)
    cluster.wait_until(scene.is_done, 60)
    assert len(failed) == 3


def test_without_a_limit_nothing_is_given_up_and_the_pauses_grow(cluster: LocalCluster) -> None:
    tried, counts = Log(), Log()
    builder = TopologyBuilder()
    words = builder.set_spout("words", Counted()).set_retry(Backoff(first_s=0, max_attempts=None))
    step = builder.set_bolt("step", DoBasic(refuse(tried), ["word"])).shuffle_grouping(words)
    builder.set_bolt("counts", CountInState(counts)).fields_grouping(step, "word")
    cluster.submit("t", builder.create_topology(), ALIGNED)
    cluster.wait_until(lambda: tried.count("w0") > 4, 60)
    assert newest(counts) == {}
    assert "or limit the attempts with set_retry" in str(cluster.errors("t")[0][1])


def test_nothing_is_emitted_in_the_pause_behind_a_failure() -> None:
    tried = Log()
    builder = TopologyBuilder()
    words = builder.set_spout("words", Counted()).set_retry(Backoff(first_s=1000, max_s=1000, max_attempts=2))
    builder.set_bolt("step", DoBasic(refuse(tried), ["word"])).shuffle_grouping(words)
    builder.set_bolt("counts", CountInState(Log())).fields_grouping("step", "word")
    with LocalCluster(simulated_time=True) as cluster:
        cluster.submit("t", builder.create_topology(), ALIGNED)
        cluster.wait_quiet()
        cluster.advance(100)
        cluster.wait_quiet()
        assert tried.count("w0") == 1
        cluster.advance(1000)
        cluster.wait_quiet()
        assert tried.count("w0") == 2


def test_a_program_of_streams_gives_an_element_up_that_fails_each_time(cluster: LocalCluster) -> None:
    def checked(word: str) -> str:
        if word in POISON:
            raise FailedException(f"no {word}")
        return word

    shown = Log()
    program = StreamBuilder()
    words = program.source(WORDS, name="words", retry=TWICE).map(checked)
    words.key_by(lambda word: word).count(name="counts").items().peek(shown.append)
    cluster.submit("t", program.topology("exactly_once"), ALIGNED)
    cluster.wait_until(lambda: dict(list(shown)) == each_once(set(WORDS) - POISON), 60)
    given_up = "failed 2 times and is given up; last failure in component 'words-map': FailedException: no w"
    cluster.wait_until(lambda: given_up in str(cluster.errors("t")), 60)


def test_an_element_that_fails_in_the_executor_of_its_source_is_given_up(cluster: LocalCluster) -> None:
    def checked(word: str) -> str:
        if word in POISON:
            raise FailedException(f"no {word}", retry=False)
        return word

    shown = Log()
    program = StreamBuilder()
    program.source(WORDS, name="words", retry=TWICE).map(checked).peek(shown.append)
    cluster.submit("t", program.topology("exactly_once"), ALIGNED)
    cluster.wait_until(lambda: set(shown) == set(WORDS) - POISON, 60)
    cluster.wait_until(
        lambda: "failed once and is given up; last failure in component 'words'" in str(cluster.errors("t")), 60
    )


def test_a_message_that_is_too_large_for_a_letter_leaves_as_one_without_its_row(cluster: LocalCluster) -> None:
    class Large(Counted):
        def read(self) -> Iterator[list[str]]:
            yield from (["x" * 2**21 if word == "w20" else word] for word in WORDS)

    counts, letters = Log(), Log()
    builder = TopologyBuilder()
    words = builder.set_spout("words", Large()).set_retry(TWICE).set_dead_letters("rejected")
    builder.set_bolt("counts", CountInState(counts)).fields_grouping(words, "word")
    builder.set_bolt(
        "letters", DoBasic(lambda tup, _: letters.append([tup["message"], tup["values"]]))
    ).shuffle_grouping(words, "rejected")
    cluster.submit("t", builder.create_topology(), {**ALIGNED, "topology.tuple.max.bytes": 2**20})
    cluster.wait_until(lambda: newest(counts) == each_once(set(WORDS) - {"w20"}), 60)
    assert [20, []] in list(letters)
