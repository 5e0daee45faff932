"""Manifests: the steps of a checkpoint, the segments that a copy lacks, and when segments are merged."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tupletree.errors import UsageError
from tupletree.state.rocksdb.manifests import (
    MAX_SEGMENTS,
    MERGED_SEGMENTS,
    Manifest,
    Merge,
    Segment,
    decode_manifest,
    encode_manifest,
    left_over,
    manifest_name,
    manifest_number,
    opened,
    planned_merge,
    segment_name,
    temporary_name,
)

FIRST = opened(None, "words/count/0", "w", "l")


def segments(*sizes: int) -> tuple[Segment, ...]:
    """One for each checkpoint."""
    return tuple(Segment(f"segment-{txid}", txid, size) for txid, size in enumerate(sizes, 1))


def test_a_manifest_follows_another_through_a_checkpoint() -> None:
    assert (FIRST.number, FIRST.owner, FIRST.committed, FIRST.prepared) == (1, 1, None, None)
    (one, two) = segments(10, 20)
    prepared = FIRST.preparing(one)
    assert (prepared.number, prepared.committed, prepared.prepared, prepared.files) == (2, None, one, {"segment-1"})
    committed = prepared.committing()
    assert (committed.number, committed.committed, committed.prepared, committed.segments) == (3, 1, None, (one,))
    assert committed.preparing(two).rolled_back() == replace(committed, number=5)
    again = opened(committed.preparing(two), "words/count/0", "v", "other")
    assert (again.number, again.owner, again.writer, again.lineage, again.prepared) == (5, 5, "v", "l", two)
    assert again.committing().segments == (one, two)


def test_a_checkpoint_without_changes_has_no_segment() -> None:
    manifest = FIRST.preparing(Segment("", 7, 0))
    assert manifest.files == frozenset()
    assert (manifest.committing().committed, manifest.committing().segments) == (7, ())


def test_a_merge_takes_the_place_of_what_it_has() -> None:
    found = segments(10, 20, 30, 40)
    manifest = replace(FIRST, committed=4, segments=found).preparing(Segment("segment-5", 5, 1))
    merge = Merge(found[1:3], Segment("merged", 3, 50))
    names = [segment.name for segment in manifest.committing(merge).segments]
    assert names == ["segment-1", "merged", "segment-4", "segment-5"]


def test_a_copy_lacks_what_came_after_it() -> None:
    found = segments(10, 20, 30)
    manifest = replace(FIRST, committed=3, segments=found)
    assert manifest.missing_after(None) is None
    assert manifest.missing_after(1) == found[1:]
    assert manifest.missing_after(3) == ()
    assert replace(manifest, segments=(Segment("merged", 3, 60),)).missing_after(2) is None
    assert FIRST.missing_after(1) == ()
    later = replace(manifest, segments=(found[0], Segment("merged", 3, 50)))
    assert later.missing_after(2) == (Segment("merged", 3, 50),)  # it may be applied as a whole


@given(
    committed=st.none() | st.integers(0, 1 << 60),
    sizes=st.lists(st.integers(0, 1 << 50), max_size=5),
    prepared=st.none() | st.just(Segment("", 9, 0)),
)
def test_a_manifest_is_read_as_it_was_written(
    committed: int | None, sizes: list[int], prepared: Segment | None
) -> None:
    manifest = replace(FIRST, namespace='wörter/"0"', committed=committed, segments=segments(*sizes), prepared=prepared)
    assert decode_manifest("path", encode_manifest(manifest)) == manifest


@given(data=st.data())
def test_no_byte_of_a_manifest_can_change_unnoticed(data: st.DataObject) -> None:
    whole = encode_manifest(replace(FIRST, segments=segments(1, 2)))
    at = data.draw(st.integers(0, len(whole) - 2))  # not the end of the line
    changed = whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :]
    with pytest.raises(UsageError, match=r"^/states/manifest is damaged, since it does not have the checksum"):
        decode_manifest("/states/manifest", changed)
    with pytest.raises(UsageError, match=r"^/states/manifest is damaged"):
        decode_manifest("/states/manifest", whole[:at])


def test_a_manifest_of_a_newer_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tupletree.state.rocksdb.manifests.FORMAT", 2)
    newer = encode_manifest(FIRST)
    monkeypatch.undo()
    with pytest.raises(
        UsageError, match=r"^path has format 2, and this version of Tupletree knows formats up to 1: a n"
    ):
        decode_manifest("path", newer)


def test_what_earlier_writers_have_left_is_no_longer_needed() -> None:
    used, unused, later = segment_name(3, 1, "v"), segment_name(3, 2, "v"), segment_name(6, 1, "w")
    manifest = Manifest("words", "l", 5, "w", 5, 1, (Segment(used, 1, 10),))
    names = [used, unused, later, manifest_name(4), manifest_name(5), manifest_name(6), temporary_name(2, "v")]
    assert left_over([*names, "README"], manifest) == [unused, manifest_name(4), temporary_name(2, "v")]
    assert [manifest_number(name) for name in names] == [0, 0, 0, 4, 5, 6, 0]


def test_segments_are_merged_when_several_are_of_a_size() -> None:
    large = 1_000_000
    assert planned_merge(segments(*[10] * (MERGED_SEGMENTS - 1))) == ()
    assert planned_merge(segments(large, *[10] * (MERGED_SEGMENTS - 1))) == ()
    many = segments(large, *[10] * MERGED_SEGMENTS)
    assert planned_merge(many) == many[1:]
    mixed = segments(large, 1_000, *[10] * MERGED_SEGMENTS)
    assert planned_merge(mixed) == mixed[2:]  # and not those that are much larger


def test_the_first_segment_is_written_again_when_the_others_have_half_of_its_bytes() -> None:
    found = segments(100, *[8] * MERGED_SEGMENTS)
    assert planned_merge(found) == found
    assert planned_merge(segments(130, *[8] * MERGED_SEGMENTS)) == segments(130, *[8] * MERGED_SEGMENTS)[1:]


@given(sizes=st.lists(st.integers(1, 5_000), min_size=1, max_size=300))
def test_however_large_checkpoints_are_segments_stay_few(sizes: list[int]) -> None:
    found: tuple[Segment, ...] = ()
    for txid, size in enumerate(sizes, 1):
        found = (*found, Segment(f"segment-{txid}", txid, size))
        sources = planned_merge(found)
        if sources:
            result = Segment(f"merged-{txid}", txid, sum(source.size for source in sources))
            found = Merge(sources, result).applied(found)
        assert len(found) <= MAX_SEGMENTS
        assert sum(segment.size for segment in found) == sum(sizes[:txid])


@pytest.mark.parametrize(("first", "most"), [(0, 6.0), (1_000, 5.0)])
def test_a_byte_that_changed_is_written_again_a_few_times(first: int, most: float) -> None:
    """``first``: the size of a state that does not grow, in sizes of a checkpoint; 0 for one that does nothing else."""
    found = segments(first) if first else ()
    written = 0
    for txid in range(2, 10_002):
        found = (*found, Segment(f"segment-{txid}", txid, 1))
        sources = planned_merge(found)
        if sources:
            whole = sources[0] == found[0] and first
            size = first if whole else sum(source.size for source in sources)
            written += size
            found = Merge(sources, Segment(f"merged-{txid}", txid, size)).applied(found)
    assert written / 10_000 < most
