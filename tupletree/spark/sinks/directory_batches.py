"""One directory per committed batch, put in place by a rename. Independent of Spark.

    <path>/_tupletree.json               the owner: format, kind, transactional_id
    <path>/_staging/<txid>.<attempt>/    being written, or waiting for its commit
    <path>/_staging/<txid>.<attempt>.begun        exists while the batch is being written, unless removed meanwhile
    <path>/_staging/<txid>.<attempt>.replaced/    was committed, and is being replaced by a newer attempt
    <path>/_removed.<any>/               being removed
    <path>/txid=<20 digits>/             committed; the file _attempt in it names the attempt (_sinks/batch_folders.py)

Readers skip names that begin with an underscore, so they see only committed batches, each of them whole.

Invariant: a directory ``txid=n`` was *sealed*: all its files and its ``_attempt`` are on disk. So the rename is the
commit and its note in one. The highest n present is the mark of rules.py.

Replacing (opaque rule) takes two renames: the old attempt goes back to ``_staging``, and the new attempt takes its
place. After a crash between the two there is no ``txid=n``. But then n is not recorded as committed, so the next
attempt of n arrives and finds the place free.

**Two drivers.** A driver considered dead can still run while its successor removes staged batches. The removal of a
batch begins with its ``.begun`` file, so a partly removed batch is never sealed, even if tasks go on writing to it.
Then the directory is renamed before it is emptied, so a sealed batch is put in place as a whole or not at all. Commits
exclude each other by a lock on the owner file, if the file system supports locks. Without the lock, a driver that
stalled before a rename could move away a batch that its successor has put in place.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tupletree._sinks.batch_folders import ATTEMPT, batch_folder, batch_note, committed_batches
from tupletree._sinks.durable_files import lock_now, read_note, sync, unavailable, write_note
from tupletree.attempt import TransactionAttempt
from tupletree.errors import StaleAttemptError, UnavailableError, UsageError

FORMAT = 1
OWNER = "_tupletree.json"
STAGING = "_staging"
REMOVED = "_removed"

_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""Error codes of a file system without locks."""

_STAGED = re.compile(r"(\d+)\.(\d+)")


class BatchDirectories:
    """The committed and staged batches below a path. OSErrors are raised as UnavailableError.

    ``kind``: the file format; a directory has files of one kind.
    """

    def __init__(self, path: str, kind: str) -> None:
        self.path = path
        self._kind = kind
        self._staging = os.path.join(path, STAGING)
        self._owner: dict[str, Any] = {}

    def open(self, transactional_id: str) -> None:
        """Claim the directory for a pipeline, creating it if needed, and remove all staged batches.

        UsageError if the directory belongs to another pipeline, is of another kind, or has files that no pipeline made.
        """
        self._owner = {"format": FORMAT, "kind": self._kind, "transactional_id": transactional_id}
        try:
            os.makedirs(self.path, exist_ok=True)
            if not self._is_claimed():
                if strangers := [name for name in os.listdir(self.path) if name[0] not in "_."]:
                    raise UsageError(
                        f"{self.path} contains {min(strangers)!r} and no {OWNER}: an empty directory, or one of this"
                        " pipeline, was expected"
                    )
                write_note(os.path.join(self.path, OWNER), self._owner)
            self._remove(self._staging)
            for name in os.listdir(self.path):
                if name.startswith(REMOVED):  # left by a driver that died while removing it
                    shutil.rmtree(os.path.join(self.path, name), ignore_errors=True)
            os.mkdir(self._staging)
            sync(self.path)
        except OSError as error:
            raise unavailable(self.path, error) from error

    def begin(self, attempt: TransactionAttempt) -> str:
        """Return the directory for the files of an attempt. It does not exist yet.

        Older attempts of the txid are over. Their staged files are removed, including files staged after the discard by
        tasks that were slow to end.
        """
        try:
            self._sweep(lambda other: other.txid == attempt.txid and other <= attempt)
            open(self._mark(attempt), "w").close()
        except OSError as error:
            raise unavailable(self.path, error) from error
        return self.staged(attempt)

    def staged(self, attempt: TransactionAttempt) -> str:
        """Return the directory that holds the files of an attempt until the commit."""
        return os.path.join(self._staging, f"{attempt.txid}.{attempt.attempt}")

    def seal(self, attempt: TransactionAttempt, positions: Mapping[str, int]) -> None:
        """Sync the complete files of an attempt to disk, with its note. ``positions``: see _sinks/batch_folders.py."""
        staged = self.staged(attempt)
        if not os.path.exists(self._mark(attempt)):
            raise self._gone(attempt)
        try:
            names = os.listdir(staged) if os.path.isdir(staged) else []
            if all(name[0] in "_." for name in names):
                raise UsageError(
                    f"{self.path}: Spark has written a batch, but the pipeline's worker sees none of its files: the"
                    " executors and the worker must share this directory"
                )
            write_note(os.path.join(staged, ATTEMPT), {**attempt._asdict(), "positions": dict(positions)})
            for name in names:
                sync(os.path.join(staged, name))
            sync(staged)
            os.unlink(self._mark(attempt))
        except FileNotFoundError as error:
            raise self._gone(attempt) from error
        except OSError as error:
            raise unavailable(self.path, error) from error

    def commit(self, attempt: TransactionAttempt, is_opaque: bool) -> None:
        """Put a sealed batch in place, by the transactional or the opaque rule."""
        try:
            with self._alone():
                self._commit(attempt, is_opaque)
        except OSError as error:
            raise unavailable(self.path, error) from error

    def _commit(self, attempt: TransactionAttempt, is_opaque: bool) -> None:
        newest = max(committed_batches(self.path), default=0)
        if newest > attempt.txid:
            raise self._stale(attempt, f"transaction {newest} has been written")
        target = batch_folder(self.path, attempt.txid)
        there = self._attempt_of(target) if newest == attempt.txid else None
        if there is None:
            self._put(attempt, target)
        elif is_opaque and there > attempt:
            raise self._stale(attempt, f"{there} has been written")
        elif is_opaque and there < attempt:
            self._replace(there, attempt, target)
        sync(self.path)  # even if the batch was in place: its driver can have died before the sync
        self._sweep(lambda other: other <= attempt)  # a newer attempt of this txid can be running by now

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Exclude other committers. UnavailableError while another driver commits, or if the directory has no owner."""
        if not self._is_claimed():
            raise UnavailableError(f"{self.path}: {OWNER} is gone: it was deleted while a pipeline was writing here")
        with open(os.path.join(self.path, OWNER), "r+b") as file:
            try:
                is_locked = lock_now(file.fileno())
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
                is_locked = True
            if not is_locked:
                raise UnavailableError(f"{self.path}: another driver of this pipeline is committing to it")
            yield

    def discard(self, attempt: TransactionAttempt) -> None:
        """Remove the staged files of an attempt, as far as possible."""
        with contextlib.suppress(OSError):
            self._sweep(lambda other: other == attempt)

    def _replace(self, there: TransactionAttempt, attempt: TransactionAttempt, target: str) -> None:
        if not os.path.isdir(self.staged(attempt)):
            raise self._gone(attempt)
        os.rename(target, self.staged(there) + ".replaced")
        self._put(attempt, target)

    def _put(self, attempt: TransactionAttempt, target: str) -> None:
        try:
            os.rename(self.staged(attempt), target)
        except FileNotFoundError as error:
            raise self._gone(attempt) from error

    def _sweep(self, is_over: Callable[[TransactionAttempt], bool]) -> None:
        """Remove the staged files of attempts that are over, including replaced batches."""
        names = [
            name for name in os.listdir(self._staging) if (match := _STAGED.match(name)) and is_over(_attempt(match))
        ]
        for name in sorted(names, reverse=True):  # the mark of a batch is removed before the batch
            self._remove(os.path.join(self._staging, name))

    def _remove(self, path: str) -> None:
        """Remove a file or directory. It is first renamed, so that it vanishes from its place in one step."""
        away = os.path.join(self.path, f"{REMOVED}.{uuid.uuid4().hex}")
        try:
            os.rename(path, away)
        except FileNotFoundError:
            return
        if os.path.isdir(away):
            shutil.rmtree(away, ignore_errors=True)
        else:
            os.unlink(away)

    def _mark(self, attempt: TransactionAttempt) -> str:
        return self.staged(attempt) + ".begun"

    def _is_claimed(self) -> bool:
        """True if the owner file names this pipeline, False if there is none. UsageError if it names another."""
        try:
            owner = read_note(os.path.join(self.path, OWNER))
        except FileNotFoundError:
            return False
        if owner == self._owner:
            return True
        if owner.get("format", 0) > FORMAT:
            raise UsageError(f"{self.path} was written by a newer version of Tupletree (format {owner['format']})")
        raise UsageError(
            f"{self.path} belongs to the pipeline {owner.get('transactional_id')!r} and has {owner.get('kind')} files;"
            f" this is {self._owner['transactional_id']!r} with {self._kind} files, and needs another directory"
        )

    def _attempt_of(self, target: str) -> TransactionAttempt:
        note = batch_note(target)
        return TransactionAttempt(note["txid"], note["attempt"])

    def _stale(self, attempt: TransactionAttempt, why: str) -> StaleAttemptError:
        return StaleAttemptError(
            f"{self.path}: {attempt} is over, since {why}. If this persists, another pipeline writes here, or the"
            " progress of this pipeline was deleted: give this pipeline a new directory"
        )

    def _gone(self, attempt: TransactionAttempt) -> UnavailableError:
        return UnavailableError(f"{self.path}: the staged files of {attempt} are gone")


def _attempt(match: re.Match[str]) -> TransactionAttempt:
    return TransactionAttempt(int(match[1]), int(match[2]))
