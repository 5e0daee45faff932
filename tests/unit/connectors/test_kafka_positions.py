"""Names and numbers of Kafka's partitions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tupletree.connectors.kafka.positions import Place, names, numbers, place_named, place_of


@given(st.lists(st.integers(0, 9), min_size=1, max_size=4))
def test_every_partition_has_one_number_of_those_that_are_asked_for(counts: list[int]) -> None:
    topics = [f"topic-{index}" for index in range(len(counts))]
    by_topic = dict(zip(topics, counts, strict=True))
    found = [place_of(number, topics) for number in range(numbers(topics, by_topic))]
    wanted = {Place(topic, number) for topic, count in zip(topics, counts, strict=True) for number in range(count)}
    assert len(set(found)) == len(found)
    assert wanted <= set(found)
    assert [name and place_named(name) for name in names(topics, by_topic)] == [
        place if place in wanted else "" for place in found
    ]


def test_growth_of_any_topic_adds_numbers_and_changes_none() -> None:
    topics = ["a", "b"]
    before = names(topics, {"a": 2, "b": 1})
    assert before == ["a/0", "b/0", "a/1"]
    assert names(topics, {"a": 2, "b": 3}) == [*before, "b/1", "", "b/2"]
