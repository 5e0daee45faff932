"""Projects of streamparse: its own quickstart, and one with all that a topology can have."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

QUICKSTART = """
import sys, types
from pathlib import Path
import streamparse

stand_in = types.ModuleType("pkg_resources")  # gone from setuptools; bootstrap asks it for paths alone
stand_in.resource_filename = lambda module, path: str(Path(sys.modules[module].__file__).parent / path)
sys.modules["pkg_resources"] = stand_in
from streamparse.bootstrap import quickstart

quickstart(sys.argv[1])
"""

PARTS = """
from streamparse import Bolt, BatchingBolt, ReliableSpout, Stream, TicklessBatchingBolt


class Numbers(ReliableSpout):
    outputs = ["number"]

    def initialize(self, conf, context):
        self.number, self.limit = 0, conf["own.limit"]

    def next_tuple(self):
        if self.number < self.limit:
            self.number += 1
            self.emit([self.number], tup_id=self.number)


class Sort(Bolt):
    outputs = ["number", Stream(fields=["number", "half"], name="even"), Stream(["number"], name="to one", direct=True)]
    config = {"topology.max.task.parallelism": 3}
    auto_ack = False

    def initialize(self, conf, context):
        self.told = next(int(task) for task, name in context["task->component"].items() if name == "told")

    def process(self, tup):
        [number] = tup.values
        assert self.told in self.emit([number], need_task_ids=True)
        self.emit([number], stream="to one", direct_task=self.told)
        if number % 2 == 0:
            self.emit([number, number // 2], stream="even")
        self.ack(tup)


class Sums(TicklessBatchingBolt):
    outputs = ["sum"]
    secs_between_batches = 0.2

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)

    def process_batch(self, key, tups):
        self.emit([sum(tup.values[0] for tup in tups)])


class Batches(BatchingBolt):
    outputs = ["size"]
    config = {"topology.tick.tuple.freq.secs": 9}
    ticks_between_batches = 0

    def process_batch(self, key, tups):
        self.emit([len(tups)])
"""
TOPOLOGY = """
from parts import Batches, Numbers, Sort, Sums
from streamparse import Bolt, Grouping, JavaBolt, ShellBolt, Topology


class Local(Bolt):
    outputs = ["word"]

    def process(self, tup):
        self.emit([f"n{tup.values.number}"])


class Everything(Topology):
    config = {"topology.max.spout.pending": 100, "topology.worker.childopts": "-Xmx1g", "own.limit": 20}
    numbers = Numbers.spec(name="the-numbers")
    sort = Sort.spec(inputs=[numbers], par={"prod": 2, "beta": 1})
    sums = Sums.spec(inputs={sort: Grouping.GLOBAL})
    batches = Batches.spec(inputs={sort["even"]: Grouping.fields("number", "half")}, config=CONFIG)
    told = Local.spec(inputs={sort["to one"]: Grouping.DIRECT, sort: Grouping.LOCAL_OR_SHUFFLE})
    shout = ShellBolt.spec(
        command="python3", script="shout.py loud", inputs={told: Grouping.ALL}, outputs=["word"],
        config={"topology.tasks": 2},
    )


class Second(Topology):
    numbers = Numbers.spec()
""".replace("CONFIG", '{"topology.tick.tuple.freq.secs": 1, "topology.workers": 3}')
IN_JAVA = """
from parts import Numbers, Sort
from streamparse import Grouping, JavaBolt, JavaSpout, Topology


class InJava(Topology):
    lines = JavaSpout.spec(full_class_name="org.example.Lines", args_list=["a", 1], outputs=["line"])
    sort = Sort.spec(inputs={lines: Grouping.custom_object("org.example.Odd", [])})
    sink = JavaBolt.spec(full_class_name="org.example.Sink", args_list=[], inputs=[sort], outputs=[])
"""
SHOUT = """
import json, os, sys

def send(message):
    print(json.dumps(message), "end", sep="\\n", flush=True)

def read():
    return json.loads("".join(iter(sys.stdin.readline, "end\\n")) or sys.exit())

hello = read()
open(os.path.join(hello["pidDir"], str(os.getpid())), "w").close()
send({"pid": os.getpid()})
while True:
    tup = read()
    if tup["stream"] == "__heartbeat":
        send({"command": "sync"})
        continue
    send({"command": "emit", "anchors": [tup["id"]], "tuple": [tup["tuple"][0].upper() + "!"], "need_task_ids": False})
    send({"command": "ack", "id": tup["id"]})
"""
CONFIG = {
    "serializer": "msgpack",
    "topology_specs": "topologies/",
    "virtualenv_specs": "virtualenvs/",
    "envs": {
        "beta": {"nimbus": "beta.example.com", "workers": ["one"]},
        "prod": {
            "user": "storm",
            "nimbus": "example.com",
            "workers": ["one", "two"],
            "options": {
                "topology.batch.flush.interval.millis": 2,
                "topology.acker.executors": 1,
                "topology.subprocess.timeout.secs": -1,
                "topology.unheard.of": True,
                "redis.host": "localhost",
                "virtualenv_flags": "-p python3",
            },
            "ours": 1,
        },
    },
}
HOOK = "def pre_submit(*arguments):\n    print(arguments)\n"


def quickstart(directory: Path, name: str = "words") -> Path:
    """Make the project that streamparse makes for those who begin."""
    command = [sys.executable, "-W", "ignore", "-c", QUICKSTART, name]
    subprocess.run(command, cwd=directory, check=True, capture_output=True, timeout=120)
    return directory / name


def everything(directory: Path) -> Path:
    """Write a project with all that a topology can have."""
    project = directory / "everything"
    for name, text in {
        "config.json": json.dumps(CONFIG),
        "fabfile.py": HOOK,
        "src/parts.py": PARTS,
        "src/data/numbers.txt": "1\n",
        "src/java/Lines.java": "class Lines {}\n",
        "src/shout.py": SHOUT,
        "topologies/everything.py": TOPOLOGY,
        "topologies/json.py": IN_JAVA,
        "topologies/broken.py": "import streamparse\nimport missing_module\n",
        "virtualenvs/broken.txt": "missing-module\n",
    }.items():
        file = project / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return project
