"""Components that name the attempt and components that have it carried, alone and mixed, locally and on a cluster."""

from __future__ import annotations

import pytest
from attempt_forms import COMPONENTS, SPOUTS, build, expected, sums

from tupletree.errors import EmitError, TaskFailedError
from tupletree.testing import DevCluster, LocalCluster, wait_until
from tupletree.transactional import BatchBolt, MemoryTransactionalSpout, TransactionalTopologyBuilder

FORMS = {
    "carried": (),
    "named": COMPONENTS,
    "mixed": ("numbers", "basic"),
    "mixed the other way": ("split", "watch", "end"),
}
CONF = {"topology.max.spout.pending": 3}


@pytest.mark.parametrize("names", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("kind", SPOUTS)
def test_every_way_of_every_form_counts_once(kind, names, tmp_path):
    with LocalCluster() as cluster:
        cluster.submit("forms", build(kind, names, tmp_path), CONF)
        cluster.wait_until(lambda: sums(kind, tmp_path) == expected(), 60)
    assert (tmp_path / "failed").exists()


class Wrong(BatchBolt):
    def __init__(self, outputs, make):
        self.outputs, self.make = outputs, make

    def execute(self, tup):
        assert tup.values == (["a"] if "attempt" not in self.outputs else [self.batch_id, "a"])

    def finish_batch(self):
        self.collector.emit(self.make(self.batch_id))


@pytest.mark.parametrize(
    ("outputs", "make", "said"),
    [
        (
            ["word", "n"],
            lambda attempt: [attempt, "a", 1],
            "component 'wrong' emitted 3 values, the first of which is the attempt, on stream 'default', which "
            "declares 2: word, n; write [word, n] without the attempt",
        ),
        (
            ["word", "n"],
            lambda attempt: ["a"],
            "component 'wrong' emitted 1 value on stream 'default', which declares 2: word, n; write [word, n]",
        ),
        (
            ["attempt", "word"],
            lambda attempt: ["a"],
            "component 'wrong' emitted a tuple on stream 'default' whose first value is 'a'",
        ),
    ],
)
def test_a_row_of_neither_form_ends_the_worker_with_one_sentence(outputs, make, said):
    one = TransactionalTopologyBuilder("t", "words", MemoryTransactionalSpout({0: [["a"]]}, ["word"], 1))
    one.set_bolt("wrong", Wrong(outputs, make)).shuffle_grouping("words")
    with LocalCluster() as cluster:
        cluster.submit("t", one.create_topology())
        with pytest.raises(TaskFailedError) as caught:
            cluster.wait_until(lambda: False)
    error = caught.value.__cause__
    assert isinstance(error, EmitError)
    assert str(error).startswith(said)


@pytest.fixture(scope="module")
def cluster():
    with DevCluster(slots=2) as running:
        yield running


@pytest.mark.nightly
@pytest.mark.parametrize(("kind", "form"), [("partitioned", "carried"), ("opaque", "mixed"), ("generic", "named")])
def test_forms_between_workers(cluster, kind, form, tmp_path):
    name = f"{kind}-{form}"
    cluster.client.submit(name, build(kind, FORMS[form], tmp_path), {**CONF, "topology.workers": 2})
    wait_until(lambda: sums(kind, tmp_path) == expected(), 60, what="every number counts once on every way")
    cluster.client.kill(name, wait_secs=0)
    wait_until(lambda: not [one for one in cluster.processes if one.role == "worker"], 60, what="the workers end")
