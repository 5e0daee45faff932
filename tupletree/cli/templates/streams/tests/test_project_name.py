"""The program on lines of the test, in this process and without a cluster."""

from tupletree.streams import StreamBuilder

from project_name import count_words, topology, words


def test_a_line_has_words() -> None:
    assert words("To be, or not to be!") == ["to", "be", "or", "not", "to", "be"]


def test_words_are_counted() -> None:
    counts = count_words(StreamBuilder().source(["to be", "or not to be"]))
    assert dict(counts.items().collect(100)) == {"to": 2, "be": 2, "or": 1, "not": 1}


def test_the_topology_can_be_built() -> None:
    assert "lines" in topology().components
