"""Batches as directories, without Spark: both rules, and a crash at any step."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from tupletree.attempt import TransactionAttempt
from tupletree.errors import StaleAttemptError, UnavailableError, UsageError
from tupletree.spark.sinks import directory_batches
from tupletree.spark.sinks.directory import JsonDirectory, ParquetDirectory
from tupletree.spark.sinks.directory_batches import BatchDirectories


class Killed(BaseException):
    """The process ends here."""


def opened(path: Path) -> BatchDirectories:
    batches = BatchDirectories(str(path), "json")
    batches.open("pipeline")
    return batches


def stage(batches: BatchDirectories, txid: int, attempt: int, content: str) -> TransactionAttempt:
    which = TransactionAttempt(txid, attempt)
    staged = Path(batches.begin(which))
    staged.mkdir()
    (staged / "part-0.json").write_text(content)
    batches.seal(which, {})
    return which


def run(batches: BatchDirectories, txid: int, attempt: int, content: str, *, is_opaque: bool = True) -> None:
    batches.commit(stage(batches, txid, attempt, content), is_opaque)


def contents(path: Path) -> dict[int, str]:
    """What a reader sees."""
    return {int(part.parent.name[5:]): part.read_text() for part in path.glob("txid=*/part-*")}


def staged(path: Path) -> list[str]:
    return os.listdir(path / "_staging")


@pytest.mark.parametrize("is_opaque", [False, True])
def test_batches_appear_when_they_are_committed(tmp_path: Path, is_opaque: bool) -> None:
    batches = opened(tmp_path / "new" / "place")
    first = stage(batches, 1, 1, "a")
    place = tmp_path / "new" / "place"
    assert contents(place) == {}
    batches.commit(first, is_opaque)
    run(batches, 2, 2, "b", is_opaque=is_opaque)
    assert contents(place) == {1: "a", 2: "b"}
    assert staged(place) == []


def test_transactional_a_replay_leaves_what_is_there(tmp_path: Path) -> None:
    batches = opened(tmp_path)
    run(batches, 1, 1, "a", is_opaque=False)
    run(batches, 1, 2, "the same, had it been so", is_opaque=False)
    assert contents(tmp_path) == {1: "a"}
    assert staged(tmp_path) == []


def test_opaque_a_newer_attempt_replaces_an_older_one(tmp_path: Path) -> None:
    batches = opened(tmp_path)
    run(batches, 1, 1, "a")
    run(batches, 1, 3, "b")
    assert contents(tmp_path) == {1: "b"}
    assert staged(tmp_path) == []
    with pytest.raises(
        StaleAttemptError, match=r"transaction 1 \(attempt 0.2\) is over, since transaction 1 \(attempt"
    ):
        run(batches, 1, 2, "zombie")
    assert contents(tmp_path) == {1: "b"}


@pytest.mark.parametrize("is_opaque", [False, True])
def test_a_commit_of_the_same_attempt_again_does_nothing(tmp_path: Path, is_opaque: bool) -> None:
    batches = opened(tmp_path)
    attempt = stage(batches, 1, 1, "a")
    batches.commit(attempt, is_opaque)
    batches.commit(attempt, is_opaque)
    assert contents(tmp_path) == {1: "a"}


@pytest.mark.parametrize("is_opaque", [False, True])
def test_a_transaction_below_the_newest_is_stale(tmp_path: Path, is_opaque: bool) -> None:
    batches = opened(tmp_path)
    run(batches, 1, 1, "a", is_opaque=is_opaque)
    run(batches, 2, 2, "b", is_opaque=is_opaque)
    with pytest.raises(StaleAttemptError, match="transaction 2 has been written"):
        run(batches, 1, 9, "c", is_opaque=is_opaque)
    assert contents(tmp_path) == {1: "a", 2: "b"}


def test_old_batches_may_be_removed(tmp_path: Path) -> None:
    batches = opened(tmp_path)
    run(batches, 1, 1, "a")
    run(batches, 2, 2, "b")
    os.rename(tmp_path / "txid=00000000000000000001", tmp_path.parent / "archive")
    run(batches, 3, 3, "c")
    assert contents(tmp_path) == {2: "b", 3: "c"}


def test_discarded_attempts_leave_nothing_and_cannot_be_committed(tmp_path: Path) -> None:
    batches = opened(tmp_path)
    run(batches, 1, 1, "a")
    for txid, number in (2, 2), (1, 3):
        attempt = stage(batches, txid, number, "b")
        batches.discard(attempt)
        batches.discard(attempt)
        with pytest.raises(UnavailableError, match=r"the staged files of .* are gone"):
            batches.commit(attempt, True)
        assert staged(tmp_path) == []
    assert contents(tmp_path) == {1: "a"}


def test_what_slow_tasks_of_a_discarded_attempt_leave_is_removed_by_the_next_one(tmp_path: Path) -> None:
    batches = opened(tmp_path)
    attempt = stage(batches, 1, 1, "a")
    batches.discard(attempt)
    (Path(batches.staged(attempt)) / "_temporary").mkdir(parents=True)
    later = stage(batches, 2, 3, "b")
    assert sorted(staged(tmp_path)) == ["1.1", "2.3"]
    again = stage(batches, 1, 2, "a")
    assert sorted(staged(tmp_path)) == ["1.2", "2.3"]
    Path(batches.staged(attempt)).mkdir()
    batches.commit(again, True)
    assert staged(tmp_path) == ["2.3"]
    batches.commit(later, True)
    assert contents(tmp_path) == {1: "a", 2: "b"}


def test_a_commit_leaves_alone_what_a_newer_attempt_is_staging(tmp_path: Path) -> None:
    batches = opened(tmp_path)
    run(batches, 1, 1, "a", is_opaque=False)
    late, newer = stage(batches, 1, 2, "a"), TransactionAttempt(1, 3)
    writes = Path(batches.begin(newer))
    writes.mkdir()
    (writes / "part-0.json").write_text("a")
    batches.commit(late, is_opaque=False)
    batches.seal(newer, {})
    batches.commit(newer, is_opaque=False)
    assert contents(tmp_path) == {1: "a"} and staged(tmp_path) == []


def test_what_a_dead_driver_left_is_removed(tmp_path: Path) -> None:
    stage(opened(tmp_path), 1, 1, "a")
    opened(tmp_path)
    assert staged(tmp_path) == []


def test_a_batch_of_which_a_successor_has_removed_something_is_never_sealed(tmp_path: Path) -> None:
    zombie = opened(tmp_path)
    attempt = TransactionAttempt(1, 1)
    for remove in (lambda: opened(tmp_path), lambda: stage(opened(tmp_path), 1, 2, "new")):
        place = Path(zombie.begin(attempt))
        place.mkdir()
        (place / "part-0.json").write_text("a half")
        remove()
        place.mkdir()  # by a task that goes on writing
        (place / "part-1.json").write_text("the other half")
        with pytest.raises(UnavailableError, match=r"the staged files of .* are gone"):
            zombie.seal(attempt, {})


def test_a_batch_that_is_being_removed_cannot_be_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zombie = opened(tmp_path)
    attempt = stage(zombie, 1, 1, "a")
    rmtree = directory_batches.shutil.rmtree
    tried = []

    def emptied(path: str, **named: Any) -> None:
        with pytest.raises(UnavailableError, match=r"the staged files of .* are gone"):
            zombie.commit(attempt, False)
        tried.append(path)
        rmtree(path, **named)

    with monkeypatch.context() as patch:
        patch.setattr(directory_batches.shutil, "rmtree", emptied)
        opened(tmp_path)
    assert tried
    assert contents(tmp_path) == {}


def test_a_driver_that_stands_still_in_a_commit_puts_nothing_of_its_successor_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zombie = opened(tmp_path)
    run(zombie, 1, 1, "old")
    late = stage(zombie, 1, 2, "late")
    successor = BatchDirectories(str(tmp_path), "json")
    successor._owner = zombie._owner  # it has opened before, and has removed nothing
    newest = stage(successor, 2, 3, "later")
    rename = os.rename
    tried = []

    def renamed(source: str, target: str) -> None:
        if not tried:
            tried.append(source)
            with pytest.raises(UnavailableError, match="another driver of this pipeline is committing"):
                successor.commit(newest, True)
        rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(directory_batches.os, "rename", renamed)
        zombie.commit(late, True)
    successor.commit(newest, True)
    assert contents(tmp_path) == {1: "late", 2: "later"}


@pytest.mark.parametrize("crash_at", range(6))
@pytest.mark.parametrize("is_opaque", [False, True])
def test_after_a_crash_at_any_step_there_is_a_whole_batch_or_none_and_the_replay_mends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crash_at: int, is_opaque: bool
) -> None:
    batches = opened(tmp_path)
    run(batches, 1, 1, "one", is_opaque=is_opaque)
    run(batches, 2, 2, "old", is_opaque=is_opaque)
    attempt = stage(batches, 2, 3, "new")
    steps = 0

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **named: Any) -> Any:
            nonlocal steps
            steps += 1
            if steps > crash_at:
                raise Killed
            return function(*arguments, **named)

        return step

    with monkeypatch.context() as patch:
        patch.setattr(directory_batches.os, "rename", counted(os.rename))
        patch.setattr(directory_batches.os, "fsync", counted(os.fsync))
        patch.setattr(directory_batches.shutil, "rmtree", counted(directory_batches.shutil.rmtree))
        with contextlib.suppress(Killed):
            batches.commit(attempt, is_opaque)
    assert contents(tmp_path) in ({1: "one"}, {1: "one", 2: "old"}, {1: "one", 2: "new"})
    again = opened(tmp_path)
    run(again, 2, 4, "newest", is_opaque=is_opaque)
    assert contents(tmp_path) == {1: "one", 2: "newest" if is_opaque else "old"}
    assert staged(tmp_path) == []


def test_a_directory_of_another_pipeline_or_kind_is_refused(tmp_path: Path) -> None:
    opened(tmp_path)
    with pytest.raises(UsageError, match="belongs to the pipeline 'pipeline' and has json files; this is 'other'"):
        BatchDirectories(str(tmp_path), "json").open("other")
    with pytest.raises(UsageError, match="with parquet files"):
        BatchDirectories(str(tmp_path), "parquet").open("pipeline")


def test_a_directory_with_files_of_others_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").touch()
    with pytest.raises(UsageError, match=r"contains 'letter.txt' and no _tupletree.json"):
        opened(tmp_path)


def test_a_directory_of_a_newer_version_or_without_a_sane_note_is_refused(tmp_path: Path) -> None:
    (tmp_path / "_tupletree.json").write_text(json.dumps({"format": 2}))
    with pytest.raises(UsageError, match="newer version of Tupletree"):
        opened(tmp_path)
    (tmp_path / "_tupletree.json").write_text("{")
    with pytest.raises(UsageError, match="is not a record of a pipeline"):
        opened(tmp_path)


def test_a_batch_of_unknown_origin_is_refused(tmp_path: Path) -> None:
    batches = opened(tmp_path)
    (tmp_path / "txid=00000000000000000001").mkdir()
    with pytest.raises(UsageError, match="has no valid file _attempt"):
        run(batches, 1, 1, "a")


def test_a_directory_that_was_deleted_is_not_written_to(tmp_path: Path) -> None:
    place = tmp_path / "place"
    batches = opened(place)
    attempt = stage(batches, 1, 1, "a")
    os.rename(place, tmp_path / "elsewhere")
    with pytest.raises(UnavailableError, match=r"_tupletree\.json is gone"):
        batches.commit(attempt, True)
    os.rename(tmp_path / "elsewhere", place)
    batches.commit(attempt, True)
    assert contents(place) == {1: "a"}


def test_a_batch_whose_files_are_on_other_machines_is_refused(tmp_path: Path) -> None:
    batches = opened(tmp_path)
    attempt = TransactionAttempt(1, 1)
    batches.begin(attempt)
    with pytest.raises(UsageError, match="must share this directory"):
        batches.seal(attempt, {})
    Path(batches.staged(attempt)).mkdir()
    (Path(batches.staged(attempt)) / "_SUCCESS").touch()
    with pytest.raises(UsageError, match="must share this directory"):
        batches.seal(attempt, {})


def test_a_path_that_cannot_be_made_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UnavailableError, match=r"file/place: Not a directory"):
        opened(tmp_path / "file" / "place")


@pytest.mark.parametrize("path", ["s3://bucket/x", "s3a://bucket/x", "hdfs:///x", "file://host/x", Path("s3://x")])
def test_other_file_systems_are_refused_with_the_way_out(path: str | Path) -> None:
    with pytest.raises(UsageError, match=r"ParquetDirectory: path is .*ForeachBatch"):
        ParquetDirectory(path)


@pytest.mark.parametrize("path", ["", 5, None])
def test_what_is_no_path_is_refused(path: Any) -> None:
    with pytest.raises(UsageError, match="JsonDirectory: path is"):
        JsonDirectory(path)


def test_a_path_is_resolved_where_the_sink_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sink = ParquetDirectory("out")
    monkeypatch.chdir("/")
    assert cloudpickle.loads(cloudpickle.dumps(sink)).path == str(tmp_path / "out")
    assert ParquetDirectory("file:///data/out").path == ParquetDirectory("file:/data/out").path == "/data/out"


def test_an_unknown_compression_is_refused() -> None:
    with pytest.raises(UsageError, match="compression is 'zip'; one of none, gzip"):
        JsonDirectory("out", compression="zip")
