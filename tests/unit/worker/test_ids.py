"""Random ids: the generator that is used where the hot path is compiled, and what is drawn from where."""

from __future__ import annotations

import random
from array import array

import pytest

from tupletree.worker.core.ids import RandomIds, Xoshiro

SEED = 1 | 2 << 64 | 3 << 128 | 4 << 192


def numbers(seed: int, count: int) -> list[int]:
    filled = array("Q", bytes(8 * count))
    Xoshiro(seed).fill(filled)
    return filled.tolist()


def test_the_first_numbers_are_those_of_the_reference_implementation() -> None:
    # Of xoshiro256** with the state (1, 2, 3, 4), as the tests of other implementations give them.
    assert numbers(SEED, 6) == [11520, 0, 1509978240, 1215971899390074240, 1216172134540287360, 607988272756665600]


def test_a_second_filling_goes_on_where_the_first_ended() -> None:
    generator, first, second = Xoshiro(SEED), array("Q", bytes(24)), array("Q", bytes(24))
    generator.fill(first)
    generator.fill(second)
    assert [*first, *second] == numbers(SEED, 6)


@pytest.mark.parametrize("is_seeded", [True, False])
def test_every_bit_of_the_ids_is_set_about_half_of_the_time(is_seeded: bool) -> None:
    ids = RandomIds(random.Random(5).getrandbits, 256, is_seeded)
    count = 20_000
    drawn = [ids.draw() for _ in range(count)]
    assert len(set(drawn)) == count
    for bit in range(64):
        ones = sum(number >> bit & 1 for number in drawn)
        assert abs(ones - count / 2) < 6 * (count / 4) ** 0.5, f"bit {bit}: {ones} of {count}"


@pytest.mark.parametrize("is_seeded", [True, False])
def test_ids_of_one_seed_are_the_same_each_time_and_of_another_seed_others(is_seeded: bool) -> None:
    def drawn(seed: int) -> list[int]:
        ids = RandomIds(random.Random(seed).getrandbits, 8, is_seeded)
        return [ids.draw() for _ in range(100)]

    assert drawn(1) == drawn(1)
    assert not set(drawn(1)) & set(drawn(2))


@pytest.mark.parametrize("is_seeded", [True, False])
def test_bits_are_asked_for_once_as_a_seed_or_each_time_as_ids(is_seeded: bool) -> None:
    asked: list[int] = []

    def given(bits: int) -> int:
        asked.append(bits)
        return 7 | 8 << 192

    ids = RandomIds(given, 4, is_seeded)
    drawn = [ids.draw() for _ in range(8)]
    assert asked == ([256] if is_seeded else [256, 256])
    assert drawn == (numbers(7 | 8 << 192, 8) if is_seeded else [7, 0, 0, 8] * 2)
