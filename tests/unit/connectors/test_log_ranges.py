"""RangeFollower: every message of a share once, in order, in turns, with new partitions."""

from __future__ import annotations

import math
from collections import defaultdict

import pytest

from tupletree.connectors.log_ranges import RangeFollower
from tupletree.connectors.log_source import Assigned, Bounds, DeletedError, LogSource, Records
from tupletree.connectors.messages import LogRecord
from tupletree.errors import FailedException, ReportedFailedException


class Lists(LogSource):
    """Partitions are lists; the position of a message is ten times its index."""

    def __init__(self, lists, is_numbered=False):
        self.lists = lists
        self.is_numbered = is_numbered

    def open(self):
        pass

    def partitions(self):
        return list(self.lists)

    def bounds(self, partition):
        return Bounds(0, 10 * len(self.lists[partition]))

    def read(self, partition, start, end):
        for index in range(start // 10, end // 10):
            yield [LogRecord(self.lists[partition][index], 10 * index, 10 * index + 10)]

    def limited(self, partition, start, end, limit):
        return min(end, start + 10 * limit)

    def close(self):
        pass


def drain(follower, found, starts=None):
    events = None
    while events is None or events or follower.lag():
        events = follower.poll(2, 0.05)
        for event in events:
            if isinstance(event, Records):
                found[event.partition] += [record.data for record in event.records]
            elif isinstance(event, Assigned) and starts is not None:
                starts[event.partition] = event.start


@pytest.mark.parametrize("is_numbered", [True, False])
def test_shares_are_disjoint_and_whole(is_numbered):
    lists = {f"p{index}": [f"{index}/{message}" for message in range(index)] for index in range(7)}
    found = defaultdict(list)
    for task_index in range(3):
        own = defaultdict(list)
        drain(RangeFollower(Lists(lists, is_numbered), {}, task_index, 3), own)
        assert not set(own) & set(found)
        found |= own
    assert {name: messages for name, messages in found.items() if messages} == {
        name: messages for name, messages in lists.items() if messages
    }


def test_a_partition_without_a_position_begins_where_the_log_says():
    class FromTheEnd(Lists):
        begins_at_end = True

    lists = {"a": ["a0", "a1", "a2"], "b": ["b0"]}
    found, starts = defaultdict(list), {}
    follower = RangeFollower(FromTheEnd(lists), {"a": 10}, 0, 1)
    drain(follower, found, starts)
    lists["b"].append("b1")
    drain(follower, found)
    assert (found, starts) == ({"a": ["a1", "a2"], "b": ["b1"]}, {"a": 10, "b": 10})


def test_it_resumes_and_takes_new_messages_and_tells_of_its_lag():
    lists = {"a": ["a0", "a1", "a2"], "b": ["b0"]}
    found, starts = defaultdict(list), {}
    follower = RangeFollower(Lists(lists), {"a": 20}, 0, 1)
    drain(follower, found, starts)
    assert (found, starts) == ({"a": ["a2"], "b": ["b0"]}, {"a": 20, "b": 0})
    lists["b"] += ["b1", "b2", "b3"]
    assert follower.lag() == 30
    drain(follower, found)
    assert found["b"] == ["b0", "b1", "b2", "b3"]
    assert follower.lag() == 0


def test_a_new_partition_that_cannot_be_read_is_told_of_and_holds_up_no_other():
    class Damaged(Lists):
        def bounds(self, partition):
            if partition == "bad":
                raise FailedException("bad cannot be read")
            return super().bounds(partition)

    follower = RangeFollower(Damaged({"a": ["a0"], "bad": ["b0"], "c": ["c0"]}), {}, 0, 1)
    found = defaultdict(list)
    drain(follower, found)
    assert found == {"a": ["a0"], "c": ["c0"]}
    follower._look_at_s = 0.0
    with pytest.raises(FailedException, match="bad cannot be read"):
        follower.poll(2, 10)


class Failing(Lists):
    """Some partitions have shrunk, or fail while they are read."""

    def __init__(self, lists):
        super().__init__(lists)
        self.fails_in = {"shrunk": "limited", "unreadable": "read"}

    def limited(self, partition, start, end, limit):
        self._fail(partition, "limited")
        return super().limited(partition, start, end, limit)

    def read(self, partition, start, end):
        self._fail(partition, "read")
        yield from super().read(partition, start, end)

    def _fail(self, partition, where):
        if self.fails_in.get(partition) == where:
            raise FailedException(f"{partition} cannot be read")


def test_partitions_that_cannot_be_read_are_seldom_told_of_while_there_is_something_to_read():
    source = Failing({"a": ["a"] * 20, "shrunk": ["s"], "unreadable": ["u"]})
    follower = RangeFollower(source, {}, 0, 1)
    found, errors = defaultdict(list), []
    while len(found["a"]) < 20:
        try:
            drain_once(follower, found)
        except FailedException as error:
            errors.append(str(error))
    assert set(errors) == {"shrunk cannot be read", "unreadable cannot be read"}
    assert len(errors) < 10  # with one for each turn there were two for each two messages
    with pytest.raises(FailedException):  # nothing is left of others: the log is not at its end
        while True:
            drain_once(follower, found)
    source.fails_in.clear()
    follower._aside = {name: (0.0, error) for name, (_, error) in follower._aside.items()}  # time passes
    while len(found) < 3:
        drain_once(follower, found)
    assert (found["shrunk"], found["unreadable"]) == (["s"], ["u"])


def test_a_partition_that_is_gone_holds_up_no_other_and_resumes_when_it_is_back():
    lists = {"a": ["a0"], "b": ["b0"]}
    found = defaultdict(list)
    follower = RangeFollower(Lists(lists), {}, 0, 1)
    drain(follower, found)
    gone = lists.pop("a")
    lists["b"].append("b1")
    follower._look_at_s = 0.0
    drain(follower, found)
    assert (found["b"], follower.lag()) == (["b0", "b1"], 0)
    lists["a"] = [*gone, "a1"]
    follower._look_at_s = 0.0
    starts = {}
    drain(follower, found, starts)
    assert (found["a"], starts) == (["a0", "a1"], {}), "it is the same partition"


def test_partitions_take_turns():
    lists = {"a": ["a"] * 6, "b": ["b"] * 6}
    follower = RangeFollower(Lists(lists), {}, 0, 1)
    read = []
    for _ in range(30):
        read += [
            record.data for event in follower.poll(2, 0.0) if isinstance(event, Records) for record in event.records
        ]
    assert read == ["a", "a", "b", "b"] * 3


class Absent(Lists):
    """Is probably wrong while it is empty."""

    def absence(self):
        return "there is nothing"


def test_the_absence_of_a_log_is_told_once_and_messages_come_later():
    source = Absent({})
    follower = RangeFollower(source, {}, 0, 1)
    with pytest.raises(ReportedFailedException, match=r"^there is nothing$"):
        follower.poll(2, 0.0)
    assert follower.poll(2, 0.0) == []
    source.lists["a"] = ["a0"]
    found = defaultdict(list)
    while not found:
        drain(follower, found)
    assert found == {"a": ["a0"]}


def test_a_complete_log_that_is_absent_is_told_of_at_each_look_as_it_is_not_at_its_end():
    source = Absent({})
    source.are_complete = True
    follower = RangeFollower(source, {}, 0, 1)
    for _ in range(3):
        with pytest.raises(ReportedFailedException, match=r"^there is nothing$"):
            follower.poll(2, 0.0)


def test_of_a_log_that_was_read_before_the_absence_is_not_told():
    source = Absent({})
    source.are_complete = True
    assert RangeFollower(source, {"a": 20}, 0, 1).poll(2, 0.0) == []


class Lines(Lists):
    """A list's last message is not complete, and cannot be read."""

    def limited(self, partition, start, end, limit):
        return min(max(start, end - 10), start + 10 * limit)


def test_ends_are_those_of_the_whole_share_as_it_is_now():
    lists = {f"p{index}": ["x"] * index for index in range(4)}
    follower = RangeFollower(Lists(lists, is_numbered=True), {}, 1, 2)
    assert follower.ends() is None  # nothing is known of the share yet
    follower.poll(2, 0.05)
    assert follower.ends() == {"p1": 10, "p3": 30}
    drain(follower, defaultdict(list))
    lists["p3"].append("y")
    assert follower.ends() == {"p1": 10, "p3": 40}


def test_the_end_of_a_partition_without_a_complete_message_is_its_position():
    lists = {"a": ["x", "y"], "b": ["x"], "c": []}
    follower = RangeFollower(Lines(lists), {}, 0, 1)
    found = defaultdict(list)
    while found != {"a": ["x"]}:
        drain_once(follower, found)
    assert follower.ends() == {"a": 10, "b": 0, "c": 0}
    lists["a"].append("z")
    assert follower.ends()["a"] == 30


def drain_once(follower, found):
    for event in follower.poll(2, 0.05):
        if isinstance(event, Records) and event.records:
            found[event.partition] += [record.data for record in event.records]


class Unreadable(Lists):
    def bounds(self, partition):
        if partition == "b":
            raise FailedException("not now")
        return super().bounds(partition)


def test_the_end_of_a_partition_that_cannot_be_read_is_not_known():
    follower = RangeFollower(Unreadable({"a": ["x"], "b": []}), {}, 0, 1)
    follower.poll(2, 0.05)
    assert follower.ends() == {"a": 10, "b": math.inf}


class Shortened(Lists):
    """Messages before position 20 are gone."""

    def read(self, partition, start, end):
        if start < 20:
            raise DeletedError("gone", 20)
        yield from super().read(partition, start, end)


@pytest.mark.parametrize("messages", [["a0", "a1"], ["a0", "a1", "a2"]])
def test_after_messages_that_were_deleted_the_position_is_told_also_if_nothing_is_left(messages):
    """Otherwise the partition would not be at its end, for those who wait for that, until its next message."""
    follower = RangeFollower(Shortened({"a": messages}), {}, 0, 1)
    assert follower.poll(5, 0.0) == [Assigned("a", 0)]
    with pytest.raises(DeletedError):
        follower.poll(5, 0.0)
    assert follower.poll(5, 0.0) == [Records("a", (), 20)]
    found = defaultdict(list)
    drain(follower, found)
    assert found["a"] == messages[2:]
    assert follower.ends() == {"a": 10 * len(messages)}
