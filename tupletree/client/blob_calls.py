"""Client calls to nimbus about blobs, the files for workers."""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import grpc

from tupletree._blobs import key_fault
from tupletree._rpc.status import from_rpc_error
from tupletree.bundle import digest
from tupletree.client.leader import LeaderCalls
from tupletree.client.requests import request_of
from tupletree.client.results.blob import BlobSummary
from tupletree.client.upload import AnyPath, Progress, owner
from tupletree.errors import ProtocolError, UnavailableError, UsageError
from tupletree.v1 import nimbus_pb2

_CALL_S: Final = 10.0
_TRANSFER_S: Final = 60.0
_CHUNK_BYTES: Final = 1024 * 1024


class BlobCalls(LeaderCalls):
    """The part of ``NimbusClient`` that stores and reads blobs."""

    def put_blob(
        self,
        key: str,
        path: AnyPath,
        *,
        users: Sequence[str] = (),
        readonly_users: Sequence[str] = (),
        progress: Progress | None = None,
    ) -> BlobSummary:
        """Store a file under a new key, for the workers of topologies that name it in ``topology.blobstore.map``.

        Returns once the leader has the file on disk and the other nimbuses have it, or do not answer.

        Args:
            users: who may update and delete the blob, besides the owner: the user of the token that this client has.
            readonly_users: who may read it, and name it in their topologies.

        Raises:
            NameInUseError: there is a blob with that key.
            UsageError: the key is invalid, or the file cannot be read, is empty or too large.
            UnavailableError: there is no leader, its disk is full, or it was lost during the call. In the last case,
                ``blob`` shows whether the file was stored.
        """
        header = _header(key, path, users=users, readonly_users=readonly_users)
        requests = _requests(header, path, progress)
        reply = self._call(lambda stub: stub.PutBlob(requests, timeout=_timeout_s(header.size)), retry=False)
        return BlobSummary.of(reply.blob)

    def update_blob(self, key: str, path: AnyPath, *, progress: Progress | None = None) -> BlobSummary:
        """Give a blob another content: its next version, which running workers get within a second or two.

        A worker reads its version until the new one is complete on its machine. Content that the blob has already makes
        no new version. Raises NotFoundError, and the errors of ``put_blob``.
        """
        header = _header(key, path)
        requests = _requests(header, path, progress)
        reply = self._call(lambda stub: stub.UpdateBlob(requests, timeout=_timeout_s(header.size)), retry=False)
        return BlobSummary.of(reply.blob)

    def delete_blob(self, key: str, *, force: bool = False) -> None:
        """Delete a blob.

        With ``force`` also one that topologies name: their workers keep the version that they have, and workers that
        start later fail.

        Raises:
            NotFoundError: there is no blob with that key.
            UsageError: a topology names the blob.
        """
        request = request_of(nimbus_pb2.DeleteBlobRequest, key=key, force=force)
        self._call(lambda stub: stub.DeleteBlob(request, timeout=_CALL_S), retry=False)

    def blobs(self) -> tuple[BlobSummary, ...]:
        """Return the blobs that this client's user may read, ascending by key."""
        reply = self._call(lambda stub: stub.ListBlobs(nimbus_pb2.ListBlobsRequest(), timeout=_CALL_S))
        return tuple(map(BlobSummary.of, reply.blobs))

    def blob(self, key: str) -> BlobSummary:
        """Return one blob: its version, size and owner, and the topologies that name it. Raises NotFoundError."""
        request = request_of(nimbus_pb2.DescribeBlobRequest, key=key)
        return BlobSummary.of(self._call(lambda stub: stub.DescribeBlob(request, timeout=_CALL_S)).blob)

    def get_blob(self, key: str, path: AnyPath) -> BlobSummary:
        """Write a blob to a file, which appears when it is complete and its digest is right.

        Raises:
            NotFoundError: there is no blob with that key.
            UsageError: the file cannot be written.
            UnavailableError: the leader was lost, or does not have the bytes yet.
        """
        described = self.blob(key)
        request = request_of(nimbus_pb2.FetchBlobRequest, key=key)
        target = Path(path)
        partial = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.part")
        try:
            timeout_s = _timeout_s(described.record.bytes)
            sha256 = _write(partial, self._call(lambda stub: stub.FetchBlob(request, timeout=timeout_s)), key)
            os.replace(partial, target)
            return described if described.record.sha256 == sha256 else self.blob(key)  # updated meanwhile
        except grpc.RpcError as error:
            raise from_rpc_error(error, "nimbus") from None
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror}") from error
        finally:
            partial.unlink(missing_ok=True)


def _header(
    key: str, path: AnyPath, *, users: Sequence[str] = (), readonly_users: Sequence[str] = ()
) -> nimbus_pb2.BlobHeader:
    """Return the header of an upload. Raises UsageError."""
    if fault := key_fault(key):
        raise UsageError(f"the key of a blob {fault}")
    try:
        info = digest(path)
    except OSError as error:
        raise UsageError(f"{os.fspath(path)} cannot be read: {error.strerror}; name a file") from error
    if not info.size:
        raise UsageError(f"{os.fspath(path)} is empty; a blob has at least one byte")
    return request_of(
        nimbus_pb2.BlobHeader,
        key=key,
        sha256=info.sha256,
        size=info.size,
        owner=owner(),
        users=users,
        readonly_users=readonly_users,
    )


def _requests(
    header: nimbus_pb2.BlobHeader, path: AnyPath, progress: Progress | None
) -> Iterator[nimbus_pb2.PutBlobRequest]:
    """Yield the header and the chunks of a file."""
    yield nimbus_pb2.PutBlobRequest(header=header)
    done = 0
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            yield nimbus_pb2.PutBlobRequest(chunk=chunk)
            done += len(chunk)
            if progress is not None:
                progress(done, header.size)


def _write(partial: Path, replies: Iterable[nimbus_pb2.FetchBlobReply], key: str) -> str:
    """Write a blob that nimbus sends; return its digest.

    Raises OSError, RpcError, ProtocolError or UnavailableError.
    """
    found = hashlib.sha256()
    wanted = ""
    with open(partial, "xb") as file:
        for reply in replies:
            if reply.HasField("record"):
                wanted = reply.record.sha256
            file.write(reply.chunk)
            found.update(reply.chunk)
    if not wanted:
        raise ProtocolError(f"nimbus sent no record of blob '{key}'")
    if found.hexdigest() != wanted:
        raise UnavailableError(f"blob '{key}' arrived damaged: its bytes have another digest; try again")
    return wanted


def _timeout_s(size: int) -> float:
    return _TRANSFER_S + size / 1024**2
