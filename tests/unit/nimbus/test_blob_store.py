"""The blob store on a real directory."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tupletree.errors import NotFoundError, UsageError
from tupletree.nimbus.submission.blob_store import BlobStore

DATA = b"bundle" * 100
SHA = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    one = BlobStore(tmp_path / "blobs")
    one.open()
    return one


def store(blobs: BlobStore) -> None:
    with blobs.receive(SHA, len(DATA)) as incoming:
        incoming.write(DATA[:10])
        incoming.write(DATA[10:])
        incoming.verify()
        incoming.publish()


def test_a_blob_is_there_once_it_is_published(blobs: BlobStore) -> None:
    assert not blobs.has(SHA, len(DATA))
    store(blobs)
    store(blobs)
    assert blobs.has(SHA, len(DATA))
    assert blobs.digests() == {SHA}
    assert b"".join(blobs.read(SHA, 0, 7)) == DATA
    assert b"".join(blobs.read(SHA, 590, 7)) == DATA[590:]
    assert list(blobs.read(SHA, len(DATA), 7)) == []
    blobs.remove(SHA)
    blobs.remove(SHA)
    assert blobs.digests() == set()


def test_whatever_is_not_published_leaves_nothing(blobs: BlobStore, tmp_path: Path) -> None:
    for data in (DATA[:-1], DATA[:-1] + b"!", b""):
        with pytest.raises(UsageError, match="corrupt"), blobs.receive(SHA, len(DATA)) as incoming:
            incoming.write(data)
            incoming.verify()
    with pytest.raises(UsageError, match="more than the announced"), blobs.receive(SHA, 5) as incoming:
        incoming.write(DATA)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_blob_of_another_size_does_not_count(blobs: BlobStore) -> None:
    store(blobs)
    assert not blobs.has(SHA, len(DATA) + 1)


def test_what_is_missing_is_not_found_and_a_path_is_no_digest(blobs: BlobStore) -> None:
    with pytest.raises(NotFoundError, match="has no bundle"):
        blobs.read(SHA, 0, 7)
    with pytest.raises(UsageError, match="64 hexadecimal digits"):
        blobs.read("../../etc/passwd", 0, 7)


def test_a_place_that_is_no_directory_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"cannot use .*file.* as blob store"):
        BlobStore(tmp_path / "file").open()
