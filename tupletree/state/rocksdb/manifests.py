"""The manifests of a state: which segments make it up, who writes it, and which checkpoint is prepared.

A manifest is a file that is written once. Each step of a checkpoint, and each opening of the state, writes the next.
The one with the highest number is valid. A number can be taken once, so that a writer that takes the next one has seen
the latest.

    manifest-0000000007.json     3f1c09aa {"format": 1, "namespace": "words/count/0", "lineage": ..., ...}
                                 CRC-32   what Manifest has

    opened      writer and owner are new
    prepared    prepared names the segment with the changes
    committed   the prepared segment is the last of the segments; merged segments take the place of those that they have
    rolled back prepared is None
    filled      committed, and the segments are those of the whole content, with keys of any order (bulk.py)
    removed     where a folder cannot be removed in one step: without a writer, and empty

*Segments* go from the oldest to the newest. A key has the value of the newest segment that has the key. The first
segment has no deletions, since nothing is below it.
"""

from __future__ import annotations  # pure

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final
from zlib import crc32

from tupletree.errors import UsageError
from tupletree.state.rocksdb.segments import damaged

FORMAT: Final = 1

_NAME: Final = re.compile(r"manifest-(\d{10,})\.json")
_OWNED: Final = re.compile(r"(?:segment|new)-(\d{10,})-")


@dataclass(frozen=True, slots=True)
class Segment:
    """A file of changes up to a checkpoint. ``name``: "" if nothing had changed, and there is no file."""

    name: str
    txid: int
    size: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """The state after one step. ``lineage``: random, made with the first manifest: another state of the same name has
    another. ``writer``: random, made by each opening. ``owner``: the number of the manifest that the opening wrote.
    """

    namespace: str
    lineage: str
    number: int
    writer: str
    owner: int
    committed: int | None = None
    segments: tuple[Segment, ...] = ()
    prepared: Segment | None = None

    @property
    def file_name(self) -> str:
        return manifest_name(self.number)

    @property
    def files(self) -> frozenset[str]:
        """The segments that the manifest needs."""
        prepared = () if self.prepared is None else (self.prepared,)
        return frozenset(segment.name for segment in (*self.segments, *prepared) if segment.name)

    @property
    def is_removed(self) -> bool:
        """True if the state was removed, and this is all that is left."""
        return self.writer == ""

    def preparing(self, segment: Segment) -> Manifest:
        return replace(self, number=self.number + 1, prepared=segment)

    def committing(self, merge: Merge | None = None) -> Manifest:
        """Return the manifest after the commit of what is prepared, and after a merge of older segments."""
        assert self.prepared is not None
        segments = self.segments if merge is None else merge.applied(self.segments)
        if self.prepared.name:
            segments = (*segments, self.prepared)
        txid = self.prepared.txid
        return replace(self, number=self.number + 1, committed=txid, segments=segments, prepared=None)

    def rolled_back(self) -> Manifest:
        return replace(self, number=self.number + 1, prepared=None)

    def filled(self, txid: int, segments: Sequence[Segment]) -> Manifest:
        """Return the manifest of a state that gets its whole content at once. The segments have no deletions."""
        content = tuple(replace(segment, txid=txid) for segment in segments)
        return replace(self, number=self.number + 1, committed=txid, segments=content, prepared=None)

    def missing_after(self, txid: int | None) -> tuple[Segment, ...] | None:
        """Return the segments that a copy of the state at ``txid`` lacks; None if it must be made anew.

        A segment that begins before ``txid`` may be applied as a whole: it has the last value of each of its keys. The
        first segment may not, since it lacks the deletions.
        """
        if txid is None or (self.segments and self.segments[0].txid > txid):
            return None
        return tuple(segment for segment in self.segments if segment.txid > txid)


@dataclass(frozen=True, slots=True)
class Merge:
    """A segment that takes the place of those that it was made of, which follow one another."""

    sources: tuple[Segment, ...]
    result: Segment

    def applied(self, segments: tuple[Segment, ...]) -> tuple[Segment, ...]:
        begin = segments.index(self.sources[0])
        end = begin + len(self.sources)
        assert segments[begin:end] == self.sources
        return (*segments[:begin], self.result, *segments[end:])


def opened(last: Manifest | None, namespace: str, writer: str, lineage: str) -> Manifest:
    """Return the manifest by which a writer takes a state over. ``lineage``: of a state that does not exist yet."""
    if last is None:
        return Manifest(namespace, lineage, 1, writer, 1)
    return replace(last, number=last.number + 1, writer=writer, owner=last.number + 1)


def removed(namespace: str, lineage: str, number: int) -> Manifest:
    """Return the manifest that takes the number after the last one, so that no writer of a removed state can.

    It has no writer. Who opens the state begins with an empty one, with the next number.
    """
    return Manifest(namespace, lineage, number + 1, "", number + 1)


def manifest_name(number: int) -> str:
    """Return the name of a manifest's file."""
    return f"manifest-{number:010}.json"


def segment_name(owner: int, count: int, writer: str) -> str:
    """Return the name of the ``count``-th segment of a writer, which no other has, of no state before or after."""
    return f"segment-{owner:010}-{count}-{writer[:12]}"


def temporary_name(owner: int, writer: str) -> str:
    """Return the name under which a writer writes its manifests."""
    return f"new-{owner:010}-{writer}"


def manifest_number(name: str) -> int:
    """Return the number of a manifest's file, 0 for another file."""
    found = _NAME.fullmatch(name)
    return 0 if found is None else int(found.group(1))


def left_over(names: Sequence[str], manifest: Manifest) -> list[str]:
    """Return the files that nobody needs after a writer has taken a state over with ``manifest``.

    Earlier writers cannot write a manifest any more, so that no manifest will ever name what they left. Of the files of
    later writers nothing is known.
    """
    found = []
    for name in names:
        owned = _OWNED.match(name)
        is_of_before = owned is not None and int(owned.group(1)) < manifest.owner and name not in manifest.files
        if is_of_before or 0 < manifest_number(name) < manifest.number:
            found.append(name)
    return found


def encode_manifest(manifest: Manifest) -> bytes:
    """Return the content of a manifest's file."""
    text = json.dumps({"format": FORMAT, **asdict(manifest)}).encode()
    return b"%08x %s\n" % (crc32(text), text)


def decode_manifest(path: str, data: bytes) -> Manifest:
    """Return a manifest. Raises UsageError if the file is damaged or has a newer format."""
    checksum, _, text = data.rstrip(b"\n").partition(b" ")
    if checksum != b"%08x" % crc32(text):
        raise damaged(path)
    content: dict[str, Any] = json.loads(text)
    found = content.pop("format")
    if found > FORMAT:
        raise UsageError(
            f"{path} has format {found}, and this version of Tupletree knows formats up to {FORMAT}: a newer version "
            f"has written it"
        )
    segments = tuple(Segment(**segment) for segment in content.pop("segments"))
    prepared = content.pop("prepared")
    return Manifest(**content, segments=segments, prepared=None if prepared is None else Segment(**prepared))


MERGED_SEGMENTS: Final = 8
"""The least number of segments that are worth a merge."""

MAX_SEGMENTS: Final = 64
"""The number of segments from which on all but the first are merged, whatever their sizes."""


def planned_merge(segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """Return the newest segments that should be merged now, or () if none should be.

    A merge costs what it writes. So it takes only segments of similar size, none with more than a quarter of the
    bytes: an entry is then written again only when the segment that has it grows to four times its size. The first
    segment, which has the whole state, is written again when the others have half of its bytes.
    """
    sizes = [segment.size for segment in segments]
    if len(sizes) < MERGED_SEGMENTS:
        return ()
    if 2 * sum(sizes[1:]) >= sizes[0]:
        return tuple(segments)
    for begin in range(1, len(sizes) - MERGED_SEGMENTS + 1):
        if 4 * max(sizes[begin:]) <= sum(sizes[begin:]):
            return tuple(segments[begin:])
    return tuple(segments[1:]) if len(sizes) >= MAX_SEGMENTS else ()
