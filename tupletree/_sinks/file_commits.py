"""Commits to a directory of files: the rows of a transaction are one file, put in place by a rename.

    <path>/<owner>-<txid>.<suffix>            committed by an owner
    <path>/<time>-<unique>.<suffix>           written without a transaction
    <path>/_tupletree/<owner>/lock            locked while an attempt of the owner commits
    <path>/_tupletree/<owner>/note.json       the newest committed attempt of the owner, and its file
    <path>/_tupletree/<owner>/<txid>.<attempt>    being written, or committed and about to be put in place
    <path>/_tupletree/loose/<unique>          being written without a transaction, and locked meanwhile

Readers skip names that begin with an underscore, so they see only whole files.

**A commit** writes the file in the owner's folder, then the note, which is the commit, and then renames the file. After
a crash between the two last steps the note names a file that is still in the folder: the owner's next call, which is at
the latest the repetition of this commit, renames it. So the note does not depend on the files: readers may move and
delete them at any time.

An attempt that replaces another (opaque rule) has a file of the same name, so one rename replaces the file. An attempt
without rows deletes it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import uuid
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Final, NamedTuple

from tupletree._sinks.durable_files import (
    lock_now,
    locked,
    make_directory,
    read_note,
    sync,
    unavailable,
    write_note,
)
from tupletree._sinks.sql_rules import Step, next_step
from tupletree.attempt import TransactionAttempt
from tupletree.errors import StaleAttemptError, UsageError

FORMAT: Final = 1
"""The version of the layout."""
ASIDE: Final = "_tupletree"
LOOSE: Final = "loose"
LOCK: Final = "lock"
NOTE: Final = "note.json"

Content = bytes | memoryview
"""The content of a file."""


class Note(NamedTuple):
    """The newest committed attempt of an owner. txid 0 means no commit.

    Attributes:
        file: the name of its file; empty if it has no rows.
        replaced: the name of the file of the attempt that it replaces, if that is another name.
    """

    owner: str
    txid: int = 0
    attempt: int = 0
    file: str = ""
    replaced: str = ""
    format: int = FORMAT


class FileCommits:
    """The files below a path. ``suffix``: of their names. ``timeout_s``: the longest wait for another life of an owner.

    The directory is made if its parent exists. Errors of both methods: UnavailableError if the file system refuses an
    operation, as on a full disk; nothing is written then, or, after the note, the next call completes the commit.
    """

    def __init__(self, path: str, suffix: str, timeout_s: float) -> None:
        self.path = path
        self._suffix = suffix
        self._timeout_s = timeout_s
        self._is_swept = False
        self._owners: set[str] = set()  # those with a folder, which is not made again: it had the note

    def commit(self, owner: str, attempt: TransactionAttempt, is_opaque: bool, content: Content | None) -> None:
        """Put a file in place, unless the owner's note says that it is. ``content``: None for no rows.

        Raises:
            StaleAttemptError: a newer attempt or transaction of the owner has been written.
            UsageError: the note of the owner cannot be read.
        """
        try:
            name = owner_name(owner)
            folder = os.path.join(self.path, ASIDE, name) if name in self._owners else self._folder(name)
            self._owners.add(name)
            with locked(os.path.join(folder, LOCK), self._timeout_s):
                self._commit(folder, owner, attempt, is_opaque, content)
        except OSError as error:
            raise unavailable(self.path, error) from error

    def write(self, content: Content) -> None:
        """Put a file with a name of its own in place, without a note."""
        try:
            folder = self._folder(LOOSE)
            self._sweep_loose(folder)
            draft = os.path.join(folder, uuid.uuid4().hex)
            name = f"{datetime.now(UTC):%Y%m%dT%H%M%S.%f}-{uuid.uuid4().hex[:12]}.{self._suffix}"
            _write_draft(draft, content, os.path.join(self.path, name))
            sync(self.path)
        except OSError as error:
            raise unavailable(self.path, error) from error

    def _folder(self, name: str) -> str:
        folder = os.path.join(self.path, ASIDE, name)
        if not os.path.isdir(folder):
            for path in (self.path, os.path.join(self.path, ASIDE), folder):
                make_directory(path)
        return folder

    def _commit(
        self, folder: str, owner: str, attempt: TransactionAttempt, is_opaque: bool, content: Content | None
    ) -> None:
        note = _note(folder, owner)
        self._settle(folder, note)
        newest = TransactionAttempt(note.txid, note.attempt)
        step = next_step(newest, attempt, is_opaque)
        if step == Step.REFUSE:
            raise StaleAttemptError(
                f"{self.path}: {attempt} is over, since {newest} has been written. If this persists, another program"
                f" writes as {owner!r}, or the progress kept for that id was deleted: write to a new directory"
            )
        if step == Step.NOTHING:
            sync(self.path)  # the life that has put the file in place can have died before its own sync
            return
        for name in os.listdir(folder):
            if name not in (LOCK, NOTE):  # of attempts that failed
                os.unlink(os.path.join(folder, name))
        file = "" if content is None else f"{owner_name(owner)}-{attempt.txid:020}.{self._suffix}"
        replaced = note.file if step == Step.TAKE_BACK_AND_WRITE and note.file != file else ""
        made = Note(owner, attempt.txid, attempt.attempt, file, replaced)
        if content is not None:
            _write_draft(_staged(folder, made), content)
            sync(folder)  # the note promises the file
        write_note(os.path.join(folder, NOTE), made._asdict())
        sync(folder)
        self._settle(folder, made)

    def _settle(self, folder: str, note: Note) -> None:
        """Put the file of the newest commit in place, if it is not."""
        if note.replaced:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(self.path, note.replaced))
        if note.file:
            with contextlib.suppress(FileNotFoundError):  # it was put in place
                os.rename(_staged(folder, note), os.path.join(self.path, note.file))
                sync(self.path)

    def _sweep_loose(self, folder: str) -> None:
        """Delete, once, the drafts of writers that died: nobody has their locks."""
        if self._is_swept:
            return
        for name in os.listdir(folder):
            draft = os.path.join(folder, name)
            with contextlib.suppress(OSError), open(draft, "rb") as file:
                if lock_now(file.fileno()):
                    os.unlink(draft)
        self._is_swept = True


def owner_name(owner: str) -> str:
    """Return the name of an owner in names of files: readable, and different for each owner."""
    readable = re.sub(r"[^A-Za-z0-9.]+", "-", owner)[:80].strip(".-")
    return f"{readable or 'owner'}-{blake2b(owner.encode(), digest_size=8).hexdigest()}"


def _note(folder: str, owner: str) -> Note:
    path = os.path.join(folder, NOTE)
    try:
        found = read_note(path)
    except FileNotFoundError:
        return Note(owner)
    if found.get("format", 0) > FORMAT:
        raise UsageError(f"{path} was written by a newer version of Tupletree (format {found['format']})")
    try:
        note = Note(**found)
    except TypeError:
        note = Note("")
    if note.owner != owner:
        raise UsageError(f"{path} is not the note of {owner!r}: another program has written {json.dumps(found)[:200]}")
    return note


def _staged(folder: str, note: Note) -> str:
    return os.path.join(folder, f"{note.txid}.{note.attempt}")


def _write_draft(draft: str, content: Content, target: str | None = None) -> None:
    """Write a file and sync it, and move it to ``target``, if given. If that fails, there is no file."""
    try:
        with open(draft, "xb") as file:
            if target is not None:
                with contextlib.suppress(OSError):  # a file system without locks
                    lock_now(file.fileno())
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            if target is not None:
                os.rename(draft, target)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        raise
