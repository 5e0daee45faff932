"""The leader as this nimbus knows it: the leadership stored in ZooKeeper, and the reconciler of this nimbus."""

from __future__ import annotations

import time

from kazoo.protocol.states import KazooState

from tupletree._coord.store import Leadership
from tupletree.errors import UnavailableError

from .reconciler import Reconciler


class KnownLeader:
    """The current leader. The candidacy of this nimbus (candidacy.py) keeps ``leadership`` and ``own`` up to date."""

    def __init__(self, identity: str, session_s: float) -> None:
        """``session_s``: the timeout of the ZooKeeper session."""
        self.identity = identity
        self.leadership: Leadership | None = None  # as last read from ZooKeeper
        self.own: Reconciler | None = None  # None while this nimbus does not lead
        self._session_s = session_s
        self._unheard_since_s: float | None = None  # time at which the connection to ZooKeeper was lost

    def reconciler(self) -> Reconciler:
        """Return the reconciler of this nimbus's leadership. Raises UnavailableError if this nimbus does not lead."""
        if self.own is not None:
            return self.own
        if self.leadership is None:
            raise UnavailableError("no nimbus leads; see 'tupletree health'")
        raise UnavailableError(f"this nimbus does not lead; the leader is {self.leadership.address}")

    @property
    def is_cut_off(self) -> bool:
        """True if ZooKeeper has been silent so long that another nimbus may already lead."""
        # A lost connection is noticed after two thirds of the session timeout. After another third the session is over.
        return self._unheard_since_s is not None and time.monotonic() - self._unheard_since_s > self._session_s / 3

    def on_session(self, state: str) -> None:
        """Follow the connection to ZooKeeper. Called in kazoo's thread."""
        if state == KazooState.CONNECTED:
            self._unheard_since_s = None
        elif self._unheard_since_s is None:
            self._unheard_since_s = time.monotonic()
