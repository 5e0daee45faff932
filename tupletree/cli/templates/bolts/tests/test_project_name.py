"""The bolts one by one, and the topology on rows of the test, in this process and without a cluster."""

from tupletree.testing import complete_topology, run_bolt

from project_name import Count, split, topology


def test_a_line_is_split_into_words() -> None:
    recorder = run_bolt(split, [{"line": "To be, or not"}])
    assert recorder.rows() == [["to"], ["be"], ["or"], ["not"]]


def test_words_are_counted() -> None:
    count = Count()
    run_bolt(count, [{"word": "to"}, {"word": "be"}, {"word": "to"}])
    assert dict(count.state.items()) == {"to": 2, "be": 1}


def test_every_line_is_processed() -> None:
    result = complete_topology(topology(), {"lines": [["to be"], ["or not to be"]]})
    assert sorted(result["split"]) == [["be"], ["be"], ["not"], ["or"], ["to"], ["to"]]
