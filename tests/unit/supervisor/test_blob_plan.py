"""Which blobs are fetched, which links are replaced, and which workers are restarted."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from tupletree._blobs import BLOB_MAP, BlobUse
from tupletree.supervisor.blob_plan import (
    Form,
    LinkedWorker,
    LocalBlob,
    Relink,
    Restart,
    adopted,
    changes,
    digests_in_use,
    form_of,
    forms_of,
    outdated,
)
from tupletree.supervisor.local_assignment import LocalAssignment
from tupletree.v1.topology_pb2 import BlobRecord

USES = st.builds(BlobUse, st.sampled_from("ab"), st.sampled_from("xyz"), st.booleans(), st.booleans())
DIGESTS = st.sampled_from(["1", "2", "3"])
WORKERS = st.builds(
    LinkedWorker,
    st.uuids().map(str),
    st.integers(1, 9),
    st.just("t-1"),
    st.lists(USES, unique_by=lambda use: use.local_name).map(tuple),
    st.dictionaries(st.sampled_from("xyz"), DIGESTS),
)
READY = st.dictionaries(
    st.builds(Form, st.sampled_from("ab"), st.booleans()), st.builds(LocalBlob, DIGESTS, st.just("/path"))
)


def work(blobs: dict[str, dict[str, object]]) -> LocalAssignment:
    return LocalAssignment("t-1", "sha", 1, json.dumps({BLOB_MAP: blobs}), ((1, 1),))


def test_a_blob_has_a_form_for_each_way_in_which_it_is_used() -> None:
    works = [work({"a": {}, "b": {"uncompress": True}}), work({"a": {"uncompress": True}}), work({})]
    assert forms_of(works) == {Form("a", False), Form("a", True), Form("b", True)}


def test_what_is_fetched_is_what_has_changed_and_is_needed() -> None:
    records = {key: BlobRecord(key=key, sha256="2") for key in ("a", "b", "other")}
    ready = {Form("a", False): LocalBlob("1", "/1"), Form("b", False): LocalBlob("2", "/2")}
    forms = [Form("a", False), Form("a", True), Form("b", False), Form("deleted", False)]
    assert outdated(forms, records, ready) == {Form("a", False)}, "the other form is fetched by what starts its worker"


def test_a_worker_is_restarted_once_for_all_its_blobs() -> None:
    uses = (BlobUse("a", "x", restarts_worker=True), BlobUse("b", "y"), BlobUse("c", "z", restarts_worker=True))
    worker = LinkedWorker("w", 1, "t-1", uses, {"x": "1", "y": "1", "z": "1"})
    new = {form_of(use): LocalBlob("2", "/2") for use in uses}
    assert changes([worker], new) == [Restart(worker, uses[0])]
    only_b = {form_of(uses[1]): LocalBlob("2", "/2")}
    assert changes([worker], only_b) == [Relink(worker, uses[1], LocalBlob("2", "/2"))]


def test_what_workers_have_is_known_again_after_a_restart() -> None:
    uses = (BlobUse("a", "x"), BlobUse("b", "y", is_unpacked=True), BlobUse("c", "z"))
    worker = LinkedWorker("w", 1, "t-1", uses, {"x": "1", "y": "2", "z": ""})
    found = adopted([worker], lambda sha256, is_unpacked: f"{sha256} {is_unpacked}")
    assert found == {Form("a", False): LocalBlob("1", "1 False"), Form("b", True): LocalBlob("2", "2 True")}
    assert changes([worker], found) == []


@given(st.lists(WORKERS), READY)
def test_a_round_leaves_nothing_to_do_for_the_next(workers: list[LinkedWorker], ready: dict[Form, LocalBlob]) -> None:
    after = {worker.worker_id: dict(worker.links) for worker in workers}
    for change in changes(workers, ready):
        if isinstance(change, Relink):
            after[change.worker.worker_id][change.use.local_name] = change.blob.sha256
        else:  # it starts with the newest of all
            new = {use.local_name: ready[form_of(use)].sha256 for use in change.worker.uses if form_of(use) in ready}
            after[change.worker.worker_id] |= new
    then = [LinkedWorker(one.worker_id, one.port, "t-1", one.uses, after[one.worker_id]) for one in workers]
    assert changes(then, ready) == []
    used = digests_in_use(then, ready)
    assert all(ready[form_of(use)].sha256 in used for one in then for use in one.uses if form_of(use) in ready)
    assert {sha256 for links in after.values() for sha256 in links.values()} <= used
