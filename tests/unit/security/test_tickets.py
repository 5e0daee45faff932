"""What a ticket for questions to states says, to whom, and every way in which it does not count."""

from __future__ import annotations

import time
from collections.abc import Callable

import jwt
import pytest

from tupletree._security.tickets import TICKET_S, Ticket, check_ticket, issue_ticket
from tupletree._security.tokens import CLUSTER, Keyring, derive, topology_key
from tupletree.errors import ConfigError, UnauthenticatedError

SECRET = b"0123456789abcdef0123456789abcdef"
OTHER = b"another secret of the same length"
DAEMON = Keyring("tupletree", SECRET)
THIS = "words-1-1"


def worker(topology: str, secret: bytes = SECRET) -> Keyring:
    keys = Keyring("tupletree", secret).of_worker(topology)
    return Keyring("tupletree", keys={kid: bytes.fromhex(key) for kid, key in keys.items()})


def ticket(secret: bytes = SECRET, age_s: float = 0, topology: str = THIS, audience: str = "tupletree") -> str:
    return issue_ticket(Keyring(audience, secret), "alice", topology, "count", time.time() - age_s)


def test_the_workers_of_the_topology_take_it_for_its_component() -> None:
    found = check_ticket(worker(THIS), ticket(), THIS, "count")
    assert found == Ticket("alice", THIS, "count", found.left_s)
    assert 0 < found.left_s <= TICKET_S + 15
    with pytest.raises(UnauthenticatedError, match=r"^the ticket is for another component$"):
        check_ticket(worker(THIS), ticket(), THIS, "totals")


def test_a_worker_of_another_topology_does_not_take_it() -> None:
    with pytest.raises(UnauthenticatedError, match=r"^the ticket is not valid for this topology$"):
        check_ticket(worker("other-2-2"), ticket(), "other-2-2", "count")
    with pytest.raises(UnauthenticatedError, match=r"^the ticket is not valid for this topology$"):
        check_ticket(worker("other-2-2"), ticket(), THIS, "count")
    signed_by_another = issue_ticket(worker("other-2-2"), "alice", "other-2-2", "count", time.time())
    with pytest.raises(UnauthenticatedError, match=r"^the ticket is not valid for this topology$"):
        check_ticket(worker(THIS), signed_by_another, THIS, "count")


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (lambda: ticket(OTHER), "the ticket is not valid for this topology"),
        (lambda: ticket(audience="other"), "the ticket is not valid for this topology"),
        (lambda: ticket(age_s=3600), "the ticket has expired"),
        (lambda: ticket()[:-3] + "abc", "the ticket is not valid for this topology"),
        (lambda: "nonsense", "the ticket is not valid for this topology"),
        (lambda: "\ud800", "the ticket is not valid for this topology"),
        (lambda: "", "the ticket is not valid for this topology"),
        (lambda: "x" * 9000, "the ticket is too long"),
        (lambda: DAEMON.issue("w1", "worker", topology=THIS), "the ticket is not valid for this topology"),
        (
            lambda: DAEMON.issue("alice", "user", roles=frozenset({"admin"})),
            "the ticket is not valid for this topology",
        ),
        (
            lambda: jwt.encode({"sub": "alice"}, derive(SECRET, topology_key(THIS)), "HS256"),
            "the ticket is not valid for this",
        ),
        (lambda: jwt.encode({"sub": "alice"}, None, "none"), "the ticket is not valid for this topology"),
    ],
)
def test_what_is_no_ticket_of_this_cluster(made: Callable[[], str], sentence: str) -> None:
    with pytest.raises(UnauthenticatedError, match=sentence):
        check_ticket(worker(THIS), made(), THIS, "count")


def test_a_ticket_is_no_token() -> None:
    for keyring in (DAEMON, worker(THIS)):
        with pytest.raises(UnauthenticatedError, match=r"the token is for another cluster \(security.audience\)"):
            keyring.verify(ticket())


def test_a_ticket_of_the_secret_before_counts_during_a_change() -> None:
    changing = Keyring("tupletree", OTHER, previous=SECRET)
    assert check_ticket(changing, ticket(), THIS, "count").subject == "alice"
    assert check_ticket(changing, ticket(OTHER), THIS, "count").subject == "alice"


def test_who_has_no_key_of_the_topology_issues_none() -> None:
    with pytest.raises(ConfigError, match="signing a token requires the cluster's secret"):
        issue_ticket(Keyring("tupletree", keys={CLUSTER: SECRET}), "alice", THIS, "count", 0)
