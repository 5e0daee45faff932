"""Commits of files: a crash at any step, files that readers move away, and notes that are not their owner's."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tupletree._sinks import file_commits
from tupletree._sinks.file_commits import FileCommits, owner_name
from tupletree.attempt import TransactionAttempt
from tupletree.errors import StaleAttemptError, UnavailableError, UsageError

OWNER = "orders/out/0"


class Killed(BaseException):
    """The process ends here."""


def commit(path: Path, txid: int, attempt: int, content: bytes | None, *, is_opaque: bool = False) -> None:
    FileCommits(str(path), "txt", 0).commit(OWNER, TransactionAttempt(txid, attempt), is_opaque, content)


def contents(path: Path) -> list[bytes]:
    """What a reader sees, in the order of transactions."""
    return [file.read_bytes() for file in sorted(path.glob("[!_]*"))]


def folder(path: Path) -> Path:
    return path / "_tupletree" / owner_name(OWNER)


def crash(path: Path, steps: int, monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> bool:
    """Act, and die after some steps. True if there were more."""
    done = 0

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **named: Any) -> Any:
            nonlocal done
            done += 1
            if done > steps:
                raise Killed
            return function(*arguments, **named)

        return step

    with monkeypatch.context() as patch:
        for name in ("rename", "fsync", "unlink", "mkdir"):
            patch.setattr(file_commits.os, name, counted(getattr(os, name)))
        with contextlib.suppress(Killed):
            act()
    return done > steps


@pytest.mark.parametrize("is_opaque", [False, True])
@pytest.mark.parametrize("content", [b"new", None])
def test_after_a_crash_at_any_step_the_repeated_commit_ends_in_one_whole_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_opaque: bool, content: bytes | None
) -> None:
    steps, crashed = 0, True
    while crashed:
        path = tmp_path / f"{steps}"
        commit(path, 1, 1, b"one", is_opaque=is_opaque)
        crashed = crash(path, steps, monkeypatch, lambda: commit(path, 2, 1, content, is_opaque=is_opaque))  # noqa: B023
        expected = [b"one", content] if content else [b"one"]
        assert contents(path) in ([b"one"], expected)
        commit(path, 2, 1, content, is_opaque=is_opaque)
        assert contents(path) == expected
        commit(path, 3, 1, b"three", is_opaque=is_opaque)
        assert contents(path) == [*expected, b"three"]
        assert sorted(os.listdir(folder(path))) == ["lock", "note.json"]
        steps += 1
    assert steps > 4


@pytest.mark.parametrize(("old", "new"), [(b"old", b"new"), (None, b"new"), (b"old", None)])
def test_after_a_crash_at_any_step_a_newer_attempt_has_replaced_the_older_one_or_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: bytes | None, new: bytes | None
) -> None:
    steps, crashed = 0, True
    while crashed:
        path = tmp_path / f"{steps}"
        commit(path, 1, 1, old, is_opaque=True)
        crashed = crash(path, steps, monkeypatch, lambda: commit(path, 1, 2, new, is_opaque=True))  # noqa: B023
        assert contents(path) in ([], [old], [new])
        commit(path, 1, 3, b"newest", is_opaque=True)
        assert contents(path) == [b"newest"]
        with pytest.raises(StaleAttemptError, match=r"transaction 1 \(attempt 0.2\) is over, since .*attempt 0.3"):
            commit(path, 1, 2, new, is_opaque=True)
        steps += 1
    assert steps > 4


def test_a_file_that_was_committed_is_put_in_place_by_the_next_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(tmp_path, 1, 1, b"one")

    def killed(source: str, target: str) -> None:
        if target.endswith(".txt") and os.path.exists(source):
            raise Killed
        os.replace(source, target)

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(file_commits.os, "rename", killed)
        commit(tmp_path, 2, 1, b"two")
    assert contents(tmp_path) == [b"one"]
    commit(tmp_path, 3, 1, b"three")
    assert contents(tmp_path) == [b"one", b"two", b"three"]


def test_readers_may_move_files_away_and_notes_stay(tmp_path: Path) -> None:
    commit(tmp_path, 1, 1, b"one")
    for file in tmp_path.glob("[!_]*"):
        file.unlink()
    commit(tmp_path, 1, 1, b"one")
    commit(tmp_path, 2, 1, b"two")
    assert contents(tmp_path) == [b"two"]
    with pytest.raises(StaleAttemptError):
        commit(tmp_path, 1, 1, b"one")


def test_a_directory_that_was_deleted_is_not_made_again_by_who_has_committed_to_it(tmp_path: Path) -> None:
    commits = FileCommits(str(tmp_path / "out"), "txt", 0)
    commits.commit(OWNER, TransactionAttempt(1, 1), False, b"one")
    os.rename(tmp_path / "out", tmp_path / "away")
    with pytest.raises(UnavailableError, match=r"out/_tupletree/.*/lock: No such file"):
        commits.commit(OWNER, TransactionAttempt(2, 1), False, b"two")
    os.rename(tmp_path / "away", tmp_path / "out")
    commits.commit(OWNER, TransactionAttempt(2, 1), False, b"two")
    assert contents(tmp_path / "out") == [b"one", b"two"]


def test_names_of_owners_are_readable_and_different(tmp_path: Path) -> None:
    owners = ["a/b/0", "a-b-0", "a/b/0/", "Ä", "ä", "", "..", "x" * 5000]
    names = [owner_name(owner) for owner in owners]
    assert len(set(names)) == len(owners)
    assert all(len(name) < 100 and name[0] not in "._-" for name in names)
    assert names[0].startswith("a-b-0-")


def test_drafts_of_writers_that_died_are_deleted_and_those_of_others_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loose = tmp_path / "_tupletree" / "loose"
    assert crash(tmp_path, 6, monkeypatch, lambda: FileCommits(str(tmp_path), "txt", 0).write(b"dead"))
    [dead] = os.listdir(loose)
    seen = []
    rename = os.rename

    def renamed(source: str, target: str) -> None:  # another writer begins while this one is writing
        with monkeypatch.context() as patch:
            patch.setattr(file_commits.os, "rename", rename)
            FileCommits(str(tmp_path), "txt", 0).write(b"other")
        seen.append(os.listdir(loose))
        rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(file_commits.os, "rename", renamed)
        FileCommits(str(tmp_path), "txt", 0).write(b"this")
    [[left]] = seen
    assert left != dead
    assert sorted(contents(tmp_path)) == [b"other", b"this"]


@pytest.mark.parametrize(
    ("note", "reason"),
    [
        ({"format": 2}, "newer version of Tupletree"),
        ({"owner": "another", "txid": 1}, "is not the note of 'orders/out/0'"),
        ({"words": 1}, "is not the note of 'orders/out/0'"),
        ([], "is not the note of 'orders/out/0'"),
    ],
)
def test_a_note_that_is_not_the_owners_is_refused(tmp_path: Path, note: Any, reason: str) -> None:
    commit(tmp_path, 1, 1, b"one")
    (folder(tmp_path) / "note.json").write_text(json.dumps(note))
    with pytest.raises(UsageError, match=reason):
        commit(tmp_path, 2, 1, b"two")
    assert contents(tmp_path) == [b"one"]


def test_a_path_that_cannot_be_made_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path, reason in (tmp_path / "no" / "place", "no/place: No such file"), (tmp_path / "file" / "x", "Not a dir"):
        with pytest.raises(UnavailableError, match=reason):
            commit(path, 1, 1, b"one")
        with pytest.raises(UnavailableError, match=reason):
            FileCommits(str(path), "txt", 0).write(b"one")
