"""The dataclasses that a client returns. ``tupletree.client`` exports them all.

The fields have the names of the contract in proto/, and ``raw`` is the protobuf message that an object was made from.
"""
