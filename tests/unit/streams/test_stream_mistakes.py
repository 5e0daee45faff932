"""What a newcomer does wrong with a program of streams is said where it is seen first, with the remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from traceback import extract_tb
from typing import Any

import pytest

from tupletree.backoff import Backoff
from tupletree.cli.local import command
from tupletree.cli.main import main
from tupletree.connectors.files import FileSpout
from tupletree.connectors.formats import Json
from tupletree.connectors.sqlite import SqliteSink
from tupletree.errors import TaskFailedError, TupletreeError, UsageError
from tupletree.streams import Stream, StreamBuilder, local_run

HEAD = """from tupletree.streams import StreamBuilder
builder = StreamBuilder()
numbers = builder.source(range(200), name="numbers")
"""


@pytest.fixture
def local(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[[str], tuple[int, str, str]]:
    """Run lines behind HEAD with ``tupletree local``; return the exit status and what was printed, and said."""

    def run(lines: str) -> tuple[int, str, str]:
        (tmp_path / "program.py").write_text(HEAD + lines)
        status = main(["local", str(tmp_path / "program.py"), "--seconds", "60"])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return run


FILES = {
    "no topology": ("numbers.print()", "program.py has no 'topology': write topology = builder.topology() at its end"),
    "a stream": (
        "topology = numbers.print()",
        "program.py has a Stream as 'topology': write topology = builder.topology() at its end",
    ),
    "an open file": (
        "file = open(__file__ + '.log', 'w')\nnumbers.map(lambda n: file.write(str(n))).print()\nbuilder.topology()",
        "map in 'numbers' cannot be copied to its tasks: Cannot pickle files that are not opened for reading",
    ),
    "no key": ("numbers.count()", "a Stream has no 'count': write key_by(…) before it (line 4)"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_without_a_topology_says_what_to_write(name: str, local: Any) -> None:
    lines, message = FILES[name]
    status, _, said = local(lines)
    assert status == 2 and message in said


@pytest.mark.parametrize("value", ["builder", "builder.topology", "builder.topology()"])
def test_the_builder_itself_is_taken_as_the_topology(value: str, local: Any) -> None:
    status, printed, _ = local(f"numbers.filter(lambda n: n > 197).print()\ntopology = {value}\n")
    assert status == 0 and printed.splitlines()[:2] == ["198", "199"]


RAISING = {
    "of a program": ("numbers.map(f)", "in f\n    return 1 / (n - 100)"),
    "combined": ("numbers.map(f).key_by(bool).map(int)", "in f\n    return 1 / (n - 100)"),
    "fields of a sink": (
        "from tupletree.connectors.sqlite import SqliteSink\n"
        "sink = SqliteSink('no.db', 'n', {'a': 'int', 'b': 'int', 'c': 'int'}, key='a')\n"
        "numbers.key_by(lambda n: 0).map(lambda n: 100).sink(sink, fields=['a', 'b', 'c'])\nnumbers",
        "TypeError: sink: (0, 100) must have the fields a, b, c",
    ),
    "update_state": (
        "numbers.key_by(lambda n: n % 2).update_state(lambda state, n: n)",
        "TypeError: update_state returned 0; a pair of the key's new state and the element to pass on was expected",
    ),
    "flat_map": (
        "def pair(n):\n    [n, n]\nnumbers.flat_map(pair)",
        "TypeError: flat_map: pair (program.py, line 6) returned None; a list or another iterable was expected: "
        "return [] for no elements, or yield them; this ends the run",
    ),
    "flat_map of a lambda, combined": (
        "numbers.flat_map(lambda n: n).key_by(bool).map(int)",
        "TypeError: flat_map: <lambda> (program.py, line 6) returned 0; a list or another iterable was expected: ",
    ),
}


@pytest.mark.parametrize("name", RAISING)
def test_a_function_that_raises_is_shown_with_its_line_and_the_remedy(name: str, local: Any) -> None:
    lines, message = RAISING[name]
    status, _, said = local(f"def f(n):\n    return 1 / (n - 100)\n{lines}.print()\ntopology = builder.topology()\n")
    assert status == 1 and message in said and "<operators of" not in said
    assert said.endswith("the worker, which is restarted: raise tupletree.FailedException to fail only the tuple\n")


MISSPELT = {
    "an attribute": ("n.bit_lenght()", "has no attribute 'bit_lenght' (did you mean 'bit_length'?)"),
    "a key": ("{'page': n}.page", "no attribute 'page' (did you mean ['page']?)"),
    "a name": ("rnage(n)", "name 'rnage' is not defined (did you mean 'range'?)"),
    "nothing near": ("zzzzz", "name 'zzzzz' is not defined; this ends the run"),
}


@pytest.mark.parametrize("name", MISSPELT)
def test_the_nearest_name_is_named_for_a_misspelt_one(name: str, local: Any) -> None:
    expression, message = MISSPELT[name]
    status, _, said = local(f"numbers.map(lambda n: {expression}).print()\ntopology = builder.topology()\n")
    assert status == 1 and message in said


RUNS: dict[str, Callable[[Stream[int]], object]] = {
    "collect": lambda stream: stream.collect(1),
    "run_local": lambda stream: stream.builder.run_local(),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_flat_map_without_results_is_refused_by_a_sentence(name: str) -> None:
    stream = StreamBuilder().source([0]).flat_map(print)  # type: ignore[arg-type]
    with pytest.raises(
        TaskFailedError, match=r"flat_map: print returned None; a list or another iterable was"
    ) as caught:
        RUNS[name](stream)
    assert isinstance(caught.value.__cause__, TypeError)
    assert caught.value.__cause__.__traceback__ is None


@pytest.mark.parametrize("name", RUNS)
def test_the_traceback_of_a_run_is_of_the_users_lines(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = StreamBuilder().source([0]).map(lambda n: 1 // n)
    with pytest.raises(TaskFailedError) as caught:
        RUNS[name](stream)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    for error in (caught.value, caught.value.__cause__):
        assert {Path(frame.filename).name for frame in extract_tb(error.__traceback__)} == {Path(__file__).name}
    monkeypatch.setenv("TUPLETREE_TRACEBACK", "1")
    with pytest.raises(TaskFailedError) as caught:
        RUNS[name](stream)
    assert "run_loop.py" in {Path(frame.filename).name for frame in extract_tb(caught.value.__traceback__)}


def test_an_element_that_is_given_up_is_reported_and_the_others_go_on(capfd: pytest.CaptureFixture[str]) -> None:
    builder = StreamBuilder()
    numbers = builder.source(range(6), retry=Backoff(first_s=0.01, max_attempts=2))
    counts = dict(numbers.key_by(lambda n: None if n == 3 else n % 2).count().collect(100, seconds=60))
    assert counts == {0: 3, 1: 2}
    assert "key_by returned None; a str, bytes, an int or a tuple of these was expected" in capfd.readouterr().err


def test_equal_errors_are_printed_once_with_their_number(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.jsonl").write_text("{}\n" * 2_000)
    lines = StreamBuilder().source(FileSpout(tmp_path / "a.jsonl", Json(["a"]), are_complete=True))
    assert lines.collect(8) == []
    first, rest = capfd.readouterr().err.splitlines()
    assert first.endswith("the message has no 'a'; it has nothing") and rest == "components reported 1,999 more errors"


def test_a_run_that_its_default_time_cuts_off_says_so(
    local: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "endless.py").write_text(
        "from itertools import count\nfrom tupletree.streams import StreamBuilder\nbuilder = StreamBuilder()\n"
        "builder.source(count, name='numbers').filter(lambda n: n < 3).print()\n"
        "topology = builder.topology()\n"
    )
    [option] = [one for one in command.params if one.name == "seconds"]
    monkeypatch.setattr(option, "default", 1)
    assert main(["local", str(tmp_path / "endless.py")]) == 0
    assert "stopped after 1 s, before the end of all sources; --seconds 0 goes on until then" in capsys.readouterr().err
    assert main(["local", str(tmp_path / "endless.py"), "--seconds", "0.5"]) == 0
    assert "stopped" not in capsys.readouterr().err
    assert "stopped" not in local("numbers.print()\nbuilder.topology()")[2]


def test_a_program_that_the_default_time_cuts_off_says_so(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(local_run, "DEFAULT_S", 1)
    numbers: Stream[int] = StreamBuilder().source(count)
    assert numbers.collect(3, seconds=1) == [0, 1, 2]
    assert StreamBuilder().source([1]).collect(3, seconds=1) == [1]
    StreamBuilder().source(count).builder.run_local(seconds=0.5)
    assert capfd.readouterr().err == ""
    StreamBuilder().source(count).builder.run_local(seconds=1)
    assert capfd.readouterr().err == "stopped after 1 s, before the end of all sources; seconds=0 goes on until then\n"


def test_none_of_a_function_means_that_nothing_is_there_yet() -> None:
    def source() -> Iterator[int | None]:
        yield from (1, None, 2, None, None, 3)

    stream: Stream[int] = StreamBuilder().source(source)
    assert stream.collect(100, seconds=60) == [1, 2, 3]


def test_a_function_may_return_its_elements() -> None:
    assert StreamBuilder().source(lambda: ["a", "b"]).collect(100, seconds=60) == ["a", "b"]


async def awaited() -> list[int]:
    return []


@dataclass
class Event:
    user: str


@dataclass
class Click(Event):
    page: str


def read(line: str) -> Event:
    return Click(*line.split()) if " " in line else Event(line)


def load() -> Iterator[Event]:
    yield from (Event("bob"), Click("ann", "home"))


def test_fields_of_a_subclass_do_not_get_lost_on_the_way() -> None:
    said = "an element is a Click, and an annotation says Event, which has no page: annotate with Click; or, for "
    lines = StreamBuilder().source(["bob", "ann home"]).map(read)
    assert lines.collect(9) == [Event("bob"), Click("ann", "home")]  # they stay where they are
    for stream in (lines.key_by(lambda event: event.user).latest(), StreamBuilder().source(load)):
        with pytest.raises(TupletreeError, match=said):
            stream.collect(9, seconds=60)


SOURCES: dict[str, tuple[Any, str]] = {
    "arguments": (lambda path: [path], r"source calls .*<lambda> with no argument, and it takes \(path\)"),
    "async": (awaited, "source calls its function and does not await it: write it without async"),
    "a set": ({"a", "b"}, r"the order of a set is another one in each process: write sorted\(…\)"),
    "a path": ("corpus.txt", r"not 'corpus.txt': for files, write FileSpout\(…\)"),
}


@pytest.mark.parametrize("name", SOURCES)
def test_what_is_no_source_is_refused_with_the_remedy(name: str) -> None:
    source, message = SOURCES[name]
    with pytest.raises(UsageError, match=message):
        StreamBuilder().source(source)


def test_a_function_without_elements_is_refused_when_it_is_called() -> None:
    with pytest.raises(
        TupletreeError, match="the function of a source must yield its elements, or return a list, not 3"
    ):
        StreamBuilder().source(lambda: 3).collect(1, seconds=60)  # type: ignore[call-overload]


def test_a_function_as_a_sink_is_told_of_peek() -> None:
    with pytest.raises(UsageError, match="not <built-in function print>: peek calls a function with each element"):
        StreamBuilder().source([1]).sink(print)  # type: ignore[arg-type]


def test_rows_of_a_key_reach_one_task_of_a_sink(tmp_path: Path) -> None:
    builder = StreamBuilder(parallelism=3)
    counts = builder.source(range(20), name="numbers").key_by(lambda n: n % 4).count()
    columns = {"key": "int", "value": "int"}
    counts.sink(SqliteSink(str(tmp_path / "a.db"), "t", columns, key="key"), name="written")
    named = {"number": "int", "times": "int"}
    counts.sink(SqliteSink(str(tmp_path / "b.db"), "t", named, key="number"), fields=list(named), name="named")
    ways = [line.rpartition(", ")[2] for line in builder.explain().splitlines() if "    from numbers-count" in line]
    assert ways == ["by key", "by number"]
