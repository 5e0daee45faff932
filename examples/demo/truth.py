"""The expected counts, and the comparison with the actual counts.

At least once means: every line is acked, and no word is counted less often than it occurs. Some words of a replayed
line can have been counted before its tree was lost, so these words can have been counted too often. A word that occurs
in no replayed line must be counted exactly.

Pure: takes the counts, and returns the judgement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """The output of the topology: acked line -> True if replayed, and the counts of each count task."""

    acked: Mapping[int, bool]
    counts: Sequence[Mapping[str, int]]


@dataclass(frozen=True)
class Judgement:
    """The comparison in numbers. ``faults`` is empty if and only if at-least-once held; each fault is one sentence."""

    lines: int
    acked: int
    replayed: int
    words: int  # occurrences in the text
    counted: int
    distinct: int
    exact: int  # distinct words counted exactly as often as they occur
    untouched: int  # distinct words that stand in no replayed line
    faults: tuple[str, ...]

    @property
    def held(self) -> bool:
        """True if every line was acked and every word counted as often as required."""
        return not self.faults


def judge(lines: int, text: Sequence[str], words: Callable[[str], list[str]], outcome: Outcome) -> Judgement:
    """Compare an outcome with the truth: line ``i`` of ``lines`` is ``text[i % len(text)]``."""
    split = [words(line) for line in text]
    truth = _count(split, range(lines))
    replayed = {line for line, again in outcome.acked.items() if again}
    touched = {word for line in replayed for word in split[line % len(text)]}
    counted: Counter[str] = Counter()
    for counts in outcome.counts:
        counted.update(counts)
    return Judgement(
        lines=lines,
        acked=len(outcome.acked),
        replayed=len(replayed),
        words=truth.total(),
        counted=counted.total(),
        distinct=len(truth),
        exact=sum(counted[word] == times for word, times in truth.items()),
        untouched=len(truth.keys() - touched),
        faults=tuple(_faults(lines, outcome, truth, counted, touched)),
    )


def _count(split: Sequence[list[str]], lines: range) -> Counter[str]:
    """Return the count of each word when the text is repeated up to that number of lines."""
    rounds, rest = divmod(len(lines), len(split))
    once: Counter[str] = Counter()
    for row in split:
        once.update(row)
    truth = Counter({word: times * rounds for word, times in once.items() if rounds})
    for row in split[:rest]:
        truth.update(row)
    return truth


def _faults(
    lines: int, outcome: Outcome, truth: Counter[str], counted: Counter[str], touched: set[str]
) -> Iterable[str]:
    missing = [line for line in range(lines) if line not in outcome.acked]
    if missing:
        yield f"{len(missing):,} lines were never acked, the first of them line {missing[0]}"
    unknown = [line for line in outcome.acked if not 0 <= line < lines]
    if unknown:
        yield f"{len(unknown):,} lines were acked that do not exist, such as line {unknown[0]}"
    lost = [word for word, times in truth.items() if counted[word] < times]
    if lost:
        yield f"{len(lost):,} words were counted too seldom, such as {_figures(lost[0], truth, counted)}"
    doubled = [word for word in counted if counted[word] > truth[word] and word not in touched]
    if doubled:
        example = _figures(doubled[0], truth, counted)
        yield f"{len(doubled):,} words of no replayed line were counted too often, such as {example}"
    strayed = [word for word, tasks in Counter(w for counts in outcome.counts for w in counts).items() if tasks > 1]
    if strayed:
        yield f"{len(strayed):,} words reached more than one count task, such as {strayed[0]!r}"


def _figures(word: str, truth: Counter[str], counted: Counter[str]) -> str:
    return f"{word!r}: {counted[word]:,} instead of {truth[word]:,}"
