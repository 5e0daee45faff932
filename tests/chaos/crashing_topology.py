"""The stateful word count, with a worker that dies at a chosen moment of a checkpoint, once."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

from stateful_topology import COUNT_TASKS, SPOUT_TASKS, Count, DurableLines, PositionedLines, Split

from tupletree import TopologyBuilder
from tupletree._checkpoints.record import load_checkpoint
from tupletree._stores.zookeeper_nodes import open_store
from tupletree.state import StateProvider
from tupletree.state.sqlite import SqliteStateProvider

TXID = 3
"""The checkpoint in which it dies."""


def die_once(directory, pid=None):
    """Kill a process, this one if none is named, unless that has been done before."""
    try:
        handle = os.open(Path(directory, "died"), os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    except FileExistsError:
        return
    os.close(handle)
    os.kill(os.getpid() if pid is None else pid, signal.SIGKILL)


class CrashingCount(Count):
    """``moment``: before-prepare, before-commit, after-commit, or checkpoint-spout."""

    def __init__(self, directory, moment):
        self.directory = directory
        self.moment = moment

    def prepare(self, conf, context, collector):
        self.conf = conf

    def pre_prepare(self, txid):
        if self.moment == "before-prepare" and txid >= TXID:
            die_once(self.directory)
        if self.moment == "checkpoint-spout" and txid >= TXID:
            self.kill_checkpoint_spout()

    def pre_commit(self, txid):
        if self.moment == "before-commit" and txid >= TXID:
            die_once(self.directory)

    def kill_checkpoint_spout(self):
        store = open_store(self.conf)
        _, _, owner = load_checkpoint(store, self.conf["topology.state.id"])
        store.close()
        die_once(self.directory, int(re.search(r"process (\d+) ", owner)[1]))


class DyingProvider(StateProvider):
    """SQLite files, in a process that dies when it has committed checkpoint TXID and nobody knows of it yet."""

    def new_state(self, namespace, conf, context):
        state = SqliteStateProvider().new_state(namespace, {"directory": conf["directory"]}, context)
        commit = state.commit

        def commit_and_die(txid):
            commit(txid)
            if txid >= TXID and "/count/" in namespace:
                die_once(conf["directory"])

        state.commit = commit_and_die
        return state


def crashing_topology(directory, *, aligned, moment, lines, rate):
    builder = TopologyBuilder()
    spout = PositionedLines if aligned else DurableLines
    builder.set_spout("text", spout(str(directory), rate / SPOUT_TASKS, lines), SPOUT_TASKS)
    builder.set_bolt("split", Split(), 2).shuffle_grouping("text")
    count = CrashingCount(str(directory), moment)
    builder.set_bolt("count", count, COUNT_TASKS).fields_grouping("split", ["word"])
    return builder.create_topology()
