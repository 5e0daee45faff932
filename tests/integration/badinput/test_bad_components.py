"""Components that fail where they run: ``tupletree errors`` says what, the topology stays, nothing is acked falsely.

Each runs for its own test only, but for some that more tests ask for: a worker that fails at its start takes a second
of a processor each time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from badinput_harness import CommandLine, running

from tupletree import TopologyStatus
from tupletree.cli.topology_file import load_topology
from tupletree.testing import DevCluster, wait_until

TOPOLOGIES = """
import os
import time
from tupletree import BasicBolt, Bolt, CustomGrouping, Spout, TopologyBuilder

POISON = 3

def note(path, number):
    with open(path, "a") as file:
        file.write(f"{number}\\n")

class Numbers(Spout):
    outputs = ["number"]
    def __init__(self, name):
        self.acked = os.path.join(NOTES, f"{name}-acked")
    def open(self, conf, context, collector):
        self.collector, self.next = collector, 0
    def next_tuple(self):
        if self.next < 5:
            self.next += 1
            self.collector.emit([self.next], self.next)
    def ack(self, number):
        note(self.acked, number)

class Sink(BasicBolt):
    def __init__(self, name):
        self.reached = os.path.join(NOTES, f"{name}-reached")
    def execute(self, tup, collector):
        note(self.reached, tup["number"])

class Opaque:
    pass

class Wrap(BasicBolt):
    outputs = ["number", "box"]
    def execute(self, tup, collector):
        collector.emit([tup["number"], Opaque() if tup["number"] == POISON else 0])

class Prepares(BasicBolt):
    def prepare(self, conf, context):
        raise ValueError("there is no table 'words'")
    def execute(self, tup, collector):
        pass

class Executes(BasicBolt):
    def execute(self, tup, collector):
        return 1 // (tup["number"] - POISON)

class Opens(Numbers):
    def open(self, conf, context, collector):
        raise ConnectionError("nobody answers")

class Asked(Numbers):
    def next_tuple(self):
        raise KeyError("offset")

class Arity(BasicBolt):
    outputs = ["a", "b"]
    def execute(self, tup, collector):
        collector.emit([1])

class Endless(Numbers):
    def next_tuple(self):
        time.sleep(0.01)
        self.next += 1
        self.collector.emit([self.next], self.next)

class Hangs(BasicBolt):
    def execute(self, tup, collector):
        time.sleep(3600)

class Forgets(Bolt):
    def prepare(self, conf, context, collector):
        pass
    def execute(self, tup):
        pass

class Ring(CustomGrouping):
    def prepare(self, context, stream, target_tasks):
        raise TypeError("no ring")

class Unloadable(BasicBolt):
    def execute(self, tup, collector): ...
    def __reduce__(self):
        return eval, ("__import__('only_on_my_laptop')",)

def built(name, bolt=None, spout=Numbers):
    builder = TopologyBuilder()
    builder.set_spout("numbers", spout(name))
    builder.set_bolt("fails", bolt or Sink(name)).shuffle_grouping("numbers")
    return builder.create_topology()

def foreign():
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers("foreign"))
    builder.set_bolt("wrap", Wrap()).shuffle_grouping("numbers")
    builder.set_bolt("sink", Sink("foreign")).shuffle_grouping("wrap")
    return builder.create_topology(), {"topology.workers": 2, "topology.transfer.batch.size": 1}

def prepares(): return built("prepares", Prepares())
def executes(): return built("executes", Executes())
def opens(): return built("opens", spout=Opens)
def asked(): return built("asked", spout=Asked)
def arity(): return built("arity", Arity())
def unroutable():
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers("unroutable"))
    builder.set_bolt("fails", Sink("unroutable")).custom_grouping("numbers", Ring())
    return builder.create_topology()
def unloadable(): return built("unloadable", Unloadable())
def requires(): return built("requires")
def hangs(): return built("hangs", Hangs(), Endless), {"topology.message.timeout.secs": 2}
def forgets(): return built("forgets", Forgets(), Endless), {"topology.message.timeout.secs": 2}
"""

FAILURES = [  # name, component, what its error says, what its traceback says
    (
        "foreign",
        "wrap",
        "UnregisteredTypeError: component 'wrap' emitted a value of type Opaque in field 'box'",
        "encode",
    ),
    (
        "prepares",
        "fails",
        "no table 'words'; the worker ends and is restarted$",
        "in prepare",
    ),
    (
        "executes",
        "fails",
        "^ZeroDivisionError: .*; the worker .* restarted: raise tupletree.FailedException to fail only the tuple$",
        "in execute",
    ),
    ("opens", "numbers", "ConnectionError: nobody answers", "in open"),
    ("asked", "numbers", "^KeyError: 'offset'; the worker ends and is restarted$", "in next_tuple"),
    ("arity", "fails", "EmitError: .*'fails' emitted 1 value on stream 'default'.* 2: a, b$", "in execute"),
    ("unloadable", "fails", "'fails' cannot be loaded in the worker: ModuleNotFoundError: .*only_on_my_laptop", ""),
    ("unroutable", "numbers", "custom grouping of component 'numbers'.* prepared: TypeError: no ring", "in prepare"),
    ("requires", "", "requirements.* cannot be installed.*nowhere-1.0", None),
]
NAMES = [name for name, *_ in FAILURES]
STAY = ("foreign", "prepares", "executes")
"""Those of which more than one test asks."""
STANDSTILLS = ("hangs", "forgets")  # without any error


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("notes")


@pytest.fixture(scope="module")
def submitted(cluster: DevCluster, notes: Path) -> Iterator[None]:
    """The topologies that stay, as the command line reads them."""
    with running(cluster, *STAY):
        for name in STAY:
            submit(cluster, notes, name)
        yield


@pytest.fixture
def submitted_alone(cluster: DevCluster, notes: Path, name: str) -> Iterator[None]:
    """The topology of this test, unless it stays."""
    if name in STAY:
        yield
        return
    requirements = notes / "requirements.txt"
    requirements.write_text("/nowhere/at/all/nowhere-1.0.tar.gz\n")
    with running(cluster, name):
        submit(cluster, notes, name, requirements if name == "requires" else None)
        yield


def submit(cluster: DevCluster, notes: Path, name: str, requirements: Path | None = None) -> None:
    file = notes / "fails_app.py"
    file.write_text(TOPOLOGIES.replace("NOTES", repr(str(notes))))
    topology, conf, _ = load_topology(f"{file}:{name}")
    cluster.client.submit(name, topology, conf, requirements=requirements)


def errors(cluster: DevCluster, name: str) -> list[Any]:
    """The errors of a topology, oldest first."""
    return list(reversed(cluster.client.describe(name).errors))


@pytest.mark.long
@pytest.mark.usefixtures("submitted", "submitted_alone")
@pytest.mark.parametrize(("name", "component", "message", "trace"), FAILURES, ids=NAMES)
def test_the_error_is_shown_and_the_topology_stays(
    cluster: DevCluster, cli: CommandLine, name: str, component: str, message: str, trace: str | None
) -> None:
    error = wait_until(lambda: errors(cluster, name), 60, what=f"an error of {name}")[0]
    assert re.search(message, error.message)
    assert "\n" not in error.message
    assert component in ("", error.component_id)
    told = cli.ask("errors", name, "--traceback").out
    shown = rf"{error.component_id}\[([\d,]+)\] on ([\w.:, ]+?)( \d+ times since [^\n]+)?: {re.escape(error.message)}\n"
    found = re.search(shown, told)
    assert found, told
    assert str(error.task_id) in found[1].split(",")
    assert f"{error.host}:{error.port}" in found[2].split(", ")
    if trace is not None:
        assert "Traceback" in told
        assert trace in told
    assert cluster.client.describe(name).summary.record.status == TopologyStatus.ACTIVE


def numbers(path: Path) -> set[int]:
    return set(map(int, path.read_text().split())) if path.exists() else set()


@pytest.mark.usefixtures("submitted")
def test_nothing_is_acked_that_did_not_arrive(cluster: DevCluster, notes: Path) -> None:
    wait_until(lambda: len(errors(cluster, "foreign")) >= 2, 60, what="its worker fails again")
    acked = numbers(notes / "foreign-acked")
    assert 3 not in acked
    assert acked <= numbers(notes / "foreign-reached")
    assert 3 not in numbers(notes / "executes-acked")
    assert not numbers(notes / "arity-acked") | numbers(notes / "prepares-acked")


@pytest.mark.usefixtures("submitted")
def test_a_worker_that_keeps_failing_is_restarted_with_growing_pauses(cluster: DevCluster) -> None:
    wait_until(lambda: len(errors(cluster, "executes")) >= 3, 60, what="it has failed three times")
    _, second, third, *_ = (error.at_unix_s for error in errors(cluster, "executes"))
    assert third - second > 1.0


@pytest.mark.usefixtures("submitted")
def test_the_cluster_says_that_it_is_degraded_and_why(cluster: DevCluster, cli: CommandLine) -> None:
    def says_so() -> bool:
        ended = cli.ask("health", "--json")
        return ended.status == 1 and '"degraded"' in ended.out and "topology 'prepares' has" in ended.out

    wait_until(says_so, 60, what="its topologies are no longer taken to be starting")


@pytest.mark.usefixtures("submitted")
def test_the_list_says_which_workers_do_not_get_ready(cluster: DevCluster, cli: CommandLine) -> None:
    said = "prepares: 0 of 1 workers are ready; if this stays so, 'tupletree errors prepares' says why\n"
    wait_until(lambda: said in cli.ask("list").err, 60, what="its worker is not ready")


@pytest.mark.nightly
def test_the_cluster_names_topologies_that_get_nowhere(cluster: DevCluster, cli: CommandLine, notes: Path) -> None:
    def found() -> dict[str, str]:
        faults = json.loads(cli.ask("health", "--json").out)["faults"]
        return {one["kind"]: one["sentence"] for one in faults if one["subject"] in STANDSTILLS}

    with running(cluster, *STANDSTILLS):
        for name in STANDSTILLS:
            submit(cluster, notes, name)
        kinds = {"component.stuck", "component.never_acks", "trees.none_acked"}
        wait_until(lambda: found().keys() >= kinds, 120, what="both have stood still for a minute")
        stuck = r"topology 'hangs', fails: 1 task executed nothing for \d+ s although tuples wait"
        assert re.fullmatch(stuck, found()["component.stuck"])
        unacked = r"topology '(forgets|hangs)', numbers: no tuple tree was acked for \d+ s, and \d+ failed"
        assert re.fullmatch(unacked, found()["trees.none_acked"])
        forgotten = r"topology 'forgets', fails: has executed [\d,]+ tuples and acked none: does execute call .*\?"
        assert re.fullmatch(forgotten, found()["component.never_acks"])
        assert found().keys() == kinds
        assert not errors(cluster, "hangs") and not errors(cluster, "forgets")
