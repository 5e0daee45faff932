"""The rights of single DRPC functions: who may call them, and whose topologies may serve them.

    drpc.functions:
      score: {users: [alice, web], owners: [alice]}

Null, or nothing, in place of a list permits all who may call or serve at all. Administrators, and their topologies, are
always permitted. With ``drpc.functions.strict``, a function without an entry is for administrators alone.
"""

from __future__ import annotations  # pure

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tupletree._security.rights import Principal, is_admin
from tupletree.drpc.requests import check_function
from tupletree.errors import ConfigError, UsageError

KEY: Final = "drpc.functions"
STRICT_KEY: Final = "drpc.functions.strict"
_LISTS: Final = ("users", "owners")


@dataclass(frozen=True, slots=True)
class FunctionAcl:
    """The access list of a function. None: no restriction."""

    users: frozenset[str] | None = None
    owners: frozenset[str] | None = None


_NOBODY: Final = FunctionAcl(frozenset(), frozenset())
_EVERYBODY: Final = FunctionAcl()


@dataclass(frozen=True, slots=True)
class FunctionRights:
    """The access lists of functions by name. ``is_strict``: functions without a list are for administrators."""

    acls: Mapping[str, FunctionAcl]
    is_strict: bool = False

    def call_refusal(self, who: Principal | None, function: str, admins: Collection[str]) -> str | None:
        """Return the reason why ``who`` may not call a function; None if allowed, or if tokens are disabled."""
        users = self._acl(function).users
        if who is None or users is None or who.name in users or is_admin(who, admins):
            return None
        if function not in self.acls:
            return f"{who.sentence} may not call function '{function}': {_strictly(function)}"
        return f"{who.sentence} may not call function '{function}': they are not among its users in {KEY}"

    def restricts_owners(self, function: str) -> bool:
        """True if not every topology may serve the function."""
        return self._acl(function).owners is not None

    def serve_refusal(self, owner: str | None, topology_id: str, function: str, admins: Collection[str]) -> str | None:
        """Return the reason why a topology of ``owner`` may not serve a function; None if allowed.

        ``owner`` None: nimbus knows no such topology.
        """
        owners = self._acl(function).owners
        if owners is None or (owner is not None and (owner in owners or owner in admins)):
            return None
        what = f"topology {topology_id} may not serve function '{function}'"
        if owner is None:
            return f"{what}: nimbus knows no such topology"
        if function not in self.acls:
            return f"{what}: {_strictly(function)}"
        return f"{what}: its owner '{owner}' is not among the owners in {KEY}"

    def _acl(self, function: str) -> FunctionAcl:
        return self.acls.get(function, _NOBODY if self.is_strict else _EVERYBODY)


def parse_function_rights(value: Mapping[str, Any], is_strict: bool) -> FunctionRights:
    """Return the rights of a configuration. Raises ConfigError."""
    return FunctionRights({name: _acl_of(name, lists) for name, lists in value.items()}, is_strict)


def _strictly(function: str) -> str:
    return f"add '{function}' to {KEY}, since {STRICT_KEY} is set"


def _acl_of(name: str, lists: Any) -> FunctionAcl:
    try:
        check_function(name)
    except UsageError as error:
        raise ConfigError(f"{KEY}: {error}") from None
    lists = {} if lists is None else lists
    if not isinstance(lists, Mapping):
        raise ConfigError(f"{KEY}: function '{name}' takes a mapping, such as {{users: [alice], owners: [alice]}}")
    for key in lists:
        if key not in _LISTS:
            raise ConfigError(f"{KEY}: function '{name}' has no setting {str(key)[:120]!r}; there are users, owners")
    return FunctionAcl(*(_names(name, key, lists.get(key)) for key in _LISTS))


def _names(function: str, key: str, value: Any) -> frozenset[str] | None:
    if value is None:
        return None
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) and name for name in value):
        raise ConfigError(f"{KEY}: {key} of function '{function}' are a list of names of users, or null for all")
    return frozenset(value)
