"""Trees at a real acker: their outcomes, quotas, and what the death of processes does to them."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tcp_proxy import Proxy
from trees_harness import TreesAcker

from tupletree.errors import (
    ConfigError,
    NotFoundError,
    OverloadedError,
    TupletreeError,
    UnavailableError,
    UsageError,
)
from tupletree.testing import wait_until
from tupletree.trees import OutcomeKind, TreeClient

Connect = Callable[..., TreeClient]


def test_a_tree_is_done_when_all_its_children_are(client: Connect) -> None:
    ours, theirs = client(), client()
    tree = ours.begin()
    first, second = theirs.child(tree.child()), theirs.child(tree.child().encode())
    tree.close()
    grandchildren = [first.child() for _ in range(3)]
    first.ack()
    second.ack()
    theirs.flush()
    with pytest.raises(TimeoutError):
        tree.wait(0.05)
    for token in grandchildren:
        ours.child(token).ack()
    assert tree.wait(10) == (OutcomeKind.DONE, "")
    assert tree.outcome is not None
    assert tree.outcome.is_done


def test_a_tree_without_children_is_done(client: Connect, acker: TreesAcker) -> None:
    trees = client()
    assert trees.begin().wait(10).is_done
    assert acker.namespace("orders")["done"] == 1


def test_a_child_that_fails_fails_its_tree_with_the_reason(client: Connect) -> None:
    ours, theirs = client(), client()
    tree, another = ours.begin(), ours.begin()
    theirs.child(tree.child()).fail("no such address: Ümlaut")
    assert tree.wait(10) == (OutcomeKind.FAILED, "no such address: Ümlaut")
    with pytest.raises(ValueError, match=r"seven"), theirs.child(another.child()):
        raise ValueError("seven")
    assert another.wait(10) == (OutcomeKind.FAILED, "ValueError: seven")


def test_a_tree_ends_at_its_timeout_and_gives_its_room_back(client: Connect, acker: TreesAcker) -> None:
    trees = client()
    tree = trees.begin(timeout_s=0.2)
    token = tree.child()
    assert tree.wait(10) == (OutcomeKind.TIMED_OUT, "")
    wait_until(lambda: acker.namespace("orders")["open_trees"] == 0, 10, what="the entry is freed")
    trees.child(token).ack()  # too late
    trees.flush()
    assert tree.wait(0) == (OutcomeKind.TIMED_OUT, "")


def test_the_trees_of_a_client_that_vanishes_are_forgotten(client: Connect, acker: TreesAcker) -> None:
    gone, stays = client("brief"), client("brief")
    gone.begin()
    wait_until(lambda: acker.namespace("brief")["open_trees"] == 1, 10, what="the tree is open")
    gone.close()
    stays.flush()
    wait_until(lambda: acker.namespace("brief")["open_trees"] == 0, 10, what="the tree has expired")
    assert acker.namespace("brief")["timed_out"] == 1


def test_a_child_acked_by_two_programs_never_completes_its_tree_early(client: Connect) -> None:
    ours, theirs = client(), client()
    tree = ours.begin(timeout_s=1)
    token, other = tree.child(), tree.child()
    for trees in (ours, theirs):
        trees.child(token).ack()
        trees.flush()
    theirs.child(other).ack()
    assert tree.wait(10).kind is OutcomeKind.TIMED_OUT


def test_a_second_ack_of_one_child_does_nothing(client: Connect) -> None:
    trees = client()
    tree = trees.begin()
    child = trees.child(tree.child())
    child.ack()
    child.ack()
    child.fail("too late")
    with pytest.raises(UsageError, match=r"a child is made before its parent is acked"):
        child.child()
    assert tree.wait(10).is_done
    with pytest.raises(UsageError, match=r"a child is made before its parent is acked"):
        tree.child()


def test_trees_are_lost_with_their_acker_at_once_and_new_ones_go_on(client: Connect, acker: TreesAcker) -> None:
    ours, theirs = client(), client()
    tree = ours.begin()
    token = tree.child()
    ours.flush()
    broken = f"the connection to acker {acker.id} broke: "
    acker.kill()
    outcome = tree.wait(10)
    assert outcome.kind is OutcomeKind.LOST
    assert outcome.reason.startswith(broken)
    with pytest.raises(UnavailableError):
        ours.begin()
    before = theirs.child(token)
    acker.start()
    wait_until(lambda: _can_begin(theirs) and _can_begin(ours), 20, what="the clients have reconnected")
    before.ack()  # of a tree that is lost: goes nowhere
    with pytest.raises(NotFoundError, match=r"of the token has ended, with its trees"):
        theirs.child(token)
    assert ours.begin().wait(10).is_done


def _can_begin(trees: TreeClient) -> bool:
    try:
        return trees.begin().wait(10).is_done
    except UnavailableError:
        return False


def test_a_token_that_cannot_be_read_for_a_while_is_said_and_read_again(
    client: Connect, acker: TreesAcker, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("any")
    token.chmod(0o600)
    trees = client(conf={"security.token.file": str(token)})
    acker.kill()
    token.rename(tmp_path / "aside")
    acker.start()

    def refusal() -> str:
        try:
            trees.begin()
        except TupletreeError as error:
            return f"{type(error).__name__}: {error}"
        return ""

    wait_until(lambda: refusal().startswith("ConfigError: "), 20, what="the token is missed")
    (tmp_path / "aside").rename(token)
    wait_until(lambda: not refusal(), 20, what="trees are begun again")


def test_a_broken_connection_loses_the_trees_of_its_client_and_frees_their_room(
    client: Connect, acker: TreesAcker
) -> None:
    other = client()
    kept = other.begin()
    token = kept.child()
    with Proxy(acker.port) as proxy, TreeClient(f"127.0.0.1:{proxy.port}", namespace="orders") as trees:
        child = trees.child(token)
        lost = [trees.begin() for _ in range(3)]
        trees.flush()
        proxy.refuses = True
        proxy.cut()
        assert [tree.wait(10).kind for tree in lost] == [OutcomeKind.LOST] * 3
        child.ack()  # waits for the next connection to the same acker
        with pytest.raises(UnavailableError, match=r"have not confirmed all within 0\.05 s; \d updates wait"):
            trees.flush(0.05)
        proxy.refuses = False
        assert kept.wait(20).is_done
        wait_until(lambda: acker.namespace("orders")["open_trees"] == 0, 10, what="the lost trees are forgotten")
        assert trees.begin().wait(10).is_done


def test_a_token_of_an_acker_that_has_restarted_behind_a_broken_connection_is_not_given_up(
    client: Connect, acker: TreesAcker
) -> None:
    with Proxy(acker.port) as proxy, TreeClient(f"127.0.0.1:{proxy.port}", namespace="orders") as theirs:
        proxy.refuses = True
        proxy.cut()
        acker.kill()
        acker.start()
        tree = client().begin()
        token = tree.child()
        with pytest.raises(UnavailableError, match=rf"acker {acker.id} is not connected: "):
            theirs.child(token)
        proxy.refuses = False
        wait_until(lambda: _can_begin(theirs), 20, what="the client has reconnected")
        theirs.child(token).ack()
        assert tree.wait(10).is_done


def test_an_acker_that_drains_takes_no_new_trees_and_finishes_the_old(client: Connect, acker: TreesAcker) -> None:
    trees = client()
    tree = trees.begin()
    token = tree.child()
    tree.close()
    trees.flush()
    acker.process.send_signal(signal.SIGTERM)

    def is_refused(by: TreeClient) -> bool:
        try:
            by.begin().wait(10)
        except OverloadedError:
            return True
        return False

    wait_until(lambda: is_refused(trees), 10, what="no new trees")
    late = client()  # a program that starts now can settle, too
    wait_until(lambda: is_refused(late), 10, what="no new trees")
    client("small")  # a namespace that had no client before keeps nobody waiting
    late.child(token).ack()
    assert tree.wait(10).is_done
    assert acker.process.wait(10) == 0


def test_a_quota_of_open_trees_refuses_and_does_not_count_what_has_ended(client: Connect, acker: TreesAcker) -> None:
    ours, theirs = client("small"), client("small")
    first, second = ours.begin(), ours.begin()
    tokens = [first.child(), second.child()]
    ours.flush()
    with pytest.raises(OverloadedError, match=r"namespace 'small' may have 2 open trees"):
        ours.begin()
    refused = theirs.begin()
    refused.child()
    with pytest.raises(OverloadedError, match=r"namespace 'small' may have 2 open trees"):
        refused.wait(10)
    assert acker.namespace("small")["refused"] == 1
    assert 'tupletree_acker_refused_trees_total{namespace="small"} 1.0' in acker.page("/metrics")
    for token in tokens:
        theirs.child(token).ack()
    assert first.wait(10).is_done
    assert second.wait(10).is_done
    assert theirs.begin().wait(10).is_done


def test_the_metrics_of_a_namespace_have_its_whole_name(client: Connect, acker: TreesAcker) -> None:
    assert client("eu-2024-11").begin().wait(10).is_done
    labels = 'topology="$trees/eu-2024-11",topology_id="$trees/eu-2024-11"'
    metrics = acker.page("/metrics")
    assert f'tupletree_acker_completed_trees_total{{shard="0",{labels}}} 1.0' in metrics
    assert f"tupletree_acker_message_timeout_seconds{{{labels}}} 600.0" in metrics


def test_updates_above_the_rate_wait_and_none_is_lost(client: Connect) -> None:
    trees = client("slow")
    for _ in range(15):
        trees.begin().fail("for the rate")
        trees.flush()
    with pytest.raises(UnavailableError, match=r"have not confirmed all within 0\.001 s"):
        trees.begin()
        trees.flush(0.001)
    trees.flush()


def test_a_coroutine_awaits_trees(acker: TreesAcker) -> None:
    async def run() -> list[OutcomeKind]:
        async with TreeClient([acker.address], namespace="orders") as trees:
            begun = [trees.begin() for _ in range(3)]
            tokens = [tree.child() for tree in begun]
            trees.child(tokens[0]).ack()
            trees.child(tokens[1]).fail()
            waiting = asyncio.ensure_future(_outcome(begun[2]))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            trees.child(tokens[2]).ack()
            return [(await tree).kind for tree in begun]

    async def _outcome(tree: object) -> object:
        return await tree  # type: ignore[misc]

    assert asyncio.run(run()) == [OutcomeKind.DONE, OutcomeKind.FAILED, OutcomeKind.DONE]


def test_open_trees_are_lost_when_their_client_is_closed(client: Connect) -> None:
    trees = client()
    tree = trees.begin()
    trees.close()
    assert tree.wait(10) == (OutcomeKind.LOST, "the client was closed")
    with pytest.raises(UsageError, match=r"this TreeClient is closed"):
        trees.begin()


def test_a_client_with_a_wrong_configuration_says_so_and_leaves_no_thread(acker: TreesAcker) -> None:
    before = {thread for thread in threading.enumerate() if thread.name == "trees"}
    client = TreeClient(acker.address, namespace="orders", conf={"security.as.user": "alice"})
    with pytest.raises(ConfigError, match=r"security\.as\.user needs the token of a program"):
        client.__enter__()
    assert {thread for thread in threading.enumerate() if thread.name == "trees"} == before


def test_a_client_learns_in_one_sentence_what_is_wrong(client: Connect, acker: TreesAcker) -> None:
    with pytest.raises(NotFoundError, match=r"there is no namespace 'ordres' at this acker"):
        client("ordres")
    with socket.create_server(("127.0.0.1", 0)) as server:
        nobody = f"127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(UnavailableError, match=r"cannot be reached: connection refused"):
        TreeClient(nobody, namespace="orders").__enter__()
    with pytest.raises(UsageError, match=r"there is no acker in ackers"):
        TreeClient(" , ", namespace="orders")
    trees = client()
    with pytest.raises(UsageError, match=r"timeout_s is 61: .* more than 0 and up to 60"):
        trees.begin(timeout_s=61)
    for call in (trees.begin, trees.begin().wait, trees.flush, trees.connect):
        with pytest.raises(
            UsageError, match=r"timeout_s is 'soon', expected a number of seconds, .* and at most 1000000000"
        ):
            call(timeout_s="soon")  # type: ignore[operator]
    with pytest.raises(UsageError, match=r"'nonsense' is not a token of a child"):
        trees.child("nonsense")
    with pytest.raises(UsageError, match=r"the token is of namespace 'small', and this client of 'orders'"):
        trees.child(client("small").begin().child())
    stranger = trees.begin().child().replace(acker.id, "acker-0123456789ab")
    with pytest.raises(NotFoundError, match=r"acker acker-0123456789ab of the token has ended"):
        trees.child(stranger)
    with TreeClient([acker.address, nobody], namespace="orders") as half:
        assert half.begin().wait(10).is_done  # one acker suffices
        with pytest.raises(UnavailableError, match=r"acker acker-0123456789ab is not connected"):
            half.child(stranger)
