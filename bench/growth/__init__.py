"""Costs as a topology grows: by tasks, workers, components, copies, bytes, keys, pending trees and idle pairs."""
