"""Encoding of a topology's statistics for the next leader: JSON by worker and component, compressed when large.

Entries that do not fit are left out. Ended workers are kept first, since running workers report their own counts to the
next leader.
"""

from __future__ import annotations  # pure

import json
import zlib
from typing import Final

from google.protobuf import json_format

from tupletree.v1 import nimbus_pb2 as rpc

from .topology_statistics import ENDED, Memory

_COMPRESSED: Final = b"\x00"
_PLAIN_BYTES: Final = 64 * 1024
_MAX_PLAIN_BYTES: Final = 256 * 1024 * 1024  # no leader writes more
_MAX_PAIRS: Final = 20_000  # of worker and component; each takes about 0.1 ms


def encode_memory(memory: Memory, max_bytes: int = 1 << 30) -> tuple[bytes, int]:
    """Encode statistics in at most ``max_bytes``; also return how many (worker, component) pairs did not fit."""
    keys = sorted((worker != ENDED, worker, one) for worker, components in memory.items() for one in components)
    kept = min(len(keys), _MAX_PAIRS)
    found = [json_format.MessageToDict(memory[worker][one]) for _, worker, one in keys[:kept]]
    while True:
        by_worker: dict[str, dict[str, object]] = {}
        for (_, worker, one), stats in zip(keys[:kept], found, strict=False):
            by_worker.setdefault(worker, {})[one] = stats
        data = json.dumps(by_worker, sort_keys=True).encode()
        if len(data) > _PLAIN_BYTES:
            data = _COMPRESSED + zlib.compress(data)
        if len(data) <= max_bytes or not kept:
            return data, len(keys) - kept
        kept = min(kept - 1, kept * max_bytes // len(data))


def decode_memory(data: bytes) -> Memory:
    """Decode the statistics that ``encode_memory`` has encoded; empty data has none. Raises ValueError."""
    try:
        if data.startswith(_COMPRESSED):
            reading = zlib.decompressobj()
            data = reading.decompress(data[len(_COMPRESSED) :], _MAX_PLAIN_BYTES)
            if not reading.eof:
                raise ValueError(f"stored statistics end too early, or have more than {_MAX_PLAIN_BYTES:,} bytes")
        found: dict[str, dict[str, dict[str, object]]] = json.loads(data or b"{}")
        return {
            worker_id: {
                one: json_format.ParseDict(stats, rpc.TaskStats(), ignore_unknown_fields=True)
                for one, stats in components.items()
            }
            for worker_id, components in found.items()
        }
    except (json_format.ParseError, zlib.error, RecursionError, AttributeError, TypeError) as error:
        raise ValueError(f"stored statistics cannot be read: {error}") from error
