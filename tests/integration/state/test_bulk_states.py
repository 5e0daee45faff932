"""States that are filled and scanned in bulk, in a shared directory and in an object store."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from state_places import State, StatePlace

from tupletree._wire.codec import encode_value
from tupletree.errors import AuthorityError
from tupletree.state.providers import bulk_opener
from tupletree.state.rocksdb import bulk


@pytest.fixture(params=["rocksdb", "objects"])
def place(request: pytest.FixtureRequest, place_of: Callable[[str], StatePlace]) -> StatePlace:
    return place_of(request.param)


def test_a_state_that_was_filled_in_bulk_goes_on(
    place: StatePlace, opened: Callable[..., State], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "MAX_SEGMENTS", 2)
    open_bulk = bulk_opener(
        {"topology.state.provider": "rocksdb", "topology.state.provider.config": place.provider_config}
    )
    assert open_bulk is not None
    filled, abandoned = open_bulk("words/count/0"), open_bulk("words/count/1")
    for number in (3, 1, 2, 4, 0):
        for state in (filled, abandoned):
            state.add([(encode_value(f"word {number}"), encode_value(number)), (encode_value("word 5"), b"\x05")])
    assert (filled.committed, list(filled.scan_encoded())) == (None, [])
    filled.fill(7)
    for one in (filled, abandoned):
        one.close()
    words = {f"word {number}": number for number in range(6)}
    state = opened("words/count/0")
    assert (state.committed, dict(state.items())) == (7, words)
    state.put("word 1", 10)
    state.prepare_commit(8)
    with pytest.raises(AuthorityError):
        filled.rollback()
    again = open_bulk("words/count/0")
    again.commit(8)
    again.commit(8)
    assert dict(entry for page in again.scan_encoded() for entry in page)[encode_value("word 1")] == encode_value(10)
    again.close()
    assert open_bulk("words/count/1").committed is None
