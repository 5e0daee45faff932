"""Files and directories as hostile user code leaves them: nothing blocks, follows a link or recurses."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tupletree.supervisor.files import last_modified_unix_s, open_output, open_regular, remove_tree
from tupletree.supervisor.logs.files import last_written_unix_s
from tupletree.supervisor.logs.tail import limit_output
from tupletree.supervisor.processes import WorkerProcess, find_by_argument, last_line
from tupletree.testing.wait import wait_until

DEEP = 1100  # more than Python recurses


def deep(root: Path, levels: int = DEEP) -> Path:
    """A directory with so many directories in each other, deeper than any path can name."""
    root.mkdir(parents=True)
    at = os.open(root, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=below))
        os.close(at)
        at = below
    os.close(at)
    return root


def test_directories_of_any_depth_are_looked_at_and_removed_without_their_links_targets(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    root = deep(tmp_path / "logs" / "wc-1-1700000000")
    (root / "link").symlink_to(kept)
    (root / "d" / "link").symlink_to(kept)
    os.utime(root / "d", (2e9, 2e9))
    assert last_written_unix_s(tmp_path / "logs") == {"wc-1-1700000000": 2e9}
    remove_tree(root)
    assert not root.exists()
    (tmp_path / "linked").symlink_to(kept)
    remove_tree(tmp_path / "linked")
    assert (kept / "file").exists()


def test_removing_what_is_gone_or_in_the_way_raises_nothing(tmp_path: Path) -> None:
    remove_tree(tmp_path / "gone")
    assert last_modified_unix_s(tmp_path / "gone") == 0.0
    (tmp_path / "file").touch()
    remove_tree(tmp_path / "file")


def test_a_pipe_in_the_place_of_a_log_blocks_nobody(tmp_path: Path) -> None:
    pipe, log = tmp_path / "pipe", tmp_path / "worker.out"
    os.mkfifo(pipe)
    assert last_line(pipe) == ""
    with pytest.raises(OSError, match="not a regular file"):
        open_regular(pipe)
    with pytest.raises(OSError):
        open_output(pipe)
    log.write_bytes(b"x" * 100)
    os.mkfifo(tmp_path / "worker.out.1")
    with pytest.raises(OSError):
        limit_output(log, 10)


def test_a_link_in_the_place_of_a_log_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hunter2")
    link = tmp_path / "worker.out"
    link.symlink_to(tmp_path / "secret")
    assert last_line(link) == ""
    with pytest.raises(OSError):
        open_output(link)


def test_a_process_that_nobody_could_watch_does_not_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the supervisor has no file descriptor left."""

    def refuse(pid: int, flags: int = 0) -> int:
        wait_until(
            lambda: find_by_argument("600.25", os.getuid()) == pid, what="its arguments can be read, right after exec"
        )
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "pidfd_open", refuse, raising=False)
    with pytest.raises(OSError, match="Too many open files"):
        WorkerProcess.launch(["sleep", "600.25"], "/", dict(os.environ), str(tmp_path / "out"))
    assert find_by_argument("600.25", os.getuid()) is None
