"""What a topology may have written where its progress is: shown to whoever asks, or refused in one sentence."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from tupletree._checkpoints.coordinator import Phase
from tupletree._checkpoints.record import checkpoint_path, load_checkpoint
from tupletree._checkpoints.record import epoch_path as checkpoint_epoch_path
from tupletree._stores.memory_nodes import MemoryStore
from tupletree._stores.node_encoding import FORMAT, encode_stored
from tupletree._stores.nodes import Create
from tupletree.errors import InternalError
from tupletree.transactional.layout import epoch_path, metadata_folder, progress_path
from tupletree.transactional.status import load_status


def deep(depth: int) -> bytes:
    """A value nested by extensions, as the audited node was."""
    data = b"\x01"
    for _ in range(depth):
        inner = b"\x91" + data
        data = b"\xc8" + len(inner).to_bytes(2, "big") + b"\x01" + inner
    return data


FOREIGN = [
    b"\x92\x01" + deep(400),
    b"\x93\x01\x05" + deep(400),
    b"\x92\x01" + b"\x91" * 2000 + b"\x01",
    b"\x91\x01",
    b"\x92\x01\xc1",
    bytes([0x93, FORMAT]) + msgpack.packb("five") + b"\xc0",
]


@pytest.mark.parametrize("data", FOREIGN)
def test_foreign_progress_is_refused_by_its_path(data: bytes) -> None:
    store = MemoryStore()
    store.write([Create(epoch_path("t"), encode_stored("", "me")), Create(progress_path("t"), data)])
    with pytest.raises(InternalError, match=progress_path("t")):
        load_status(store, "t")


@pytest.mark.parametrize("data", [*FOREIGN[:-1], b"\x92\x01\x05"])
def test_a_foreign_owner_is_refused_by_its_path(data: bytes) -> None:
    store = MemoryStore()
    store.write([Create(epoch_path("t"), data), Create(checkpoint_epoch_path("s"), data)])
    with pytest.raises(InternalError, match=epoch_path("t")):
        load_status(store, "t")
    with pytest.raises(InternalError, match="epoch"):
        load_checkpoint(store, "s")


@pytest.mark.parametrize(
    "values",
    [
        (1, "no phase", {}, 0),
        (1, Phase.COMMITTED.value, {1: 1}, 0),
        (1, Phase.COMMITTED.value, {"a": b"bytes"}, 0),
        (1, Phase.COMMITTED.value, {"a": [[[]]]}, 0),
        (1, Phase.COMMITTED.value, {("a", "b"): 1}, 0),
    ],
)
def test_a_foreign_checkpoint_is_refused_by_its_path(values: Any) -> None:
    store = MemoryStore()
    store.write(
        [
            Create(checkpoint_epoch_path("s"), encode_stored("", "me")),
            Create(checkpoint_path("s"), encode_stored("", *values)),
        ]
    )
    with pytest.raises(InternalError, match="checkpoint"):
        load_checkpoint(store, "s")


def test_a_node_that_is_no_transaction_is_passed_over() -> None:
    store = MemoryStore()
    store.write(
        [
            Create(epoch_path("t"), encode_stored("", "me")),
            Create(f"{metadata_folder('t')}/notes"),
            Create(f"{metadata_folder('t')}/7"),
        ]
    )
    assert load_status(store, "t").begun == 7
