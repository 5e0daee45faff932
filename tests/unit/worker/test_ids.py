"""Random ids: the generator that is used where the hot path is compiled, and what is drawn from where."""

from __future__ import annotations

import random
from array import array

from tupletree.worker.ids import IS_COMPILED, RandomIds, Xoshiro

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


def test_every_bit_of_the_ids_is_set_about_half_of_the_time() -> None:
    ids = RandomIds(random.Random(5).getrandbits, 256)
    count = 20_000
    drawn = [ids.draw() for _ in range(count)]
    assert len(set(drawn)) == count
    for bit in range(64):
        ones = sum(number >> bit & 1 for number in drawn)
        assert abs(ones - count / 2) < 6 * (count / 4) ** 0.5, f"bit {bit}: {ones} of {count}"


def test_ids_of_one_seed_are_the_same_each_time_and_of_another_seed_others() -> None:
    def drawn(seed: int) -> list[int]:
        ids = RandomIds(random.Random(seed).getrandbits, 8)
        return [ids.draw() for _ in range(100)]

    assert drawn(1) == drawn(1)
    assert not set(drawn(1)) & set(drawn(2))


def test_one_at_a_time_ids_are_the_given_bits_and_many_at_a_time_ask_once() -> None:
    asked: list[int] = []

    def given(bits: int) -> int:
        asked.append(bits)
        return len(asked)

    one = RandomIds(given, 1)
    assert [one.draw(), one.draw(), asked] == [1, 2, [64, 64]]
    del asked[:]
    many = RandomIds(given, 4)
    many.draw()
    assert asked == [256]  # the bits of four ids, or where compiled a seed
    for _ in range(7):
        many.draw()
    assert asked == ([256] if IS_COMPILED else [256, 256])
