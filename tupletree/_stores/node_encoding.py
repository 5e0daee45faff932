"""Encoding of the values in nodes: ``[format, …]`` in msgpack (tupletree._wire.codec)."""

from __future__ import annotations  # pure

from collections.abc import Callable
from typing import Any

from tupletree._wire.codec import decode_plain, decode_value, encode_value
from tupletree.errors import InternalError, ProtocolError, UnregisteredTypeError, UsageError

FORMAT = 1
"""The format version of values stored here. Raised whenever older versions cannot read a value correctly: for all
values, or by the argument for those of one kind."""


def encode_stored(path: str, *values: Any, form: int = FORMAT) -> bytes:
    """Encode values to store at ``path``, in a format version.

    Raises UnregisteredTypeError, naming the path, for a value of an unregistered type.
    """
    try:
        return encode_value([form, *values])
    except UnregisteredTypeError as error:
        raise UnregisteredTypeError(f"the value for {path} cannot be encoded: {error}") from None


def decode_stored(path: str, data: bytes) -> list[Any]:
    """Decode values that ``encode_stored`` encoded.

    Raises UsageError if a newer version wrote them, and InternalError if Tupletree did not; both name the path.
    """
    return _decoded(path, data, decode_value, FORMAT)


def decode_record(path: str, data: bytes, newest: int = FORMAT) -> list[Any]:
    """Decode a node that holds only numbers and names. Nimbus and commands read such nodes too.

    ``newest``: the newest format version that the caller can read.
    No user-defined value is created. Raises the errors of ``decode_stored``.
    """
    return _decoded(path, data, decode_plain, newest)


def decode_owner(path: str, data: bytes) -> str:
    """Decode the owner that raised the epoch stored at ``path``. Raises the errors of ``decode_stored``."""
    match decode_record(path, data):
        case [str(owner)]:
            return owner
    raise InternalError(f"{path} does not hold the name of the epoch's owner")


def _decoded(path: str, data: bytes, decode: Callable[[bytes], Any], newest: int) -> list[Any]:
    # The format is the first item of a short list, a one-byte number. It is checked before the rest is decoded, because
    # a newer version can store values that this version cannot decode.
    if len(data) < 2 or not 0x91 <= data[0] <= 0x9F or not 1 <= data[1] <= 0x7F:
        raise InternalError(f"{path} holds {len(data)} bytes that Tupletree did not write")
    if data[1] > newest:
        raise UsageError(
            f"{path} was written by a newer version of Tupletree (format {data[1]}, this one reads up to {newest}); "
            f"upgrade, or use another transactional id"
        )
    try:
        return list(decode(data)[1:])
    except ProtocolError as error:
        raise InternalError(f"the value at {path} cannot be decoded: {error}") from error
