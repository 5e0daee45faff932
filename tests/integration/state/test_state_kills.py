"""Whenever the writer of a state is killed, the next one finds whole checkpoints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from checkpointing_writer import expected_at
from state_places import State, StatePlace

from tests.integration.transactional.database_servers import RedisServer
from tupletree.errors import AuthorityError

HERE = Path(__file__).parent
PROVIDERS = ["sqlite", "rocksdb", "objects", "postgres", "redis"]
KILLS = int(os.environ.get("WRITER_KILLS", "2"))


pytestmark = pytest.mark.sized


@pytest.fixture(params=PROVIDERS)
def place(request: pytest.FixtureRequest, place_of: Callable[[str], StatePlace]) -> StatePlace:
    return place_of(request.param)


@pytest.fixture
def provider(place: StatePlace) -> str:
    return type(place.provider).__name__.removesuffix("StateProvider").lower()


@contextmanager
def writer(provider: str, place: StatePlace, until: int = 0) -> Iterator[Iterator[str]]:
    """What a writer prints. It is killed at the end."""
    command = [sys.executable, str(HERE / "checkpointing_writer.py"), provider, json.dumps(place.provider_config)]
    root = str(HERE.parent.parent.parent)
    process = subprocess.Popen(
        [*command, str(until)], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": root}
    )
    assert process.stdout is not None
    try:
        yield iter(process.stdout)
    finally:
        process.kill()
        process.communicate()


def ended(state: State, is_committed: bool) -> int:
    """End what a killed writer has prepared, and say what is committed now."""
    if state.prepared is not None:
        if is_committed:
            state.commit(state.prepared)
        else:
            state.rollback()
    assert dict(state.items()) == expected_at(state.committed or 0)
    return state.committed or 0


@pytest.mark.long
@pytest.mark.parametrize("is_committed", [True, False])
def test_what_is_prepared_outlives_the_kill_of_its_writer(
    opened: Callable[[], State], place: StatePlace, provider: str, is_committed: bool
) -> None:
    with writer(provider, place, until=4) as lines:
        for line in lines:
            if line == "prepared 4\n":
                break
    state = opened()
    assert (state.committed, state.prepared) == (3, 4)
    assert dict(state.items()) == expected_at(3)
    assert ended(state, is_committed) == (4 if is_committed else 3)
    again = opened()
    assert (again.committed, again.prepared) == (state.committed, None)
    assert dict(again.items()) == expected_at(state.committed or 0)


@pytest.mark.long
def test_a_writer_that_is_killed_anywhere_leaves_a_checkpoint(
    opened: Callable[[], State], place: StatePlace, provider: str
) -> None:
    told = 0
    for kill in range(KILLS):
        with writer(provider, place) as lines:
            for count, line in enumerate(lines):
                word, txid = line.split()
                told = max(told, int(txid) if word == "committed" else 0)
                if count == 3 + kill:  # it goes on meanwhile, and is somewhere
                    break
        state = opened()
        assert (state.committed or 0) >= told
        assert state.prepared in (None, (state.committed or 0) + 1)
        assert dict(state.items()) == expected_at(state.committed or 0)
        told = ended(state, is_committed=kill % 2 == 0)
        state.close()


def test_a_redis_that_is_killed_anywhere_has_a_checkpoint_when_it_is_back(
    place_of: Callable[[str], StatePlace], redis_server: RedisServer
) -> None:
    place = place_of("redis")
    told = 0
    for kill in range(KILLS):
        with writer("redis", place) as lines:
            for count, line in enumerate(lines):
                word, txid = line.split()
                told = max(told, int(txid) if word == "committed" else 0)
                if count == 3 + kill:
                    break
            redis_server.stop()
        redis_server.start()
        state = place.open()
        assert (state.committed or 0) >= told
        assert dict(state.items()) == expected_at(state.committed or 0)
        told = ended(state, is_committed=kill % 2 == 0)


def test_a_writer_that_lives_on_changes_nothing_when_another_has_opened_its_state(
    opened: Callable[[], State], place: StatePlace, provider: str
) -> None:
    with writer(provider, place, until=2) as lines:
        assert "prepared 2\n" in lines
        state = opened()
        state.commit(2)
        third = opened()
        with pytest.raises(AuthorityError):
            state.prepare_commit(3)
        assert dict(third.items()) == expected_at(2)


@pytest.mark.parametrize(
    ("place", "writers", "commits"),
    [("rocksdb", 3, 10), pytest.param("objects", 2, 8, marks=pytest.mark.long)],
    indirect=["place"],
)
def test_writers_that_take_a_state_from_each_other_lose_no_commit(
    place: StatePlace, writers: int, commits: int
) -> None:
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent.parent.parent)}
    command = [sys.executable, str(HERE / "racing_writers.py"), json.dumps(place.provider_config), str(commits)]
    racing = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(writers)]
    try:
        told = [tuple(map(int, one.communicate(timeout=120)[0].split())) for one in racing]
    finally:
        for one in racing:
            one.kill()
    state = place.open()
    certain, possible = (sum(numbers) for numbers in zip(*told, strict=True))
    assert certain == writers * commits
    assert certain <= state.get("count") <= certain + possible
    assert state.get("count") == state.committed
    state.close()
