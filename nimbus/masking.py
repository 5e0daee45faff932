"""Masking of secrets in configurations: values that look like a secret are replaced by asterisks."""

from __future__ import annotations  # pure

import re
from collections.abc import Mapping
from typing import Any, Final

from tupletree._limits import MAX_DEPTH

MASK: Final = "*****"

_SECRET: Final = re.compile(
    r"passw(or)?d|passphrase|secret|credential|token|private[._-]?key|(api|access|account|sas)[._-]?key|auth[._-](payload|user)",
    re.IGNORECASE,
)
_HARMLESS: Final = re.compile(r"[._](file|path|dir|secs|ms|bytes|enabled|ttl)$", re.IGNORECASE)
_IN_ADDRESS: Final = re.compile(  # a password may have @ in it: the host follows the last one
    r"""(?P<before>\b[a-z][a-z0-9+.-]*://[^/\s:@]*:)[^/\s@]+(@[^/\s@"',]+)*(?=@)""", re.IGNORECASE
)
_IN_WORDS: Final = re.compile(r"(?P<before>\b\w*(password|secret|token)\w*\s*=\s*)[^\s;,&]+", re.IGNORECASE)
_IN_JSON: Final = re.compile(
    r'(?P<before>"\w*(password|secret|token|(access|account|sas)_key)\w*"\s*:\s*")([^"\\]|\\.)*', re.IGNORECASE
)


def masked(conf: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration with secrets masked at any depth, by key name, and passwords in URLs, options and JSON.

    Masking errs on the side of hiding: values nested deeper than a submission may be are masked as a whole. A secret
    that no key name marks as a secret, such as a plain word in a list, is not masked.
    """
    return {name: _value(name, value, 1) for name, value in conf.items()}


def _value(name: str, value: Any, depth: int) -> Any:
    if _SECRET.search(name) and not _HARMLESS.search(name) and value not in (None, "", False, True):
        return MASK
    return _shown(value, depth)


def _shown(value: Any, depth: int) -> Any:
    if isinstance(value, Mapping | list | tuple) and depth > MAX_DEPTH:
        return MASK
    if isinstance(value, Mapping):
        return {str(key): _value(str(key), inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_shown(inner, depth + 1) for inner in value]
    if isinstance(value, str):
        for secret in (_IN_ADDRESS, _IN_WORDS, _IN_JSON):
            value = secret.sub(rf"\g<before>{MASK}", value)
    return value
