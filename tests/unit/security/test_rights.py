"""Who may do what: every right for every kind of caller, and a row for every call that there is."""

from __future__ import annotations

import pytest

from tupletree._security.rights import CALLS, PAGES, Acl, Principal, Right, Row, acl_of, may_read, may_read_all, refusal
from tupletree.nimbus.web.routes import ENDPOINTS
from tupletree.v1 import acker_pb2, nimbus_pb2, supervisor_pb2, worker_pb2
from tupletree.v1.topology_pb2 import TopologyRecord

ACL = Acl("'wc'", owner="alice", users=frozenset({"bob"}), readers=frozenset({"carol"}))
ADMINS = {"root"}


def user(name: str, *roles: str) -> Principal:
    return Principal(name, "user", frozenset(roles))


CALLERS = {
    "nobody": None,
    "owner": user("alice", "submit"),
    "owner, read-only token": user("alice", "read"),
    "owner, token without roles": user("alice"),
    "in topology.users": user("bob", "submit"),
    "in topology.readonly.users": user("carol", "submit"),
    "stranger": user("dave", "submit"),
    "stranger who reads": user("dave", "read"),
    "stranger without roles": user("dave"),
    "administrator by role": user("dave", "admin"),
    "administrator by nimbus.admins": user("root", "submit"),
    "read-only token of an administrator": user("root", "read"),
    "metrics": user("prometheus", "metrics"),
    "caller of functions": user("web", "call"),
    "daemon": Principal("supervisor", "daemon"),
    "worker": Principal("w1", "worker", frozenset(), "wc-1-1"),
    "worker of another topology": Principal("w2", "worker", frozenset(), "other-2-2"),
}
ADMINISTRATORS = {"administrator by role", "administrator by nimbus.admins"}
USERS = {name for name in CALLERS if name not in {"nobody", "metrics", "worker", "worker of another topology"}}
ALLOWED: dict[Right, set[str]] = {
    Right.OPEN: set(CALLERS),
    Right.KNOWN: USERS,
    Right.METRICS: {"metrics", "owner, read-only token", "stranger who reads", "read-only token of an administrator"}
    | {"daemon", *ADMINISTRATORS},
    Right.SUBMIT: {"owner", "in topology.users", "in topology.readonly.users", "stranger", *ADMINISTRATORS},
    Right.CALL: {"owner", "in topology.users", "in topology.readonly.users", "stranger", "caller of functions"}
    | ADMINISTRATORS,
    Right.READ: USERS - {"stranger", "stranger without roles", "caller of functions"},
    Right.CHANGE: {"owner", "in topology.users", "daemon", *ADMINISTRATORS},
    Right.WRITE_STATE: {"owner", "in topology.users", *ADMINISTRATORS},
    Right.ADMIN: ADMINISTRATORS,
    Right.DAEMON: {"daemon"},
    Right.WORKER: {"worker"},
}


@pytest.mark.parametrize("right", Right)
def test_who_has_a_right(right: Right) -> None:
    named = "wc-1-1" if right is Right.WORKER else ACL
    row = Row(right, by="name")
    allowed = {name for name, who in CALLERS.items() if refusal(who, row, "Kill", ADMINS, named) is None}
    assert allowed == ALLOWED[right]


@pytest.mark.parametrize("right", [Right.READ, Right.CHANGE])
def test_a_topology_that_does_not_exist_is_nobody_s_but_the_administrators(right: Right) -> None:
    row = Row(right, by="name")
    allowed = {name for name, who in CALLERS.items() if refusal(who, row, "Kill", ADMINS, None) is None}
    readers = {name for name, who in CALLERS.items() if who and who.kind == "user" and "read" in who.roles}
    assert allowed == ADMINISTRATORS | {"daemon"} | (readers if right is Right.READ else set())


def test_a_call_without_a_row_is_refused_to_everybody() -> None:
    for who in CALLERS.values():
        assert refusal(who, None, "Frobnicate", ADMINS) == (
            "Frobnicate: nobody may make this call, because no right is defined for it"
        )


def test_a_refusal_says_who_what_and_what_it_takes() -> None:
    kill = Row(Right.CHANGE, by="name")
    assert refusal(user("dave", "submit"), kill, "Kill", ADMINS, ACL) == (
        "user 'dave' may not Kill topology 'wc': "
        "the caller needs to be its owner, in its topology.users, or an administrator"
    )
    assert refusal(None, kill, "Kill", ADMINS, ACL) == "Kill requires a token, and none was sent (set security.token)"
    track = Row(Right.WORKER, by="topology_id")
    assert refusal(CALLERS["worker"], track, "Track", ADMINS, "other-2-2") == (
        "a worker of topology wc-1-1 may not Track topology other-2-2: the caller needs to be a worker of the topology"
    )


def test_a_worker_that_names_no_topology_is_refused() -> None:
    anonymous = Principal("w", "worker", frozenset(), "")
    assert refusal(anonymous, Row(Right.WORKER, by="topology_id"), "Track", (), "") is not None


def test_lists_show_what_one_may_see() -> None:
    assert may_read(None, ADMINS, ACL)
    assert may_read(user("carol"), ADMINS, ACL)
    assert not may_read(user("dave", "submit"), ADMINS, ACL)


def test_whose_a_topology_is_stands_in_its_record() -> None:
    conf = '{"topology.users": ["bob"], "topology.readonly.users": ["carol"]}'
    assert acl_of(TopologyRecord(name="wc", owner="alice", conf_json=conf)) == ACL
    assert acl_of(TopologyRecord(name="wc", owner="alice")) == Acl("'wc'", "alice")


SERVICES = [
    service
    for module in (nimbus_pb2, supervisor_pb2, acker_pb2, worker_pb2)
    for service in module.DESCRIPTOR.services_by_name.values()
]


def test_every_call_of_the_protocol_has_a_row() -> None:
    calls = {f"/{service.full_name}/{method.name}" for service in SERVICES for method in service.methods}
    assert calls - CALLS.keys() == set()


def test_every_path_that_changes_something_is_audited_and_takes_the_right_to() -> None:
    posts = [one.row for one in ENDPOINTS if one.method == "POST"]
    assert posts
    assert all(row.mutates for row in posts)
    assert {(row.right, row.by) for row in posts} == {
        (Right.CHANGE, "id"),
        (Right.WRITE_STATE, "id"),
        (Right.ADMIN, ""),
    }


def test_a_reader_of_everything_is_who_may_read_what_belongs_to_no_topology() -> None:
    users = {role: Principal("ann", "user", frozenset({role})) for role in ("read", "submit", "admin", "metrics")}
    assert {role: may_read_all(who, ()) for role, who in users.items()} == {
        "read": True,
        "submit": False,
        "admin": True,
        "metrics": False,
    }
    assert may_read_all(users["submit"], {"ann"}) and may_read_all(None, ())


def test_every_row_names_a_field_that_its_request_has() -> None:
    for service in SERVICES:
        for method in service.methods:
            row = CALLS[f"/{service.full_name}/{method.name}"]
            message = method.input_type
            if row.part:
                message = message.fields_by_name[row.part].message_type
            assert not row.by or row.by in message.fields_by_name, method.full_name
            assert row.right not in (Right.READ, Right.CHANGE, Right.WORKER) or row.by, method.full_name


def test_what_is_open_to_all_says_nothing_of_topologies() -> None:
    assert {name for name, row in CALLS.items() if row.right is Right.OPEN} == {
        f"/grpc.health.v1.Health/{method}" for method in ("Check", "Watch", "List")
    }
    with_a_ticket = "/states/questions"
    assert {path for path, row in PAGES.items() if row.right is Right.OPEN} == {"/healthz", "/readyz", with_a_ticket}
