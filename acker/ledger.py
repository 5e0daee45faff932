"""The XOR ledger of one shard: which tuple trees are pending, and how they ended.

Theory (seeds 000 to 002). Every tuple sent to a task is an edge with a random 64-bit id. An edge is XORed into its
tree's *ack value* twice: when it is created (by the spout's init or by the ack of the tuple that produced it) and when
the tuple is acked. So the value is zero exactly when every created edge was also acked, save for an accident of
probability 2^-64. One entry of fixed size stands for a tree of any size.

An ack carries ``edge ^ children`` as one value, so children appear no later than their parent disappears: the tree
cannot look finished in between. XOR is associative and commutative: updates may come in any order and in any
combination, and an ack may come before the init.

What an update does, and then what follows from the entry:

    init  (root, value, task)   xor in the value, remember the task          value 0 and task known -> acked, removed
    ack   (root, value)         xor in the value                             failed and task known  -> failed, removed
    fail  (root)                mark as failed                               otherwise it stays
    reset (root)                (nothing)                                    ... and a reset of a known tree is reported

Every update, also one that changes nothing, creates the entry where there is none and starts its life again: entries
live in the cohorts of a RotatingMap and expire with the ``buckets``-th rotation after their last update.

The cases people ask about, each with a test of its name in tests/unit/acker/test_ledger.py:

* duplicate init: the second one only starts the entry's life again. Its value is *not* applied: XORing the same value
  twice would cancel the first and might report a pending tree as acked. This one rule makes repeated updates harmless:
  for the value to vanish while an edge is outstanding, the update that created the edge must count twice, hence the
  one that created its parent, and so on up to the init.
* ack before init, fail before init: the entry waits without a task; the init brings the verdict.
* zero before init: an entry whose partial values cancel, but whose spout is unknown, waits too.
* late ack after completion: makes an entry that nobody will init. It expires without a verdict.
* reset for an unknown root: makes an empty entry, reported to nobody.
* two roots sharing an edge (a multi-anchored tuple): each root's entry gets the edge id; they end independently.
* init of 0 (a spout tuple that nobody consumes): acked at once.
* fail of a tree whose value then turns 0 before its init comes: acked. Zero is looked at first; all was processed.

The layout. Pending trees are the scarce resource: there is no object per entry but one integer, and one dictionary per
cohort from root to that integer.

    | born (ticks) | task, 32 bits | failed | open | ack value, 64 bits |
                                                ^ no init yet: the task is unknown

An update to the value is one XOR of the whole integer; "value zero and task known" is one AND with the low 65 bits;
what is left of a finished entry is the key under which its root is grouped. With root, dictionary and spare room that
is 130 to 170 bytes for a tree; `python -m bench.ledger` measures it.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tupletree.errors import UsageError

TICKS_PER_S = 10
"""Resolution of an entry's birth. Ages depend on it, an expiry never does."""

_OPEN = 1 << 64
_FAILED = 1 << 65
_TASK_SHIFT = 66
_BORN_SHIFT = _TASK_SHIFT + 32
_UNFINISHED = _OPEN | (_OPEN - 1)
_TASK_MASK = (1 << 32) - 1
_BYTES_OF_TWO_INTEGERS = 96
"""The root and the entry: 36 and 40 bytes, in Python's 48-byte size class. Dictionaries know their own size."""

_Groups = defaultdict[int, list[int]]
"""Roots under what was left of their entries: born, task, flags."""


@dataclass(slots=True)
class Verdicts:
    """How trees ended: for each spout task an ``array('Q')`` of roots. ``reset`` ones did not end: their timeout starts
    again. Every root that leaves the ledger with a known spout task is in exactly one of the first three."""

    acked: dict[int, array[int]] = field(default_factory=dict)
    failed: dict[int, array[int]] = field(default_factory=dict)
    expired: dict[int, array[int]] = field(default_factory=dict)
    reset: dict[int, array[int]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.acked or self.failed or self.expired or self.reset)


@dataclass(slots=True)
class Totals:
    """What has happened in a ledger since it was made. Counts of updates as they came, and of trees that ended."""

    inits: int = 0
    acks: int = 0
    fails: int = 0
    resets: int = 0
    completed: int = 0
    failed: int = 0
    timeouts: int = 0


class Ledger:
    """The pending trees of one shard. Not thread-safe: one owner; ``now_s`` is any clock that never goes back.

    Bounds: memory is proportional to ``len(ledger)``, whatever the size of the trees. An entry not updated for
    ``buckets`` rotations is gone. Nothing else is ever dropped.
    """

    __slots__ = ("_births", "_older", "_young", "totals", "trees")

    def __init__(self, buckets: int = 3) -> None:
        if buckets < 2:
            raise UsageError(f"a ledger needs at least 2 buckets, not {buckets}")
        self._young: dict[int, int] = {}
        self._older: list[dict[int, int]] = [{} for _ in range(buckets - 1)]  # youngest first
        self._births: dict[int, int] = {}  # tick -> trees born in it, ascending; only trees with a known task
        self.trees = 0
        """Pending trees whose init has come."""
        self.totals = Totals()

    def __len__(self) -> int:
        """Entries held: pending trees, and partial values whose init has not come or never will."""
        return len(self._young) + sum(map(len, self._older))

    @property
    def bytes_held(self) -> int:
        """Memory held, computed: the dictionaries' own sizes and two integers for each entry."""
        tables = self._young.__sizeof__() + sum(bucket.__sizeof__() for bucket in self._older)
        return tables + len(self) * _BYTES_OF_TWO_INTEGERS

    def oldest_age_s(self, now_s: float) -> float:
        """Seconds since the first update of the oldest pending tree, to a tick; 0 if none is pending."""
        born = min(self._births, default=None)
        return 0.0 if born is None else max(0.0, now_s - born / TICKS_PER_S)

    def trees_begun_by(self, time_s: float) -> int:
        """Pending trees whose first update came at ``time_s`` or earlier, to a tick."""
        until = int(time_s * TICKS_PER_S)
        return sum(trees for born, trees in self._births.items() if born <= until)

    def apply(
        self,
        init_roots: Sequence[int],
        init_values: Sequence[int],
        init_tasks: Sequence[int],
        ack_roots: Sequence[int],
        ack_values: Sequence[int],
        fail_roots: Sequence[int],
        reset_roots: Sequence[int],
        now_s: float,
    ) -> Verdicts:
        """Apply a batch of updates and say what ended by them.

        The sequences hold unsigned 64-bit integers (tasks: 32 bits) and are best ``array('Q')``; those of one kind
        have the same length, which the caller has checked. A root may be in any of them and more than once. The cost
        is one pass; 10,000 updates take a few milliseconds.
        """
        born = int(now_s * TICKS_PER_S)
        done: _Groups = defaultdict(list)
        failed: _Groups = defaultdict(list)
        verdicts = Verdicts()
        if init_roots:
            self._init(init_roots, init_values, init_tasks, born, done, failed)
        if ack_roots:
            self._ack(ack_roots, ack_values, born, done)
        if fail_roots:
            self._fail(fail_roots, born, failed)
        if reset_roots:
            self._reset(reset_roots, born, verdicts)
        if done:
            self.totals.completed += self._settle(done, verdicts.acked)
        if failed:
            self.totals.failed += self._settle(failed, verdicts.failed)
        return verdicts

    def rotate(self, now_s: float, *, trees_expire: bool = True) -> Verdicts:
        """Age every entry by one step; those in the oldest cohort expire. See ``rotation`` for the details."""
        verdicts = Verdicts()
        for part in self.rotation(now_s, trees_expire=trees_expire):
            for task, roots in part.expired.items():
                verdicts.expired.setdefault(task, array("Q")).extend(roots)
        return verdicts

    def rotation(self, now_s: float, *, trees_expire: bool = True, step: int = 20_000) -> Iterator[Verdicts]:
        """As ``rotate``, in steps of at most ``step`` entries, so that the caller can do other things in between.

        The cohort leaves the ledger with the first step: an update that comes between the steps no longer finds it.
        Entries without a task vanish; nobody waits for them. With ``trees_expire=False`` those with a task stay
        pending (topologies without message timeouts), so only the others are cleared away.
        """
        del now_s  # expiry is counted in rotations; the clock is the caller's
        cohort = self._older.pop()
        self._older.insert(0, self._young)
        self._young = {}
        if not trees_expire:
            self._young = {root: entry for root, entry in cohort.items() if not entry & _OPEN}
            return
        groups: _Groups = defaultdict(list)
        for number, (root, entry) in enumerate(cohort.items(), 1):
            if not entry & _OPEN:
                groups[entry >> _TASK_SHIFT << _TASK_SHIFT].append(root)
            if number % step == 0:
                yield self._expire(groups)
                groups = defaultdict(list)
        yield self._expire(groups)

    def _init(
        self,
        roots: Sequence[int],
        values: Sequence[int],
        tasks: Sequence[int],
        born: int,
        done: _Groups,
        failed: _Groups,
    ) -> None:
        self.totals.inits += len(roots)
        young, older = self._young, any(self._older)
        tags = {task: born << _BORN_SHIFT | task << _TASK_SHIFT for task in set(tasks)}
        known = late = 0
        for root, value, task in zip(roots, values, tasks, strict=True):
            entry = young.get(root)
            if entry is None and older:
                entry = self._take_older(root)
            if entry is None:
                if value:
                    young[root] = value | tags[task]
                else:
                    done[tags[task]].append(root)
                continue
            if entry & _OPEN:
                entry = (entry ^ _OPEN ^ value) | task << _TASK_SHIFT
                self._count_birth(entry >> _BORN_SHIFT)
                late += 1
                if not entry & _UNFINISHED or entry & _FAILED:
                    young.pop(root, None)
                    group = failed if entry & _UNFINISHED else done
                    group[entry >> _TASK_SHIFT << _TASK_SHIFT].append(root)
                    continue
            else:
                known += 1
            young[root] = entry
        fresh = len(roots) - known - late
        self.trees += fresh + late
        if fresh:
            self._births[born] = self._births.get(born, 0) + fresh

    def _ack(self, roots: Sequence[int], values: Sequence[int], born: int, done: _Groups) -> None:
        self.totals.acks += len(roots)
        young, older = self._young, any(self._older)
        blank = born << _BORN_SHIFT | _OPEN
        get = young.get
        for root, value in zip(roots, values, strict=True):
            entry = get(root)
            if entry is None:
                entry = ((older and self._take_older(root)) or blank) ^ value
                if entry & _UNFINISHED:
                    young[root] = entry
                else:
                    done[entry].append(root)
                continue
            entry ^= value
            if entry & _UNFINISHED:
                young[root] = entry
            else:
                del young[root]
                done[entry].append(root)

    def _fail(self, roots: Sequence[int], born: int, failed: _Groups) -> None:
        self.totals.fails += len(roots)
        blank = born << _BORN_SHIFT | _OPEN
        for root in roots:
            entry = self._young.pop(root, None) or self._take_older(root) or blank
            if entry & _OPEN:
                self._young[root] = entry | _FAILED
            else:
                failed[entry >> _TASK_SHIFT << _TASK_SHIFT].append(root)

    def _reset(self, roots: Sequence[int], born: int, verdicts: Verdicts) -> None:
        self.totals.resets += len(roots)
        blank = born << _BORN_SHIFT | _OPEN
        for root in roots:
            entry = self._young.get(root) or self._take_older(root) or blank
            self._young[root] = entry
            if not entry & _OPEN:
                verdicts.reset.setdefault(entry >> _TASK_SHIFT & _TASK_MASK, array("Q")).append(root)

    def _take_older(self, root: int) -> int | None:
        for bucket in self._older:
            if root in bucket:
                return bucket.pop(root)
        return None

    def _count_birth(self, born: int) -> None:
        self._births[born] = self._births.get(born, 0) + 1

    def _settle(self, groups: _Groups, into: dict[int, array[int]]) -> int:
        """Take the ended trees of ``groups`` off the books and group their roots by spout task."""
        ended = 0
        for left, roots in groups.items():
            ended += len(roots)
            born = left >> _BORN_SHIFT
            self._births[born] -= len(roots)
            if not self._births[born]:
                del self._births[born]
            into.setdefault(left >> _TASK_SHIFT & _TASK_MASK, array("Q")).extend(array("Q", roots))
        self.trees -= ended
        return ended

    def _expire(self, groups: _Groups) -> Verdicts:
        verdicts = Verdicts()
        self.totals.timeouts += self._settle(groups, verdicts.expired)
        return verdicts
