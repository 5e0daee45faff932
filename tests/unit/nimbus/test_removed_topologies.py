"""Entries of removed topologies: what they hold, their bounds, their order, and who may see them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tupletree._coord.forms import decode, encode
from tupletree._security.rights import Acl, Principal, acl_of_past, may_read
from tupletree.errors import NotFoundError
from tupletree.nimbus.leader import lifecycle
from tupletree.nimbus.leader.history import (
    MAX_ENTRY_BYTES,
    MAX_ERRORS,
    MAX_LISTED,
    add_counts,
    bounded,
    in_short,
    last_first,
    oldest,
    past_topology,
    with_id,
    with_name,
)
from tupletree.nimbus.statistics.topology_statistics import TopologyStatistics
from tupletree.nimbus.web import history
from tupletree.v1 import nimbus_pb2 as rpc
from tupletree.v1 import topology_pb2 as pb

NOW = 1_700_000_100.0


def record(**more: object) -> pb.TopologyRecord:
    conf = {"topology.users": ["bob"], "topology.readonly.users": ["carol"], "a.password": "hunter2"}
    found = pb.TopologyRecord(
        id="wc-1-1700000000",
        name="wc",
        owner="alice",
        status=lifecycle.ACTIVE,
        conf_json=json.dumps(conf),
        submitted_unix_s=NOW - 100,
        tasks={"split": 2, "lines": 1},
        version=3,
    )
    found.MergeFrom(pb.TopologyRecord(**more))  # type: ignore[arg-type]
    return found


def assignment(workers: int) -> pb.Assignment:
    found = pb.Assignment(topology_id="wc-1-1700000000")
    for port in range(workers):
        worker = found.workers.add(supervisor_id="s1", host="h1", port=6700 + port)
        worker.executors.add(first_task=1, last_task=2)
    return found


def error(number: int, message: str = "boom", traceback: str = "") -> pb.ComponentError:
    return pb.ComponentError(component_id="split", at_unix_s=NOW - number, message=message, traceback=traceback)


def test_an_entry_holds_who_and_where_and_nothing_of_the_configuration() -> None:
    killed = lifecycle.ask(record(), lifecycle.Kill(0, "bob"), NOW)
    entry = past_topology(killed, assignment(2), NOW)
    assert (entry.id, entry.name, entry.owner, entry.version) == ("wc-1-1700000000", "wc", "alice", 3)
    assert (list(entry.users), list(entry.readers), entry.killed_by) == (["bob"], ["carol"], "bob")
    assert (entry.submitted_unix_s, entry.removed_unix_s) == (NOW - 100, NOW)
    assert [(one.host, one.port, len(one.executors)) for one in entry.workers] == [("h1", 6700, 0), ("h1", 6701, 0)]
    assert [(one.component_id, one.tasks) for one in entry.components] == [("lines", 1), ("split", 2)]
    assert b"hunter2" not in encode(entry)
    assert list(past_topology(killed, None, NOW).workers) == []


def test_a_strange_access_list_does_not_keep_a_removal_back() -> None:
    conf = json.dumps({"topology.users": ["bob", 1, "\ud800", None], "topology.readonly.users": "ab"})
    entry = past_topology(record(conf_json=conf), None, NOW)
    assert (list(entry.users), list(entry.readers)) == (["bob"], ["a", "b"])


def test_the_first_who_killed_a_topology_is_remembered() -> None:
    killed = lifecycle.ask(record(), lifecycle.Kill(60, "bob"), NOW)
    again = lifecycle.ask(killed, lifecycle.Kill(0, "alice"), NOW)
    assert (again.pending.asked_by, again.pending.due_unix_s) == ("bob", NOW)


def test_counts_are_those_of_user_streams_since_the_submission() -> None:
    entry, statistics = past_topology(record(), None, NOW), TopologyStatistics()
    stats = rpc.TaskStats(task_id=2, component_id="split", executed=5, acked=4, failed=1)
    stats.streams.add(stream="default", emitted=7)
    stats.streams.add(stream="__system", emitted=9)
    stats.inputs.add(source_component="lines", stream="default", executed=5, acked=4, failed=1)
    statistics.report(rpc.WorkerReport(worker_id="w", tasks=[stats]), 0.0)
    add_counts(entry, statistics)
    lines, split = entry.components
    assert (lines.emitted, lines.executed, lines.acked, lines.failed) == (0, 0, 0, 0)
    assert (split.emitted, split.executed, split.acked, split.failed) == (7, 5, 4, 1)


def test_a_small_entry_is_kept_whole() -> None:
    entry = past_topology(record(), assignment(2), NOW)
    found = bounded(entry, [error(1, traceback="Traceback"), error(2)])
    assert not found.is_shortened and [one.at_unix_s for one in found.errors] == [NOW - 1, NOW - 2]
    assert found.errors[0].traceback == "Traceback" and list(entry.errors) == []


def test_a_long_list_or_traceback_is_cut_and_the_entry_says_so() -> None:
    found = bounded(past_topology(record(), assignment(MAX_LISTED + 1), NOW), [])
    assert found.is_shortened and len(found.workers) == MAX_LISTED
    found = bounded(past_topology(record(), None, NOW), [error(one) for one in range(MAX_ERRORS + 5)])
    assert found.is_shortened and [one.at_unix_s for one in found.errors] == [NOW - one for one in range(MAX_ERRORS)]
    found = bounded(past_topology(record(), None, NOW), [error(1, traceback="x" * 16_000 + "the end")])
    assert found.is_shortened and found.errors[0].traceback.endswith("the end")


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=1024)
names = st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200), max_size=300)


@given(users=names, readers=names, messages=st.lists(texts, max_size=12), workers=st.integers(0, 2000))
def test_no_entry_is_larger_than_its_bound_and_none_gives_more_rights(
    users: list[str], readers: list[str], messages: list[str], workers: int
) -> None:
    conf = json.dumps({"topology.users": users, "topology.readonly.users": readers})
    entry = past_topology(record(conf_json=conf), assignment(workers), NOW)
    found = bounded(entry, [error(n, text, 20 * text) for n, text in enumerate(messages)])
    assert len(encode(found)) <= MAX_ENTRY_BYTES
    assert decode(encode(found), pb.PastTopology, "a node") == found
    assert set(found.users) <= set(users) and set(found.readers) <= set(readers)
    assert list(found.errors) == sorted(found.errors, key=lambda one: -one.at_unix_s)
    if found.is_shortened is False:
        assert (list(found.workers), list(found.users)) == (list(entry.workers), list(entry.users))


@given(removed=st.dictionaries(st.text(max_size=5), st.floats(0, 1e10), max_size=20), number=st.integers(-5, 25))
def test_the_oldest_are_dropped_first(removed: dict[str, float], number: int) -> None:
    dropped = oldest(removed, number)
    assert len(dropped) == min(len(removed), max(0, number))
    kept = removed.keys() - set(dropped)
    assert all(removed[gone] <= removed[one] for gone in dropped for one in kept)


def entries() -> list[pb.PastTopology]:
    found = [
        pb.PastTopology(id="wc-1-1", name="wc", removed_unix_s=1, errors=[error(1)], workers=[pb.WorkerAssignment()]),
        pb.PastTopology(id="wc-3-3", name="wc", removed_unix_s=3),
        pb.PastTopology(id="other-2-2", name="other", removed_unix_s=2, users=["x"], is_shortened=True),
    ]
    return last_first(found)


def test_entries_are_found_by_name_and_id_the_last_first() -> None:
    assert [one.id for one in entries()] == ["wc-3-3", "other-2-2", "wc-1-1"]
    assert [one.id for one in with_name(entries(), "wc")] == ["wc-3-3", "wc-1-1"]
    assert [one.id for one in with_name(entries(), "wc-1-1")] == ["wc-1-1"]
    assert with_id(entries(), "wc-1-1").errors
    with pytest.raises(NotFoundError, match=r"^no removed topology with the name or id 'nobody' is remembered"):
        with_name(entries(), "nobody")
    with pytest.raises(NotFoundError, match=r"^there is no topology with the id 'wc', and none in the history$"):
        with_id(entries(), "wc")


def test_an_entry_in_short_has_no_lists() -> None:
    for one in entries():
        short = in_short(one)
        assert (short.id, short.removed_unix_s) == (one.id, one.removed_unix_s)
        assert not (short.errors or short.workers or short.components or short.users or short.is_shortened)


def test_an_entry_is_seen_by_those_who_saw_the_topology() -> None:
    acl = acl_of_past(past_topology(record(), None, NOW))
    assert acl == Acl("'wc'", "alice", frozenset({"bob"}), frozenset({"carol"}))
    submit = frozenset({"submit"})
    seen = {one: may_read(Principal(one, "user", submit), [], acl) for one in ("alice", "bob", "carol", "dave")}
    assert seen == {"alice": True, "bob": True, "carol": True, "dave": False}


def test_a_page_folds_equal_errors_and_links_to_the_logs() -> None:
    entry = bounded(past_topology(record(), assignment(1), NOW), [error(1), error(2), error(3, "other")])
    page = history.page(entry, "http://h:1", NOW + 1000)
    assert [(one["message"], one["times"], one["isOver"]) for one in page["errors"]] == [
        ("boom", 2, False),
        ("other", 1, False),
    ]
    link = "http://h:1/api/v1/log?file=wc-1-1700000000%2F6700%2Fworker.log&host=h1"
    assert page["workers"] == [{"host": "h1", "port": 6700, "supervisorId": "s1", "workerLogLink": link}]
    assert (page["ranFor"], page["ranForSeconds"], page["updateNumber"]) == ("1m 40s", 100, 3)
    summary = history.summary([record(id="wc-2-2")], [entry])
    assert summary["topo-history"] == ["wc-2-2", "wc-1-1700000000"]
    assert [one["id"] for one in summary["topologies"]] == ["wc-1-1700000000"]
    assert "errors" not in summary["topologies"][0]
