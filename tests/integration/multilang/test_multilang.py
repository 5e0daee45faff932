"""Spouts and bolts in other languages, as real processes."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from multilang_programs import FLOOD_PY, NUMBERS_PY, PYSTORM, SPLIT_PY, STORM_PY, UPPER_JS

from tupletree import BasicBolt, Bolt, TopologyBuilder
from tupletree.errors import ProtocolError, TaskFailedError, UsageError
from tupletree.multilang import PYTHON, ShellBolt, ShellSpout, shell_bolt
from tupletree.multilang.messages import decode
from tupletree.testing import FeederSpout, LocalCluster, wait_until

OUTPUTS = {"default": ["word"], "lengths": ["length"]}


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the programs, where those of a topology are looked for."""
    place = tmp_path / "code" / "resources"
    place.mkdir(parents=True)
    for name, text in {
        "storm.py": STORM_PY,
        "split.py": SPLIT_PY,
        "flood.py": FLOOD_PY,
        "emit_numbers.py": NUMBERS_PY,
        "upper.js": UPPER_JS,
        "count.py": PYSTORM,
    }.items():
        (place / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path / "code"))
    return place


class Keep(BasicBolt):
    """Notes what it gets, in a list of this process."""

    def __init__(self, kept: list[Any]) -> None:
        self.kept = kept

    def __reduce__(self) -> Any:
        lists[id(self.kept)] = self.kept
        return _keep, (id(self.kept),)

    def execute(self, tup: Any, collector: Any) -> None:
        self.kept.append((tup.source_stream, tuple(tup.values)))


lists: dict[int, list[Any]] = {}


def _keep(key: int) -> Keep:
    return Keep(lists[key])


running: set[ShellBolt] = set()


class Watched(ShellBolt):
    """A ShellBolt that the test finds while it runs."""

    def setup(self) -> None:
        running.add(self)

    def teardown(self) -> None:
        running.discard(self)


def ended(pid: int) -> bool:
    """True if a process has ended, or is about to be reaped."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


class Splitting:
    """Lines that are fed, a ShellBolt that splits them, and what comes of it."""

    def __init__(self, cluster: LocalCluster, command: list[str] | None = None, **conf: Any) -> None:
        self.cluster = cluster
        self.lines = FeederSpout(["line"])
        self.kept: list[Any] = []
        builder = TopologyBuilder()
        builder.set_spout("lines", self.lines)
        bolt = Watched(command or [sys.executable, "split.py"], OUTPUTS, direct={"direct": ["line"]})
        split = builder.set_bolt("split", bolt).shuffle_grouping("lines")
        split.add_configurations({"own.key": "mine", **{name.replace("_", "."): one for name, one in conf.items()}})
        keep = builder.set_bolt("keep", Keep(self.kept)).shuffle_grouping("split").shuffle_grouping("split", "lengths")
        keep.direct_grouping("split", "direct")
        cluster.submit("split", builder.create_topology(), {"topology.message.timeout.secs": 60})

    def feed(self, *lines: Any) -> None:
        for line in lines:
            self.lines.feed([line], repr(line))

    def values(self, stream: str) -> list[Any]:
        return [values[0] for name, values in list(self.kept) if name == stream]

    def bolt(self) -> ShellBolt:
        """The bolt of the topology, as it runs."""
        return self.cluster.wait_until(lambda: next(iter(running), None))

    def child(self) -> int:
        """The id of the bolt's process."""
        bolt = self.bolt()
        self.cluster.wait_until(lambda: bolt._child is not None)
        self.pid_dir = bolt._child._pid_dir
        return int(bolt._child._process.pid)

    def failure(self) -> str:
        """The error that ends the worker."""
        with pytest.raises(TaskFailedError) as failed:
            self.cluster.wait_until(lambda: False, 30)
        return str(failed.value)


@pytest.fixture
def cluster() -> Any:
    running.clear()
    with LocalCluster() as local:
        yield local


def test_words_come_anchored_and_lines_are_acked_and_failed_as_the_program_says(cluster: LocalCluster) -> None:
    scene = Splitting(cluster)
    scene.feed("the quick fox", "fail", "déjà vu")
    cluster.wait_until(lambda: len(scene.lines.acked) == 2 and scene.lines.failed == ["'fail'"])
    assert sorted(scene.lines.acked) == ["'déjà vu'", "'the quick fox'"]
    assert scene.values("default") == ["the", "quick", "fox", "déjà", "vu"]
    assert scene.values("lengths") == [13, 7]
    assert scene.values("direct") == ["the quick fox", "déjà vu"], "the program got the ids of the tasks"


def test_the_program_is_told_of_its_topology(cluster: LocalCluster) -> None:
    scene = Splitting(cluster)
    scene.feed("context")
    cluster.wait_until(lambda: scene.lines.acked)
    own, context = json.loads(scene.values("default")[0])
    assert own == "mine"
    by_task = {id: int(task) for task, id in context["task->component"].items()}
    assert set(by_task) >= {"lines", "split", "keep"}
    assert (context["componentid"], context["taskid"]) == ("split", by_task["split"])
    assert context["streams"] == ["default", "lengths", "direct"]
    assert context["stream->outputfields"] == {"default": ["word"], "lengths": ["length"], "direct": ["line"]}
    assert context["stream->target->grouping"]["direct"] == {"keep": {"type": "DIRECT"}}
    assert context["source->stream->grouping"] == {"lines": {"default": {"type": "SHUFFLE"}}}
    assert context["source->stream->fields"] == {"lines": {"default": ["line"]}}


def test_ticks_logs_errors_and_metrics_arrive(cluster: LocalCluster, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    scene = Splitting(cluster, topology_tick_tuple_freq_secs=0.2)
    scene.feed("error", "metric")
    cluster.wait_until(lambda: len(scene.lines.acked) == 2)
    cluster.wait_until(lambda: any(one.getMessage() == "a tick" for one in caplog.records))
    assert {one.levelname for one in caplog.records if one.getMessage() == "a tick"} == {"WARNING"}
    assert [str(error) for _, error in cluster.errors("split")] == ["no such word"]
    metrics = [
        one.read() for one in scene.bolt().context.metrics.values() if one.name == "tupletree_user_word_count_value"
    ]
    assert metrics == [7]


def test_a_value_that_json_does_not_have_fails_its_tuple_alone(cluster: LocalCluster) -> None:
    scene = Splitting(cluster)
    scene.feed(b"bytes", "a b")
    cluster.wait_until(lambda: scene.lines.acked == ["'a b'"] and scene.lines.failed == ["b'bytes'"])
    assert "gets JSON, and Object of type bytes is not" in str(cluster.errors("split")[0][1])


def test_senders_hold_back_while_tuples_are_not_written_and_none_of_them_times_out(cluster: LocalCluster) -> None:
    scene = Splitting(cluster, topology_shellbolt_max_pending=3)
    big = "x" * 3000
    scene.feed("sleep", *[f"{number} {big}" for number in range(300)])
    bolt = scene.bolt()
    cluster.wait_until(bolt.context.is_full)
    cluster.wait_until(lambda: len(scene.lines.acked) == 301, 30)
    assert not scene.lines.failed
    assert not bolt.context.is_full()


def test_a_batch_that_is_acked_at_a_tick_may_be_larger_than_the_limit(cluster: LocalCluster) -> None:
    scene = Splitting(cluster, topology_shellbolt_max_pending=5, topology_tick_tuple_freq_secs=0.5)
    scene.feed(*["keep"] * 60)
    cluster.wait_until(lambda: len(scene.lines.acked) == 60, 20)


@pytest.mark.long
@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            "crash",
            "ChildError: task 3 of split: its process has ended with status 7; what it said is in the worker's log",
        ),
        ("print", "is not JSON: Expecting value: line 1 column 1 (char 0); print to standard error, not to standard"),
        ("twice", "it anchors to a tuple that it has acked or failed, or never got"),
        ("hang", "more than topology.subprocess.timeout.secs"),
    ],
)
def test_a_program_that_cannot_go_on_ends_the_worker(cluster: LocalCluster, line: str, told: str) -> None:
    scene = Splitting(cluster, topology_subprocess_timeout_secs=2 if line == "hang" else 30)
    child = scene.child()
    scene.feed(line)
    assert told in scene.failure()
    wait_until(lambda: ended(child), 5, what="its process has ended")
    assert not Path(scene.pid_dir).exists()


def test_a_wrong_message_among_more_than_may_wait_ends_the_worker(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell_bolt, "MAX_RECEIVED", 10)
    scene = Splitting(cluster, [sys.executable, "flood.py"])
    scene.feed("a line")
    assert "it anchors to a tuple that it has acked or failed, or never got" in scene.failure()


def test_what_a_program_writes_to_standard_error_is_logged(
    cluster: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    scene = Splitting(cluster)
    scene.feed("crash")
    scene.failure()
    wait_until(lambda: "I have seen enough" in caplog.text, 5)


def test_a_program_that_is_not_there_is_named(cluster: LocalCluster) -> None:
    scene = Splitting(cluster, ["no-such-program", "x"])
    assert "'no-such-program' cannot be started: No such file or directory" in scene.failure()


def test_a_program_has_a_group_of_its_own_in_the_session_of_the_worker(cluster: LocalCluster) -> None:
    """Its children end with it, and a supervisor ends it with the worker, and counts its memory."""
    child = Splitting(cluster).child()
    assert os.getpgid(child) == child != os.getpgid(0)
    assert os.getsid(child) == os.getsid(0)


@pytest.mark.parametrize("ignores", [False, True])
def test_a_process_ends_with_its_topology_and_so_does_what_it_has_started(
    cluster: LocalCluster, programs: Path, ignores: bool
) -> None:
    note = programs / "pids"
    starts = f"""
import signal, subprocess
if {ignores}:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open({str(note)!r}, "w").write(f"{{os.getpid()}} {{other.pid}}")
"""
    if ignores:
        starts += "import time; time.sleep(600)"
    (programs / "noting.py").write_text(STORM_PY + starts + SPLIT_PY)
    Splitting(cluster, [sys.executable, "noting.py"])
    cluster.wait_until(lambda: note.exists() and " " in note.read_text())
    pids = [int(text) for text in note.read_text().split()]
    assert not any(map(ended, pids))
    cluster.kill("split")
    wait_until(lambda: all(map(ended, pids)), 10)


class Refuses(Bolt):
    """Fails each number once."""

    def prepare(self, conf: Any, context: Any, collector: Any) -> None:
        self.collector, self.seen = collector, set()

    def execute(self, tup: Any) -> None:
        (self.collector.ack if tup[0] in self.seen else self.collector.fail)(tup)
        self.seen.add(tup[0])


def test_a_spout_hears_of_its_trees_and_emits_again_what_failed(
    cluster: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    builder = TopologyBuilder()
    builder.set_spout("numbers", ShellSpout([sys.executable, "emit_numbers.py", "5"], ["n"]))
    builder.set_bolt("refuses", Refuses()).shuffle_grouping("numbers")
    cluster.submit("numbers", builder.create_topology(), {"topology.message.timeout.secs": 60})
    for number in range(1, 6):
        cluster.wait_until(lambda number=number: f"acked {number}" in caplog.text)
    cluster.deactivate("numbers")
    cluster.wait_until(lambda: "deactivate" in caplog.text)


def test_a_spout_that_does_not_answer_ends_the_worker(cluster: LocalCluster, programs: Path) -> None:
    (programs / "silent.py").write_text(STORM_PY + "while True: read()\n")
    builder = TopologyBuilder()
    builder.set_spout("numbers", ShellSpout([sys.executable, "silent.py"], ["n"]))
    cluster.submit("numbers", builder.create_topology(), {"topology.subprocess.timeout.secs": 1})
    with pytest.raises(
        TaskFailedError,
        match=r"has sent nothing for \d+ s since 'activate', more than .*: it must end each answer with",
    ):
        cluster.wait_until(lambda: False, 30)


def test_a_program_for_node(cluster: LocalCluster) -> None:
    if shutil.which("node") is None:
        pytest.skip("there is no node on this machine")
    lines, kept = FeederSpout(["line"]), []
    builder = TopologyBuilder()
    builder.set_spout("lines", lines)
    builder.set_bolt("upper", ShellBolt(["node", "upper.js"], ["line"])).shuffle_grouping("lines")
    builder.set_bolt("keep", Keep(kept)).shuffle_grouping("upper")
    cluster.submit("upper", builder.create_topology())
    lines.feed(["naïve"], 1)
    cluster.wait_until(lambda: lines.acked == [1])
    assert kept == [("default", ("NAÏVE",))]


def test_a_bolt_of_pystorm_counts_words(cluster: LocalCluster) -> None:
    words, kept = FeederSpout(["word"]), []
    builder = TopologyBuilder()
    builder.set_spout("words", words)
    builder.set_bolt("count", ShellBolt([PYTHON, "count.py"], ["word", "count"])).shuffle_grouping("words")
    builder.set_bolt("keep", Keep(kept)).shuffle_grouping("count")
    cluster.submit("count", builder.create_topology())
    for number, word in enumerate("aba"):
        words.feed([word], number)
    cluster.wait_until(lambda: len(words.acked) == 3)
    assert sorted(values for _, values in kept) == [("a", 1), ("a", 2), ("b", 1)]


def test_the_program_of_the_guide_splits_lines(cluster: LocalCluster, programs: Path) -> None:
    guide = Path(__file__).parents[3] / "docs" / "guides" / "multilang.md"
    (programs / "guide.py").write_text(re.findall(r"```python\n(.*?)```", guide.read_text(), re.DOTALL)[-1])
    scene = Splitting(cluster, [sys.executable, "guide.py"])
    scene.feed("a rose", "is")
    cluster.wait_until(lambda: len(scene.lines.acked) == 2)
    assert scene.values("default") == ["a", "rose", "is"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"hello", "'hello' is not JSON: "),
        (b"[1, 2]", "is not a message: an object such as"),
        (b"{}", "is not a message of the multilang protocol"),
        (b'{"command": "emit"}', "is not a message of the multilang protocol"),
        (b'{"command": "emit", "tuple": "ab"}', "is not a message of the multilang protocol"),
        (b'{"command": "emit", "tuple": [], "task": "x"}', "is not a message of the multilang protocol"),
        (b'{"command": "emit", "tuple": [], "anchors": 7}', "is not a message of the multilang protocol"),
        (b'{"command": "ack"}', "is not a message of the multilang protocol"),
        (b'{"command": "shutdown"}', "is not a message of the multilang protocol"),
        (b'{"pid": "x"}', "is not a message of the multilang protocol"),
        (b"[" * 100_000, "is not JSON: "),
    ],
)
def test_what_is_no_message_is_refused(text: bytes, told: str) -> None:
    with pytest.raises(ProtocolError) as refused:
        decode(text)
    assert told in str(refused.value)
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize("command", [[], "node x.js", ["node", 7], None])
def test_a_command_that_is_no_list_of_texts_is_refused(command: Any) -> None:
    with pytest.raises(
        UsageError, match=r"ShellBolt: command is .*; a list such as \['node', 'split.js'\] was expected"
    ):
        ShellBolt(command, ["word"])
