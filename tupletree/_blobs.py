"""The blobs that a topology names: ``topology.blobstore.map``, parsed and checked.

    topology.blobstore.map:
      model: {localname: model.bin}                     # the key of the blob: how components open it
      stopwords: {}                                     # its key is its local name
      geo-2024: {localname: geo, uncompress: true, workerRestart: true}

The form is Storm's. Components open a blob by its local name; the key names it in the cluster.
"""

from __future__ import annotations  # pure

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tupletree import _limits

BLOB_MAP: Final = "topology.blobstore.map"
MAX_BLOBS: Final = 100
"""Blobs that one topology may name."""
MAX_KEY: Final = 200

_NAME: Final = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9._-]{{0,{MAX_KEY - 1}}}")
NAME_PATTERN: Final = f"^{_NAME.pattern}$"
_NAME_WORDS: Final = f"1 to {MAX_KEY} letters, digits, '.', '_' and '-', the first no '.' and no '-'"
_OPTIONS: Final = ("localname", "uncompress", "workerRestart")
_OF_WORKERS: Final = frozenset(
    {"blobs", "own", *(f"{name}.{ending}" for name in ("launch", "work", "process") for ending in ("json", "partial"))}
)
"""Names in the directory of a worker, in which local names become links."""


@dataclass(frozen=True, order=True)
class BlobUse:
    """A blob as one topology uses it.

    Attributes:
        is_unpacked: the blob is a tar or zip archive, and the local name is a directory with what is in it.
        restarts_worker: workers are restarted with a new version, instead of being told of it.
    """

    key: str
    local_name: str
    is_unpacked: bool = False
    restarts_worker: bool = False


def key_fault(key: object) -> str | None:
    """Return the fault of the key of a blob, as the end of an error message, or None."""
    if isinstance(key, str) and _NAME.fullmatch(key):
        return None
    return f"has {_NAME_WORDS}, not {_limits.shown(key)}"


def map_fault(value: object) -> str | None:
    """Return the fault of a value of ``topology.blobstore.map``, as the end of an error message, or None."""
    if not isinstance(value, Mapping):
        return f"maps keys of blobs to options, not {_limits.shown(value)}"
    if len(value) > MAX_BLOBS:
        return f"names {len(value)} blobs; a topology can have at most {MAX_BLOBS}"
    keys_by_name: dict[str, str] = {}
    for key, options in value.items():
        if fault := key_fault(key) or _options_fault(key, options):
            return f"the key of a blob {fault}" if key_fault(key) else fault
        name = _use(key, options).local_name
        if name in keys_by_name:
            return (
                f"blobs '{keys_by_name[name]}' and '{key}' have the same localname '{name}'; give them different names"
            )
        keys_by_name[name] = key
    return None


def _options_fault(key: str, options: object) -> str | None:
    if options is None:
        options = {}
    if not isinstance(options, Mapping):
        return f"blob '{key}' takes options such as {{localname: {key}}}, not {_limits.shown(options)}"
    for name, value in options.items():
        if name not in _OPTIONS:
            return f"blob '{key}' has no option {_limits.shown(name)}; its options are {', '.join(_OPTIONS)}"
        if name != "localname" and not isinstance(value, bool):
            return f"blob '{key}': {name} is true or false, not {_limits.shown(value)}"
    local_name = options.get("localname", key)
    if not isinstance(local_name, str) or not _NAME.fullmatch(local_name):
        return f"blob '{key}': a localname has {_NAME_WORDS}, not {_limits.shown(local_name)}"
    if local_name in _OF_WORKERS:
        return f"blob '{key}': the localname '{local_name}' is that of a file of the worker; choose another one"
    return None


def uses_of(conf: Mapping[str, Any]) -> tuple[BlobUse, ...]:
    """Return the blobs that a valid configuration of a topology names, ascending by key."""
    return tuple(sorted(_use(key, options) for key, options in (conf.get(BLOB_MAP) or {}).items()))


def uses_in(conf_json: str) -> tuple[BlobUse, ...]:
    """Return the blobs that a stored configuration names; nothing if it is malformed."""
    try:
        conf = json.loads(conf_json or "{}")
        return () if map_fault(conf.get(BLOB_MAP) or {}) else uses_of(conf)
    except (ValueError, AttributeError, RecursionError):
        return ()


def _use(key: str, options: Mapping[str, Any] | None) -> BlobUse:
    given = options or {}
    return BlobUse(
        key=key,
        local_name=given.get("localname", key),
        is_unpacked=given.get("uncompress", False),
        restarts_worker=given.get("workerRestart", False),
    )
