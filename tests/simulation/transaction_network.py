"""Links between incarnations, and the trees of control tuples as they truly are.

A link keeps the order of what is sent on it. It may lose any message, or break and lose all that is under way. What it
may repeat, and when, is derived in docs/adr/0009-what-the-transaction-simulation-assumes.md.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from transaction_nouns import Tree
from transaction_tasks import Incarnation, decoded, executing

from tupletree.attempt import TransactionAttempt
from tupletree.tuples import Tuple

if TYPE_CHECKING:
    from transaction_world import World

TIMEOUT_S = 4.0
REPEATED, LOST = "repeated", "lost"


class Link:
    """From one incarnation to another."""

    def __init__(self, is_remote: bool, may_break: bool) -> None:
        self.is_remote = is_remote
        self.may_break = may_break  # else it may repeat data
        self.last_arrival_s = 0.0
        self.generation = 0  # raised when it breaks
        self.under_way = 0


class Network:
    def __init__(self, world: World) -> None:
        self.world = world
        self.rng = world.rng
        self.links: list[Link] = []
        self.counts: defaultdict[str, int] = defaultdict(int)
        # What happened on a channel, for one attempt: sender, receiving task, attempt -> the first receiver, a mark
        self.channels: dict[tuple[Incarnation, int, TransactionAttempt], list[Any]] = {}

    def link(self, sender: Incarnation, receiver: Incarnation) -> Link:
        link = sender.links.get(receiver)
        if link is None:
            link = sender.links[receiver] = Link(self.rng.random() < 0.7, self.rng.random() < 0.5)
            self.links.append(link)
        return link

    def send(self, sender: Incarnation, task: int, tup: Tuple, tree: Tree | None) -> None:
        receiver = sender.view[task]
        link = self.link(sender, receiver)
        faults = self.world.faults
        if tree is not None:
            receiver.holding[tup._edge] = tree
        if link.is_remote:
            tup.values = decoded(tup.values)
        if not self.world.is_faulty:
            self._under_way(sender, receiver, link, tup, tree)
            return
        channel = self._channel(sender, receiver, tup)
        if faults.loss and channel[1] != REPEATED and self.rng.random() < faults.loss:
            channel[1] = LOST
            self.counts["lost"] += 1
            self.lose(tup, tree, "lost on its way")
            return
        self._under_way(sender, receiver, link, tup, tree)
        if faults.copies and self.rng.random() < faults.copies:
            again = Tuple(tup.values, tup._root, tup._edge, tup._origin)
            if tree is not None:
                self.counts["control repeated"] += 1
                later_s = link.last_arrival_s - self.world.now_s + self.rng.uniform(0, 1.0)
                self.world.at(later_s, lambda: self._arrive_again(receiver, again))
            elif channel[1] != LOST and not link.may_break:
                self.counts["data repeated"] += 1
                channel[1] = REPEATED
                self._under_way(sender, receiver, link, again, tree)

    def _channel(self, sender: Incarnation, receiver: Incarnation, tup: Tuple) -> list[Any]:
        key = (sender, receiver.place.task, tup.values[0])
        channel = self.channels.get(key)
        if channel is None:
            channel = self.channels[key] = [receiver, ""]
        elif channel[0] is not receiver:
            channel[1] = LOST  # what went to the former receiver is lost to this one
        return channel

    def _under_way(self, sender: Incarnation, receiver: Incarnation, link: Link, tup: Tuple, tree: Tree | None) -> None:
        arrival_s = max(link.last_arrival_s, self.world.now_s + self.world.delay_s(sender))
        link.last_arrival_s = arrival_s
        link.under_way += 1
        generation = link.generation

        def arrive() -> None:
            link.under_way -= 1
            if link.generation != generation:
                self.counts["lost"] += 1
                self.lose(tup, tree, "lost with its link")
            elif not receiver.alive:
                self.lose(tup, tree, "its receiver is gone")
            else:
                if tree is not None and receiver.place.current is not receiver:
                    tree.damage = tree.damage or f"sent to {receiver}, which is cut off"
                receiver.step(executing(receiver, tup))

        self.world.at(arrival_s - self.world.now_s, arrive)

    def _arrive_again(self, receiver: Incarnation, tup: Tuple) -> None:
        if receiver.alive:
            receiver.step(executing(receiver, tup))

    def lose(self, tup: Tuple, tree: Tree | None, why: str) -> None:
        attempt = tup.values[0]
        self.world.tell(attempt.txid, f"{tup.source_stream} of {attempt} from task {tup.source_task}: {why}")
        if tree is not None:
            tree.damage = tree.damage or why
            if self.rng.random() < 0.5:  # the sender learns of it
                self.world.at(self.rng.uniform(0, 0.5), lambda: self.world.trees.send_fail(tree))

    def break_some_link(self) -> None:
        links = [link for link in self.links if link.under_way and link.may_break]
        if links:
            self.rng.choice(links).generation += 1
            self.counts["links broken"] += 1


class Trees:
    """Which control tuples of each root are not acked yet. What an acker says of a tree, as late as an acker may."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rng = world.rng
        self.by_root: dict[int, Tree] = {}
        self.of: dict[tuple[str, TransactionAttempt], Tree] = {}
        self.settled: set[int] = set()  # copies that their bolt has acked or failed
        self._trees: dict[int, Tree] = {}  # by copy
        self._copies = 0

    def begin(self, owner: Incarnation, msg_id: Any, attempts: Sequence[TransactionAttempt], name: str) -> Tree:
        attempt = attempts[0]
        tree = Tree(len(self.by_root) + 1, owner, msg_id, attempt, name)
        self.by_root[tree.root] = owner.pending[tree.root] = tree
        self.of[name, attempt] = tree
        self.world.judge.emitted(owner, name, attempts)
        for one in attempts:
            self.world.tell(one.txid, f"{owner} emits {name} of {one}")
        self.world.at(TIMEOUT_S, lambda: self._expire(tree))
        return tree

    def of_anchor(self, anchor: Tuple) -> Tree | None:
        if not anchor._root:
            return None
        if anchor._edge in self.settled:
            raise self.world.violation("emitted, anchored to a tuple that is acked", anchor.values[0].txid)
        return self.by_root[anchor._root]

    def grow(self, tree: Tree) -> int:
        self._copies += 1
        tree.outstanding.add(self._copies)
        self._trees[self._copies] = tree
        return self._copies

    def send_acks(self, sender: Incarnation, copies: list[int]) -> None:
        for copy_id in copies:
            sender.holding.pop(copy_id, None)
        if self.world.is_faulty and self.rng.random() < self.world.faults.loss:
            for copy_id in copies:
                tree = self._trees[copy_id]
                tree.damage = tree.damage or "an ack was lost"
        else:
            self.world.at(self.world.delay_s(sender), lambda: self._acks_arrive(copies))

    def send_fail(self, tree: Tree) -> None:
        if self.world.is_faulty and self.rng.random() < self.world.faults.loss:
            tree.damage = tree.damage or "a fail was lost"
        else:
            self.world.at(self.world.delay_s(None), lambda: self._end(tree, "failed"))

    def delay_all(self, why: str) -> None:
        """Something takes long: trees may time out."""
        for tree in self.by_root.values():
            if not tree.verdict:
                tree.damage = tree.damage or why

    def _acks_arrive(self, copies: list[int]) -> None:
        for copy_id in copies:
            tree = self._trees[copy_id]
            tree.outstanding.discard(copy_id)
            if not tree.outstanding:
                self._end(tree, "acked")

    def _end(self, tree: Tree, verdict: str) -> None:
        if tree.verdict:
            return
        tree.verdict = verdict
        self.world.tell(tree.attempt.txid, f"the {tree.name} tree of {tree.attempt} has {verdict}")
        if self.world.is_faulty and self.rng.random() < self.world.faults.loss:
            tree.damage = tree.damage or "its verdict was lost"
            return
        self.world.at(self.world.delay_s(None), lambda: self._tell(tree, verdict))
        if self.world.is_faulty and self.rng.random() < self.world.faults.copies:
            other = self.rng.choice([verdict, verdict, "failed"])
            self.world.at(self.rng.uniform(0, 1.0), lambda: self._tell(tree, other, is_repeat=True))

    def _tell(self, tree: Tree, verdict: str, is_repeat: bool = False) -> None:
        """Tell the coordinator, once; and sometimes once more, although a spout need not be prepared for that."""
        owner = tree.owner
        if not owner.alive or (owner.pending.pop(tree.root, None) is None and not is_repeat):
            return
        told = owner.component.ack if verdict == "acked" else owner.component.fail
        owner.step(lambda: told(tree.msg_id))

    def _expire(self, tree: Tree) -> None:
        owner = tree.owner
        if not owner.alive or owner.pending.pop(tree.root, None) is None:
            return
        self.world.tell(tree.attempt.txid, f"the {tree.name} tree of {tree.attempt} timed out ({tree.damage})")
        self.world.network.counts["timed out"] += 1
        if not tree.damage:
            raise self.world.violation(
                f"the {tree.name} tree of {tree.attempt} lingered until its timeout though nothing of it was lost",
                tree.attempt.txid,
            )
        owner.step(lambda: owner.component.fail(tree.msg_id))
