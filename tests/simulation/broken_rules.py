"""Searches for histories that show a broken rule, from the seed that showed it last on.

    python tests/simulation/broken_rules.py        search all of them from seed 0, and record the finds in finds.json

A change of a simulation moves its histories. The searches go on finding, and take longer until they are recorded anew.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

RECORD = Path(__file__).with_name("finds.json")
SEARCHED = ("test_checkpoints", "test_checkpoint_sinks", "test_moving_states", "test_transactions")


class Search:
    """The broken rules of one simulation, each with the sentence that a history shall say of it."""

    def __init__(
        self, name: str, world: type[Any], violation: type[Exception], broken: Mapping[str, tuple[Any, str]], seeds: int
    ) -> None:
        self.name = name
        self.world = world
        self.violation = violation
        self.broken = broken
        self.seeds = seeds

    def find(self, rule: str, first: int) -> int:
        """Return the first seed from ``first`` on that shows the rule broken, or raise AssertionError."""
        rules, sentence = self.broken[rule]
        for seed in range(first, first + self.seeds):
            try:
                self.world(seed, rules).run()
            except self.violation as error:
                if re.search(sentence, str(error)):
                    return seed
        raise AssertionError(f"{rule}: no history says that {sentence}")

    def found(self, rule: str) -> int:
        """Return the recorded seed of a rule; 0 where none is."""
        return int(json.loads(RECORD.read_text()).get(self.name, {}).get(rule, 0))


def record() -> None:
    """Search every rule from seed 0, and record the seeds."""
    finds: dict[str, dict[str, int]] = {}
    for name in SEARCHED:
        search: Search = import_module(name).SEARCH
        finds[name] = {rule: search.find(rule, 0) for rule in search.broken}
        print(name, finds[name], flush=True)
    RECORD.write_text(json.dumps(finds, indent=2) + "\n")


if __name__ == "__main__":
    record()
