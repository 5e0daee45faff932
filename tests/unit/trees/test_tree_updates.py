"""What a client sends and what it waits for, beside a real ledger: no tree is done early, and each ends once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from tupletree.acker.ledger import Ledger, Verdicts
from tupletree.errors import UsageError
from tupletree.trees.open_trees import OpenTrees
from tupletree.trees.outbox import MAX_IN_DOUBT, Outbox, Updates
from tupletree.trees.tokens import Token

CLIENTS = st.integers(0, 2)


@dataclass
class Node:
    """A child that a client holds: its edge xor those of its children."""

    root: int
    value: int


class Fans(RuleBasedStateMachine):
    """Three clients whose messages are applied late, lost in doubt, or confirmed; children are acked anywhere."""

    nodes = Bundle("nodes")
    tokens = Bundle("tokens")

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger()
        self.outboxes = [Outbox() for _ in range(3)]
        self.on_the_way: list[list[Updates]] = [[], [], []]
        self.ids = iter(range(1, 1 << 20))
        self.unacked: Counter[int] = Counter()  # nodes by root, whether or not anybody knows of their ack
        self.ended: Counter[int] = Counter()

    def new_id(self) -> int:
        return hash((next(self.ids), "edge")) & (1 << 64) - 1 or 1

    @rule(target=nodes, client=CLIENTS)
    def begin(self, client: int) -> tuple[int, Node]:
        root, edge = next(self.ids), self.new_id()
        self.outboxes[client].begin(root, edge)
        self.unacked[root] = 1
        return client, Node(root, edge)

    @rule(target=tokens, node=nodes)
    def make_child(self, node: tuple[int, Node]) -> tuple[int, int]:
        edge = self.new_id()
        node[1].value ^= edge
        self.unacked[node[1].root] += 1
        return node[1].root, edge

    @rule(target=nodes, client=CLIENTS, token=consumes(tokens))
    def receive(self, client: int, token: tuple[int, int]) -> tuple[int, Node]:
        return client, Node(*token)

    @rule(node=consumes(nodes))
    def ack(self, node: tuple[int, Node]) -> None:
        client, held = node
        self.outboxes[client].ack(held.root, held.value)
        self.unacked[held.root] -= 1

    @rule(node=consumes(nodes))
    def fail(self, node: tuple[int, Node]) -> None:
        self.outboxes[node[0]].fail(node[1].root, "why")

    @rule(client=CLIENTS)
    def send(self, client: int) -> None:
        if self.outboxes[client].is_due:
            self.on_the_way[client].append(self.outboxes[client].take())

    @rule(client=CLIENTS)
    def apply(self, client: int) -> None:
        for updates in self.on_the_way[client]:
            self.apply_now(updates)
            self.outboxes[client].confirm(updates.sequence)
        self.on_the_way[client].clear()

    @rule(client=CLIENTS, applied=st.integers(0, 3))
    def break_stream(self, client: int, applied: int) -> None:
        """The acker has applied some of the messages on the way, and the client learns of none."""
        for updates in self.on_the_way[client][:applied]:
            self.apply_now(updates)
        self.on_the_way[client].clear()
        self.outboxes[client].broke(())

    def apply_now(self, updates: Updates) -> None:
        begins, acks = updates.begins, updates.acks
        verdicts: Verdicts = self.ledger.apply(
            list(begins), list(begins.values()), [1] * len(begins), list(acks), list(acks.values()),
            list(updates.fails), [], 0.0,
        )  # fmt: skip
        for roots in verdicts.acked.values():
            for root in roots:
                assert self.unacked[root] == 0, "a tree was done before its children"
                self.ended[root] += 1
        for roots in verdicts.failed.values():
            self.ended.update(roots)

    @invariant()
    def trees_end_once(self) -> None:
        assert all(count == 1 for count in self.ended.values())


TestFans = Fans.TestCase


@given(st.lists(st.tuples(st.sampled_from(["begin", "end", "due", "all"]), st.integers(0, 20)), max_size=60))
def test_each_tree_is_removed_once(steps: list[tuple[str, int]]) -> None:
    trees: OpenTrees[int] = OpenTrees()
    removed: Counter[int] = Counter()
    begun = now_s = 0
    for what, number in steps:
        if what == "begin":
            begun += 1
            trees.begin(begun, now_s + number, begun)
        elif what == "end":
            removed.update([found] if (found := trees.end(number)) is not None else [])
        elif what == "due":
            now_s += number
            removed.update(trees.due(now_s).values())
            assert trees.next_deadline_s is None or trees.next_deadline_s > now_s
        else:
            removed.update(trees.end_all().values())
    removed.update(trees.end_all().values())
    assert removed == Counter(range(1, begun + 1))


def test_deadlines_of_trees_that_have_ended_take_no_memory() -> None:
    trees: OpenTrees[int] = OpenTrees()
    for root in range(10_000):
        trees.begin(root, 1e9, root)
        trees.end(root)
    assert len(trees._deadlines) <= 1_001


def test_a_message_holds_the_first_updates_and_the_rest_waits() -> None:
    outbox = Outbox()
    for root in range(10_000):
        outbox.begin(root, 1)
        outbox.ack(root, 1)  # combined: of a tree without children
        outbox.ack(20_000 + root, 2)
        outbox.fail(root, "é" * 4_000)
    first = outbox.take()
    assert (first.sequence, len(first.begins), len(first.acks), len(first.fails)) == (1, 8_192, 8_192, 2_000)
    assert set(first.begins.values()) == {0}
    assert len(first.fails[0]) == 4_096
    assert len(outbox) == 2 * 1_808 + 8_000
    for _ in range(4):
        outbox.take()
    assert not len(outbox)
    assert not outbox.is_idle
    outbox.confirm(5)
    assert outbox.is_idle


def test_while_much_is_in_doubt_nothing_more_is_due() -> None:
    outbox = Outbox()
    for root in range(MAX_IN_DOUBT):
        outbox.ack(root, 1)
        assert outbox.is_due
        outbox.take()
    outbox.ack(100, 1)
    assert not outbox.is_due
    outbox.confirm(1)
    assert outbox.is_due


def test_after_a_break_what_is_in_doubt_fails_and_what_was_not_sent_is_kept() -> None:
    outbox = Outbox()
    outbox.ack(1, 5)
    outbox.take()
    outbox.ack(1, 6)
    outbox.ack(2, 7)
    outbox.broke([3])
    again = outbox.take()
    assert (again.sequence, again.acks, again.fails) == (1, {2: 7}, {1: b"", 3: b""})
    outbox.ack(4, 1)
    outbox.forget()
    assert outbox.is_idle


@given(st.text("abcXYZ019._-", min_size=1, max_size=100), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_a_token_survives_its_way(namespace: str, root: int, edge: int) -> None:
    token = Token(namespace, "acker-0123456789ab", root, edge)
    assert Token.decode(token.encode(), namespace) == token
    assert Token.decode(token.encode().encode(), namespace) == token


@pytest.mark.parametrize(
    "text", ["", "tt1", "tt2.a.00.b", "tt1.a." + "0" * 31 + ".orders", b"\xff\xfe", "x" * 10_000, None, 5]
)
def test_other_values_are_no_tokens(text: Any) -> None:
    with pytest.raises(UsageError, match=r"is not a token of a child: pass what Tree\.child or Child\.child returned"):
        Token.decode(text, "orders")
