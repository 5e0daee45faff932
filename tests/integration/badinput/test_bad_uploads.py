"""Uploads by hand, as no client of ours makes them: refused in one sentence, and nothing of them stays."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from badinput_harness import STEADY, running, steady_topology

from tupletree import bundle
from tupletree._rpc.channels import channel
from tupletree._rpc.status import from_rpc_error
from tupletree.errors import UsageError
from tupletree.testing import DevCluster, wait_until
from tupletree.v1 import nimbus_pb2, nimbus_pb2_grpc

pytestmark = pytest.mark.long

NAME = "by-hand"
Request = nimbus_pb2.SubmitRequest


class Upload:
    """A good submission, taken apart."""

    def __init__(self, directory: Path) -> None:
        topology = steady_topology(directory / "acks")
        path = directory / "bundle.tar.gz"
        info = bundle.pack(bundle.portable_spec(topology), {}, (), None, path)
        self.data = path.read_bytes()
        self.header = nimbus_pb2.SubmitHeader(
            name=NAME, conf_json="{}", sha256=info.sha256, size=info.size, spec=topology.outline(), owner="somebody"
        )

    def describe(self, data: bytes) -> None:
        """Let the header fit other bytes."""
        self.data = data
        self.header.sha256 = hashlib.sha256(data).hexdigest()
        self.header.size = len(data)

    def head(self) -> Request:
        return Request(header=self.header)

    def chunks(self) -> list[Request]:
        half = len(self.data) // 2
        return [Request(chunk=self.data[:half]), Request(chunk=self.data[half:])]


def wrong_digest(upload: Upload) -> list[Request]:
    upload.header.sha256 = hashlib.sha256(b"something else").hexdigest()
    return [upload.head(), *upload.chunks()]


def wrong_size(upload: Upload) -> list[Request]:
    upload.header.size += 1
    return [upload.head(), *upload.chunks()]


def one_byte_changed(upload: Upload) -> list[Request]:
    upload.data = upload.data[:100] + bytes([upload.data[100] ^ 1]) + upload.data[101:]
    return [upload.head(), *upload.chunks()]


def cut_short(upload: Upload) -> list[Request]:
    return [upload.head(), upload.chunks()[0]]


def more_than_announced(upload: Upload) -> list[Request]:
    return [upload.head(), *upload.chunks(), Request(chunk=b"more")]


def garbage(upload: Upload) -> list[Request]:
    upload.describe(b"\x1f\x8b" + bytes(range(256)) * 100)
    return [upload.head(), *upload.chunks()]


def another_topology(upload: Upload) -> list[Request]:
    upload.header.spec.components[0].parallelism = 7
    upload.header.spec.components[0].tasks = 7
    return [upload.head(), *upload.chunks()]


def no_header(upload: Upload) -> list[Request]:
    return upload.chunks()


def two_headers(upload: Upload) -> list[Request]:
    return [upload.head(), upload.head(), *upload.chunks()]


def header_alone(upload: Upload) -> list[Request]:
    return [upload.head()]


def nothing(upload: Upload) -> list[Request]:
    return []


def empty_request(upload: Upload) -> list[Request]:
    return [Request()]


CASES: list[tuple[Callable[[Upload], list[Request]], str]] = [
    (wrong_digest, "corrupt: its sha256 is"),
    (wrong_size, r"corrupt: \d+ of \d+ bytes arrived"),
    (one_byte_changed, "corrupt: its sha256 is"),
    (cut_short, r"corrupt: \d+ of \d+ bytes arrived"),
    (more_than_announced, "corrupt: more than the announced"),
    (garbage, "not a bundle"),
    (another_topology, "the topology in the bundle differs from the topology in the submission's header"),
    (no_header, "must begin with a header"),
    (two_headers, "one header followed by chunks"),
    (header_alone, r"corrupt: 0 of \d+ bytes arrived"),
    (nothing, "must begin with a header"),
    (empty_request, "must begin with a header"),
]


def submit(cluster: DevCluster, requests: list[Request]) -> str:
    with channel(cluster.client.leader()) as leader:
        try:
            return nimbus_pb2_grpc.NimbusStub(leader).Submit(iter(requests), timeout=20).topology_id
        except grpc.RpcError as error:
            raise from_rpc_error(error) from None


@pytest.fixture
def blobs(cluster: DevCluster) -> Iterator[Path]:
    """Nimbus's blob store, which must hold no other files afterwards.

    It can hold fewer: the bundle of a topology that was killed in an earlier test is removed a while later.
    """
    directory = Path(cluster.directory, "nimbus-0", "data", "nimbus", "blobs")
    before = set(directory.rglob("*"))
    yield directory
    assert set(directory.rglob("*")) - before == set()


@pytest.mark.parametrize(("spoil", "sentence"), CASES, ids=lambda case: getattr(case, "__name__", ""))
def test_a_spoilt_upload(
    cluster: DevCluster, blobs: Path, tmp_path: Path, spoil: Callable[[Upload], list[Request]], sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence) as caught:
        submit(cluster, spoil(Upload(tmp_path)))
    assert "\n" not in str(caught.value)
    assert [summary.record.name for summary in cluster.client.list()] == [STEADY]


def test_the_same_upload_unspoilt_runs(cluster: DevCluster, tmp_path: Path) -> None:
    """So that what is refused above is refused for what was spoilt; its name is still free, and its workers run."""
    upload = Upload(tmp_path)
    submit(cluster, [upload.head(), *upload.chunks()])
    with running(cluster, NAME):
        wait_until(lambda: (tmp_path / "acks").exists() and (tmp_path / "acks").stat().st_size, 60, what="it acks")
