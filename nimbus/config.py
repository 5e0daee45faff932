"""The configuration of a nimbus, parsed once."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tupletree import _limits
from tupletree._daemon.config import DaemonConfig, common_fields
from tupletree.dead_letters import open_store
from tupletree.errors import ConfigError, UsageError

from . import savepoint_rules
from .leader.scheduling import Scheduling

_STORES: Final = "nimbus.dead.letters.stores"
_STORE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")  # part of a URL's path


@dataclass(frozen=True)
class NimbusConfig(DaemonConfig):
    """Every configuration value that a nimbus uses."""

    monitor_s: float  # nimbus.monitor.freq.secs: longest pause between two scheduling rounds
    task_timeout_s: float  # nimbus.task.timeout.secs: a worker without a heartbeat for this time is dead
    task_launch_s: float  # nimbus.task.launch.secs: grace period for a worker that was just assigned
    blob_delay_s: float  # nimbus.topology.blobstore.deletion.delay.ms, in seconds
    max_bundle_bytes: int  # nimbus.max.bundle.bytes
    history_max: int  # nimbus.topology.history.max: removed topologies that are remembered
    max_blob_bytes: int  # nimbus.max.blob.bytes
    scheduling: Scheduling  # nimbus.scheduler, nimbus.resource.quotas, blacklist.…, isolation.…, multitenant.…
    letter_stores: Mapping[str, str]  # nimbus.dead.letters.stores: addresses of stores of dead letters, by name
    savepoints_root: str | None  # nimbus.savepoints.address

    @property
    def blob_directory(self) -> str:
        return os.path.join(self.local_dir, "nimbus", "blobs")

    @property
    def audit_path(self) -> str:
        return os.path.join(self.logs_dir, "audit.log")

    @classmethod
    def from_conf(cls, conf: Mapping[str, Any]) -> NimbusConfig:
        """Return the nimbus's part of a loaded and validated configuration.

        Raises ConfigError for a wrong quota, for a wrong name or address of a store of dead letters, and for a wrong
        address of savepoints.
        """
        return cls(
            **common_fields(conf, "nimbus"),
            monitor_s=float(conf["nimbus.monitor.freq.secs"]),
            task_timeout_s=float(conf["nimbus.task.timeout.secs"]),
            task_launch_s=float(conf["nimbus.task.launch.secs"]),
            blob_delay_s=conf["nimbus.topology.blobstore.deletion.delay.ms"] / 1000,
            max_bundle_bytes=int(conf["nimbus.max.bundle.bytes"]),
            history_max=int(conf["nimbus.topology.history.max"]),
            max_blob_bytes=int(conf["nimbus.max.blob.bytes"]),
            scheduling=Scheduling.from_conf(conf),
            letter_stores=_letter_stores(conf[_STORES]),
            savepoints_root=_savepoints_root(conf[savepoint_rules.KEY]),
        )


def _savepoints_root(address: str | None) -> str | None:
    fault = savepoint_rules.address_fault(address)
    if fault:
        raise ConfigError(f"configuration key '{savepoint_rules.KEY}' {fault}")
    return address


def _letter_stores(stores: Mapping[str, str]) -> Mapping[str, str]:
    for name, url in stores.items():
        if not _STORE_NAME.fullmatch(name):
            raise ConfigError(
                f"configuration key '{_STORES}' takes names of 1 to 100 letters, digits, '.', '_' and '-', "
                f"the first a letter or a digit, not {_limits.shown(name)}"
            )
        try:
            open_store(url)
        except UsageError as error:
            raise ConfigError(f"configuration key '{_STORES}', store '{name}': {error}") from error
    return dict(stores)
