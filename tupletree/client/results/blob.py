"""A blob as a client sees it. Pure."""

from __future__ import annotations  # pure

from dataclasses import dataclass, field

from tupletree.client.results.conversion import Result
from tupletree.v1 import nimbus_pb2, topology_pb2


@dataclass(frozen=True, slots=True)
class BlobRecord(Result):
    """A file for workers, as nimbus has stored it.

    Attributes:
        version: 1 when it was put; each update has the next number.
        users: who may change it, besides its owner.
        readonly_users: who may read it, but not change it.
    """

    key: str
    version: int
    sha256: str
    bytes: int
    owner: str
    created_unix_s: float
    updated_unix_s: float
    users: tuple[str, ...]
    readonly_users: tuple[str, ...]
    raw: topology_pb2.BlobRecord = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class BlobSummary(Result):
    """A blob, and the names of the topologies that name it, as far as the caller may see them."""

    record: BlobRecord
    topologies: tuple[str, ...]
    raw: nimbus_pb2.BlobSummary = field(repr=False, compare=False)
