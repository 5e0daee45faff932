"""Pages of committed states, all of one checkpoint, which the topology holds meanwhile (docs/adr/0054).

**Invariant.** What ``rows`` yields is of the checkpoint that ``settle`` returned: every task of every page has named
it. If ``check`` returns afterwards, so are all tasks that the components had throughout.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

from tupletree._savepoints.rows import Row
from tupletree.client.requests import request_of
from tupletree.errors import TupletreeError, UnavailableError, UsageError
from tupletree.state.answers import MAX_BULK_BYTES, MAX_BULK_ENTRIES
from tupletree.v1 import nimbus_pb2
from tupletree.v1 import topology_pb2 as pb

HOLD_S: Final = 60.0
"""The time for which checkpoints are held by one call: what a client that dies costs."""
_RENEW_S: Final = 2.0
_CALL_S: Final = 10.0
_PAGE_S: Final = 35.0
_POLL_S: Final = 0.1


class MovedError(UnavailableError):
    """A checkpoint was committed, or tasks were changed, while the states were read: what was read is void."""


class Call(Protocol):
    """A call to the leading nimbus."""

    def __call__(self, invoke: Callable[[Any], Any], retry: bool = True) -> Any: ...


@dataclass(frozen=True, slots=True)
class Held:
    """The checkpoint at which all tasks are. ``since_s``: of the monotonic clock."""

    topology_id: str
    txid: int
    tasks: Mapping[str, int]
    versions: Mapping[str, int]
    since_s: float


class Pages:
    """The states of one topology. ``call``: calls the leading nimbus."""

    def __init__(self, call: Call, name: str) -> None:
        self._call = call
        self._name = name
        self._held_at_s = 0.0

    def hold(self, hold_s: float = HOLD_S) -> nimbus_pb2.HoldCheckpointsReply:
        """Hold checkpoints from now on, instead of an earlier hold. Raises UnavailableError if nobody answers."""
        request = request_of(nimbus_pb2.HoldCheckpointsRequest, name=self._name, hold_s=hold_s)
        reply: nimbus_pb2.HoldCheckpointsReply = self._call(
            lambda stub: stub.HoldCheckpoints(request, timeout=_CALL_S), retry=False
        )
        self._held_at_s = time.monotonic()
        if reply.held.refusal:
            raise UsageError(f"topology '{self._name}' takes no checkpoints: {reply.held.refusal}")
        return reply

    def release(self) -> None:
        """Let checkpoints go on, if anybody can be told; otherwise they do when the time is over."""
        with contextlib.suppress(TupletreeError):
            self.hold(0.0)

    def await_answer(self, limit_s: float) -> None:
        """Wait until the topology's checkpoint spout answers. Raises UsageError if it takes no checkpoints."""
        self._until(limit_s, 0.0, lambda reply: True, "does not answer")

    def settle(self, limit_s: float) -> Held:
        """Hold checkpoints, and return the one that all tasks have committed. Raises UnavailableError after a while."""
        reply = self._until(limit_s, HOLD_S, lambda reply: reply.held.HasField("txid"), "has committed no checkpoint")
        held = reply.held
        return Held(reply.topology_id, held.txid, dict(held.tasks), dict(held.versions), time.monotonic())

    def await_quiet(self, limit_s: float) -> None:
        """Wait until nothing is in flight in a deactivated topology, and a checkpoint has all of its effects.

        The checkpoint that is in progress when it becomes quiet can have begun before; the one after it has not.
        """
        began_s = time.monotonic()

        def is_quiet(reply: nimbus_pb2.HoldCheckpointsReply) -> bool:
            return (
                reply.held.HasField("txid")
                and reply.HasField("quiet_age_s")
                and reply.quiet_age_s < time.monotonic() - began_s
            )

        fault = "still has tuples in flight, with its spouts stopped,"
        txid = self._until(limit_s, 0.0, is_quiet, fault).held.txid
        self._until(limit_s, 0.0, lambda reply: reply.held.txid >= txid + 2, "has committed no checkpoint")

    def rows(self, held: Held, component: str) -> Iterator[list[Row]]:
        """Yield the entries of a component, page by page.

        Raises:
            MovedError: a task has committed another checkpoint.
            UsageError: a value is too large.
            UnavailableError: a worker, a store or nimbus does not answer.
        """
        after, seen = "", set()
        while True:
            if time.monotonic() - self._held_at_s > _RENEW_S:
                with contextlib.suppress(UnavailableError):  # what is read shows if it is still held
                    self.hold()
            request = request_of(
                nimbus_pb2.ReadStateRequest,
                name=self._name,
                component=component,
                after=after,
                limit=MAX_BULK_ENTRIES,
                is_bulk=True,
            )
            reply = self._call(partial(_read, request))
            for task in reply.tasks:
                seen.add(task.index)
                yield self._checked(held, component, task)
            after = reply.next
            if not after:
                break
        if reply.topology_id != held.topology_id or seen != set(range(held.tasks[component])):
            raise MovedError(f"the tasks of topology '{self._name}' have changed")

    def check(self, held: Held) -> None:
        """Check that tasks and code are as they were. Raises MovedError, and UnavailableError if nobody answers."""
        now = self.settle(HOLD_S)
        if (now.topology_id, now.txid, now.tasks, now.versions) != (
            held.topology_id, held.txid, held.tasks, held.versions,
        ):  # fmt: skip
            raise MovedError(f"topology '{self._name}' has gone on from checkpoint {held.txid} to {now.txid}")

    def _checked(self, held: Held, component: str, task: pb.TaskState) -> list[Row]:
        if not task.HasField("committed") or task.committed != held.txid:
            raise MovedError(
                f"task {task.index} of component '{component}' is not at checkpoint {held.txid} of topology "
                f"'{self._name}' any more"
            )
        rows: list[Row] = [(task.index, one.key, one.value) for one in task.entries]
        if not all(value for _, _, value in rows):
            size = next(one.size for one in task.entries if not one.value)
            raise UsageError(
                f"component '{component}' has a value of {size:,} bytes in its state, and a savepoint takes values of "
                f"up to {MAX_BULK_BYTES:,}"
            )
        return rows

    def _until(
        self, limit_s: float, hold_s: float, is_it: Callable[[nimbus_pb2.HoldCheckpointsReply], bool], fault: str
    ) -> nimbus_pb2.HoldCheckpointsReply:
        until_s = time.monotonic() + limit_s
        reason = ""
        while True:
            try:
                reply = self.hold(hold_s)
                if is_it(reply):
                    return reply
            except UnavailableError as error:
                reason = f": {error}"
            if time.monotonic() > until_s:
                raise UnavailableError(f"topology '{self._name}' {fault} after {limit_s:g} s{reason}")
            time.sleep(_POLL_S)


def _read(request: nimbus_pb2.ReadStateRequest, stub: Any) -> nimbus_pb2.ReadStateReply:
    reply: nimbus_pb2.ReadStateReply = stub.ReadState(request, timeout=_PAGE_S)
    return reply
