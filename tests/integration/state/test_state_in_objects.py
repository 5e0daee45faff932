"""What is particular to states in an object store: taken names, lost answers, and a server that goes and comes back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import boto3
import pytest
from late_client import LateClient
from object_servers import BUCKET, KEY, S3Server
from obstore.store import MemoryStore
from state_places import (
    NAMESPACE,
    State,
    StatePlace,
    check_that_all_goes_on_after_an_absence,
    checkpoint,
    filled,
    objects_place,
)
from test_state_interruptions import judge, scenario

from tests.integration.transactional.database_servers import running
from tupletree.errors import UnavailableError, UsageError
from tupletree.state.buffered import BufferedState
from tupletree.state.rocksdb import backend, object_store
from tupletree.state.rocksdb.backend import RocksDBBackend
from tupletree.state.rocksdb.manifests import MERGED_SEGMENTS, Segment, encode_manifest, manifest_number
from tupletree.state.rocksdb.object_store import ObjectFolder, ObjectStore
from tupletree.state.rocksdb.stopping import StoppedError

Opens = Callable[..., State]


@pytest.fixture
def place(s3_server: S3Server, tmp_path: Path) -> StatePlace:
    return objects_place(s3_server, tmp_path)


@pytest.fixture
def store(place: StatePlace) -> ObjectStore:
    return object_store.object_store(place.provider_config["shared"], place.provider_config)


@pytest.fixture
def folder(store: ObjectStore) -> ObjectFolder:
    return store.folder(NAMESPACE)


@pytest.fixture
def own_server() -> Iterator[S3Server]:
    """A server that a test may stop, or change for good."""
    with running(S3Server) as server:
        yield server


def test_of_writers_that_take_the_same_name_one_wins(folder: ObjectFolder) -> None:
    names = [f"manifest-{number:010}.json" for number in range(20)]

    def taken(writer: int) -> set[str]:
        return {name for name in names if folder.create(name, b"%d" % writer, "") is not None}

    with ThreadPoolExecutor(4) as pool:
        won = list(pool.map(taken, range(4)))
    assert sorted(name for one in won for name in one) == names
    for writer, those in enumerate(won):
        assert {folder.read(name) for name in those} <= {b"%d" % writer}


def test_a_writer_whose_answers_are_lost_finds_out_that_it_has_succeeded(opened: Opens, s3_server: S3Server) -> None:
    state = filled(opened, 1)
    for txid, step in ((2, "one answer"), (3, "all answers")):
        count = 1 if step == "one answer" else object_store._RETRIES + 1
        state.put("word", step)
        s3_server.lose("PUT", "manifest", count)
        if count > 1:
            away = r"^the object store s3://states-of-tests/states/\w+ cannot be used: the connection was lost$"
            with pytest.raises(UnavailableError, match=away):
                state.prepare_commit(txid)
        state.prepare_commit(txid)
        s3_server.lose("PUT", "manifest", count)
        if count > 1:
            with pytest.raises(UnavailableError, match=away):
                state.commit(txid)
        state.commit(txid)
    again = opened()
    assert (again.committed, again.prepared, again.get("word")) == (3, None, "all answers")


def test_a_request_that_never_arrives_is_made_again(opened: Opens, s3_server: S3Server) -> None:
    state = filled(opened, 1)
    for txid, part in ((2, "segment"), (3, "manifest")):
        state.put("word", part)
        s3_server.drop("PUT", part, object_store._RETRIES + 1)
        with pytest.raises(UnavailableError):
            state.prepare_commit(txid)
        assert (state.committed, state.prepared) == (txid - 1, None)
        checkpoint(state, txid)
        assert opened().get("word") == part
        state = opened()


def test_a_server_that_hangs_is_given_up_and_what_it_does_later_is_no_harm(
    own_server: S3Server, tmp_path: Path
) -> None:
    place = objects_place(own_server, tmp_path)
    with closing(place.open(timeout_s=1)) as state:
        state.put("word", 1)
        checkpoint(state, 1)
        state.put("word", 2)
        [process] = own_server.processes()
        os.kill(process, signal.SIGSTOP)
        with pytest.raises(UnavailableError, match=r"cannot be used: it did not answer in time$"):
            state.prepare_commit(2)
        os.kill(process, signal.SIGCONT)
        checkpoint(state, 2)
        assert state.get("word") == 2


@pytest.mark.long  # the server starts five times
def test_all_goes_on_when_the_server_was_killed_in_a_checkpoint(own_server: S3Server, tmp_path: Path) -> None:
    place = objects_place(own_server, tmp_path)
    opened: list[State] = []

    def opens() -> State:
        opened.append(place.open())
        return opened[-1]

    check_that_all_goes_on_after_an_absence(opens, own_server, r"the object store s3://.* cannot be used: Connection")
    for state in opened:
        state.close()


@pytest.mark.parametrize("lateness", [2, *(pytest.param(one, marks=pytest.mark.long) for one in (None, 0, 1, 3, 5, 8))])
def test_a_state_goes_on_after_any_request_that_fails(
    tmp_path: Path, lateness: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ObjectStore("s3://bucket/states", MemoryStore())
    monkeypatch.setattr(object_store, "object_store", lambda address, options: store)

    def opened(namespace: str) -> State:
        return BufferedState(namespace, RocksDBBackend(namespace, str(tmp_path), store.address))

    opened("first").close()  # checks the store
    for at in range(1, 200):
        namespace = f"interrupted-{at}"
        state = opened(namespace)
        late: Any = LateClient(MemoryStore(), at, lateness)
        late._client, store.client = store.client, late
        expected = scenario(state)
        store.client = late._client
        state.close()
        judge(opened(namespace), expected)
        if late.count < at:
            assert at > 40  # some six for each prepare and commit
            return
    pytest.fail("each request is counted, and there are more than 200")


def test_a_write_that_happens_late_is_seen_by_the_next_step(opened: Opens, folder: ObjectFolder) -> None:
    state: Any = filled(opened, 1)
    shared = state._backend._shared
    late, other = (shared.manifest.preparing(Segment("", txid, 0)) for txid in (2, 3))
    assert folder.create(late.file_name, encode_manifest(late), "") is not None  # its answer was lost
    with pytest.raises(UnavailableError, match=r"a write that had failed has happened after all; repeat the step$"):
        shared.advance(other)
    assert state._backend.prepared == 2
    state.rollback()
    assert state._backend.prepared is None
    state.put("word", 4)
    checkpoint(state, 4)
    assert opened().get("word") == 4


def test_a_removal_is_given_up_where_a_state_is_opened_again_and_again(
    opened: Opens, place: StatePlace, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(opened, 1)
    monkeypatch.setattr(store, "is_removed", lambda folder, number: False)
    with pytest.raises(UnavailableError, match=r"changes too fast to be removed; repeat the request$"):
        place.provider.remove_state(NAMESPACE, place.provider_config, place.context)


def test_a_state_that_was_removed_leaves_a_manifest_that_no_late_writer_passes(
    opened: Opens, place: StatePlace, folder: ObjectFolder, store: ObjectStore
) -> None:
    first: Any = filled(opened, 5)
    late = first._backend._shared.manifest
    place.provider.remove_state(NAMESPACE, place.provider_config, place.context)
    gone = r"was removed or replaced while the state was in use"
    with pytest.raises(UnavailableError, match=gone):
        first._backend._shared.advance(late.rolled_back())  # had looked before the removal
    with pytest.raises(UnavailableError, match=gone):
        first.prepare_commit(6)
    assert [manifest_number(name) for name in folder.names()] == [late.number + 1]
    place.provider.remove_state(NAMESPACE, place.provider_config, place.context)
    place.provider.remove_state("another", place.provider_config, place.context)
    assert [manifest_number(name) for name in folder.names()] == [late.number + 1]
    assert (place.reader().committed, place.reader().scan(b"", 10, 10)) == (None, [])
    anew = ObjectStore(store.address, store.client)  # as in a process that has not seen it
    assert set(anew.gone([folder._folder, "never-was"])) == {folder._folder, "never-was"}
    state = filled(opened, 1)
    assert (state.committed, dict(state.items())) == (1, {"word": 1, 1: "x" * 100})
    assert anew.gone([folder._folder]) == []


def test_copies_of_states_that_were_removed_go_from_other_machines(
    opened: Opens, place: StatePlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = str(tmp_path / "elsewhere")
    state: Any = filled(opened, 1, directory=elsewhere)
    copies = Path(state._backend._copy._folder)
    state.close()
    place.provider.remove_state(NAMESPACE, place.provider_config, place.context)
    assert copies.exists()
    object_store._connected.cache_clear()  # as in a new process
    opened("words/count/1", directory=elsewhere)
    assert not copies.exists()


def test_a_large_segment_goes_in_parts_and_is_read_by_ranges(opened: Opens, tmp_path: Path, store: ObjectStore) -> None:
    state = opened()
    values = {number: os.urandom(100_000) for number in range(200)}
    for number, value in values.items():
        state.put(number, value)
    checkpoint(state, 1)
    state.close()
    elsewhere: Any = opened(directory=str(tmp_path / "elsewhere"))
    assert elsewhere.get(77) == values[77]
    assert elsewhere._backend._copying is not None  # so this was read from the store
    elsewhere._backend._copying.wait()
    assert dict(elsewhere.items()) == values


def test_a_segment_that_could_not_be_written_is_written_again(
    opened: Opens, s3_server: S3Server, folder: ObjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = opened()
    for number in range(100):
        state.put(number, os.urandom(100_000))
    s3_server.drop("PUT", "segment", 2 * (object_store._RETRIES + 1))
    with pytest.raises(UnavailableError, match=r"^the object store s3://states-of-tests/states/\w+ cannot be used"):
        state.prepare_commit(1)
    s3_server.drop("PUT", "nothing")
    checkpoint(state, 1)
    assert len([name for name in folder.names() if name.startswith("segment")]) == 1


def test_a_merge_that_is_given_up_leaves_nothing_of_its_upload(folder: ObjectFolder, s3_server: S3Server) -> None:
    def entries() -> Iterator[tuple[bytes, bytes]]:
        for number in range(200):
            yield b"%08d" % number, bytes(100_000)
        raise StoppedError

    with pytest.raises(StoppedError):
        folder.write("segment-0000000001-1", entries())
    client = boto3.client(
        "s3",
        endpoint_url=s3_server.endpoint,
        region_name="us-east-1",
        aws_access_key_id=KEY["access_key_id"],
        aws_secret_access_key=KEY["secret_access_key"],
    )
    assert client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", []) == []
    assert folder.names() == []


def test_segments_are_merged_and_the_old_ones_deleted(opened: Opens, tmp_path: Path, folder: ObjectFolder) -> None:
    state: Any = opened()
    for txid in range(1, 3 * MERGED_SEGMENTS):
        state.put("word", txid)
        state.put(txid % 10, [txid])
        checkpoint(state, txid)
        state._backend._merger.wait()
    assert len(folder.names()) <= MERGED_SEGMENTS + 2
    again = opened(directory=str(tmp_path / "elsewhere"))
    assert dict(again.items()) == dict(state.items())


def test_a_damaged_object_is_said(opened: Opens, folder: ObjectFolder, store: ObjectStore, tmp_path: Path) -> None:
    filled(opened, 1).close()
    elsewhere = opened(directory=str(tmp_path / "elsewhere"))
    [segment] = [f"{folder._folder}/{name}" for name in folder.names() if name.startswith("segment")]
    whole = store.read(segment)
    damaged = r"^s3://states-of-tests/states/.*/segment-\d+-1-\w+ is damaged, since it does not have the checksum"
    for content in (whole[:-30], whole + b"?", b"", whole[:20] + b"?" + whole[21:]):
        store.client.put(segment, content)
        with pytest.raises(UsageError, match=damaged):
            elsewhere.get("word")
    store.client.delete(segment)
    with pytest.raises(UnavailableError, match=r"^s3://states-of-tests/states/.*/segment-\d+-1-\w+: No such file"):
        elsewhere.get("word")
    store.client.put(segment, whole)
    assert elsewhere.get("word") == 1


def test_a_segment_that_is_much_shorter_than_it_was_is_damaged(
    opened: Opens, folder: ObjectFolder, store: ObjectStore, tmp_path: Path
) -> None:
    state = opened()
    state.put("long", os.urandom(500_000))
    checkpoint(state, 1)
    [segment] = [f"{folder._folder}/{name}" for name in folder.names() if name.startswith("segment")]
    store.client.put(segment, b"short")
    with pytest.raises(UsageError, match=r"segment-\d+-1-\w+ is damaged"):
        opened(directory=str(tmp_path / "elsewhere")).get("long")


def test_a_bucket_that_does_not_exist_is_said(opened: Opens, place: StatePlace) -> None:
    missing = "s3://no-such-bucket/states"
    expected = rf"^the object store {missing} cannot be used: The specified bucket does not exist$"
    place.provider_config["shared"] = missing
    for step in (
        opened,
        lambda: place.reader().committed,
        lambda: place.provider.remove_state(NAMESPACE, place.provider_config, place.context),
    ):
        with pytest.raises(UnavailableError, match=expected):
            step()


def test_a_store_that_overwrites_taken_names_is_refused(own_server: S3Server, tmp_path: Path) -> None:
    own_server.forget_conditions()
    expected = (
        rf"^the object store s3://{BUCKET}/.* does not refuse to write an object whose name is taken \(If-None-Match"
    )
    with pytest.raises(UsageError, match=expected):
        objects_place(own_server, tmp_path).open()


def test_credentials_and_endpoint_are_taken_from_the_environment(
    place: StatePlace, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    del place.provider_config["storage_options"]
    state = place.open()
    checkpoint(state, 1)
    state.close()
    assert place.reader().committed == 1


def test_a_store_without_what_it_needs_is_refused(opened: Opens) -> None:
    expected = r"^the object store az://container/states cannot be used: no account_name is given$"
    with pytest.raises(UsageError, match=expected):
        opened(shared="az://container/states", storage_options={})


def test_an_object_store_without_its_package_is_refused() -> None:
    code = (
        "import sys; sys.modules['obstore'] = None; sys.modules['obstore.store'] = None\n"
        "from tupletree.state.rocksdb.stores import store_of\n"
        "try: store_of('s3://bucket/states')\nexcept Exception as error: print(type(error).__name__, error)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told == (
        "UsageError a state at s3://bucket/states needs the package obstore: pip install 'tupletree[objectstore]'\n"
    )


def test_requests_are_as_many_as_the_documents_say(
    opened: Opens, place: StatePlace, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "remove_abandoned", lambda *arguments: None)  # a request for each copy on the machine
    filled(opened, 2).close()
    counted: Any = LateClient(store.client, 0, None)
    monkeypatch.setattr(store, "client", counted)

    def requests(step: Callable[[], Any]) -> int:
        before = counted.count
        step()
        return int(counted.count) - before

    states: list[State] = []
    assert requests(lambda: states.append(opened())) == 6
    [state] = states
    state.put("word", 3)
    assert requests(lambda: state.prepare_commit(3)) == 6
    assert requests(lambda: state.commit(3)) == 5
    reader = place.reader()
    assert requests(lambda: reader.get(b"?")) == 2 + 3  # three segments
    assert requests(lambda: reader.get(b"?")) == 2
