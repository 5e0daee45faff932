"""Addresses and options of object stores are checked before anything is opened, and errors are told in a few words."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from obstore.exceptions import GenericError, UnknownConfigurationKeyError
from obstore.store import from_url

from tupletree.errors import ConfigError
from tupletree.state.object_options import OPTIONS, cause_of, is_address, is_of_bucket, is_valid_address
from tupletree.state.options import parsed
from tupletree.state.rocksdb.read_ahead import MAX_AHEAD_BYTES, ReadAhead

COPIES = {"directory": "/var/lib/copies"}


@pytest.mark.parametrize("address", ["s3://bucket", "s3://bucket/", "gs://bucket/a/b", "az://container/with space/ü"])
def test_addresses_of_three_stores_are_taken(address: str) -> None:
    assert is_address(address)
    assert is_valid_address(address)
    options = parsed("rocksdb", {"shared": address, **COPIES})
    assert (options["storage_options"], options["timeout_s"]) == ({}, 20)


@pytest.mark.parametrize(
    "address",
    [
        "s3://",
        "s3:///a",
        "s3:bucket",
        "hdfs://host/a",
        "file:///tmp",
        "s3://key:secret@bucket/a",
        "s3://bucket?a=b",
        "a",
    ],
)
def test_other_addresses_are_refused(address: str) -> None:
    expected = r"takes an absolute path, or an address such as s3://bucket/states \(also gs://, az://\), not "
    with pytest.raises(ConfigError, match=rf"'shared' of provider 'rocksdb' {expected}"):
        parsed("rocksdb", {"shared": address, **COPIES})


def test_a_path_with_a_colon_is_a_directory() -> None:
    assert not is_address("/mnt/s3://bucket")


def refused(**options: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        parsed("rocksdb", {"shared": "s3://bucket/a", **COPIES, **options})
    return str(caught.value)


def test_options_that_the_store_does_not_have_are_refused() -> None:
    where = "topology.state.provider.config: 'storage_options'"
    told = refused(storage_options={"end_point": "x"})
    assert told == f"{where} of s3://bucket/a have no 'end_point'; did you mean 'endpoint'?"
    told = refused(storage_options={"region": 1})
    assert told == f"{where}: 'region' takes a string that is not empty, or true or false"
    for url in ("minio:9000", "http://", "http://a b", "http://[::1", "http://user:secret@host", "http://host:port"):
        told = refused(storage_options={"endpoint": url})
        assert told == f"{where}: 'endpoint' takes a URL such as https://s3.example.com:9000"
    for url in ("http://[::1]:9000", "https://minio", "http://10.0.0.1:9000/path"):
        assert parsed("rocksdb", {"shared": "s3://bucket/a", **COPIES, "storage_options": {"endpoint": url}})
    assert "'storage_options' of provider 'rocksdb' takes a mapping, not 'x'" in refused(storage_options="x")
    assert "takes a number of at least 0.1 and at most 300, not 0" in refused(timeout_s=0)


@pytest.mark.parametrize("name", ["storage_options", "timeout_s"])
def test_options_of_object_stores_are_refused_beside_a_directory(name: str) -> None:
    given: dict[str, Any] = {"storage_options": {"region": "eu-central-1"}, "timeout_s": 5}
    expected = (
        rf"'{name}' is for states in an object store, and 'shared' is the directory /mnt/states: leave '{name}' out"
    )
    with pytest.raises(ConfigError, match=expected):
        parsed("rocksdb", {"shared": "/mnt/states", **COPIES, name: given[name]})


@pytest.mark.parametrize("scheme", OPTIONS)
def test_names_of_options_are_those_that_obstore_knows(scheme: str) -> None:
    for name in OPTIONS[scheme]:
        value = "http://127.0.0.1:1" if name in ("endpoint", "msi_endpoint") else "true"
        with suppress(GenericError):  # it lacks others, or is no such value
            from_url(f"{scheme}://bucket", config={name: value})
    with pytest.raises(UnknownConfigurationKeyError):
        from_url(f"{scheme}://bucket", config={"nonsense": "true"})


TOLD = "Generic S3 error: Error performing GET https://s3/bucket/a in 2ms, after 3 retries - "


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            f"{TOLD}Server returned non-2xx status code: 403 Forbidden: <Error><Message>Access\nDenied.</Message>",
            "Access Denied",
        ),
        (f"{TOLD}Server returned non-2xx status code: 503 Service Unavailable: ", "503 Service Unavailable"),
        (
            f'{TOLD}HTTP error\n\nDebug source:\n kind: ConnectionRefused, message: "Connection refused",',
            "Connection refused",
        ),
        (f'{TOLD}HTTP error\n\nDebug source:\n error: "failed to lookup address",', "failed to lookup address"),
        (f"{TOLD}HTTP error\n\nDebug source:\n kind: Timeout, source: TimedOut", "it did not answer in time"),
        (f"{TOLD}HTTP error\n\nDebug source:\n hyper::Error( IncompleteMessage )", "the connection was lost"),
        (f"{TOLD}HTTP error\n\nDebug source:\n InvalidCertificate(UnknownIssuer)", "its certificate is not trusted"),
        (f"{TOLD}HTTP error\n\nDebug source:\n InvalidMessage(InvalidContentType)", "it does not speak TLS"),
        ("Generic MicrosoftAzure error: Account must be\nsource: MissingAccount", "no account_name is given"),
        (
            "Generic S3 error: Error performing PUT http://169.254.169.254/latest/api/token in 1s - HTTP error",
            "no credentials were found, neither in storage_options nor in the environment",
        ),
        (f"{TOLD}something new", "something new"),
        ("Generic S3 error: Missing SecretAccessKey\n\nDebug source:\n", "Missing SecretAccessKey"),
        ("", "an unknown error"),
    ],
)
def test_the_cause_of_an_error_is_a_few_words(text: str, cause: str) -> None:
    assert cause_of(text) == cause


def test_a_missing_bucket_is_no_missing_object() -> None:
    assert is_of_bucket("404 Not Found: <Error><Code>NoSuchBucket</Code>")
    assert is_of_bucket("404: <Error><Code>ContainerNotFound</Code>")
    assert not is_of_bucket("404 Not Found: <Error><Code>NoSuchKey</Code><Message>The specified key does not exist")


@given(data=st.data(), size=st.integers(0, 200), end_bytes=st.integers(0, 50))
def test_what_is_read_ahead_is_what_is_there(data: st.DataObject, size: int, end_bytes: int) -> None:
    content = bytes(range(size))
    ahead = ReadAhead(lambda begin, end: content[begin:end], size, content[max(0, size - end_bytes) :])
    for offset, length in data.draw(st.lists(st.tuples(st.integers(0, 210), st.integers(0, 60)), max_size=20)):
        assert ahead.read(offset, length) == content[offset : offset + length]


def test_reads_in_sequence_need_few_requests() -> None:
    size, block = 64 << 20, 64 << 10
    fetched: list[tuple[int, int]] = []

    def fetch(begin: int, end: int) -> bytes:
        fetched.append((begin, end))
        return bytes(end - begin)

    ahead = ReadAhead(fetch, size, b"")
    for offset in range(0, size, block):
        assert len(ahead.read(offset, block)) == block
    assert len(fetched) <= size // MAX_AHEAD_BYTES + 5
    assert max(end - begin for begin, end in fetched) <= MAX_AHEAD_BYTES
    assert sum(end - begin for begin, end in fetched) == size
    fetched.clear()
    ahead = ReadAhead(fetch, size, b"")
    for offset in (50 * block, 3 * block, 70 * block):
        ahead.read(offset, block)
    assert sum(end - begin for begin, end in fetched) == 3 * block
