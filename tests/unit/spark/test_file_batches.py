"""What a batch of files is: a number of bytes over all of them, in turns."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from file_topology import Clock, Splits, Topology, attempt, context

from tupletree.connectors import log_plans
from tupletree.connectors.file_ranges import LOOK
from tupletree.connectors.files import TextFileLog
from tupletree.connectors.log_plans import Extents
from tupletree.errors import FailedException, ReportedFailedException
from tupletree.spark.sources.text import TextFiles
from tupletree.transactional.planned_log import DOUBT_S, LOOK_S, PlannedLogSpout, PlanningCoordinator


def write(directory: Path, **files: str) -> None:
    for name, text in files.items():
        (directory / name).write_bytes(text.encode())


def test_a_batch_is_of_so_many_bytes_over_all_files(tmp_path: Path) -> None:
    write(tmp_path, b="b1\nb2\n", a="a1\na2\na3\n", c="c1\n")
    assert Topology(TextFiles(tmp_path, 6)).rest() == [["a1", "a2"], ["a3", "b1"], ["b2", "c1"]]


def test_a_line_that_does_not_fit_any_more_begins_the_next_batch(tmp_path: Path) -> None:
    write(tmp_path, a="a1\n", b="a longer line\nb2\n", c="c1\n")
    assert Topology(TextFiles(tmp_path, 8)).rest() == [["a1"], ["a longer line"], ["b2", "c1"]]


def test_a_line_that_is_longer_than_a_batch_is_one_of_its_own(tmp_path: Path) -> None:
    long = "x" * 200_000
    write(tmp_path, a=f"1\n{long}\n2\n", b=f"{long}\n3\n")
    assert Topology(TextFiles(tmp_path, 4)).rest() == [["1"], [long], ["2"], [long], ["3"]]


def test_a_file_that_is_appended_to_without_end_does_not_keep_the_others_waiting(tmp_path: Path) -> None:
    write(tmp_path, a="a1\na2\n", b="b1\nb2\n", c="c1\n")
    topology = Topology(TextFiles(tmp_path, 3))
    batches = []
    for number in range(3, 13):
        txid = topology.begin()
        assert txid is not None
        batches += topology.read(txid)
        with (tmp_path / "a").open("a") as file:
            file.write(f"a{number}\n" * 2)
    assert batches == ["a1", "a2", "b1", "b2", "c1", "a3", "a3", "a4", "a4", "a5"]


def test_files_that_are_added_and_files_that_grow_join(tmp_path: Path) -> None:
    write(tmp_path, b="b1\n")
    topology = Topology(TextFiles(str(tmp_path / "*"), "1KB"))
    assert topology.rest() == [["b1"]]
    write(tmp_path, a="a1\n", b="b1\nb2\nb")
    assert topology.rest() == [["a1", "b2"]]
    write(tmp_path, b="b1\nb2\nb3\n")
    assert topology.rest() == [["b3"]]


def test_a_single_file_is_a_source(tmp_path: Path) -> None:
    write(tmp_path, a="1\n", b="2\n")
    topology = Topology(TextFiles(tmp_path / "b"))
    assert topology.rest() == [["2"]]
    write(tmp_path, b="2\n3\n")
    assert topology.rest() == [["3"]]


def test_a_last_line_without_an_end_is_one_if_files_are_complete(tmp_path: Path) -> None:
    write(tmp_path, a="1\n2", b="3")
    assert Topology(TextFiles(tmp_path)).rest() == [["1"]]
    for size in (1, 2, 3, 100):
        batches = Topology(TextFiles(tmp_path, size, are_complete=True)).rest()
        assert [line for batch in batches for line in batch] == ["1", "2", "3"]


def test_a_batch_has_not_too_many_ranges_for_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_plans, "RANGES_PER_BATCH", 2)
    write(tmp_path, **{name: f"{name}\n" for name in "abcde"})
    assert Topology(TextFiles(tmp_path)).rest() == [["a", "b"], ["c", "d"], ["e"]]


def test_a_restart_goes_on_where_it_stopped(tmp_path: Path) -> None:
    write(tmp_path, a="1\n2\n3\n")
    before, after = (Topology(TextFiles(tmp_path, 2)) for _ in range(2))
    assert before.begin() == 1
    after.metadata = before.metadata[:]
    assert after.rest() == [["2"], ["3"]]


def test_a_restart_with_nothing_new_is_not_ready_a_second_time(tmp_path: Path) -> None:
    write(tmp_path, a="1\n")
    before, after = Topology(TextFiles(tmp_path)), Topology(TextFiles(tmp_path))
    before.rest()
    after.metadata = before.metadata[:]
    assert after.coordinator.is_ready()  # it does not know yet what was read
    assert after.begin() is None
    assert not after.coordinator.is_ready()


def test_the_files_are_looked_at_once_in_a_while_and_a_backlog_does_not_wait_for_it(tmp_path: Path) -> None:
    write(tmp_path, a="1\n2\n")
    clock = Clock()
    topology = Topology(TextFiles(tmp_path, 2), clock)
    assert (topology.begin(), topology.begin(), topology.begin()) == (1, 2, None)
    write(tmp_path, a="1\n2\n3\n")
    assert topology.begin() is None
    clock.now_s += LOOK_S
    assert topology.begin() == 3


class SlowLog(TextFileLog):
    """Two seconds for each look."""

    def __init__(self, clock: Clock) -> None:
        super().__init__("/data")
        self.clock = clock
        self.looks = 0

    def extents(self) -> Extents:
        self.clock.now_s += 2
        self.looks += 1
        return []


def test_a_look_that_takes_long_is_taken_seldom() -> None:
    clock = Clock()
    coordinator = PlanningCoordinator(PlannedLogSpout(SlowLog(clock), limit=10), "source", clock)
    log = coordinator._source
    assert isinstance(log, SlowLog)
    looks = []
    for _ in range(24):
        assert not coordinator.is_ready()
        looks.append(log.looks)
        clock.now_s += 1
    assert looks == [1] * 20 + [2] * 4  # a look of two seconds, and twenty until the next


def test_a_batch_that_was_not_written_down_is_made_again(tmp_path: Path) -> None:
    write(tmp_path, a="1\n")
    clock = Clock()
    topology = Topology(TextFiles(tmp_path), clock)
    assert topology.begin() == 1
    topology.metadata.clear()  # the store was away
    assert not topology.coordinator.is_ready()
    clock.now_s += DOUBT_S
    assert (topology.begin(), topology.read(1)) == (1, ["1"])


def test_in_doubt_it_is_asked_once_and_what_comes_meanwhile_is_no_less_ready(tmp_path: Path) -> None:
    write(tmp_path, a="1\n")
    clock = Clock()
    topology = Topology(TextFiles(tmp_path), clock)
    assert topology.begin() == 1
    clock.now_s += DOUBT_S
    assert topology.coordinator.is_ready()
    with pytest.raises(FailedException):
        topology.coordinator.initialize_transaction(2, topology.metadata[-1])
    clock.now_s += DOUBT_S
    assert not topology.coordinator.is_ready()


def test_what_another_coordinator_has_given_out_is_not_given_out_again(tmp_path: Path) -> None:
    write(tmp_path, a="1\n2\n3\n")
    first, second = Topology(TextFiles(tmp_path, 2)), Topology(TextFiles(tmp_path, 2))
    first.begin()
    second.metadata = first.metadata[:]
    second.begin()
    first.metadata = second.metadata[:]
    assert first.rest() == [["3"]]


def test_the_lag_is_what_is_not_given_out(tmp_path: Path) -> None:
    write(tmp_path, a="1\n2\n3\n", b="4\n", c="")
    topology = Topology(TextFiles(tmp_path, 4))
    assert topology.coordinator.lag() == {"bytes": 0, "files": 0}
    topology.begin()
    assert topology.coordinator.lag() == {"bytes": 4, "files": 2}
    topology.rest()
    assert topology.coordinator.lag() == {"bytes": 0, "files": 0}


def test_a_file_that_shrank_is_named_until_it_is_back(tmp_path: Path) -> None:
    write(tmp_path, a="one\ntwo\n")
    topology = Topology(TextFiles(tmp_path))
    topology.begin()
    write(tmp_path, a="one\n")
    for _ in range(2):
        with pytest.raises(ReportedFailedException) as caught:
            topology.begin()
        assert str(caught.value) == (
            f"component 'source', file {tmp_path}/a: 8 bytes were already read, but the file has only 4: a file may "
            f"grow, but never shrink"
        )
    write(tmp_path, a="one\ntwo\nthree\n")
    assert topology.rest() == [["three"]]


def test_a_directory_that_is_not_there_is_named_until_it_is(tmp_path: Path) -> None:
    topology = Topology(TextFiles(tmp_path / "none"))
    with pytest.raises(ReportedFailedException, match=f"{tmp_path}/none cannot be read: No such file"):
        topology.begin()
    (tmp_path / "none").mkdir()
    write(tmp_path / "none", a="1\n")
    assert topology.rest() == [["1"]]


def test_other_files_go_on_while_the_end_of_a_huge_line_is_looked_for(tmp_path: Path) -> None:
    write(tmp_path, a="", b="1\n2\n")
    os.truncate(tmp_path / "a", 2 * LOOK + 5)  # zeros without a line end
    clock = Clock()
    coordinator = PlanningCoordinator(PlannedLogSpout(TextFileLog(tmp_path), limit=2), "source", clock)
    metadata = []
    while len(metadata) < 2:
        clock.now_s += 1
        if coordinator.is_ready():
            metadata.append(coordinator.initialize_transaction(0, metadata[-1] if metadata else None))
    assert [one["ranges"] for one in metadata] == [[["b", 0, 2]], [["b", 2, 4]]]
    with (tmp_path / "a").open("ab") as file:
        file.write(b"\n")
    clock.now_s += 1
    while not coordinator.is_ready():
        clock.now_s += 1
    assert coordinator.initialize_transaction(3, metadata[-1])["ranges"] == [["a", 0, 2 * LOOK + 6]]


def test_emitters_share_the_ranges(tmp_path: Path) -> None:
    write(tmp_path, a="1\n", b="2\n", c="3\n")
    source = TextFiles(tmp_path)
    topology = Topology(source)
    topology.begin()
    shares = []
    for task in (1, 2):
        kept = Splits()
        source.spout().emitter({}, context(task, 2)).emit_batch(attempt(1), topology.metadata[0], kept)
        shares.append(kept.splits)
    assert shares == [[[f"{tmp_path}/b", 0, 2]], [[f"{tmp_path}/a", 0, 2], [f"{tmp_path}/c", 0, 2]]]


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_appended_when_every_line_is_in_one_batch(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    take = chance.randint(1, 60)
    topology = Topology(TextFiles(tmp_path, take))
    written = {f"f{number}": b"" for number in range(4)}
    lines: list[str] = []
    for _ in range(60):
        name = chance.choice(list(written))
        written[name] += bytes(chance.choices(b"abc\n", weights=[9, 9, 9, 3], k=chance.randint(0, 50)))
        (tmp_path / name).write_bytes(written[name])
        for _ in range(chance.randint(0, 3)):
            if (txid := topology.begin()) is not None:
                lines += (batch := topology.read(txid))
                assert len(batch) == 1 or sum(len(line) + 1 for line in batch) <= take
    lines += [line for batch in topology.rest() for line in batch]
    complete = [line for text in written.values() for line in text.decode().split("\n")[:-1]]
    assert sorted(lines) == sorted(complete)


def test_a_name_that_cannot_be_written_down_is_told(tmp_path: Path) -> None:
    write(tmp_path, a="one\n")
    (tmp_path / os.fsdecode(b"b\xff")).write_bytes(b"two\n")
    with pytest.raises(ReportedFailedException, match=r"'b\\udcff' cannot be read: its name is not UTF-8"):
        Topology(TextFiles(tmp_path)).begin()
