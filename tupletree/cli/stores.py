"""The store of transactional topologies and of checkpoints, as commands read it."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping
from typing import Any

from tupletree._stores.nodes import StateStore
from tupletree._stores.zookeeper_nodes import open_store


@contextlib.contextmanager
def opened_store(conf: Mapping[str, Any]) -> Iterator[StateStore]:
    """Open the store, with logging disabled: a failure is reported once, by the raised error."""
    logging.disable(logging.CRITICAL)
    try:
        with contextlib.closing(open_store(conf)) as store:
            yield store
    finally:
        logging.disable(logging.NOTSET)
