"""The example of a stateful topology: its counts are exact, also when it is killed and submitted again."""

from __future__ import annotations

from collections import Counter
from pydoc_data.topics import topics
from types import SimpleNamespace

from local_components import Log

from examples import stateful_words
from tupletree.state.providers import open_state
from tupletree.testing import LocalCluster

LINES = 20_000


class Told(stateful_words.Lines):
    """Writes down which rows are processed."""

    def __init__(self, lines, processed):
        super().__init__(lines)
        self.processed = processed

    def finished(self, id):
        self.processed.append(id)


def test_every_count_is_the_truth_when_a_second_topology_goes_on_where_the_first_was_killed(tmp_path):
    conf = {
        "topology.state.checkpoint.aligned": True,
        "topology.state.checkpoint.interval.ms": 100,
        "topology.state.provider": "sqlite",
        "topology.state.provider.config": {"directory": str(tmp_path)},
    }
    with LocalCluster() as cluster:
        # Rows are processed once a checkpoint is decided. The last topology completes it in every store as it starts.
        for first, lines in ((0, LINES // 3), (LINES // 3, LINES), (LINES, LINES)):
            processed = Log()
            topology = stateful_words.topology(lines).replacing({"lines": Told(lines, processed)})
            cluster.submit("words", topology, conf)
            cluster.wait_until(lambda processed=processed, new=lines - first: len(processed) >= new, timeout=60)
            cluster.wait_until(lambda: cluster.is_at_end("words"))
            cluster.kill("words")
            assert len(processed) == lines - first, "the second begins where the first has stopped"
    assert counted(conf) == truth()


def counted(conf):
    counts = Counter()
    for task in range(2):
        _, state = open_state(f"words/count/{task}", conf, SimpleNamespace(conf=conf))
        counts.update(dict(state.items()))
        state.close()
    return counts


def truth():
    text = [line for _, topic in sorted(topics.items()) for line in topic.splitlines() if line.strip()]
    return Counter(word for number in range(LINES) for word in text[number % len(text)].lower().split())
