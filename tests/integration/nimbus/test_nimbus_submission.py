"""Submissions to a real nimbus, good and bad: a bad one is one clear sentence and leaves nothing behind."""

from __future__ import annotations

import hashlib
import os
import resource
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from nimbus_harness import Bench, NimbusProcess, Submission, submission, topology, upload

from tupletree.errors import NameInUseError, TupletreeError, UnavailableError, UsageError
from tupletree.testing.wait import wait_until
from tupletree.v1 import nimbus_pb2 as rpc


def changed(original: Submission, **fields: object) -> Submission:
    header = rpc.SubmitHeader()
    header.CopyFrom(original.header)
    for name, value in fields.items():
        setattr(header, name, value)
    return replace(original, header=header)


def assert_nothing_left(bench: Bench, nimbus: NimbusProcess, good: Submission) -> None:
    """Neither record nor file, and the name is free."""
    name = good.header.name
    assert name not in {one.value.name for one in bench.store.topologies().values()}
    in_use = {one.value.bundle_sha256 for one in bench.store.topologies().values()}
    assert set(nimbus.files()) == in_use
    assert upload(nimbus.address, good.requests())


def test_a_submitted_topology_is_assigned_before_the_next_check_of_the_cluster(bench: Bench) -> None:
    leader = bench.leader("n1", "nimbus.monitor.freq.secs=600")
    bench.register_supervisor("s1", 6700, 6701)
    client = bench.client(leader)
    first = client.submit("warm-up", topology())
    bench.await_assignment(first, lambda one: one.workers, 60)
    topology_id = client.submit("prompt", topology())
    assignment = bench.await_assignment(topology_id, lambda one: one.workers, 60)
    assert [(one.first_task, one.last_task) for one in assignment.workers[0].executors] == [
        (1, 1), (2, 2), (3, 3), (4, 4)
    ]  # fmt: skip
    assert topology_id.startswith("prompt-2-")


def test_a_bad_header_is_refused_before_the_upload(shared: Bench, leader: NimbusProcess, tmp_path: Path) -> None:
    good = submission(tmp_path, "header")
    sent: list[int] = []

    def endless(one: Submission) -> Iterator[rpc.SubmitRequest]:
        """A client that would go on forever if nobody stopped it."""
        yield rpc.SubmitRequest(header=one.header)
        while True:
            sent.append(1)
            yield rpc.SubmitRequest(chunk=bytes(1024))
            time.sleep(0.01)

    for fields, sentence in (
        ({"name": "a/b"}, "name 'a/b' must consist of"),
        ({"name": ""}, "name '' must consist of"),
        ({"sha256": "xyz"}, "64 hexadecimal digits"),
        ({"size": 1 << 40}, r"nimbus\.max\.bundle\.bytes"),
        ({"conf_json": '{"topology.wrokers": 2}'}, r"did you mean 'topology\.workers'"),
        ({"conf_json": '{"topology.workers": "two"}'}, r"topology\.workers"),
        ({"conf_json": '{"topology.workers": 100000}'}, "100000 workers"),
        ({"conf_json": "nonsense"}, "is not JSON"),
    ):
        with pytest.raises(UsageError, match=sentence):
            upload(leader.address, endless(changed(good, **fields)))
    assert len(sent) < 500
    assert_nothing_left(shared, leader, good)


def test_a_name_in_use_is_refused(shared: Bench, leader: NimbusProcess, tmp_path: Path) -> None:
    one = submission(tmp_path, "in-use")
    upload(leader.address, one.requests())
    with pytest.raises(NameInUseError, match="'in-use' exists already"):
        upload(leader.address, one.requests())


def test_two_uploads_of_one_name_do_not_both_succeed(leader: NimbusProcess, tmp_path: Path) -> None:
    good = submission(tmp_path, "twice")

    def slow() -> Iterator[rpc.SubmitRequest]:
        requests = good.requests()
        yield next(requests)
        yield next(requests)
        wait_until(lambda: [name for name in leader.files() if name.startswith("incoming/")])
        with pytest.raises(NameInUseError, match="is being submitted"):
            upload(leader.address, iter([rpc.SubmitRequest(header=good.header)]))
        tried.append(True)
        yield from requests

    tried: list[bool] = []
    assert upload(leader.address, slow())
    assert tried == [True]


@pytest.mark.parametrize("spoil", ["bytes", "cut", "more", "other", "none"])
def test_a_corrupt_upload_is_refused_and_leaves_nothing(
    shared: Bench, leader: NimbusProcess, tmp_path: Path, spoil: str
) -> None:
    good = submission(tmp_path, f"corrupt-{spoil}", padding=200_000)
    match spoil:
        case "bytes":
            bad, sentence = replace(good, data=good.data[:-1] + b"!"), "corrupt: its sha256 is"
        case "cut":
            bad, sentence = replace(good, data=good.data[:-1000]), "corrupt: .* bytes arrived"
        case "more":
            bad, sentence = replace(good, data=good.data + b"!"), "corrupt: more than"
        case "other":
            bad, sentence = changed(good), "topology in the bundle differs from the topology in the submission's header"
            bad.header.spec.components[0].parallelism = 1
        case _:
            data = b"no tar at all"
            bad = changed(replace(good, data=data), sha256=hashlib.sha256(data).hexdigest(), size=len(data))
            sentence = "is not a bundle"
    with pytest.raises(UsageError, match=sentence):
        upload(leader.address, bad.requests())
    assert_nothing_left(shared, leader, good)


def test_a_client_that_goes_away_leaves_nothing(shared: Bench, leader: NimbusProcess, tmp_path: Path) -> None:
    good = submission(tmp_path, "vanishes", padding=500_000)

    def incoming() -> list[str]:
        return [name for name in leader.files() if name.startswith("incoming/")]

    def stops() -> Iterator[rpc.SubmitRequest]:
        requests = good.requests()
        yield next(requests)
        yield next(requests)
        wait_until(incoming, what="the upload has begun")
        raise RuntimeError("the client dies")

    with pytest.raises(TupletreeError):
        upload(leader.address, stops())
    wait_until(lambda: not incoming(), what="the partial upload is removed")
    assert_nothing_left(shared, leader, good)


def test_an_unneeded_blob_is_removed_after_the_delay(shared: Bench, leader: NimbusProcess, tmp_path: Path) -> None:
    good = submission(tmp_path, "short-lived", padding=10)
    upload(leader.address, good.requests())
    assert good.header.sha256 in leader.files()
    shared.client(leader).kill("short-lived", wait_secs=0)
    wait_until(lambda: good.header.sha256 not in leader.files(), what="the blob is removed")


@pytest.fixture
def small_disk(bench: Bench) -> Iterator[None]:
    """The nimbus n1 keeps its blobs on a disk of 300 kB."""
    place = bench.directory / "n1"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(place)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("a small disk needs the right to mount one")
    yield
    bench.close()
    subprocess.run(["umount", "-l", place], check=True)


@pytest.mark.usefixtures("small_disk")
def test_a_full_disk_is_one_sentence_and_leaves_nothing(bench: Bench, tmp_path: Path) -> None:
    nimbus = bench.leader("n1", f"logs.dir={bench.directory}/logs")
    large, small = submission(tmp_path, "large", padding=400_000), submission(tmp_path, "wc")
    with pytest.raises(UnavailableError, match=r"nimbus's disk is full: the bundle of 4.* bytes needs more than"):
        upload(nimbus.address, large.requests())
    assert_nothing_left(bench, nimbus, small)


def test_a_disk_that_fills_during_the_upload_is_one_sentence_and_leaves_nothing(bench: Bench, tmp_path: Path) -> None:
    nimbus = bench.leader()
    resource.prlimit(nimbus.process.pid, resource.RLIMIT_FSIZE, (200_000, 200_000))
    large, small = submission(tmp_path, "large", padding=400_000), submission(tmp_path, "wc")
    with pytest.raises(UnavailableError, match="nimbus's disk is full: the bundle could not be stored"):
        upload(nimbus.address, large.requests())
    assert_nothing_left(bench, nimbus, small)


def test_what_an_earlier_process_left_unfinished_is_removed_at_start(bench: Bench) -> None:
    incoming = bench.directory / "n1" / "nimbus" / "blobs" / "incoming"
    incoming.mkdir(parents=True)
    (incoming / ("0" * 64 + ".dead")).write_bytes(os.urandom(10))
    assert bench.leader().files() == []
