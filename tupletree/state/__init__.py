"""Stateful bolts: state that survives, checkpointed through the whole topology. See docs/guides/state.md."""

from tupletree.state.contract import KeyValueState, StateProvider

__all__ = ["KeyValueState", "StateProvider"]
