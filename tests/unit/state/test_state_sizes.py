"""Sizes of states: what is counted, what is estimated, and how evenly tasks have it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tupletree.state import reader as readers
from tupletree.state.reader import Entries, MappingReader, StateReader, bounded
from tupletree.state.sizes import Counted, Known, SizePrecision, StateSize, Tally, estimated, share_of, spread_of

SIZES = st.builds(StateSize, st.integers(0, 1 << 50), st.integers(0, 1 << 60), st.sampled_from(SizePrecision))


class Scanned(StateReader):
    """A reader that has no more than it must."""

    def __init__(self, entries: dict[bytes, bytes]) -> None:
        self._entries = sorted(entries.items())

    @property
    def committed(self) -> int | None:
        return 1

    def get(self, key: bytes) -> bytes | None:
        return dict(self._entries).get(key)

    def scan(self, after: bytes, limit: int, max_bytes: int) -> Entries:
        return bounded(((key, value) for key, value in self._entries if key > after), limit, max_bytes)


def entries(number: int, size: int = 6) -> dict[bytes, bytes]:
    return {b"%04d" % key: bytes(size) for key in range(number)}


@pytest.mark.parametrize("number", [0, 1, 999, 1000, 1001, 2000])
def test_a_state_below_the_limit_is_counted_whole(number: int) -> None:
    expected = StateSize(number, 10 * number)
    assert Scanned(entries(number)).size() == expected
    assert MappingReader(1, entries(number)).size() == expected


def test_a_larger_one_has_at_least_what_was_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "MAX_COUNTED", 2000)
    assert Scanned(entries(2000)).size() == StateSize(2000, 20_000)
    assert Scanned(entries(2001)).size() == StateSize(2000, 20_000, SizePrecision.AT_LEAST)
    assert MappingReader(1, entries(3000)).size() == StateSize(3000, 30_000, SizePrecision.ABOUT)


def test_few_large_values_are_not_read_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "MAX_COUNTED_BYTES", 3_000_000)
    found = Scanned(entries(10, 996_000)).size()
    assert found.precision is SizePrecision.AT_LEAST
    assert 3 <= found.keys < 10


def test_what_a_store_knows_tells_the_rest_in_proportion() -> None:
    some = Counted(100, 5_000, False)
    assert estimated(some, Known(keys=1_000)) == StateSize(1_000, 50_000, SizePrecision.ABOUT)
    assert estimated(some, Known(bytes=50_000)) == StateSize(1_000, 50_000, SizePrecision.ABOUT)
    assert estimated(some, Known(10, 10)) == StateSize(100, 5_000, SizePrecision.ABOUT)  # what was counted is there
    assert estimated(some, Known()) == StateSize(100, 5_000, SizePrecision.AT_LEAST)
    assert estimated(Counted(0, 0, False), Known(keys=7)) == StateSize(7, 0, SizePrecision.ABOUT)


@given(st.integers(0, 10**6), st.integers(0, 10**9), st.none() | st.integers(0, 10**9), st.none() | st.integers(0))
def test_an_estimate_is_never_less_than_what_was_counted(
    keys: int, size: int, all_keys: int | None, all_bytes: int | None
) -> None:
    found = estimated(Counted(keys, size, False), Known(all_keys, all_bytes))
    assert found.keys >= keys
    assert found.bytes >= size
    assert found.precision is not SizePrecision.EXACT


def test_the_largest_entries_are_named_and_keys_that_are_too_long_are_not() -> None:
    sizes = {b"a": 5, b"b": 50, b"c": 7, b"d": 8, b"e": 9, b"f": 10, b"k" * 5_000: 1}
    stored = {key: bytes(size) for key, size in sizes.items()}
    for reader in (Scanned(stored), MappingReader(1, stored)):
        assert reader.size() == StateSize(7, sum(map(len, stored)) + sum(sizes.values()))
        assert [(one.key, one.size) for one in reader.size().largest] == [
            (b"b", 51),
            (b"f", 11),
            (b"e", 10),
            (b"d", 9),
            (b"c", 8),
        ]


@given(st.lists(st.dictionaries(st.binary(max_size=3), st.binary(max_size=9)), max_size=4))
def test_the_largest_of_pages_are_the_largest_of_all(pages: list[dict[bytes, bytes]]) -> None:
    tally = Tally()
    for page in pages:
        tally.add(page.items())
    everything = {(len(key) + len(value), key) for page in pages for key, value in page.items()}
    assert list(tally.counted(is_all=True).largest) == sorted(everything, reverse=True)[:5]


def test_skew_is_the_largest_over_the_mean() -> None:
    found = spread_of([StateSize(10, 300), StateSize(30, 300), StateSize(20, 0, SizePrecision.ABOUT)])
    assert found.total == StateSize(60, 600, SizePrecision.ABOUT)
    assert (found.key_skew, found.byte_skew) == (1.5, 1.5)
    assert spread_of([StateSize(3, 0)] * 4).key_skew == 1.0
    assert spread_of([StateSize(0, 0)] * 4).key_skew is None
    assert spread_of([]).total == StateSize(0, 0)
    assert spread_of([StateSize(1, 1)], unknown=1).total.precision is SizePrecision.AT_LEAST
    assert (share_of(1, 4), share_of(0, 0)) == (0.25, None)


@given(st.lists(SIZES, min_size=1, max_size=20), st.integers(0, 2))
def test_skew_is_between_one_and_the_number_of_tasks(sizes: list[StateSize], unknown: int) -> None:
    found = spread_of(sizes, unknown=unknown)
    assert spread_of(reversed(sizes), unknown=unknown) == found
    for skew, whole in ((found.key_skew, found.total.keys), (found.byte_skew, found.total.bytes)):
        assert (skew is None) == (whole == 0)
        assert skew is None or 0.999 <= skew <= len(sizes) * 1.001
