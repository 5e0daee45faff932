"""Searching a log on a real directory: what is found, and what it may cost."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tupletree.errors import UsageError
from tupletree.supervisor.logs.search import MAX_LINE_LENGTH, MAX_SHOWN_LENGTH, End, Match, Query, matcher, search


def found(files: list[Path], query: Query) -> tuple[list[Match], End]:
    everything = [one for one in search(files, query, matcher(query)) if one is not None]
    *matches, end = everything
    assert isinstance(end, End)
    assert all(isinstance(one, Match) for one in matches)
    return matches, end  # type: ignore[return-value]


@pytest.fixture
def logs(tmp_path: Path) -> list[Path]:
    (tmp_path / "worker.log.1").write_text("one\ntwo ERROR a\nthree\n")
    (tmp_path / "worker.log").write_text("four\nfive Error (b)\nsix ERROR c")
    return [tmp_path / "worker.log.1", tmp_path / "worker.log"]


def test_lines_with_a_text_in_all_files_oldest_first(logs: list[Path]) -> None:
    matches, end = found(logs, Query("ERROR"))
    assert [(one.file, one.offset, one.line) for one in matches] == [
        ("worker.log.1", 4, "two ERROR a"),
        ("worker.log", 20, "six ERROR c"),
    ]
    assert end.incomplete == ""
    assert [one.line for one in found(logs, Query("error", ignore_case=True))[0]][1] == "five Error (b)"
    assert found(logs, Query("(b)"))[0][0].line == "five Error (b)"


def test_regular_expressions(logs: list[Path]) -> None:
    assert [one.line[:4] for one in found(logs, Query("^[fs]i.e? ", is_regex=True))[0]] == ["five", "six "]
    assert len(found(logs, Query("error .$", is_regex=True, ignore_case=True))[0]) == 2


def test_lines_around_a_match(logs: list[Path]) -> None:
    [first, second] = found(logs, Query("ERROR", before=2, after=1))[0]
    assert (first.before, first.after) == (["one"], ["three"])
    assert (second.before, second.after) == (["four", "five Error (b)"], [])


def test_matches_that_are_neighbours_show_each_other(tmp_path: Path) -> None:
    (tmp_path / "worker.log").write_text("a1\na2\na3\nb\n")
    matches, _ = found([tmp_path / "worker.log"], Query("a", before=1, after=2))
    assert [(one.before, one.line, one.after) for one in matches] == [
        ([], "a1", ["a2", "a3"]),
        (["a1"], "a2", ["a3", "b"]),
        (["a2"], "a3", ["b"]),
    ]


def test_it_says_when_there_is_more(logs: list[Path]) -> None:
    matches, end = found(logs, Query("o", max_matches=1))
    assert [one.line for one in matches] == ["one"]
    assert end.incomplete == "there are more matches; the limit is 1"
    assert found(logs, Query("three", max_matches=1))[1].incomplete == ""


def test_it_ends_when_its_time_is_over(tmp_path: Path) -> None:
    (tmp_path / "worker.log").write_text("nothing here\n" * 200_000)
    ticks = itertools.count(step=5.0)
    query = Query("x")
    *_, end = search([tmp_path / "worker.log"], query, matcher(query), clock=lambda: next(ticks))
    assert isinstance(end, End)
    assert end.incomplete == "the search ended after 20 s, in worker.log"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"pattern": ""}, "1 to 500 characters, not 0"),
        ({"pattern": "x" * 501}, "not 501"),
        ({"pattern": "a\nb"}, "cannot contain a line break"),
        ({"pattern": "a", "max_matches": 1001}, "at most 1000 matches"),
        ({"pattern": "a", "before": 21}, "at most 20 lines of context"),
    ],
)
def test_a_query_that_is_too_much_is_refused(fields: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Query(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("pattern", ["[", r"(a)\1", "(?=a)", "a{5000}", "(((a{1,100}){1,100}){1,100})"])
def test_what_re2_does_not_take_is_said_in_a_sentence(pattern: str) -> None:
    with pytest.raises(UsageError, match=r"is not a valid RE2 regular expression: [a-z]"):
        matcher(Query(pattern, is_regex=True))


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(x+x+)+y", "(.*a){20}b"])
def test_no_regular_expression_explodes(tmp_path: Path, pattern: str) -> None:
    (tmp_path / "worker.log").write_text(("a" * 5000 + "!\n") * 40)
    query = Query(pattern, is_regex=True)
    assert found([tmp_path / "worker.log"], query)[0] == []  # Python's own would not come to an end


def test_a_line_without_an_end_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "worker.log"
    path.write_text("begin" + "x" * 1_000_000 + "end\nnext\n")
    matches, _ = found([path], Query("next"))
    assert [(one.offset, one.line) for one in matches] == [(1_000_009, "next")]
    [long] = found([path], Query("begin"))[0]
    assert len(long.line) == MAX_SHOWN_LENGTH + 1 <= MAX_LINE_LENGTH
    assert found([path], Query("end"))[0] == []


def test_bytes_that_are_no_text_and_files_that_are_gone(tmp_path: Path) -> None:
    (tmp_path / "worker.log").write_bytes(b"\xff\xfe bad\r\ngood\r\n")
    matches, _ = found([tmp_path / "gone", tmp_path / "worker.log"], Query("bad"))
    assert matches[0].line == "\ufffd\ufffd bad"
    assert [one.line for one in found([tmp_path / "worker.log"], Query("good$", is_regex=True))[0]] == ["good"]
