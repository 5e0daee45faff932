"""Make the archive of ZooKeeper's classes described in tupletree/_class_archive.py, once per environment.

python -m tupletree._devcluster.prepare          takes a few seconds; ``make setup`` runs this
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tupletree import _class_archive
from tupletree._coord.session import connect, disconnect
from tupletree._devcluster.zookeeper import EmbeddedZooKeeper, class_archive

END_S = 60.0
"""Maximum time for a JVM to write the archive when it exits."""


def make(path: Path) -> None:
    """Run a server with a session like those of daemons, and have its JVM archive the classes that it loaded.

    Raises OSError if the JVM fails or the directory cannot be written, UsageError and UnavailableError as
    ``EmbeddedZooKeeper.start``.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as directory:
        partial = Path(directory, path.name)
        with EmbeddedZooKeeper(directory, durable=False, jvm_options=_class_archive.making(partial)) as server:
            _use(server)
            assert server.process is not None
            server.process.terminate()
            server.process.wait(END_S)
        if not partial.exists():
            raise OSError(f"ZooKeeper {server.ending()}")
        _class_archive.keep(partial, path, "zookeeper-*.jsa")


def _use(server: EmbeddedZooKeeper) -> None:
    session = connect({
        "zookeeper.servers": [server.host], "zookeeper.port": server.port,
        "zookeeper.session.timeout": 6000, "zookeeper.connection.timeout": 10_000,
    })  # fmt: skip
    try:
        session.create("/tupletree/node", b"1", ephemeral=True, makepath=True)
        session.get_children("/tupletree", watch=lambda _event: None)
        transaction = session.transaction()
        transaction.set_data("/tupletree/node", b"2", version=0)
        transaction.commit()
    finally:
        disconnect(session)


def main() -> int:
    """Make the archive if there is none. Exit status 1 if that fails; ZooKeeper then starts without the archive."""
    try:
        path = class_archive()
        if not path.exists():
            make(path)
    except Exception as error:
        print(f"ZooKeeper's classes could not be archived, so ZooKeeper starts more slowly: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
