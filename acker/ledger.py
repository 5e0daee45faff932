"""The XOR ledger of one shard: the pending tuple trees, and the verdicts on those that end.

Theory. Every tuple sent to a task is an edge with a random 64-bit id. An edge is XORed into its
tree's *ack value* twice: when it is created (by the spout's init or by the ack of the tuple that produced it) and when
the tuple is acked. So the value is zero exactly when every created edge was also acked, except with probability 2^-64.
One entry of fixed size represents a tree of any size.

An ack carries ``edge ^ children`` as one value, so children appear no later than their parent disappears: the tree
cannot look finished in between. XOR is associative and commutative: updates may arrive in any order and in any
combination, and an ack may arrive before the init.

The effect of each update, and the verdict that follows from the entry:

    init  (root, value, task)   xor in the value, remember the task          value 0 and task known -> acked, removed
    ack   (root, value)         xor in the value                             failed and task known  -> failed, removed
    fail  (root)                mark as failed                               otherwise it stays
    reset (root)                (nothing)                                    ... and a reset of a known tree is reported

Every update, even one that changes nothing, creates the entry if there is none and renews its lifetime: entries are
kept in the cohorts of a RotatingMap and expire with the ``buckets``-th rotation after their last update.

Edge cases, each with a test of the same name in tests/unit/acker/test_ledger.py:

* duplicate init: the second init only renews the entry's lifetime. Its value is *not* applied: XORing the same value
  twice would cancel the first and could report a pending tree as acked. This rule alone makes repeated updates
  harmless: for the value to vanish while an edge is outstanding, the update that created the edge must count twice,
  hence also the update that created its parent, and so on up to the init.
* ack before init, fail before init: the entry waits without a task; the init brings the verdict.
* zero before init: an entry whose partial values cancel, but whose spout is unknown, waits too.
* late ack after completion: creates an entry without an init, which expires without a verdict.
* reset for an unknown root: creates an empty entry and is not reported.
* two roots sharing an edge (a multi-anchored tuple): each root's entry gets the edge id; the trees end independently.
* init of 0 (a spout tuple without consumers): acked at once.
* fail of a tree whose value then turns 0 before its init arrives: acked. Zero is checked first; all was processed.

The entries lie in a packed table (acker/hash_table.py), at 38 to 40 bytes per pending tree. Large batches are applied
as whole arrays. Small batches, and repeated updates of one root within a batch, are applied one by one
(acker/scalar_ops.py); if that module is compiled, so are all batches while the table fits in the caches. The rules
therefore exist twice, and each half pays: a batch of 400 updates takes 33 us by compiled loops and 155 us as arrays,
but 582 us and 179 us in plain Python (docs/adr/0015, `python -m bench.ledger --halves`). test_ledger_reference.py
checks both halves against a plain dictionary.
"""

from __future__ import annotations  # pure

from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from tupletree._compiled import IS_COMPILED
from tupletree.errors import UsageError

from .entries import MAX_COHORTS, Entries
from .entry_state import FAILED, OPEN
from .hash_table import U32, U64, Places
from .scalar_ops import ack_each, fail_each, init_each, reset_each
from .verdicts import Totals, Verdicts, add_verdicts

__all__ = ["Ledger", "Totals", "Verdicts"]

TICKS_PER_S = 10
"""Resolution of an entry's birth. Reported ages depend on this resolution; expiry never does."""

_MAX_PART = 8_192  # updates per set of numpy calls: their working set stays in the caches
_MIN_ARRAY_UPDATES = 4_096 if IS_COMPILED else 32  # below this, updates are faster one by one
_MIN_ARRAY_ENTRIES = 150_000 if IS_COMPILED else 0  # with fewer entries, all in the caches, so are large batches
_KINDS = (np.uint64, 8), (np.uint64, 8), (np.uint32, 4)  # types of the columns, with bytes per item
_NUMBERS = np.arange(_MAX_PART, dtype=np.uint16)

Ids: TypeAlias = "Sequence[int] | U64"
Tasks: TypeAlias = "Sequence[int] | U32"


class Ledger:
    """The pending trees of one shard. Not thread-safe; ``now_s`` is any monotonic clock.

    Bounds: memory is proportional to ``len(ledger)``, whatever the size of the trees. An entry not updated for
    ``buckets`` rotations expires. Nothing else is ever dropped. If roots are not trusted to be random, ``hash_key``
    must be a secret random number of 192 bits.
    """

    def __init__(self, buckets: int = 3, hash_key: int = 0) -> None:
        if not 2 <= buckets <= MAX_COHORTS:
            raise UsageError(f"a ledger needs at least 2 buckets, and at most {MAX_COHORTS}, not {buckets}")
        self.totals = Totals()
        self._entries = Entries(buckets, hash_key, self.totals)
        self._first_tick: int | None = None  # the tick from which births are counted

    def __len__(self) -> int:
        """Number of entries: pending trees, and partial values without an init (yet or forever)."""
        return len(self._entries)

    @property
    def trees(self) -> int:
        """Number of pending trees: entries whose init has arrived."""
        return self._entries.trees

    @property
    def bytes_held(self) -> int:
        """Memory held, computed as the size of the table's arrays."""
        return self._entries.table.nbytes

    def ack_value(self, root: int) -> int | None:
        """Return the XOR of all edges reported so far for a tree, or None if there is no entry."""
        return self._entries.value(root)

    def oldest_age_s(self, now_s: float) -> float:
        """Return the seconds since the oldest pending tree's first update, to one tick; 0 without pending trees."""
        born = min(self._entries.births, default=None)
        return 0.0 if born is None else max(0.0, now_s - (born + (self._first_tick or 0)) / TICKS_PER_S)

    def trees_begun_by(self, time_s: float) -> int:
        """Return the number of pending trees whose first update came at ``time_s`` or earlier, to one tick."""
        until = int(time_s * TICKS_PER_S) - (self._first_tick or 0)
        return sum(trees for born, trees in self._entries.births.items() if born <= until)

    def apply(
        self,
        init_roots: Ids,
        init_values: Ids,
        init_tasks: Tasks,
        ack_roots: Ids,
        ack_values: Ids,
        fail_roots: Ids,
        reset_roots: Ids,
        now_s: float,
    ) -> Verdicts:
        """Apply a batch of updates and return the verdicts on the trees that ended.

        The sequences hold unsigned 64-bit integers (tasks: 32 bits). ``array("Q")`` and ``array("I")``, or numpy arrays
        of these types, are fastest. The caller has checked that sequences of one kind have the same length. A root may
        occur in any sequence, and repeatedly. 10,000 updates take about a millisecond.
        """
        tick = int(now_s * TICKS_PER_S)
        if self._first_tick is None:
            self._first_tick = tick
        born, verdicts, totals = max(0, tick - self._first_tick), Verdicts(), self.totals
        totals.inits += len(init_roots)
        totals.acks += len(ack_roots)
        totals.fails += len(fail_roots)
        totals.resets += len(reset_roots)
        if len(init_roots):
            self._init(init_roots, init_values, init_tasks, born, verdicts)
        if len(ack_roots):
            self._apply_kind(self._ack_many, ack_each, (ack_roots, ack_values), born, verdicts)
        if len(fail_roots):
            self._apply_kind(self._fail_many, fail_each, (fail_roots,), born, verdicts)
        if len(reset_roots):
            self._apply_kind(self._reset_many, reset_each, (reset_roots,), born, verdicts)
        return verdicts

    def rotate(self, now_s: float, *, trees_expire: bool = True) -> Verdicts:
        """Age every entry by one cohort and return the expired trees. See ``rotation`` for the details."""
        verdicts = Verdicts()
        for part in self.rotation(now_s, trees_expire=trees_expire):
            for task, roots in part.expired.items():
                verdicts.expired.setdefault(task, array("Q")).extend(roots)
        return verdicts

    def rotation(self, now_s: float, *, trees_expire: bool = True, step: int = 20_000) -> Iterator[Verdicts]:
        """Rotate in steps of at most ``step`` entries, so that the caller can do other work in between.

        The oldest cohort leaves the ledger with the first step: later updates no longer find its entries. Entries
        without a task are dropped silently, because nobody waits for them. With ``trees_expire=False`` (topologies
        without message timeouts) entries with a task stay pending: only entries without a task are removed.
        """
        del now_s  # expiry is counted in rotations; the caller keeps the time
        self._entries.age()
        if trees_expire:
            yield from self._entries.clear(step)
        else:
            self._entries.revive_trees()

    def _init(self, roots: Ids, values: Ids, tasks: Tasks, born: int, verdicts: Verdicts) -> None:
        self._apply_kind(self._init_many, init_each, (roots, values, tasks), born, verdicts)

    def _apply_kind(
        self,
        many: Callable[..., None],
        each: Callable[..., None],
        columns: tuple[Any, ...],
        born: int,
        verdicts: Verdicts,
    ) -> None:
        """Apply updates of one kind in batches or one by one, in order for each root."""
        count = len(columns[0])
        # One by one, each update that finds a dead entry costs as much as a whole batch.
        if count < _MIN_ARRAY_UPDATES or len(self._entries) == len(self._entries.table) < _MIN_ARRAY_ENTRIES:
            each(self._entries, self.totals, *_items(columns), born, verdicts)
        else:
            arrays = _arrays(columns)
            for start in range(0, count, _MAX_PART):
                self._apply_part(many, each, [column[start : start + _MAX_PART] for column in arrays], born, verdicts)
        self._entries.flush_counts()

    def _apply_part(
        self, many: Callable[..., None], each: Callable[..., None], columns: list[Any], born: int, verdicts: Verdicts
    ) -> None:
        while True:
            hashes = self._entries.table.hashes(columns[0])
            again = _repeated(columns[0], hashes)
            if again is None:
                many(columns[0], hashes, *columns[1:], born, verdicts)
                return
            first = ~again
            roots, *rest = (column[first] for column in columns)
            many(roots, hashes[first], *rest, born, verdicts)
            columns = [column[again] for column in columns]
            if min(len(roots), len(columns[0])) < _MIN_ARRAY_UPDATES:
                break
        each(self._entries, self.totals, *_items(columns), born, verdicts)

    # Batches of updates with distinct roots

    def _init_many(self, roots: U64, hashes: U64, values: U64, tasks: U32, born: int, verdicts: Verdicts) -> None:
        places = self._entries.find(roots, hashes)
        known = (places.slots >= 0).nonzero()[0]
        if known.size:
            self._init_known(places.take(known), roots.take(known), values.take(known), tasks.take(known), verdicts)
        begun = ((places.slots < 0) & (values != 0)).nonzero()[0]
        if len(begun) + len(known) < len(roots):
            empty = ((places.slots < 0) & (values == 0)).nonzero()[0]
            add_verdicts(verdicts.acked, tasks.take(empty), roots.take(empty))
            self.totals.completed += len(empty)
        if len(begun) < len(roots):
            roots, hashes, values, tasks = (column.take(begun) for column in (roots, hashes, values, tasks))
        if begun.size:
            self._entries.add(roots, hashes, values, tasks, born, 0)

    def _init_known(self, places: Places, roots: U64, values: U64, tasks: U32, verdicts: Verdicts) -> None:
        pending, table = self._entries, self._entries.table
        pending.touch(places.slots)
        was_open = (table.states.take(places.slots) >= OPEN).nonzero()[0]
        places, roots = places.take(was_open), roots.take(was_open)
        slots = places.slots
        table.values[slots] = left = table.values.take(slots) ^ values.take(was_open)
        pending.record_inits(slots, tasks.take(was_open))
        is_failed = table.states.take(slots) >= FAILED
        acked, failed = (left == 0).nonzero()[0], (is_failed & (left != 0)).nonzero()[0]
        pending.report(slots.take(acked), roots.take(acked), verdicts.acked)
        pending.report(slots.take(failed), roots.take(failed), verdicts.failed)
        self.totals.completed += len(acked)
        self.totals.failed += len(failed)
        if len(acked) + len(failed):
            pending.remove(places.take(np.concatenate((acked, failed))))

    def _ack_many(self, roots: U64, hashes: U64, values: U64, born: int, verdicts: Verdicts) -> None:
        pending, table = self._entries, self._entries.table
        places = pending.find(roots, hashes)
        new = (places.slots < 0).nonzero()[0]
        added = roots.take(new), hashes.take(new), values.take(new)
        if new.size:
            known = (places.slots >= 0).nonzero()[0]
            places, roots, values = places.take(known), roots.take(known), values.take(known)
        slots = places.slots
        table.values[slots] = left = table.values.take(slots) ^ values
        pending.touch(slots)
        ended = (left == 0).nonzero()[0]
        ended = ended[table.states.take(slots.take(ended)) < OPEN]
        if ended.size:
            pending.report(slots.take(ended), roots.take(ended), verdicts.acked)
            pending.remove(places.take(ended))
            self.totals.completed += len(ended)
        if new.size:
            pending.add(*added, 0, born, OPEN)

    def _fail_many(self, roots: U64, hashes: U64, born: int, verdicts: Verdicts) -> None:
        pending, table = self._entries, self._entries.table
        places = pending.find(roots, hashes)
        new, known = (places.slots < 0).nonzero()[0], (places.slots >= 0).nonzero()[0]
        places, known_roots = places.take(known), roots.take(known)
        pending.touch(places.slots)
        is_open = table.states.take(places.slots) >= OPEN
        pending.touch(places.slots[is_open], FAILED)
        ended = (~is_open).nonzero()[0]
        if ended.size:
            pending.report(places.slots.take(ended), known_roots.take(ended), verdicts.failed)
            pending.remove(places.take(ended))
            self.totals.failed += len(ended)
        if new.size:
            pending.add(roots.take(new), hashes.take(new), 0, 0, born, OPEN | FAILED)

    def _reset_many(self, roots: U64, hashes: U64, born: int, verdicts: Verdicts) -> None:
        pending, table = self._entries, self._entries.table
        slots = pending.find(roots, hashes).slots
        new, known = (slots < 0).nonzero()[0], (slots >= 0).nonzero()[0]
        slots, known_roots = slots.take(known), roots.take(known)
        pending.touch(slots)
        trees = (table.states.take(slots) < OPEN).nonzero()[0]
        add_verdicts(verdicts.reset, table.tasks.take(slots.take(trees)), known_roots.take(trees))
        if new.size:
            pending.add(roots.take(new), hashes.take(new), 0, 0, born, OPEN)


def _arrays(columns: Sequence[Any]) -> list[Any]:
    """Return the columns as numpy arrays, without a copy if possible."""
    return [
        np.frombuffer(column, kind) if _fits(column, size) else np.asarray(column, kind)
        for column, (kind, size) in zip(columns, _KINDS, strict=False)
    ]


def _items(columns: Sequence[Any]) -> list[Any]:
    """Return the columns in the form that is fastest to read one by one."""
    if not IS_COMPILED:
        return [column.tolist() if isinstance(column, np.ndarray) else column for column in columns]
    return [
        column if _fits(column, size) else np.asarray(column, kind)
        for column, (kind, size) in zip(columns, _KINDS, strict=False)
    ]


def _fits(column: Any, size: int) -> bool:
    return isinstance(column, array) and column.itemsize == size


def _repeated(roots: U64, hashes: U64) -> Any:
    """Return a mask of the roots that occurred earlier in the array, or None if all are distinct."""
    place = (hashes >> np.uint64(48)).view(np.int64)
    last = np.empty(1 << 16, np.uint16)
    number = _NUMBERS[: len(roots)]
    last[place] = number
    rivals = np.flatnonzero(last.take(place) != number)
    suspects = roots.take(rivals)
    in_order = np.sort(suspects)
    if not ((suspects == roots.take(last.take(place.take(rivals)))).any() or (in_order[1:] == in_order[:-1]).any()):
        return None
    order = roots.argsort(kind="stable")
    in_order = roots.take(order)
    again = np.zeros(len(roots), np.bool_)
    again[order[1:][in_order[1:] == in_order[:-1]]] = True
    return again
