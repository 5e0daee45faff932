"""Writes from outside into a stateful word count whose workers die: each sum is the truth and what was written."""

from __future__ import annotations

import random
import threading
import uuid
from collections import Counter
from dataclasses import dataclass, field

import pytest
from stateful_topology import stateful_topology, truth
from test_stateful_words import RATE, SECONDS, SEEDS, await_committed, is_acked, kill_workers, stored, workers

from tupletree.client import StateClient
from tupletree.errors import ConflictError, UnavailableError
from tupletree.testing import DevCluster, wait_until

NAME = "written"
STEP = 1_000_000
"""More than any word is counted, so that a sum shows what was counted and how often it was raised."""


@pytest.fixture(scope="module")
def cluster():
    with DevCluster(supervisors=2, slots=3, ackers=1) as one:
        yield one


@dataclass
class Writer:
    """Raises the counts of words, and sets keys that are no words, for as long as workers die."""

    states: StateClient
    words: list
    raised: Counter = field(default_factory=Counter)
    perhaps_raised: Counter = field(default_factory=Counter)
    own: dict = field(default_factory=dict)
    lost: int = 0
    is_over: threading.Event = field(default_factory=threading.Event)

    def run(self):
        number = 0
        while not self.is_over.is_set():
            number += 1
            self.raise_count(self.words[number % len(self.words)])
            self.set_own(f"OWN {number}", number)

    def raise_count(self, word):
        """As an operator corrects a count while tuples change it. An error leaves open at most whether it was made."""
        try:
            [entry] = self.states.get(NAME, "count", word, live=True).entries
        except (UnavailableError, ValueError):
            return
        try:
            self.states.put(NAME, "count", word, entry.value + STEP, expected=entry.value, wait_secs=15)
            self.raised[word] += 1
        except ConflictError:
            self.lost += 1
        except UnavailableError:
            self.perhaps_raised[word] += 1

    def set_own(self, key, value):
        """Until it is committed: nothing else changes this key."""
        while not self.is_over.is_set():
            try:
                self.states.put(NAME, "count", key, value, wait_secs=15)
            except (ConflictError, UnavailableError):
                self.lost += 1
            else:
                self.own[key] = value
                return


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", SEEDS)
def test_sums_are_the_truth_and_what_was_written(cluster, seed, tmp_path):
    conf = {
        "topology.workers": 3,
        "topology.message.timeout.secs": 20,
        "topology.state.checkpoint.interval.ms": 300,
        "topology.state.checkpoint.aligned": True,
        "topology.state.id": f"written-{uuid.uuid4().hex}",
        "topology.state.provider": "sqlite",
        "topology.state.provider.config": {"directory": str(tmp_path)},
    }
    lines = int(SECONDS * RATE * 1.3)  # still flowing when the kills end
    expected = truth(lines)
    words = [word for word, count in expected.most_common() if count < lines / 20][:6]
    cluster.client.submit(NAME, stateful_topology(tmp_path, aligned=True, rate=RATE, lines=lines), conf)
    with StateClient(conf=cluster.conf) as states:
        writer = Writer(states, words)
        thread = threading.Thread(target=writer.run)
        try:
            wait_until(lambda: len(workers(cluster)) == 3, 60, what="the workers run")
            thread.start()
            kills = kill_workers(cluster, random.Random(seed))
            wait_until(lambda: is_acked(tmp_path, lines), 240, what="every line is acked")
            writer.is_over.set()
            thread.join()
            await_committed(cluster, conf)
        finally:
            writer.is_over.set()
            cluster.client.kill(NAME, wait_secs=0)
            wait_until(lambda: not workers(cluster) and not thread.is_alive(), 60, what="workers and writer end")
    found = stored(conf)
    print(f"{kills} kills; raised {writer.raised.total()}, {writer.perhaps_raised.total()} perhaps, lost {writer.lost}")
    assert kills >= SECONDS / 6 and writer.raised.total() >= 3 and len(writer.own) >= 3
    assert {key: value for key, value in found.items() if key in writer.own} == writer.own
    counted = {key: value for key, value in found.items() if not key.startswith("OWN ")}
    assert {word: count % STEP for word, count in counted.items()} == expected
    for word, count in counted.items():
        least = writer.raised[word]
        assert least <= count // STEP <= least + writer.perhaps_raised[word], word
