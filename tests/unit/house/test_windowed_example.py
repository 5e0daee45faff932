"""The example of windows does what it says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from examples import windowed_totals
from tupletree.testing import LocalCluster

SALES = 20_000
WINDOW_S = 10


def test_every_sale_is_in_the_total_of_its_time_or_among_the_late() -> None:
    expected: Counter[tuple[str, float]] = Counter()
    for number in range(SALES):
        shop, amount, at = windowed_totals.sale(number)
        expected[shop, at // WINDOW_S * WINDOW_S] += amount
    found: Counter[tuple[str, float]] = Counter()
    totals: list[tuple[str, float]] = []

    def observe(component: str, stream: str, values: Sequence[Any]) -> None:
        if stream == "late":
            late = values[0]
            found[late["shop"], late["at"] // WINDOW_S * WINDOW_S] += late["amount"]
        elif component == "totals":
            totals.append((values[0], values[2]))
            found[values[0], values[2]] += values[1]

    last_s = (SALES / windowed_totals.PER_SECOND - 10) // WINDOW_S * WINDOW_S  # of what is complete for every shop
    with LocalCluster() as cluster:
        cluster.submit("totals", windowed_totals.topology(SALES), observer=observe)
        cluster.wait_until(lambda: len({shop for shop, start in totals if start == last_s - WINDOW_S}) == 5, timeout=60)
        cluster.wait_quiet()
    assert len(set(totals)) == len(totals), "a total was emitted twice"
    complete = {key: total for key, total in expected.items() if key[1] < last_s}
    assert {key: total for key, total in found.items() if key[1] < last_s} == complete
