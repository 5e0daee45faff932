"""The upload of a topology: its bundle, and the header that describes it."""

from __future__ import annotations

import getpass
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tupletree import bundle
from tupletree._silent_spouts import warnings_of
from tupletree.config import encode_conf
from tupletree.topology import Topology
from tupletree.v1 import nimbus_pb2

Progress = Callable[[int, int], None]
"""Called with the number of bytes sent and the total."""

AnyPath = str | os.PathLike[str]

_CHUNK_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Upload:
    """A packed topology."""

    header: nimbus_pb2.SubmitHeader
    path: Path

    @property
    def timeout_s(self) -> float:
        """The deadline of the call: a minute, and a second for each MiB."""
        return 60.0 + self.header.size / 1024**2

    def requests(self, progress: Progress | None) -> Iterator[nimbus_pb2.SubmitRequest]:
        """Yield the header and the chunks of the bundle."""
        yield nimbus_pb2.SubmitRequest(header=self.header)
        done = 0
        with self.path.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                yield nimbus_pb2.SubmitRequest(chunk=chunk)
                done += len(chunk)
                if progress is not None:
                    progress(done, self.header.size)


@contextmanager
def packed(
    name: str,
    topology: Topology,
    settings: Mapping[str, Any],
    code: Sequence[AnyPath],
    requirements: AnyPath | None,
    savepoint: Path | None = None,
) -> Iterator[Upload]:
    """Pack a topology for the time of the ``with`` block. Raises TopologyError or UsageError.

    ``savepoint``: a folder with the files of the savepoint to carry.
    """
    with tempfile.TemporaryDirectory(prefix="tupletree-") as directory:
        path = Path(directory, "bundle.tar.gz")
        info = bundle.pack(bundle.portable_spec(topology, code), settings, code, requirements, path, savepoint)
        header = nimbus_pb2.SubmitHeader(
            name=name,
            conf_json=encode_conf(settings),
            sha256=info.sha256,
            size=info.size,
            spec=topology.outline(),
            owner=owner(),
        )
        yield Upload(header, path)


def warn_of_spouts(topology: Topology) -> None:
    """Warn of spouts that drop failed tuples, for the caller of the client."""
    for sentence in warnings_of({one.id: one.component for one in topology.components.values()}):
        warnings.warn(sentence, stacklevel=3)


def owner() -> str:
    """Return the user of this process, which counts where the cluster asks for no tokens."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, common in containers
        return str(os.getuid())
