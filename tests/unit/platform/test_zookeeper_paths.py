"""What is a path in ZooKeeper."""

from __future__ import annotations

import pytest

from tupletree._coord.paths import check_path
from tupletree.errors import UsageError


@pytest.mark.parametrize("path", ["/", "/tupletree", "/a/b", "/$checkpoints/täg/…", "/a/.../b", "/a..b", "/\U0001f600"])
def test_paths(path: str) -> None:
    check_path(path)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("", "slash"),
        ("a", "slash"),
        ("/a/", "empty"),
        ("//", "empty"),
        ("/a//b", "empty"),
        ("/.", "empty, '.' or '..'"),
        ("/a/../b", "empty, '.' or '..'"),
        ("/a\x00", "NUL"),
        ("/\ud800", r"a lone surrogate \(half of a character\)"),
        ("/a/b\udfff", r"a lone surrogate \(half of a character\)"),
    ],
)
def test_what_is_no_path_is_refused_with_the_reason(path: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        check_path(path)
