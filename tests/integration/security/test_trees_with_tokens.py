"""Namespaces of trees where tokens are asked for: the role, and the users of a namespace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from security_harness import Secured

from tupletree.errors import ForbiddenError, UnauthenticatedError
from tupletree.testing import DevCluster
from tupletree.trees import TreeClient

NAMESPACES: dict[str, Any] = {"shared": None, "alices": {"users": ["alice"]}}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Secured:
    return Secured.make(tmp_path_factory.mktemp("trees") / "tls")


@pytest.fixture(scope="module")
def cluster(secured: Secured) -> Iterator[DevCluster]:
    own = {"security.token": secured.user("operator", "admin"), "acker.trees.namespaces": NAMESPACES}
    with DevCluster(conf={**secured.conf, **own}) as running:
        yield running


@pytest.mark.parametrize(
    ("who", "roles", "namespace"),
    [
        ("alice", ["call"], "shared"),
        ("alice", ["call"], "alices"),
        ("bob", ["submit"], "shared"),
        ("carol", ["admin"], "alices"),
    ],
)
def test_a_token_opens_a_namespace(
    cluster: DevCluster, secured: Secured, who: str, roles: list[str], namespace: str
) -> None:
    conf = {**cluster.conf, "security.token": secured.user(who, *roles)}
    with TreeClient(namespace=namespace, conf=conf) as trees:
        assert trees.begin().wait(20).is_done


@pytest.mark.parametrize(
    ("who", "roles", "sentence"),
    [
        ("bob", ["call"], r"user 'bob' is not among the users of namespace 'alices'"),
        ("alice", ["read"], r"user 'alice' may not TrackTrees: the caller needs the role call or submit"),
    ],
)
def test_others_are_refused(cluster: DevCluster, secured: Secured, who: str, roles: list[str], sentence: str) -> None:
    conf = {**cluster.conf, "security.token": secured.user(who, *roles)}
    with pytest.raises(ForbiddenError, match=sentence), TreeClient(namespace="alices", conf=conf):
        pass


def test_without_a_token_there_are_no_trees(cluster: DevCluster, secured: Secured, tmp_path: Path) -> None:
    ackers = [one.presence.address for one in cluster.client.cluster().ackers]
    conf = {**cluster.conf, "security.token": None}
    with (
        pytest.raises(UnauthenticatedError, match=r"TrackTrees requires a token, and none was sent"),
        TreeClient(ackers, namespace="shared", conf=conf),
    ):
        pass
