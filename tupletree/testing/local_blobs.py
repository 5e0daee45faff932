"""The blobs of a LocalCluster: files of this machine, by key."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path

from tupletree._archives import free_bytes, unpack_archive
from tupletree._blobs import BlobUse, key_fault
from tupletree.errors import UsageError

AnyPath = str | os.PathLike[str]


class LocalBlobs:
    """The files, as they are: nothing is copied, except what is in an archive that is to be uncompressed."""

    def __init__(self, files: Mapping[str, AnyPath]) -> None:
        self._files: dict[str, Path] = {}
        self._unpacked: dict[Path, str] = {}  # by archive
        self._directory: str | None = None  # made for the first archive
        for key, path in files.items():
            self.put(key, path)

    def put(self, key: str, path: AnyPath) -> None:
        """Set the file of a blob. Raises UsageError if the key is invalid or there is no such file."""
        if fault := key_fault(key):
            raise UsageError(f"the key of a blob {fault}")
        if not os.path.exists(path):
            raise UsageError(f"blob '{key}': there is no file {os.fspath(path)}")
        self._files[key] = Path(path).resolve()
        self._unpacked.pop(self._files[key], None)

    def paths(self, name: str, uses: Iterable[BlobUse]) -> dict[str, str]:
        """Return the path of each blob of a topology, by local name. Raises UsageError for an unknown blob."""
        found = {}
        for use in uses:
            if use.key not in self._files:
                raise UsageError(
                    f"topology '{name}' names blob '{use.key}' in topology.blobstore.map, which does not exist: "
                    f"give its file, as LocalCluster(blobs={{'{use.key}': path}}) or tupletree local "
                    f"--blob {use.key}=FILE"
                )
            found[use.local_name] = self._path(use)
        return found

    def _path(self, use: BlobUse) -> str:
        file = self._files[use.key]
        if not use.is_unpacked or file.is_dir():
            return str(file)
        if file not in self._unpacked:
            if self._directory is None:
                self._directory = tempfile.mkdtemp(prefix="tupletree-blobs-")
            target = Path(self._directory, uuid.uuid4().hex)
            unpack_archive(file, target, f"blob '{use.key}'", free_bytes(Path(self._directory)))
            self._unpacked[file] = str(target)
        return self._unpacked[file]

    def close(self) -> None:
        """Remove what was unpacked."""
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None
            self._unpacked.clear()
