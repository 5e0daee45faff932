"""The stored form of messages in ZooKeeper.

Everything is protobuf JSON, which ``zkCli`` can read, except large assignments: ZooKeeper accepts messages of 1 MiB,
and JSON takes 40 bytes per executor. From 64 KiB of JSON, an assignment is stored as a zero byte and a compressed
``PackedAssignment``, in which each executor is two small numbers: its distance from the previous executor, and its
number of tasks.
"""

from __future__ import annotations  # pure

import zlib
from typing import Final, TypeVar

from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message

from tupletree.errors import InternalError
from tupletree.v1 import topology_pb2 as pb

_PACKED: Final = b"\x00"
_PACKED_FROM_BYTES: Final = 64 * 1024
_MAX_UNPACKED_BYTES: Final = 64 * 1024 * 1024  # a leader writes nothing larger

M = TypeVar("M", bound=Message)


def encode(message: Message) -> bytes:
    """Return the stored form of a message: protobuf JSON on one line; a large assignment is packed."""
    data = json_format.MessageToJson(message, indent=None, ensure_ascii=False).encode()
    if isinstance(message, pb.Assignment) and len(data) > _PACKED_FROM_BYTES:
        return _PACKED + zlib.compress(_packed(message).SerializeToString(deterministic=True), 9)
    return data


def decode(data: bytes, kind: type[M], path: str) -> M:
    """Decode a stored message. Ignores fields of newer versions; raises InternalError on any other fault."""
    message = kind()
    try:
        if isinstance(message, pb.Assignment) and data.startswith(_PACKED):
            _unpack(data[len(_PACKED) :], message)
            return message
        return json_format.Parse(data, message, ignore_unknown_fields=True)
    except (json_format.ParseError, DecodeError, zlib.error, ValueError) as error:
        raise InternalError(f"ZooKeeper's {path} does not hold a {kind.__name__}: {error}") from error


def _packed(assignment: pb.Assignment) -> pb.PackedAssignment:
    packed = pb.PackedAssignment(assignment=assignment)
    for worker in packed.assignment.workers:
        one = packed.executors.add()
        last = 0
        for executor in sorted(worker.executors, key=lambda each: each.first_task):
            one.gaps.append(executor.first_task - last - 1)
            one.tasks.append(executor.last_task - executor.first_task + 1)
            last = executor.last_task
        worker.ClearField("executors")
    return packed


def _unpack(data: bytes, into: pb.Assignment) -> None:
    reading = zlib.decompressobj()
    plain = reading.decompress(data, _MAX_UNPACKED_BYTES)
    if not reading.eof:
        raise ValueError("it is cut off or too large")
    packed = pb.PackedAssignment.FromString(plain)
    into.CopyFrom(packed.assignment)
    for worker, one in zip(into.workers, packed.executors, strict=True):
        last = 0
        for gap, tasks in zip(one.gaps, one.tasks, strict=True):
            first = last + gap + 1
            last = first + tasks - 1
            worker.executors.add(first_task=first, last_task=last)
