"""simulate: a topology under simulated faults, once per seed, with a judge of what became of each message."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tupletree import config
from tupletree.async_bolt import AsyncBolt
from tupletree.config import TopologyConf
from tupletree.errors import UsageError
from tupletree.testing.simulation.external import renew
from tupletree.testing.simulation.outcome import CounterexampleError, MismatchError, Outcome, Report
from tupletree.testing.simulation.run import KINDS, Run, WrongRunError
from tupletree.topology import Topology

Check = Callable[[Outcome], object]
Source = Topology | Callable[[], Topology]


def simulate(
    topology: Source,
    seeds: Iterable[int] = range(200),
    faults: Sequence[str] = KINDS,
    check: Check | None = None,
    conf: TopologyConf | Mapping[str, Any] | None = None,
) -> Report:
    """Run a topology once per seed on a simulated network and clock, amid faults, and judge each run.

    The components, the tasks that run them, the ledger of the acker and the checkpoints are the real ones; everything
    between them is simulated in this process. A seed decides the whole run, so a failure can be repeated. A run ends
    when the faults are over and every message is processed: give the spouts a source that ends.

    Args:
        topology: the topology, or a function that makes one for each run.
        seeds: the seeds, one run each.
        faults: which may happen. "kill": workers die and are replaced, or are cut off while their replacements run;
            the acker dies. "drop": links between workers break, updates and verdicts of the acker are lost. "delay":
            messages are under way for up to one and a half message timeouts. "reorder": messages of different senders
            overtake each other.
        check: called with the ``Outcome`` of each run; raises, or returns False, if the run went wrong. Without it,
            only losses are found.
        conf: the topology's configuration. If not set, the message timeout is 2 s, checkpoints are 0.3 s apart, and
            the number of workers, the batch size and ``topology.max.spout.pending`` differ from run to run. A durable
            ``topology.state.provider`` is replaced by a simulated one; the default provider forgets with its worker,
            as it does on a cluster.

    Returns the sum of all runs.

    Raises:
        CounterexampleError: a message was neither acked nor given up, a component raises again and again, or ``check``
            failed. The message names the seed, and tells the story of the message concerned.
        UsageError: a fault is unknown, or the topology has an AsyncBolt, which needs real time.
        ConfigError, TopologyError: the topology or its configuration is faulty.

    What components take from outside (threads, real time, randomness but that of ``random``) is not simulated, and can
    make a run differ when it is repeated. Objects that outlive workers are made with ``external``.
    """
    unknown = [kind for kind in faults if kind not in KINDS]
    if unknown or isinstance(faults, str):
        raise UsageError(f"faults are among {', '.join(KINDS)}, not {faults!r}")
    own = dict(conf or {})
    config.validate(own)
    source = _Prepared(topology) if isinstance(topology, Topology) else topology
    return _sum(_judged(source, seed, faults, check, own) for seed in seeds)


def _sum(runs: Iterable[Run]) -> Report:
    totals = Counter(dict.fromkeys(("runs", "messages", "repeats", "kills", "lost"), 0))
    simulated_s = 0.0
    for run in runs:
        simulated_s += run.now_s
        totals.update(
            runs=1,
            messages=len(run.history.messages),
            repeats=run.history.repeats,
            kills=run.crashes,
            lost=run.counts["batches lost"] + run.counts["updates lost"] + run.counts["verdicts lost"],
        )
    return Report(**totals, simulated_s=simulated_s)


class _Prepared:
    """A topology with its spec, which is the same for all runs."""

    def __init__(self, topology: Topology) -> None:
        for name, definition in topology.components.items():
            if isinstance(definition.component, AsyncBolt):
                raise UsageError(f"simulate cannot run bolt {name!r}: an AsyncBolt needs an event loop in real time")
        config.validate(topology.conf)
        self.topology = topology
        self.spec = topology.spec()


def _judged(
    source: _Prepared | Callable[[], Topology],
    seed: int,
    kinds: Sequence[str],
    check: Check | None,
    own: Mapping[str, Any],
) -> Run:
    """Return a finished run. Raises CounterexampleError, after the run has been repeated to be told."""
    try:
        return _run(source, seed, kinds, check, own, is_telling=False)
    except WrongRunError as error:
        what, cause = str(error), error.__cause__
    try:
        _run(source, seed, kinds, check, own, is_telling=True)
    except WrongRunError as error:
        told = error.story
    else:
        told = (
            "Repeated, the run went well: components take something from outside, such as the time or a thread's work."
        )
    raise CounterexampleError(f"seed {seed}: {what}\n{told}", seed) from cause


def _run(
    source: _Prepared | Callable[[], Topology],
    seed: int,
    kinds: Sequence[str],
    check: Check | None,
    own: Mapping[str, Any],
    *,
    is_telling: bool,
) -> Run:
    renew()
    before = random.getstate()
    random.seed(seed)
    prepared = source if isinstance(source, _Prepared) else _Prepared(source())
    settings = {**prepared.topology.conf, **own}
    run = Run(seed, prepared.topology, prepared.spec, settings, kinds, is_telling=is_telling)
    try:
        _check(check, run.run())
    except WrongRunError as error:
        error.story = run.history.story(error.messages)
        raise
    except MismatchError as error:
        raise _wrong(run, str(error), error, error.keys) from error
    except AssertionError as error:
        raise _wrong(run, str(error) or "check failed", error, ()) from error
    finally:
        run.close()
        random.setstate(before)
    return run


def _wrong(run: Run, what: str, cause: Exception, keys: Iterable[Any]) -> WrongRunError:
    error = WrongRunError(what)
    error.__cause__ = cause
    error.story = run.history.story(run.history.suspects(keys))
    return error


def _check(check: Check | None, outcome: Outcome) -> None:
    if check is not None and check(outcome) is False:
        raise AssertionError("check returned False")
