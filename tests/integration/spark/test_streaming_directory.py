"""An exchange directory as queries use it: publishing, repeating, giving up, deleting."""

from __future__ import annotations

import os
import stat

import pytest
from exchanges import Feeding, Reading, files

from tupletree.attempt import TransactionAttempt
from tupletree.component import BoltCollector, TopologyContext
from tupletree.errors import StaleAttemptError, UnavailableError, UsageError
from tupletree.spark.streaming.ddl import parse_schema
from tupletree.spark.streaming.directory import (
    MICRO_BATCHES,
    PUBLISHED,
    ROWS,
    SEGMENTS,
    TRANSACTIONS,
    About,
    ExchangeDirectory,
)
from tupletree.spark.streaming.export import ExportBolt, _TaskExport
from tupletree.spark.streaming.ingest import remove
from tupletree.spark.streaming.reader import ExportReader
from tupletree.spark.streaming.writer import IngestWriter
from tupletree.tuples import Origin, Tuple

SCHEMA = "n BIGINT"
COLUMNS = parse_schema(SCHEMA)


def about(kind, component="c"):
    return About(kind, component, COLUMNS.json())


def test_a_micro_batch_is_there_when_it_is_committed_and_not_before(tmp_path):
    query = Feeding(tmp_path, SCHEMA, "q")
    messages = query.write(0, [[1]], [[2]])
    assert not [name for name in files(tmp_path) if name.endswith(".json")]
    query.writer.commit(messages, 0)
    assert [name for name in files(tmp_path) if name.endswith(".json")] == ["q.0.json"]


def test_a_repeated_micro_batch_changes_nothing_and_leaves_nothing(tmp_path):
    query = Feeding(tmp_path, SCHEMA, "q")
    query.feed(0, [[1]], [[2]])
    before = files(tmp_path)
    query.feed(0, [[1]], [[2]])
    assert files(tmp_path) == before


def test_a_repeated_micro_batch_is_recognised_after_the_topology_has_taken_it(tmp_path):
    query = Feeding(tmp_path, SCHEMA, "q")
    query.feed(0, [[1]])
    remove(query.directory, {"q": 0})
    assert files(tmp_path) == []
    query.feed(0, [[1]])
    assert files(tmp_path) == []
    query.feed(1, [[2]])
    assert len(files(tmp_path)) == 2


def test_a_checkpoint_that_was_set_back_is_an_error(tmp_path):
    query = Feeding(tmp_path, SCHEMA, "q")
    query.feed(4, [[1]])
    query.feed(5, [[1]])
    with pytest.raises(UsageError, match="micro-batch 4 of query q is repeated, but 5 is already published"):
        query.feed(4, [[1]])


def test_what_failed_tasks_have_written_is_removed_with_the_next_micro_batch_or_at_once(tmp_path):
    query, other = Feeding(tmp_path, SCHEMA, "q"), Feeding(tmp_path, SCHEMA, "r")
    kept = other.write(0, [[1]])
    lost, ahead = query.write(0, [[7]]), query.write(2, [[9]])
    (tmp_path / ROWS / ".q.1.0123").touch()  # a task that was killed while it wrote
    query.feed(1, [[8]])
    left = files(tmp_path)
    assert not {message.name for message in lost} & set(left)
    assert {message.name for message in kept + ahead} < set(left)  # another query's, and of a later micro-batch
    assert ".q.1.0123" not in left
    query.writer.abort([*ahead, None], 2)
    assert not {message.name for message in ahead} & set(files(tmp_path))


def test_abort_leaves_what_was_published(tmp_path):
    query = Feeding(tmp_path, SCHEMA, "q")
    messages = query.write(0, [[1]])
    query.writer.commit(messages, 0)
    before = files(tmp_path)
    query.writer.abort(messages, 0)
    assert files(tmp_path) == before


def test_a_micro_batch_without_rows_is_not_published(tmp_path):
    query = Feeding(tmp_path, SCHEMA, "q")
    query.writer.commit([], 0)
    assert files(tmp_path) == []


def test_a_query_with_other_columns_is_refused():
    with pytest.raises(UsageError, match="the topology ingests the columns n; the query has n, m"):
        IngestWriter("/nowhere", COLUMNS, parse_schema("n BIGINT, m STRING"))
    with pytest.raises(UsageError, match="column 'n' should be int64"):
        IngestWriter("/nowhere", COLUMNS, parse_schema("n ARRAY<INT>"))


def test_notes_of_what_was_removed_stay_few_and_are_never_lowered(tmp_path):
    directory = ExchangeDirectory(tmp_path)
    directory.describe(about(TRANSACTIONS))
    for number in (1, 2, 3, 9, 10, 4):
        directory.remove({"txid": number, "0": number}, lambda: iter(()))
    assert directory.removed() == {"txid": 10, "0": 10}
    assert len(list((tmp_path / "removed").iterdir())) == 4


def test_a_directory_is_for_one_component(tmp_path):
    directory = ExchangeDirectory(tmp_path)
    directory.describe(about(TRANSACTIONS))
    directory.describe(about(TRANSACTIONS))
    for other in (about(SEGMENTS), about(TRANSACTIONS, "d")):
        with pytest.raises(UsageError, match=r"holds transactions of component 'c', not .*: an exchange directory"):
            directory.describe(other)


def test_a_directory_of_the_other_side_is_refused(tmp_path):
    ExchangeDirectory(tmp_path).describe(about(MICRO_BATCHES))
    with pytest.raises(UsageError, match="cannot be read: a topology ingests its rows"):
        ExportReader(str(tmp_path), COLUMNS, {}).initialOffset()


@pytest.mark.parametrize("options", [{"prune": "perhaps"}, {"maxBytesPerTrigger": "1k"}, {"maxBytesPerTrigger": "0"}])
def test_an_option_that_is_none_is_refused_in_a_sentence(tmp_path, options):
    [name] = options
    with pytest.raises(UsageError, match=f"option '{name}' is "):
        ExportReader(str(tmp_path), COLUMNS, options)


def test_a_transaction_below_one_that_is_there_is_refused(tmp_path):
    for txid in (3, 4):
        _TaskExport(str(tmp_path), about(TRANSACTIONS), 0, 1).publish(TransactionAttempt(txid, txid), [[1]])
    late = _TaskExport(str(tmp_path), about(TRANSACTIONS), 0, 1)
    late.publish(TransactionAttempt(4, 5), [[1]])
    with pytest.raises(StaleAttemptError, match=r"has rows of transaction 4.*use a new directory"):
        late.publish(TransactionAttempt(3, 6), [[1]])


def test_a_file_system_that_refuses_is_an_unavailable_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UnavailableError, match=r"exchange directory .*file/x"):
        ExchangeDirectory(tmp_path / "file" / "x").describe(about(TRANSACTIONS))


class Folders:
    """Notes which folders are synced; the first times, syncing one fails, as if the process ended there."""

    def __init__(self, monkeypatch, fails):
        self.synced, self._fails, self._fsync = [], fails, os.fsync
        monkeypatch.setattr(os, "fsync", self)

    def __call__(self, descriptor):
        self._fsync(descriptor)
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            if self._fails:
                self._fails -= 1
                raise OSError("ended here")
            self.synced.append(os.fstat(descriptor).st_ino)


def test_what_another_has_published_is_durable_before_it_is_relied_on(tmp_path, monkeypatch):
    query = Feeding(tmp_path, SCHEMA, "q")
    messages = query.write(0, [[1]])
    folders = Folders(monkeypatch, fails=1)
    with pytest.raises(UnavailableError, match="ended here"):
        query.writer.commit(messages, 0)
    query.writer.commit(query.write(0, [[1]]), 0)
    assert (tmp_path / PUBLISHED).stat().st_ino in folders.synced
    folders.synced.clear()
    assert not query.directory.publish(f"{PUBLISHED}/q.0.json", lambda file: None, replaces=False)
    assert (tmp_path / PUBLISHED).stat().st_ino in folders.synced


class Told(BoltCollector):
    """Keeps what is acked, failed and reported."""

    def __init__(self):
        self.acked, self.failed, self.errors = [], [], []

    def ack(self, tup):
        self.acked.append(tup)

    def fail(self, tup):
        self.failed.append(tup)

    def report_error(self, error):
        self.errors.append(str(error))


class Exporting:
    """A task of an ExportBolt, with segments of up to three rows."""

    def __init__(self, directory):
        self.told = Told()
        self.bolt = ExportBolt(directory, SCHEMA, rows_per_segment=3)
        context = TopologyContext(
            topology_id="t", component_id="c", task_id=1, tasks={"c": [1]}, sources={}, targets={}, conf={}
        )
        self.bolt.prepare({}, context, self.told)

    def export(self, *values):
        for value in values:
            self.bolt.execute(Tuple([value], 0, 0, Origin("in", 2, "default", ["n"])))


def test_a_segment_under_a_number_that_was_removed_is_not_lost(tmp_path):
    left_over, successor, query = Exporting(tmp_path), Exporting(tmp_path), Reading(tmp_path, SCHEMA, prune="true")
    left_over.export(1, 2, 3)
    successor.export(4, 5, 6, 7, 8, 9)
    assert sorted(query.more()) == [(n,) for n in range(1, 10)]
    assert files(tmp_path) == []
    left_over.export(10, 11, 12, 13, 14, 15)
    successor.export(16, 17, 18)
    assert sorted(query.more()) == [(n,) for n in range(10, 19)]


def test_a_tuple_that_does_not_fit_fails_alone(tmp_path):
    task = Exporting(tmp_path)
    task.export(1, "two", 3, "four", "five", "six")
    assert [tup.values[0] for tup in task.told.acked] == [1, 3]
    assert [tup.values[0] for tup in task.told.failed] == ["two", "four", "five", "six"]
    assert [error[:20] for error in task.told.errors] == ["column 'n' is int64:"] * 2
    assert Reading(tmp_path, SCHEMA).more() == [(1,), (3,)]
    assert len(files(tmp_path)) == 1


def test_what_comes_after_a_query_found_nothing_is_read_with_the_next_micro_batch(tmp_path):
    task, query = Exporting(tmp_path), Reading(tmp_path, SCHEMA)
    nothing = query.reader.latestOffset(query.offset, query.reader.getDefaultReadLimit())
    task.export(1, 2, 3)
    assert query.between(query.offset, nothing) == []
    assert query.more() == [(1,), (2,), (3,)]
