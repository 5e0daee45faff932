"""The expected contents of the two databases, and the comparison with the actual contents.

Exactly once means equality: every word has its number of occurrences in the files, and every bucket has the number of
words with such a count. A bucket that all words have left stays, with 0 words.

Pure: takes the input lines and the stored counts, and returns the judgement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

SHOWN = 5  # differences listed per database


@dataclass(frozen=True)
class Judgement:
    """The comparison. ``faults`` is empty if and only if both databases are right; each fault is one sentence."""

    lines: int
    words: int  # occurrences
    distinct: int
    faults: tuple[str, ...]

    @property
    def held(self) -> bool:
        """True if every line had its effect exactly once."""
        return not self.faults


def judge(
    lines: Iterable[str],
    words: Callable[[str], list[str]],
    bucket: Callable[[int], str],
    word_counts: Mapping[str, int],
    bucket_counts: Mapping[str, int],
) -> Judgement:
    """Compare the stored counts with the truth."""
    truth: Counter[str] = Counter()
    number = 0
    for line in lines:
        truth.update(words(line))
        number += 1
    filled = {name: count for name, count in bucket_counts.items() if count}
    faults = [
        *differences("word", truth, word_counts),
        *differences("bucket", Counter(map(bucket, truth.values())), filled),
    ]
    return Judgement(number, truth.total(), len(truth), tuple(faults))


def differences(what: str, truth: Mapping[str, int], stored: Mapping[str, int]) -> Iterable[str]:
    """Yield a sentence for each of the first keys that differ."""
    wrong = [key for key in sorted(truth.keys() | stored.keys()) if truth.get(key) != stored.get(key)]
    for key in wrong[:SHOWN]:
        yield f"{what} {key!r}: {_figure(stored, key)} instead of {_figure(truth, key)}"
    if len(wrong) > SHOWN:
        yield f"and {len(wrong) - SHOWN:,} {what}s more"


def _figure(counts: Mapping[str, int], key: str) -> str:
    return f"{counts[key]:,}" if key in counts else "nothing"
