"""A directory for each committed batch, put in its place by a rename. Nothing here knows of Spark.

    <path>/_tupletree.json               whose it is: format, kind, transactional_id
    <path>/_staging/<txid>.<attempt>/    being written, or waiting for its commit
    <path>/_staging/<txid>.<attempt>.begun        while it is being written, unless it was removed meanwhile
    <path>/_staging/<txid>.<attempt>.replaced/    was committed, and is being replaced by a newer attempt
    <path>/_removed.<any>/               on its way out
    <path>/txid=<20 digits>/             committed; _attempt in it says by which attempt

Readers skip names that begin with an underscore, so they see committed batches and no others, each of them whole.

Invariant: what stands at ``txid=n`` was sealed, which is to say that all its files and its ``_attempt`` are on disk; so
the rename is the commit and its note in one. The highest n that is there is the mark of rules.py.

Replacing (opaque rule) takes two renames: the old attempt goes back to ``_staging``, the new one takes its place. After
a crash between the two there is nothing at ``txid=n``; but then n is not recorded as committed, so its next attempt
comes and finds the place free.

**Two drivers.** One that is taken for dead may still run, while its successor removes what it finds staged. The mark
``begun`` of a batch goes first, so one of which something was removed is never sealed, though its tasks go on writing;
and what is removed is renamed before it is emptied, so one that was sealed is put in its place as a whole or not at
all. Commits exclude each other by a lock on the note of the owner, as far as the file system has locks: else one that
stood still before a rename could put away what its successor has put there.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from tupletree.attempt import TransactionAttempt
from tupletree.errors import StaleAttemptError, UnavailableError, UsageError

FORMAT = 1
OWNER = "_tupletree.json"
STAGING = "_staging"
REMOVED = "_removed"
ATTEMPT = "_attempt"

_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""What a file system says that has no locks."""

_COMMITTED = re.compile(r"txid=(\d{20})")
_STAGED = re.compile(r"(\d+)\.(\d+)")


class BatchDirectories:
    """The committed and staged batches below a path. OSErrors come out as UnavailableError.

    ``kind``: what the files are; a directory has files of one kind.
    """

    def __init__(self, path: str, kind: str) -> None:
        self.path = path
        self._kind = kind
        self._staging = os.path.join(path, STAGING)
        self._owner: dict[str, Any] = {}

    def open(self, transactional_id: str) -> None:
        """Claim the directory for a pipeline, made if it is not there, and remove what is staged in it.

        UsageError if it is another pipeline's, of another kind, or has files that no pipeline made.
        """
        self._owner = {"format": FORMAT, "kind": self._kind, "transactional_id": transactional_id}
        try:
            os.makedirs(self.path, exist_ok=True)
            if not self._is_claimed():
                if strangers := [name for name in os.listdir(self.path) if name[0] not in "_."]:
                    raise UsageError(
                        f"{self.path} has {min(strangers)!r} in it, and no {OWNER}: a directory of the pipeline's own"
                        " was expected"
                    )
                _write(os.path.join(self.path, OWNER), self._owner)
            self._remove(self._staging)
            for name in os.listdir(self.path):
                if name.startswith(REMOVED):  # somebody died who removed it
                    shutil.rmtree(os.path.join(self.path, name), ignore_errors=True)
            os.mkdir(self._staging)
            _sync(self.path)
        except OSError as error:
            raise unavailable(self.path, error) from error

    def begin(self, attempt: TransactionAttempt) -> str:
        """Where the files of an attempt are to be written: a directory that is not there yet.

        Older attempts of its txid are over. What they have staged goes, and what tasks of theirs that were slow to die
        have staged after they were discarded.
        """
        try:
            self._sweep(lambda other: other.txid == attempt.txid and other <= attempt)
            open(self._mark(attempt), "w").close()
        except OSError as error:
            raise unavailable(self.path, error) from error
        return self.staged(attempt)

    def staged(self, attempt: TransactionAttempt) -> str:
        """Where the files of an attempt are until it is committed."""
        return os.path.join(self._staging, f"{attempt.txid}.{attempt.attempt}")

    def seal(self, attempt: TransactionAttempt) -> None:
        """The files of an attempt are complete: bring them to disk, with the note whose they are."""
        staged = self.staged(attempt)
        if not os.path.exists(self._mark(attempt)):
            raise self._gone(attempt)
        try:
            names = os.listdir(staged) if os.path.isdir(staged) else []
            if all(name[0] in "_." for name in names):
                raise UsageError(
                    f"{self.path}: Spark has written a batch, and no file of it is here: the executors and the"
                    " pipeline's worker must see the same directory there"
                )
            _write(os.path.join(staged, ATTEMPT), dict(zip(attempt._fields, attempt, strict=True)))
            for name in names:
                _sync(os.path.join(staged, name))
            _sync(staged)
            os.unlink(self._mark(attempt))
        except FileNotFoundError as error:
            raise self._gone(attempt) from error
        except OSError as error:
            raise unavailable(self.path, error) from error

    def commit(self, attempt: TransactionAttempt, is_opaque: bool) -> None:
        """Put a sealed batch in its place, by the transactional or the opaque rule."""
        try:
            with self._alone():
                self._commit(attempt, is_opaque)
        except OSError as error:
            raise unavailable(self.path, error) from error

    def _commit(self, attempt: TransactionAttempt, is_opaque: bool) -> None:
        newest = max(self.committed(), default=0)
        if newest > attempt.txid:
            raise self._stale(attempt, f"transaction {newest} is there")
        target = self._target(attempt.txid)
        there = self._attempt_of(target) if newest == attempt.txid else None
        if there is None:
            self._put(attempt, target)
        elif is_opaque and there > attempt:
            raise self._stale(attempt, f"{there} is there")
        elif is_opaque and there < attempt:
            self._replace(there, attempt, target)
        _sync(self.path)  # also where it was there: who put it there may not have lived to do it
        self._sweep(lambda other: other <= attempt)  # a newer attempt of this txid may be at work by now

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Nobody else commits meanwhile. UnavailableError while somebody does, or if the directory is nobody's."""
        if not self._is_claimed():
            raise UnavailableError(f"{self.path}: its {OWNER} has gone: it was deleted while a pipeline writes to it")
        with open(os.path.join(self.path, OWNER), "r+b") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UnavailableError(f"{self.path}: another driver of this pipeline is committing to it") from None
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
            yield

    def committed(self) -> list[int]:
        """The txids that are there, in no order."""
        return [int(match[1]) for name in os.listdir(self.path) if (match := _COMMITTED.fullmatch(name))]

    def discard(self, attempt: TransactionAttempt) -> None:
        """Remove what an attempt has staged, as far as it can be removed now."""
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
        """Remove what attempts that are over have staged, and what of them was replaced."""
        names = [
            name for name in os.listdir(self._staging) if (match := _STAGED.match(name)) and is_over(_attempt(match))
        ]
        for name in sorted(names, reverse=True):  # the mark of a batch goes before the batch
            self._remove(os.path.join(self._staging, name))

    def _remove(self, path: str) -> None:
        """Remove a file or directory: out of its place in one step."""
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
        """Whether the directory has a note that says that it is this pipeline's. UsageError if it says otherwise."""
        try:
            owner = _read(os.path.join(self.path, OWNER))
        except FileNotFoundError:
            return False
        if owner == self._owner:
            return True
        if owner.get("format", 0) > FORMAT:
            raise UsageError(f"{self.path} was written by a newer version of Tupletree (format {owner['format']})")
        raise UsageError(
            f"{self.path} belongs to the pipeline {owner.get('transactional_id')!r} and has {owner.get('kind')} files;"
            f" this is {self._owner['transactional_id']!r} with {self._kind} files: give it another directory"
        )

    def _attempt_of(self, target: str) -> TransactionAttempt:
        try:
            note = _read(os.path.join(target, ATTEMPT))
            return TransactionAttempt(note["txid"], note["attempt"])
        except (FileNotFoundError, KeyError) as error:
            raise UsageError(
                f"{target} has no {ATTEMPT} that says whose it is: something else has written it"
            ) from error

    def _target(self, txid: int) -> str:
        return os.path.join(self.path, f"txid={txid:020}")

    def _stale(self, attempt: TransactionAttempt, why: str) -> StaleAttemptError:
        return StaleAttemptError(
            f"{self.path}: {attempt} is over, since {why}. If this goes on, another pipeline writes here, or the"
            " progress of this one was deleted: give it a new directory"
        )

    def _gone(self, attempt: TransactionAttempt) -> UnavailableError:
        return UnavailableError(f"{self.path}: what {attempt} has staged is gone")


def unavailable(path: str, error: OSError) -> UnavailableError:
    """What is raised for an error of the file system, which may go away."""
    name = error.filename if isinstance(error.filename, str) else path
    return UnavailableError(f"{name}: {os.strerror(error.errno or errno.EIO)}")


def _attempt(match: re.Match[str]) -> TransactionAttempt:
    return TransactionAttempt(int(match[1]), int(match[2]))


def _read(path: str) -> dict[str, Any]:
    with open(path, encoding="utf-8") as file:
        try:
            note = json.load(file)
        except ValueError as error:
            raise UsageError(f"{path} is no note of a pipeline: {error}") from error
    return note if isinstance(note, dict) else {}


def _write(path: str, note: dict[str, Any]) -> None:
    """Write a note that is there as a whole or not at all."""
    temporary = path + ".new"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(note, file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(temporary, path)


def _sync(path: str) -> None:
    """Bring a file, or the names in a directory, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
