"""A hash of values for routing: the same in every process, on every host and after restarts.

Values that compare equal hash equally: 1, 1.0 and True go to the same task, as they are the same key of a dict. Source
of the algorithm: CRC-32 of the encoding of the values (codec.py), after equal values got the same substitute.
"""

from __future__ import annotations  # pure

import datetime as dt
import math
import numbers
import zlib
from collections.abc import Sequence
from typing import Any

from tupletree._wire.codec import encode_columns, encode_value, is_of_numpy, python_value, reason_of
from tupletree._wire.value_types import compared_content, is_value_type
from tupletree.errors import UnregisteredTypeError


def hash_values(values: Sequence[Any], component: str, fields: Sequence[str]) -> int:
    """Return the hash of field values, 32 bits.

    Raises:
        UnregisteredTypeError: a value has a type that cannot leave its worker.
    """
    try:
        canonical = [_canonical(value) for value in values]
    except Exception as error:
        encode_columns([[value] for value in values], component, fields)  # names the field if it cannot be encoded
        raise UnregisteredTypeError(
            f"component {component!r} emitted values that cannot be hashed: {reason_of(error)}"
        ) from None
    return zlib.crc32(encode_columns([[value] for value in canonical], component, fields))


def _canonical(value: Any) -> Any:
    """Return a substitute that is the same for all values that compare equal.

    Python hashes equal numbers of all types equally, and, unlike the hash of a string, without a salt.
    """
    if is_of_numpy(value):
        value = python_value(value)
    if isinstance(value, numbers.Number):
        return hash(value) if value == value else math.nan  # noqa: PLR0124  # hash(nan) differs from object to object
    if type(value) is dt.time and (offset := value.utcoffset()) is not None:
        return [(dt.datetime.combine(dt.date(2000, 1, 1), value.replace(tzinfo=None)) - offset).isoformat()]
    if is_value_type(type(value)) and not isinstance(value, tuple):
        plain = isinstance(value, (str, bytes))  # an Enum of strings, whose members equal the strings
        return value.value if plain else [_canonical(item) for item in compared_content(value)]
    if type(value) is list or isinstance(value, tuple):
        return [_canonical(item) for item in value]
    if type(value) is dict:
        pairs = [[_canonical(key), _canonical(item)] for key, item in value.items()]
        return sorted(pairs, key=lambda pair: encode_value(pair[0]))
    if type(value) is set or type(value) is frozenset:
        return sorted((_canonical(item) for item in value), key=encode_value)
    return value
