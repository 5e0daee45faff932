"""Readers of a state in an object store whose segments are merged and deleted while they read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from obstore.store import MemoryStore

from tupletree.errors import AuthorityError, UnavailableError
from tupletree.state.rocksdb.manifests import Merge
from tupletree.state.rocksdb.object_store import ObjectStore
from tupletree.state.rocksdb.reader import SharedReader
from tupletree.state.rocksdb.segments import Entry
from tupletree.state.rocksdb.shared import SharedWriter
from tupletree.state.sizes import SizePrecision

NAMESPACE = "words/count/0"
ENTRIES = [(b"%05d" % number, b"x" * 1000) for number in range(1000)]


class Interrupting:
    """A client of an object store that calls ``before_range`` before the next read of a range."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.before_range: Callable[[], object] = lambda: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def get_range(self, *arguments: Any, **named: Any) -> Any:
        before, self.before_range = self.before_range, lambda: None
        before()
        return self._client.get_range(*arguments, **named)


@pytest.fixture
def client() -> Any:
    return Interrupting(MemoryStore())


@pytest.fixture
def writer(client: Any) -> SharedWriter:
    writer = SharedWriter(NAMESPACE, ObjectStore("s3://bucket/states", client))
    write(writer, 1, ENTRIES)
    return writer


@pytest.fixture
def reader(client: Any, writer: SharedWriter) -> SharedReader:
    reader = SharedReader(NAMESPACE, ObjectStore("s3://bucket/states", client))
    assert reader.get(b"00001") is not None
    return reader


def write(writer: SharedWriter, txid: int, entries: list[Entry], merge: Merge | None = None) -> None:
    writer.advance(writer.manifest.preparing(writer.write(txid, entries)))
    writer.advance(writer.manifest.committing(merge))
    writer.clean()


def merge_all(writer: SharedWriter) -> None:
    """Commit a change with a merge of what there is, and delete what was merged."""
    before = writer.manifest.segments
    with writer.segments(before) as files:
        merged = writer.write(before[-1].txid, files.entries())
    write(writer, before[-1].txid + 1, [(b"00500", b"changed")], Merge(before, merged))


@pytest.mark.parametrize("key", [b"00400", b"00500"])
def test_a_value_is_read_although_its_segment_goes(
    client: Any, reader: SharedReader, writer: SharedWriter, key: bytes
) -> None:
    client.before_range = lambda: merge_all(writer)
    assert reader.get(key) == (b"changed" if key == b"00500" else b"x" * 1000)


def test_a_page_is_of_one_checkpoint_although_its_segments_go(
    client: Any, reader: SharedReader, writer: SharedWriter
) -> None:
    client.before_range = lambda: merge_all(writer)
    assert reader.scan(b"", 1000, 1 << 30) == [*ENTRIES[:500], (b"00500", b"changed"), *ENTRIES[501:]]


def test_a_segment_that_is_missing_is_said(client: Any, reader: SharedReader, writer: SharedWriter) -> None:
    [segment] = writer.manifest.segments
    client.before_range = lambda: client.delete([f"{reader._shared.path.rpartition('/')[2]}/{segment.name}"])
    with pytest.raises(UnavailableError, match=segment.name):
        reader.get(b"00400")


def test_a_writer_that_is_replaced_at_once_does_not_blame_its_store(client: Any) -> None:
    """Its first manifest is deleted by its successor, before it is written again to see that it is refused."""
    successors: list[SharedWriter] = []

    class Successor(Interrupting):
        def put(self, key: str, data: bytes, **named: Any) -> Any:
            done = self._client.put(key, data, **named)
            if not successors:
                successors.append(SharedWriter(NAMESPACE, ObjectStore("s3://bucket/states", client)))
            return done

    late = SharedWriter(NAMESPACE, ObjectStore("s3://bucket/states", Successor(client)))
    assert late.manifest.number == successors[0].manifest.number + 1
    assert late.refresh() == late.manifest
    with pytest.raises(AuthorityError):
        successors[0].refresh()


def test_a_measurement_asks_only_once_what_there_is(client: Any, writer: SharedWriter) -> None:
    write(writer, 2, [(b"%05d" % number, b"y" * 1000) for number in range(500, 12_000)])
    lists = []

    class Counting(Interrupting):
        def list(self, *arguments: Any, **named: Any) -> Any:
            lists.append(arguments)
            return self._client.list(*arguments, **named)

    reader = SharedReader(NAMESPACE, ObjectStore("s3://bucket/states", Counting(client)))
    size = reader.size()
    assert (size.precision, 11_000 < size.keys < 14_000) == (SizePrecision.ABOUT, True)
    assert len(lists) == 2, "for the entries that are counted, and for what the store knows"
    reader.close()
