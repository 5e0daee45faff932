"""What blobs nimbus stores, which topologies may name them, and which may be deleted."""

from __future__ import annotations

import json

import pytest

from tupletree._blobs import BLOB_MAP, BlobUse, uses_in
from tupletree._security.rights import Principal
from tupletree.errors import NameInUseError, NotFoundError, UsageError
from tupletree.nimbus.blob_rules import (
    MAX_BLOBS,
    changed_uses,
    check_blob_header,
    check_deletion,
    check_uses,
    first_version,
    naming,
    next_version,
    summary,
)
from tupletree.nimbus.leader.lifecycle import ACTIVE, KILLED
from tupletree.v1 import nimbus_pb2 as rpc
from tupletree.v1 import topology_pb2 as pb

SHA = "ab" * 32
OTHER = "cd" * 32
ALICE = Principal("alice", "user", frozenset({"submit"}))
BOB = Principal("bob", "user", frozenset({"submit"}))


def header(key: str = "model", sha256: str = SHA, size: int = 10, **more: object) -> rpc.BlobHeader:
    return rpc.BlobHeader(key=key, sha256=sha256, size=size, **more)  # type: ignore[arg-type]


def conf_of(*keys: str) -> str:
    return json.dumps({BLOB_MAP: {key: {} for key in keys}})


def record(name: str, *keys: str, owner: str = "alice", status: int = ACTIVE) -> pb.TopologyRecord:
    return pb.TopologyRecord(id=f"{name}-1", name=name, owner=owner, status=status, conf_json=conf_of(*keys))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        (header(key="a b"), r"^the key of a blob has 1 to 200 letters"),
        (header(sha256="x"), r"^the blob's sha256 is 64 hexadecimal digits, not 'x'$"),
        (header(size=0), r"^blob 'model' has 0 bytes; the cluster accepts 1 to 100 \(nimbus.max.blob.bytes\)$"),
        (header(size=101), r"^blob 'model' has 101 bytes; the cluster accepts 1 to 100"),
        (header(owner="\n"), r"^the owner of a blob must be a name"),
        (header(users=[""]), r"^a user of a blob must be a name"),
        (header(readonly_users=["u"] * 101), r"^blob 'model' has 101 users; the limit is 100$"),
    ],
)
def test_an_upload_that_cannot_succeed_is_refused(wrong: rpc.BlobHeader, fault: str) -> None:
    check_blob_header(header(), 100)
    with pytest.raises(UsageError, match=fault):
        check_blob_header(wrong, 100)


def test_versions_follow_each_other_and_keep_owner_and_users() -> None:
    first = first_version(header(owner="alice", users=["carol", "bob", "bob"]), {}, 1.0)
    assert (first.version, first.owner, list(first.users), first.created_unix_s) == (1, "alice", ["bob", "carol"], 1.0)
    second = next_version(header(sha256=OTHER, size=20, owner="bob"), {"model": first}, 2.0)
    assert (second.version, second.sha256, second.bytes, second.owner) == (2, OTHER, 20, "alice")
    assert (second.created_unix_s, second.updated_unix_s, list(second.users)) == (1.0, 2.0, ["bob", "carol"])
    assert next_version(header(sha256=OTHER, size=20), {"model": second}, 3.0) == second, "the same bytes"


def test_a_key_that_is_taken_or_missing_is_refused() -> None:
    first = first_version(header(), {}, 1.0)
    with pytest.raises(NameInUseError, match=r"'tupletree blob update model FILE' gives it another content$"):
        first_version(header(), {"model": first}, 2.0)
    with pytest.raises(NotFoundError, match=r"^there is no blob 'model'; 'tupletree blob list' shows"):
        next_version(header(), {}, 2.0)
    with pytest.raises(UsageError, match=r"^blob 'model': its users are settled when it is put$"):
        next_version(header(users=["bob"]), {"model": first}, 2.0)
    full = {str(number): first for number in range(MAX_BLOBS)}
    with pytest.raises(UsageError, match=r"^the cluster has 10000 blobs already, the maximum; delete some first$"):
        first_version(header(), full, 2.0)


def test_a_topology_names_blobs_that_are_there_and_that_its_user_may_read() -> None:
    blobs = {"model": pb.BlobRecord(key="model", owner="alice", readonly_users=["carol"])}
    uses = uses_in(conf_of("model"))
    for who in (None, ALICE, Principal("carol", "user"), Principal("root", "user", frozenset({"admin"}))):
        check_uses("t", uses, blobs, who, ())
    with pytest.raises(UsageError, match=r"which does not exist, or which the caller may not read: put it first"):
        check_uses("t", uses, blobs, BOB, ())
    with pytest.raises(UsageError, match=r"^topology 't' names blob 'no' in .* which does not exist: put it first"):
        check_uses("t", [BlobUse("no", "no")], blobs, None, ())


def test_a_blob_that_a_topology_names_in_any_version_is_kept() -> None:
    previous = pb.TopologyVersion(conf_json=conf_of("old"), bundle_sha256="x")
    one = record("one", "model")
    one.previous.CopyFrom(previous)
    one.pending.conf[BLOB_MAP] = '{"next": {}}'
    records = [one, record("two", "model", owner="bob"), record("ended", "model", status=KILLED)]
    assert {key: [one.name for one in named] for key, named in naming(records).items()} == {
        "model": ["one", "two"],
        "old": ["one"],
        "next": ["one"],
    }
    for key in ("old", "next"):
        with pytest.raises(UsageError, match=rf"^blob '{key}' is named by topology 'one': kill it"):
            check_deletion(key, records, None, ())
    with pytest.raises(UsageError, match=r"^blob 'model' is named by topology 'one', one that the caller may not see:"):
        check_deletion("model", records, ALICE, ())
    check_deletion("unnamed", records, ALICE, ())
    found = summary(pb.BlobRecord(key="model"), naming(records), ALICE, ())
    assert list(found.topologies) == ["one"]


def test_only_what_a_change_names_anew_is_checked() -> None:
    before = record("one", "a")
    after = record("one", "a", "b")
    assert changed_uses(before, after) == {BlobUse("b", "b")}
    assert changed_uses(after, before) == changed_uses(before, before) == set()
    waiting = record("one", "a")
    waiting.pending.update.conf_json = conf_of("c")
    assert changed_uses(before, waiting) == {BlobUse("c", "c")}
    assert changed_uses(waiting, waiting) == set(), "a kill of a topology whose blob is gone"
