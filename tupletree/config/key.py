"""One configuration key: its default, kind, unit, range and documentation; and short constructors of keys."""

from __future__ import annotations  # pure

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

Kind = Literal["int", "number", "bool", "str", "node", "strings", "classes", "ports", "map", "texts", "amounts", "any"]

KIND_WORDS: Final[dict[str, str]] = {
    "int": "a whole number",
    "number": "a number",
    "bool": "true or false",
    "str": "a string",
    "node": "an absolute path of ZooKeeper such as /tupletree",
    "strings": "a list of strings",
    "classes": "a list of classes such as orders.hooks:Timing",
    "ports": "a list of port numbers",
    "map": "a mapping",
    "texts": "a mapping of names to strings",
    "amounts": "a mapping of names to numbers above 0",
    "any": "a JSON value",
}

CLASS_PATTERN: Final = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*"
"""``module:Class``, as editors check it, too."""

MAX_PORT: Final = 65535
_MIN_S: Final = 0.01


@dataclass(frozen=True, slots=True)
class Key:
    """One configuration key. ``None`` is a legal value exactly when it is the default."""

    name: str
    default: Any
    kind: Kind
    unit: str
    doc: str
    minimum: float | None = None
    maximum: float | None = None
    choices: Sequence[str] = ()
    component_level: bool = False  # can be set in a component's own configuration

    @property
    def family(self) -> str:
        return self.name.partition(".")[0]

    @property
    def optional(self) -> bool:
        return self.default is None

    @property
    def variable(self) -> str:
        """The environment variable that sets this key."""
        return "TUPLETREE_" + self.name.upper().replace(".", "_")


def port_key(name: str, default: int, doc: str) -> Key:
    return Key(name, default, "int", "port, 0: any free one", doc, minimum=0, maximum=MAX_PORT)


def secs_key(name: str, default: float | None, doc: str, *, minimum: float = _MIN_S, component: bool = False) -> Key:
    return Key(name, default, "number", "s", doc, minimum=minimum, component_level=component)


def int_key(
    name: str,
    default: int | None,
    unit: str,
    doc: str,
    *,
    minimum: int = 1,
    maximum: int | None = None,
    component: bool = False,
) -> Key:
    return Key(name, default, "int", unit, doc, minimum=minimum, maximum=maximum, component_level=component)


def str_key(name: str, default: str | None, unit: str, doc: str, *, component: bool = False) -> Key:
    return Key(name, default, "str", unit, doc, component_level=component)


def bool_key(name: str, default: bool, doc: str, *, component: bool = False) -> Key:
    return Key(name, default, "bool", "", doc, component_level=component)
