"""Tupletree: Storm's processing model for Python people."""
