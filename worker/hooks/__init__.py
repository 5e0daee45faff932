"""Hooks of users (tupletree/hooks.py): at the start and end of a worker, and around what a task does.

Nothing of a task is wrapped until it has a hook. Then the choosers of its streams, the methods of its component and the
task that its collector sees are exchanged for wrappers, once. So the hot path does not know of hooks.
"""
