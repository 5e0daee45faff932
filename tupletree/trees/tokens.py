"""Tokens: the names of children, for messages to other processes.

    tt1.<acker id>.<root: 16 hex digits><edge: 16 hex digits>.<namespace>

A token is no secret and gives no right: whoever may use the namespace may settle its children. Pure.
"""

from __future__ import annotations  # pure

import re
from typing import Final, NamedTuple

from tupletree.errors import UsageError

_FORM: Final = re.compile(r"tt1\.([A-Za-z0-9-]{1,64})\.([0-9a-f]{16})([0-9a-f]{16})\.([A-Za-z0-9._-]{1,100})")


class Token(NamedTuple):
    """One child: its tree at an acker, and its edge in that tree."""

    namespace: str
    acker_id: str
    root: int
    edge: int

    def encode(self) -> str:
        """Return the token as text: only letters, digits, '.', '_' and '-'."""
        return f"tt1.{self.acker_id}.{self.root:016x}{self.edge:016x}.{self.namespace}"

    @staticmethod
    def decode(text: str | bytes, namespace: str) -> Token:
        """Return the token of a text. Raises UsageError unless it is one of this namespace."""
        if isinstance(text, bytes):
            text = text.decode("ascii", "replace")
        found = _FORM.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise UsageError(
                f"{str(text)[:80]!r} is not a token of a child: pass what Tree.child or Child.child returned"
            )
        acker_id, root, edge, named = found.groups()
        if named != namespace:
            raise UsageError(f"the token is of namespace '{named}', and this client of '{namespace}'")
        return Token(named, acker_id, int(root, 16), int(edge, 16))
