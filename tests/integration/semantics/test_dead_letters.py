"""set_retry and set_dead_letters: any spout replays, and what cannot be processed leaves on a stream of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from local_components import DoBasic, Keep, Log

from tupletree import (
    AsyncBolt,
    Backoff,
    BasicBolt,
    Bolt,
    FailedException,
    Message,
    ReliableSpout,
    Spout,
    TopologyBuilder,
)
from tupletree.dead_letters import DeadLetterBolt, DeadLetterSpout, Letter, open_store
from tupletree.errors import TaskFailedError, TopologyError, UsageError
from tupletree.testing import LocalCluster

QUICK = Backoff(first_s=1, factor=1, max_attempts=3)


class Numbers(Spout):
    """Emits 0, 1, 2, … below ``limit``, and logs what it is told."""

    outputs = ("number",)

    def __init__(self, limit: int, log: Log) -> None:
        self.limit = limit
        self.log = log
        self.next = 0

    def next_tuple(self) -> None:
        if self.next < self.limit:
            self.collector.emit([self.next], msg_id=f"m{self.next}")
            self.next += 1

    def ack(self, msg_id: Any) -> None:
        self.log.append(("ack", msg_id))

    def fail(self, msg_id: Any) -> None:
        self.log.append(("fail", msg_id))


def refuse(*numbers: Any, retry: bool = True) -> BasicBolt:
    def do(tup: Any, collector: Any) -> None:
        if tup[0] in numbers:
            raise FailedException(f"no {tup[0]}", retry=retry)

    return DoBasic(do)


class Scene:
    """numbers -> step, and numbers -> letters."""

    def __init__(self, cluster: LocalCluster, step: Any, *, letters: Any = None, retry: Backoff | None = QUICK) -> None:
        self.cluster, self.log, self.letters = cluster, Log(), Log()
        builder = TopologyBuilder()
        numbers = builder.set_spout("numbers", Numbers(4, self.log)).set_dead_letters("rejected")
        if retry is not None:
            numbers.set_retry(retry)
        builder.set_bolt("step", step).shuffle_grouping(numbers)
        builder.set_bolt("letters", letters or Keep(self.letters)).shuffle_grouping(numbers, "rejected")
        cluster.submit("t", builder.create_topology())
        cluster.wait_quiet()

    def advance(self, times: int) -> None:
        for _ in range(times):
            self.cluster.advance(1)
            self.cluster.wait_quiet()


def test_a_message_leaves_after_its_last_attempt_and_is_acked_when_its_letter_is_processed(cluster: Any) -> None:
    scene = Scene(cluster, refuse(2))
    assert scene.log == [("ack", "m0"), ("ack", "m1"), ("ack", "m3")] and scene.letters == []
    scene.advance(1)
    assert scene.letters == []
    scene.advance(1)
    [(_, (message, values, stream, attempts, component, task, error, traceback))] = scene.letters
    assert (message, values, stream, attempts) == ("m2", [2], "default", 3)
    assert (component, error) == ("step", "FailedException: no 2") and task > 0
    assert traceback.rstrip().endswith('raise FailedException(f"no {tup[0]}", retry=retry)')
    assert scene.log[3:] == [("ack", "m2")]
    scene.advance(100)
    assert len(scene.letters) == 1 and len(scene.log) == 4


def test_a_message_is_emitted_again_as_it_was_although_its_list_has_been_used_again(cluster: Any) -> None:
    class OneList(Numbers):
        def setup(self) -> None:
            self.row = [0]

        def next_tuple(self) -> None:
            if self.next < self.limit:
                self.row[0] = self.next
                self.collector.emit(self.row, msg_id=self.next)
                self.next += 1

    letters = Log()
    builder = TopologyBuilder()
    numbers = builder.set_spout("numbers", OneList(4, Log())).set_dead_letters("rejected").set_retry(QUICK)
    builder.set_bolt("step", refuse(2)).shuffle_grouping(numbers)
    builder.set_bolt("letters", Keep(letters)).shuffle_grouping(numbers, "rejected")
    cluster.submit("t", builder.create_topology())
    for _ in range(4):
        cluster.wait_quiet()
        cluster.advance(1)
    assert [values[:2] for _, values in letters] == [[2, [2]]]


def test_a_message_that_is_too_large_for_a_letter_leaves_as_one_without_its_row(cluster: Any) -> None:
    class Large(Numbers):
        def next_tuple(self) -> None:
            if self.next < self.limit:
                self.collector.emit(["x" * 2**21 if self.next == 2 else self.next], msg_id=self.next)
                self.next += 1

    log, letters = Log(), Log()
    builder = TopologyBuilder()
    numbers = builder.set_spout("numbers", Large(4, log)).set_dead_letters("rejected").set_retry(QUICK)
    builder.set_bolt("step", refuse()).shuffle_grouping(numbers)
    builder.set_bolt("letters", Keep(letters)).shuffle_grouping(numbers, "rejected")
    cluster.submit("t", builder.create_topology(), {"topology.tuple.max.bytes": 2**20})
    for _ in range(6):
        cluster.wait_quiet()
        cluster.advance(1)
    [(_, (message, values, stream, attempts, component, _, error, _))] = letters
    assert (message, values, stream, attempts, component) == (2, [], "default", 3, "numbers")
    assert error.startswith("TupleTooLargeError: component 'numbers' emitted a tuple of 2")
    assert "a letter with its row: TupleTooLargeError" in error
    assert sorted(log) == [("ack", number) for number in range(4)]


def test_a_final_failure_needs_one_attempt(cluster: Any) -> None:
    scene = Scene(cluster, refuse(2, retry=False))
    assert [values[:4] for _, values in scene.letters] == [["m2", [2], "default", 1]]


def test_without_a_number_of_attempts_there_are_five(cluster: Any) -> None:
    scene = Scene(cluster, refuse(2), retry=None)
    cluster.advance(14)  # pauses of 1, 2, 4 and 8 seconds
    cluster.wait_quiet()
    assert scene.letters == []
    cluster.advance(2)
    cluster.wait_quiet()
    assert [values[3] for _, values in scene.letters] == [5]


@pytest.mark.parametrize("is_first", [True, False])
def test_retries_that_are_set_hold_whether_before_dead_letters_or_after(cluster: Any, is_first: bool) -> None:
    letters, forever = Log(), Backoff(first_s=1, factor=1, max_attempts=None)
    builder = TopologyBuilder()
    numbers = builder.set_spout("numbers", Numbers(4, Log()))
    numbers = numbers.set_retry(forever) if is_first else numbers
    numbers = numbers.set_dead_letters("rejected")
    numbers = numbers if is_first else numbers.set_retry(forever)
    builder.set_bolt("step", refuse(2)).shuffle_grouping(numbers)
    builder.set_bolt("final", refuse(3, retry=False)).shuffle_grouping(numbers)
    builder.set_bolt("letters", Keep(letters)).shuffle_grouping(numbers, "rejected")
    cluster.submit("t", builder.create_topology())
    for _ in range(20):
        cluster.advance(1)
        cluster.wait_quiet()
    assert [values[1] for _, values in letters] == [[3]], "a final failure is a letter, and nothing else is"


def test_a_letter_that_fails_is_emitted_again_until_it_is_processed(cluster: Any) -> None:
    seen = Log()

    def store(tup: Any, collector: Any) -> None:
        seen.append(tup["message"])
        if len(seen) < 8:
            raise FailedException("the store is down")

    scene = Scene(cluster, refuse(2, retry=False), letters=DoBasic(store))
    for _ in range(10):
        cluster.advance(61)
        cluster.wait_quiet()
    assert seen == ["m2"] * 8
    assert scene.log.count(("ack", "m2")) == 1


def test_a_timeout_is_an_attempt(cluster: Any) -> None:
    class Hold(Bolt):
        def execute(self, tup: Any) -> None:
            if tup[0] != 2:
                self.collector.ack(tup)

    scene = Scene(cluster, Hold())
    for _ in range(16):
        cluster.advance(15)
        cluster.wait_quiet()
    [(_, letter)] = scene.letters
    assert letter[3:7] == [3, "", 0, "TimeoutError: the tree was not complete within 30 s"]


class Explicit(Bolt):
    def execute(self, tup: Any) -> None:
        if tup[0] == 2:
            self.collector.fail(tup, "not today")
        elif tup[0] == 3:
            self.collector.fail(tup)
        else:
            self.collector.ack(tup)


def test_a_bolt_says_why_it_fails_a_tuple(cluster: Any) -> None:
    scene = Scene(cluster, Explicit())
    scene.advance(2)
    found = {values[0]: (values[4], values[6], values[7]) for _, values in scene.letters}
    assert found == {"m2": ("step", "not today", ""), "m3": ("step", "", "")}


class Calls(AsyncBolt):
    async def execute(self, tup: Any) -> None:
        if tup[0] == 2:
            raise FailedException("404", retry=False)


def test_the_reason_of_an_async_bolt_arrives() -> None:
    with LocalCluster() as cluster:
        scene = Scene(cluster, Calls())
        cluster.wait_until(lambda: scene.letters)
        [(_, letter)] = scene.letters
        assert letter[3:5] == [1, "step"] and letter[6] == "FailedException: 404"


class Rows(ReliableSpout):
    outputs = ("number",)

    def read(self) -> Iterator[list[int]]:
        yield from ([number] for number in range(4))


def test_a_reliable_spout_has_dead_letters(cluster: Any) -> None:
    letters, spout = Log(), Rows()
    builder = TopologyBuilder()
    rows = builder.set_spout("rows", spout).set_retry(QUICK).set_dead_letters("rejected")
    builder.set_bolt("step", refuse(2, retry=False)).shuffle_grouping(rows)
    builder.set_bolt("letters", Keep(letters)).shuffle_grouping(rows, "rejected")
    cluster.submit("t", builder.create_topology())
    cluster.wait_quiet()
    assert [values[:4] for _, values in letters] == [[2, [2], "default", 1]]
    assert spout.dead_letters is None and spout.retry.max_attempts is None, "the user's object stays as it was"


class Pings(ReliableSpout):
    """Yields equal rows from a position on, or from the beginning if there is none. The connection breaks once."""

    outputs = ("row",)
    reconnect = Backoff(first_s=0, max_s=0, max_attempts=None)

    def __init__(self, start: Any = None) -> None:
        self.start = start

    def setup(self) -> None:
        self.position, self.is_cut = self.start, False

    def read(self) -> Iterator[Any]:
        for at in range(self.position or 0, 4):
            if at == 2 and not self.is_cut:
                self.is_cut = True
                raise ConnectionError
            yield ["ping"] if self.start is None else Message(["ping"], position=at + 1)


@pytest.mark.parametrize(("lives", "letters"), [([None], 8), ([None, None], 8), ([0, 1, 2], 8), ([2, 3], 4)])
def test_equal_rows_without_ids_are_letters_of_their_own_in_each_task_and_the_same_in_each_life(
    cluster: Any, lives: list[Any], letters: int
) -> None:
    found = Log()

    def store(tup: Any, collector: Any) -> None:
        found.append(Letter.of(tup, "t", 0).id)

    for start in lives:
        builder = TopologyBuilder()
        pings = builder.set_spout("pings", Pings(start), 2).set_dead_letters("rejected")
        builder.set_bolt("step", refuse("ping", retry=False)).shuffle_grouping(pings)
        builder.set_bolt("letters", DoBasic(store)).shuffle_grouping(pings, "rejected")
        cluster.submit("t", builder.create_topology())
        cluster.wait_quiet()
        cluster.kill("t")
    assert len(set(found)) == letters


def test_the_path_of_a_store_is_relative_to_the_directory_where_the_topology_is_built(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    builder = TopologyBuilder()
    rows = builder.set_spout("rows", Rows()).set_dead_letters("rejected")
    again = DeadLetterSpout("sqlite:letters.db", ["row"])
    builder.set_bolt("step", refuse(2, retry=False)).shuffle_grouping(rows)
    builder.set_bolt("letters", DeadLetterBolt("sqlite:letters.db")).shuffle_grouping(rows, "rejected")
    topology = builder.create_topology()
    (tmp_path / "worker").mkdir()
    monkeypatch.chdir(tmp_path / "worker")
    cluster.submit("t", topology)
    cluster.advance(1)
    cluster.wait_quiet()
    assert open_store(f"sqlite:{tmp_path}/letters.db").count() == 1
    assert again.url == f"sqlite:{tmp_path}/letters.db"


def test_direct_messages_go_to_the_same_task_again(cluster: Any) -> None:
    seen = Log()

    class Direct(Numbers):
        def declare_output_fields(self, declarer: Any) -> None:
            declarer.declare(["number"], direct=True)

        def next_tuple(self) -> None:
            if self.next < 1:
                self.collector.emit_direct(self.context.component_tasks("step")[1], [0], msg_id="m0")
                self.next = 1

    def once(tup: Any, collector: Any) -> None:
        seen.append(collector._task.task_id)
        if len(seen) == 1:
            raise FailedException("again")

    builder = TopologyBuilder()
    numbers = builder.set_spout("numbers", Direct(1, Log())).set_retry(QUICK)
    builder.set_bolt("step", DoBasic(once), 2).direct_grouping(numbers)
    cluster.submit("t", builder.create_topology())
    cluster.wait_quiet()
    cluster.advance(1.1)
    cluster.wait_quiet()
    assert len(seen) == 2 and seen[0] == seen[1]


def test_an_outage_admits_no_more_messages_than_the_spout_may_store(cluster: Any) -> None:
    seen, is_back = Log(), Log()

    def step(tup: Any, collector: Any) -> None:
        seen.append(tup[0])
        if not is_back:
            raise FailedException("the database is away")

    class Few(Numbers):
        max_ahead = 5

    builder = TopologyBuilder()
    spout = Few(20, log := Log())
    numbers = builder.set_spout("numbers", spout).set_retry(Backoff(first_s=1, factor=1, max_attempts=None))
    builder.set_bolt("step", DoBasic(step)).shuffle_grouping(numbers)
    cluster.submit("t", builder.create_topology(), {"topology.max.spout.pending": 3})
    for _ in range(20):
        cluster.advance(1)
        cluster.wait_quiet()
    assert len(seen) > 20 and set(seen) == set(range(5)) and log == []
    is_back.append(True)
    for _ in range(3):
        cluster.advance(1)
        cluster.wait_quiet()
    assert {name for _, name in log} == {f"m{number}" for number in range(20)} and len(log) == 20


def test_mistakes_are_refused() -> None:
    class Yields(Spout):
        outputs = ("number",)

        def next_tuple(self) -> Iterator[list[int]]:
            yield [1]

    builder = TopologyBuilder()
    with pytest.raises(TopologyError, match=r"spout 'a': Yields\.next_tuple yields rows without message ids, which"):
        builder.set_spout("a", Yields()).set_retry(QUICK)
    with pytest.raises(TopologyError, match="spout 'b': set_retry takes a Backoff, not 5"):
        builder.set_spout("b", Numbers(1, Log())).set_retry(5)  # type: ignore[arg-type]
    with pytest.raises(TopologyError, match="spout 'd': its retry is 3; a Backoff was expected, such as Backoff"):
        builder.set_spout("d", type("Wrong", (ReliableSpout,), {"outputs": ["a"], "retry": 3})())
    with pytest.raises(TopologyError, match="component 'c': stream 'default' is declared twice"):
        builder.set_spout("c", Numbers(1, Log())).set_dead_letters("default")


def test_a_positioned_spout_in_an_aligned_topology_needs_no_retries(cluster: Any) -> None:
    class Positioned(Numbers):
        def checkpoint_state(self) -> int:
            return self.next

        def restore_state(self, state: Any) -> None:
            self.next = state

    builder = TopologyBuilder()
    numbers = builder.set_spout("numbers", Positioned(1, Log())).set_retry(QUICK)
    builder.set_bolt("step", refuse()).shuffle_grouping(numbers)
    cluster.submit("t", builder.create_topology(), {"topology.state.checkpoint.aligned": True})
    with pytest.raises(TaskFailedError) as caught:
        cluster.wait_quiet()
    assert isinstance(caught.value.__cause__, UsageError)
    assert "is positioned, and aligned checkpoints reset it to its positions" in str(caught.value)
