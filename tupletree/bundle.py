"""Bundles: the archives that a submission uploads and a worker runs.

A bundle is a reproducible ``.tar.gz``: the same contents give the same bytes::

    topology.pb        TopologySpec with the pickled components
    conf.json          the topology's configuration
    manifest.json      format, Python and tupletree version of the submitter
    requirements.txt   optional: the packages of a virtual environment for the topology
    savepoint/…        optional: the states that the topology begins with (tupletree/_savepoints/rows.py)
    code/…             files and packages named at submission; on the worker's ``sys.path``

Code travels in two ways. Files and packages named as ``code`` are copied and imported by the worker. Objects of all
other local modules (not the standard library, not site-packages, not tupletree) are pickled *by value* with the
components that use them, so that a class in a script or a test file works on a cluster that has never seen the file.
By-value pickling does not cover imports inside a function body: name such modules as code.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import os
import platform
import shutil
import sys
import sysconfig
import tarfile
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any, Final, cast

import cloudpickle
from google.protobuf.message import DecodeError

from tupletree.config import encode_conf
from tupletree.errors import UsageError
from tupletree.topology import Topology
from tupletree.v1 import topology_pb2

SPEC: Final = "topology.pb"
CONF: Final = "conf.json"
MANIFEST: Final = "manifest.json"
REQUIREMENTS: Final = "requirements.txt"
CODE: Final = "code"
SAVEPOINT: Final = "savepoint"
FORMAT: Final = 1

_MAX_UNPACKED_BYTES: Final = 4 * 1024**3
_MAX_ENTRIES: Final = 100_000
_MAX_SPEC_BYTES: Final = 512 * 1024**2
_MAX_HEADER_BYTES: Final = 1024**2
_MAX_PADDING_BYTES: Final = 1024**2
_SKIPPED: Final = {"__pycache__", ".git", ".hg", ".svn", ".venv", ".mypy_cache", ".pytest_cache", ".ruff_cache"}
_PathLike = str | os.PathLike[str]
_registration = threading.Lock()


@dataclass(frozen=True, slots=True)
class BundleInfo:
    """The identity of a packed bundle."""

    sha256: str  # hexadecimal
    size: int  # bytes


def portable_spec(topology: Topology, code: Sequence[_PathLike] = ()) -> topology_pb2.TopologySpec:
    """Return a spec for other machines. Local modules are pickled by value, modules covered by ``code`` by name.

    Raises:
        TopologyError: a component cannot be pickled.
    """
    with _registration, _pickled_by_value(code):
        return topology.spec()


def pack(
    spec: topology_pb2.TopologySpec,
    conf: Mapping[str, Any],
    code: Sequence[_PathLike],
    requirements: _PathLike | None,
    out: _PathLike,
    savepoint: Path | None = None,
) -> BundleInfo:
    """Write a bundle to ``out``. ``savepoint``: a folder with the files of the savepoint to carry.

    Raises:
        UsageError: a code path or the requirements file does not exist, or two code paths have the same name.
        ConfigError: the configuration holds a value that is not valid JSON.
    """
    files: dict[str, bytes | Path] = {
        SPEC: spec.SerializeToString(deterministic=True),
        CONF: encode_conf(conf).encode(),
        MANIFEST: json.dumps(_manifest(), sort_keys=True).encode(),
    }
    if requirements is not None:
        if not Path(requirements).is_file():
            raise UsageError(f"there is no requirements file {requirements}")
        files[REQUIREMENTS] = Path(requirements)
    files |= _code_files(code)
    if savepoint is not None:
        files |= {f"{SAVEPOINT}/{file.name}": file for file in savepoint.iterdir()}
    with (
        open(out, "wb") as raw,
        gzip.GzipFile("", "wb", compresslevel=6, fileobj=raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name in sorted(files):
            _add(archive, name, files[name])
    return digest(out)


def digest(path: _PathLike) -> BundleInfo:
    """Return the size and the SHA-256 of a file."""
    with open(path, "rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        return BundleInfo(sha256, file.tell())


def unpack(path: _PathLike, directory: _PathLike, max_bytes: int = _MAX_UNPACKED_BYTES) -> None:
    """Unpack a bundle into a directory, which is created. Nothing is ever written outside the directory.

    Not atomic: for atomicity, unpack into a temporary directory and rename.

    Raises:
        UsageError: the file is not a bundle, or contains absolute names, ``..``, links, devices, a duplicate name, or
            more than ``max_bytes``.
    """
    root = Path(directory)
    root.mkdir(parents=True, exist_ok=True)
    for archive, member in _members(path, max_bytes):
        _extract(archive, member, root, str(path))
    if not (root / SPEC).is_file():
        raise UsageError(f"{path} is not a bundle: it has no {SPEC}")


def read_spec(path: _PathLike, max_bytes: int = _MAX_SPEC_BYTES) -> topology_pb2.TopologySpec:
    """Return the topology of a packed bundle. Only the topology is held in memory, whatever the bundle contains.

    Raises UsageError if the file is not a bundle, ``unpack`` would refuse it, or the topology exceeds ``max_bytes``.
    """
    found: bytes | None = None
    for archive, member in _members(path, _MAX_UNPACKED_BYTES):
        if member.name != SPEC or not member.isreg() or found is not None:
            continue
        if member.size > max_bytes:
            raise UsageError(f"{path} is refused: its {SPEC} has more than {max_bytes} bytes")
        source = archive.extractfile(member)
        assert source is not None, "a regular file has contents"
        found = source.read()
    try:
        if found is not None:
            return topology_pb2.TopologySpec.FromString(found)
    except DecodeError:
        pass
    raise UsageError(f"{path} is not a bundle: it has no readable {SPEC}")


def load_spec(directory: _PathLike) -> topology_pb2.TopologySpec:
    """Return the topology of an unpacked bundle. Raises UsageError."""
    try:
        return topology_pb2.TopologySpec.FromString(Path(directory, SPEC).read_bytes())
    except (OSError, DecodeError) as error:
        raise UsageError(f"{directory} holds no readable {SPEC}: {error}") from None


def load_conf(directory: _PathLike) -> dict[str, Any]:
    """Return the configuration of an unpacked bundle. Raises UsageError."""
    try:
        conf = json.loads(Path(directory, CONF).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{directory} holds no readable {CONF}: {error}") from None
    if not isinstance(conf, dict):
        raise UsageError(f"{directory}: {CONF} does not hold a JSON object")
    return conf


def is_local_module(module: ModuleType) -> bool:
    """True if a module is user code: neither standard library, nor installed, nor Tupletree."""
    file = getattr(module, "__file__", None)
    top = module.__name__.partition(".")[0]
    if not file or top in ("tupletree", "__main__", "__mp_main__"):
        return False
    path = Path(file).resolve()
    if {"site-packages", "dist-packages"} & set(path.parts) or path.suffix not in (".py", ".pyc"):
        return False
    return not any(path.is_relative_to(stdlib) for stdlib in _stdlib_directories())


def _stdlib_directories() -> set[Path]:
    paths = sysconfig.get_paths()
    return {Path(paths[name]).resolve() for name in ("stdlib", "platstdlib")}


def _is_covered(module: ModuleType, code: Sequence[_PathLike]) -> bool:
    """True if the worker will find the module under its own name in ``code/``."""
    file = Path(str(module.__file__)).resolve()
    for path in map(Path, code):
        base = path.resolve().parent
        if file.is_relative_to(path.resolve()):
            relative = file.relative_to(base).with_suffix("")
            parts = relative.parts[:-1] if relative.name == "__init__" else relative.parts
            if module.__name__ == ".".join(parts):
                return True
    return False


@contextlib.contextmanager
def _pickled_by_value(code: Sequence[_PathLike]) -> Iterator[None]:
    """Make cloudpickle pickle by value the local modules that ``code`` does not cover, inside the context."""
    already = cloudpickle.list_registry_pickle_by_value()
    modules = [
        module
        for name, module in sorted(sys.modules.items())
        if isinstance(module, ModuleType)
        and module.__name__ == name
        and name not in already
        and is_local_module(module)
        and not _is_covered(module, code)
    ]
    try:
        for module in modules:
            cloudpickle.register_pickle_by_value(module)
        yield
    finally:
        for name in cloudpickle.list_registry_pickle_by_value() - already:
            cloudpickle.unregister_pickle_by_value(sys.modules[name])


def _manifest() -> dict[str, Any]:
    from importlib.metadata import version

    major, minor, _ = platform.python_version_tuple()
    return {"format": FORMAT, "python": f"{major}.{minor}", "tupletree": version("tupletree")}


def _code_files(code: Sequence[_PathLike]) -> dict[str, bytes | Path]:
    files: dict[str, bytes | Path] = {}
    roots: dict[str, Path] = {}
    for path in map(Path, code):
        root = path.resolve()
        if not root.exists():
            raise UsageError(f"there is no file or directory {path} to include")
        if root.name.partition(".")[0] == "tupletree":
            raise UsageError(f"{path} cannot be included: it would hide the tupletree package")
        if roots.setdefault(root.name, root) != root:
            raise UsageError(f"{path} and {roots[root.name]} cannot both be included: they have the same name")
        for file in [root] if root.is_file() else _walk(root):
            files[str(PurePosixPath(CODE, *file.relative_to(root.parent).parts))] = file
    return files


def _walk(root: Path) -> Iterator[Path]:
    for directory, subdirectories, names in os.walk(root):
        subdirectories[:] = sorted(name for name in subdirectories if name not in _SKIPPED)
        for name in sorted(names):
            file = Path(directory, name)
            if file.is_file() and file.suffix not in (".pyc", ".pyo"):
                yield file


def _add(archive: tarfile.TarFile, name: str, content: bytes | Path) -> None:
    """Add a regular file with a header that is the same on every machine."""
    entry = tarfile.TarInfo(name)
    entry.mode = 0o644
    if isinstance(content, bytes):
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
        return
    with open(content, "rb") as file:
        status = os.fstat(file.fileno())
        entry.size = status.st_size
        entry.mode = 0o755 if status.st_mode & 0o100 else 0o644
        archive.addfile(entry, file)


class _Bounded:
    """A file with a read limit: archives declare the length of their headers, and tarfile reads any length."""

    def __init__(self, file: gzip.GzipFile) -> None:
        self._file = file
        self.allowance = _MAX_HEADER_BYTES

    def read(self, size: int) -> bytes:
        self.allowance -= size
        if self.allowance < 0:
            raise tarfile.ReadError(f"a header of more than {_MAX_HEADER_BYTES} bytes")
        return self._file.read(size)


def _members(path: _PathLike, max_bytes: int) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    """Yield the members of a bundle; each is readable until the next is requested. Raises UsageError."""
    left = max_bytes
    try:
        with gzip.open(path) as packed:
            bounded = _Bounded(packed)
            with tarfile.open(fileobj=cast(Any, bounded), mode="r|") as archive:
                for count, member in enumerate(archive, start=1):
                    left -= member.size
                    if left < 0 or count > _MAX_ENTRIES:
                        raise UsageError(f"{path} is refused: it holds more than {max_bytes} bytes or too many files")
                    bounded.allowance = member.size + _MAX_HEADER_BYTES
                    yield archive, member
            _drain(packed)
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UsageError(f"{path} is not a bundle: {error}") from None


def _drain(packed: gzip.GzipFile) -> None:
    """Read the padding behind the archive: gzip verifies its checksum only at the end of the stream."""
    for _ in range(_MAX_PADDING_BYTES // 1024):
        if not packed.read(1024):
            return
    raise tarfile.ReadError("there is data after the end of the archive")


def _extract(archive: tarfile.TarFile, member: tarfile.TarInfo, root: Path, bundle: str) -> None:
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts or "\\" in member.name or "\0" in member.name:
        raise UsageError(f"{bundle} is refused: the name {member.name!r} leads outside the bundle")
    target = root.joinpath(*name.parts)
    if member.isdir():
        target.mkdir(parents=True, exist_ok=True)
        return
    if not member.isreg():
        raise UsageError(f"{bundle} is refused: {member.name!r} is neither a file nor a directory")
    target.parent.mkdir(parents=True, exist_ok=True)
    source = archive.extractfile(member)
    assert source is not None, "a regular file has contents"
    try:
        with open(target, "xb") as file:
            shutil.copyfileobj(source, file)
    except FileExistsError:
        raise UsageError(f"{bundle} is refused: {member.name!r} occurs twice, or {root} is not empty") from None
    target.chmod(0o755 if member.mode & 0o100 else 0o644)
