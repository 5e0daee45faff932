"""Stored data of components: whether there are any, how they are read again, and how they move to other tasks."""

from __future__ import annotations  # pure

from typing import Final

from tupletree.component import BasicStatefulBolt, Component, Spout, StatefulBolt

MIGRATED: Final = ("StatefulBolt", "KeyedProcess")
"""The forms of states whose values are the user's alone."""


def is_positioned(component: Component) -> bool:
    """True if the component is a spout that overrides both ``checkpoint_state`` and ``restore_state``."""
    return (
        isinstance(component, Spout)
        and type(component).checkpoint_state is not Spout.checkpoint_state
        and type(component).restore_state is not Spout.restore_state
    )


def keeps_state(component: Component) -> bool:
    """True if checkpoints contain the component: a bolt with a state, or a positioned spout."""
    return isinstance(component, StatefulBolt) or is_positioned(component)


def state_form(component: Component) -> str:
    """Return what decides how the stored data of a component are read; "" if it stores nothing.

    For a state, the nearest class of the library: its subclasses choose keys and values, it chooses the entries.
    """
    if not keeps_state(component):
        return str(getattr(component, "_state_form", ""))
    library = (one for one in type(component).__mro__ if one.__module__.partition(".")[0] == "tupletree")
    return next(one.__name__ for one in library if one is not BasicStatefulBolt)


def is_divisible(component: Component) -> bool:
    """True if the states or positions of the component's tasks can be divided among another number of tasks."""
    if isinstance(component, StatefulBolt):
        return component.is_divisible is not False
    return isinstance(component, Spout) and type(component).merge_states is not Spout.merge_states


def has_known_keys(component: Component) -> bool:
    """True if a stateful bolt says to which values of a grouping the keys of its state belong."""
    assert isinstance(component, StatefulBolt)
    return bool(component.is_divisible) or type(component).values_of_key is not StatefulBolt.values_of_key


def can_migrate(bolt: StatefulBolt) -> bool:
    """True if a stateful bolt says what becomes of the values that an earlier version of it has stored."""
    return state_form(bolt) in MIGRATED and type(bolt).migrate_value is not StatefulBolt.migrate_value
