"""Limits of user-supplied names, strings and configurations, checked by builders, clients and nimbus.

A client checks to give a good error message, nimbus because it trusts no client. Each ``…_fault`` function returns the
end of an error message, or None. Nothing here recurses, so a value nested 100,000 levels deep is refused just like a
value nested 51 levels deep.
"""

from __future__ import annotations  # pure

import json
import re
import reprlib
from collections.abc import Mapping
from typing import Any, Final

from tupletree.errors import ConfigError, UsageError

MAX_DEPTH: Final = 50
"""Maximum nesting of lists and mappings in a configuration value."""
MAX_CONF_BYTES: Final = 256 * 1024
"""Maximum size of a configuration in UTF-8."""
MAX_NAME: Final = 200
"""Maximum characters of a component id, a stream id or a field name."""
MAX_TASKS: Final = 100_000
"""Maximum per topology."""
MAX_COMPONENTS: Final = 1000
MAX_STREAMS: Final = 10_000
MAX_INPUTS: Final = 10_000
MAX_FIELDS: Final = 100_000
MAX_INT: Final = 2**63 - 1
MAX_TIMEOUT_S: Final = 1_000_000_000
"""Maximum of the time that a caller waits; Python's locks wait for at most ten times as long."""

_MAX_VALUES: Final = MAX_CONF_BYTES  # JSON of that size holds no more values; a few bytes of YAML aliases can
_MAX_VARIABLE_BYTES: Final = 128 * 1024 - 1  # the limit of Linux, minus the trailing NUL
_MAX_PATH: Final = 1000
_SHOWN: Final = 100
_MAX_SHOWN_INT: Final = 10**_SHOWN
_SCALARS: Final = frozenset({int, float, bool, type(None)})

_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_NOT_IN_ZOOKEEPER: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff]")


_short: Final = reprlib.Repr()
_short.maxlevel = 4
_short.maxstring = _short.maxother = _short.maxlong = 2 * _SHOWN
_short.maxlist = _short.maxtuple = _short.maxdict = _short.maxset = _short.maxfrozenset = _short.maxdeque = _SHOWN


def shown(value: object) -> str:
    """Return a value's representation for an error message: at most one line. Never raises."""
    try:
        if isinstance(value, str | bytes):
            text = repr(value[: 2 * _SHOWN])
        elif isinstance(value, int) and not -_MAX_SHOWN_INT < value < _MAX_SHOWN_INT:
            text = f"an integer of {value.bit_length()} bits"  # Python does not format integers of over 4,300 digits
        else:
            text = _short.repr(value)
    except Exception as error:  # the value can be of a user class with its own __repr__
        text = f"a {type(value).__name__}, whose repr raised {type(error).__name__}"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def name_fault(name: object) -> str | None:
    """Return the fault of a stream id or field name, or None."""
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME or _CONTROL.search(name):
        return f"must be a name of 1 to {MAX_NAME} characters without control characters, not {shown(name)}"
    return None


def component_id_fault(name: object) -> str | None:
    """Return the fault of a component id, which must also be a valid ZooKeeper node name, or None."""
    is_node = isinstance(name, str) and not _NOT_IN_ZOOKEEPER.search(name) and "/" not in name
    if name_fault(name) or not is_node or name in (".", ".."):
        return (
            f"is a string of 1 to {MAX_NAME} printable characters without '/' and without characters that ZooKeeper "
            f"refuses (emoji, private use), not {shown(name)}"
        )
    return None


def path_fault(path: str) -> str | None:
    """Return the fault of a ZooKeeper path, or None."""
    parts = path[1:].split("/") if path != "/" else []
    is_path = path.startswith("/") and len(path) <= _MAX_PATH and not _NOT_IN_ZOOKEEPER.search(path)
    if not is_path or any(part in ("", ".", "..") for part in parts):
        return f"must be an absolute path of ZooKeeper such as '/tupletree', not {shown(path)}"
    return None


def group_fault(value: object) -> str | None:
    """Return the fault of the path of a control group, or None."""
    is_path = isinstance(value, str) and path_fault(value) is None
    return None if is_path else f"must be the absolute path of a control group such as '/tupletree', not {shown(value)}"


def is_within(path: str, root: str) -> bool:
    """True if a valid path is ``root`` or a node below ``root``."""
    return f"{path.rstrip('/')}/".startswith(f"{root.rstrip('/')}/")


def text_fault(text: str) -> str | None:
    """Return the fault of a string that cannot be encoded in UTF-8 and JSON and passed to C, or None."""
    if "\0" in text:
        return "holds a NUL character"
    return "holds half of a surrogate pair, which is not a valid character" if not is_encodable(text) else None


def is_encodable(text: str) -> bool:
    """Return False for a text with half of a surrogate pair, as the escapes of JSON can make it: it has no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def value_fault(value: object) -> str | None:
    """Return the fault of a configuration value in depth, number of values or strings, or None."""
    waiting: list[tuple[object, int]] = [(value, 1)]
    for _ in range(_MAX_VALUES):
        if not waiting:
            return None
        one, depth = waiting.pop()
        if type(one) in _SCALARS:
            continue
        if isinstance(one, str):
            fault = text_fault(one)
            if fault:
                return fault
        elif isinstance(one, Mapping | list | tuple):
            if depth > MAX_DEPTH:
                return f"is nested more than {MAX_DEPTH} levels deep"
            if len(waiting) + len(one) > _MAX_VALUES:
                break
            if isinstance(one, Mapping):
                waiting += [(key, depth + 1) for key in one]
                one = list(one.values())
            waiting += [(inner, depth + 1) for inner in one]
    return f"holds more than {_MAX_VALUES} values" if waiting else None


def environment_fault(environment: object) -> str | None:
    """Return the fault of a mapping that cannot be the environment of a process, or None."""
    if not isinstance(environment, Mapping):
        return f"must be a mapping of names to values, not {shown(environment)}"
    for name, value in environment.items():
        if not isinstance(name, str) or not name or "=" in name or text_fault(name):
            return f"{shown(name)} is not the name of a variable: a name is not empty, and has neither '=' nor NUL"
        try:
            text = str(value)
        except Exception:  # a huge integer, or a user class with its own __str__
            return f"the value of {shown(name)} cannot be written as text: {shown(value)}"
        fault = text_fault(text)
        if fault:
            return f"the value of {shown(name)} {fault}"
        size = len(f"{name}={text}".encode())
        if size > _MAX_VARIABLE_BYTES:
            return f"{shown(name)} takes {size} bytes with its value; Linux allows {_MAX_VARIABLE_BYTES}"
    return None


def autoscale_fault(bounds: Mapping[str, object]) -> str | None:
    """Return the fault of a mapping that cannot be topology.autoscale, or None."""
    for name, value in bounds.items():
        if not isinstance(value, Mapping) or set(value) != {"min", "max"} or not all(map(_is_count, value.values())):
            return f"{shown(name)} takes {{min: 2, max: 8}}, two whole numbers of at least 1, not {shown(value)}"
        if value["min"] > value["max"]:
            return f"{shown(name)} has min {value['min']}, which is more than its max {value['max']}: exchange them"
    return None


def check_timeout(timeout_s: object, *, may_be_zero: bool = False) -> None:
    """Check the time for which a caller waits. Raises UsageError."""
    number = timeout_s if isinstance(timeout_s, int | float) and not isinstance(timeout_s, bool) else -1
    if 0 < number <= MAX_TIMEOUT_S or (may_be_zero and number == 0):
        return
    bounds = f"{'at least' if may_be_zero else 'more than'} 0 and at most {MAX_TIMEOUT_S}"
    raise UsageError(f"timeout_s is {shown(timeout_s)}, expected a number of seconds, {bounds}")


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_TASKS


def parse_conf(text: str, what: str) -> dict[str, Any]:
    """Parse a configuration received as JSON; empty text is an empty configuration. ``what``: its name in errors.

    Raises ConfigError if the text is too large, not JSON, not an object, or nested too deeply.
    """
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_CONF_BYTES:
        raise ConfigError(f"{what} has {size} bytes; at most {MAX_CONF_BYTES} are allowed")
    try:
        conf = json.loads(text or "{}", parse_constant=_refuse_constant)
    except RecursionError:
        raise ConfigError(f"{what} is nested more than {MAX_DEPTH} levels deep") from None
    except ValueError:
        raise ConfigError(f"{what} is not JSON") from None
    if not isinstance(conf, dict):
        raise ConfigError(f"{what} is not a JSON object")
    for name, value in conf.items():
        fault = value_fault(value)
        if fault:
            raise ConfigError(f"{what}: configuration key {shown(name)} {fault}")
    return conf


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
