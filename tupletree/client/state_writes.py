"""Client calls that change the states of running topologies (docs/adr/0064)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from typing import Any, Final

from tupletree._savepoints.importing import read_entries, reader_of
from tupletree.client.leader import LeaderCalls
from tupletree.client.requests import request_of
from tupletree.client.results.state import StateWrite, write_of
from tupletree.errors import TupletreeError, UsageError
from tupletree.state.answers import MAX_BULK_ENTRIES, encode_key
from tupletree.state.writes import (
    ANYTHING,
    DEFAULT_WAIT_S,
    Change,
    check_changes,
    check_wait,
    checked_task,
    in_requests,
    put_of,
)
from tupletree.v1 import nimbus_pb2

_CALL_S: Final = 20.0
_PAGE_S: Final = 35.0
_DIGEST_BYTES: Final = 16


class StateWriteCalls(LeaderCalls):
    """The part of ``StateClient`` that changes states.

    Every method returns when a checkpoint has the changes, and raises:

    * UsageError if a key, a value or a task is invalid, if nothing says which task a key belongs to, or if the state
      cannot be written from outside; NotFoundError if the topology, the component or its state does not exist;
    * ConflictError if a task went back to an earlier checkpoint first: the changes are not all committed, and can be
      made again;
    * UnavailableError if a task does not run or answer, or no checkpoint is committed within ``wait_secs``: the changes
      are possibly committed, or will be.
    """

    def put(
        self,
        name: str,
        component: str,
        key: Any,
        value: Any,
        *,
        expected: Any = ANYTHING,
        task: int | None = None,
        wait_secs: float = DEFAULT_WAIT_S,
    ) -> StateWrite:
        """Set the value of a key. The topology goes on: what its tuples change afterwards is changed in this value.

        Args:
            expected: the live value that the key must have: otherwise nothing is changed, and ConflictError is raised.
                Without it, changes since the value was read are overwritten.
            task: the index of the task, where the fields grouping does not say which task has the key.
        """
        return self._write(name, component, [put_of(key, value, task, expected)], wait_secs)

    def delete(
        self, name: str, component: str, *keys: Any, task: int | None = None, wait_secs: float = DEFAULT_WAIT_S
    ) -> StateWrite:
        """Delete keys, in every task that has one of them. ``task``: only in this one."""
        if not keys:
            raise UsageError("delete needs a key or more")
        changes = [Change(encode_key(key), None, checked_task(task)) for key in keys]
        return self._write_all(name, component, changes, wait_secs)

    def import_(
        self,
        name: str,
        component: str,
        file: str | os.PathLike[str],
        *,
        replace: bool = False,
        by_task: bool = False,
        wait_secs: float = DEFAULT_WAIT_S,
        on_progress: Callable[[int], None] | None = None,
    ) -> StateWrite:
        """Set all entries of a ``.parquet``, ``.csv`` or ``.jsonl`` file, as ``export_state`` or a program writes it.

        Some ten thousand entries at a time are committed together. An import that was interrupted is completed by
        another one.

        Args:
            replace: delete the keys that are not in the file, afterwards. The keys of the file are kept in memory, with
                some hundred bytes each.
            by_task: each entry goes to the task that the file names, instead of that of the fields grouping.
            wait_secs: the longest wait for each checkpoint.
            on_progress: is called with the number of entries that are committed.
        """
        path = os.fspath(file)
        reader_of(path)
        seen: set[bytes] | None = set() if replace else None
        done = self._write_all(name, component, _puts(path, by_task, seen), wait_secs, on_progress, path)
        if seen is None:
            return done
        if not seen:
            raise UsageError(f"{path} has no entries, and to replace the state by them would empty it")
        return done + self._write_all(name, component, self._others(name, component, seen), wait_secs)

    def _others(self, name: str, component: str, seen: set[bytes]) -> Iterator[Change]:
        """Yield the deletions of all committed keys that have not been seen."""
        after = ""
        while True:
            request = request_of(
                nimbus_pb2.ReadStateRequest,
                name=name,
                component=component,
                after=after,
                limit=MAX_BULK_ENTRIES,
                is_bulk=True,
            )
            reply: nimbus_pb2.ReadStateReply = self._call(
                lambda stub, request=request: stub.ReadState(request, timeout=_PAGE_S)  # type: ignore[misc]
            )
            for task in reply.tasks:
                for entry in task.entries:
                    if _digest(entry.key) not in seen:
                        yield Change(entry.key, None, task.index)
            after = reply.next
            if not after:
                return

    def _write_all(
        self,
        name: str,
        component: str,
        changes: Iterable[Change],
        wait_secs: float,
        on_progress: Callable[[int], None] | None = None,
        file: str = "",
    ) -> StateWrite:
        done = StateWrite()
        try:
            for part in in_requests(changes):
                done += self._write(name, component, part, wait_secs)
                if on_progress is not None:
                    on_progress(done.put)
        except TupletreeError as error:
            if not file or not done.put:
                raise
            error.args = (f"{error}; {done.put:,} entries of {file} were committed before: import it again",)
            raise
        return done

    def _write(self, name: str, component: str, changes: list[Change], wait_secs: float) -> StateWrite:
        check_wait(wait_secs)
        messages = [one.message for one in changes]
        check_changes(messages)
        request = request_of(
            nimbus_pb2.WriteStateRequest,
            name=name,
            component=component,
            changes=messages,
            wait_s=wait_secs,
        )
        # Not repeated: a change that is made again overwrites what tuples have changed since.
        reply = self._call(lambda stub: stub.WriteState(request, timeout=wait_secs + _CALL_S), retry=False)
        return write_of(reply.tasks)


def _puts(file: str, by_task: bool, seen: set[bytes] | None) -> Iterator[Change]:
    """Yield the changes that set the entries of a file; add their keys to ``seen``."""
    for number, (task, key, value) in enumerate(read_entries(file), 1):
        if by_task and task is None:
            raise UsageError(f"entry {number:,} of {file} names no task")
        if seen is not None:
            seen.add(_digest(key))
        yield Change(key, value, task if by_task else None)


def _digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=_DIGEST_BYTES).digest()
