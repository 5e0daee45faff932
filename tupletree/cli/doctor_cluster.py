"""Checks of ``tupletree doctor`` on the way to a cluster: nimbus, ZooKeeper, DRPC servers, the clock, free ports."""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from importlib import metadata
from typing import TYPE_CHECKING, Any, Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tupletree._address import split_address, with_port
from tupletree._coord.tls import open_socket, tls_of
from tupletree._devcluster.foreground import check_ports
from tupletree._devcluster.plan import Size, plan_with_fixed_ports
from tupletree._rpc.channels import channel
from tupletree._rpc.status import from_rpc_error
from tupletree._security.current import Security
from tupletree._security.tls import Tls
from tupletree.cli.doctor_machine import Finding
from tupletree.cli.options import connect
from tupletree.cli.version import cluster_sentence, cluster_versions
from tupletree.config import load, load_explicit
from tupletree.errors import ConfigError, TupletreeError, UnavailableError

if TYPE_CHECKING:
    from tupletree.client import ClusterDescription

TIMEOUT_S: Final = 2.0
MAX_SKEW_S: Final = 2.0


def check_cluster(seeds: str | None, conf_path: str | None, overrides: tuple[str, ...]) -> list[Finding]:
    """Check the connections to nimbus and ZooKeeper, and the clock, or the ports that `tupletree dev` needs."""
    explicit, conf = load_explicit(conf_path, overrides), load(conf_path, overrides)
    is_asked_for = seeds is not None or "nimbus.seeds" in explicit
    others = [*_zookeeper(conf, "zookeeper.servers" in explicit), *_drpc(conf)]
    try:
        with connect(seeds, conf_path, overrides, leader_timeout_s=TIMEOUT_S) as client:
            cluster = client.cluster()
    except TupletreeError as error:
        return [_no_nimbus(error, is_asked_for), *others, *(() if is_asked_for else _ports(conf))]
    return [_versions(cluster), *_clock(cluster, conf), *others]


def _no_nimbus(error: TupletreeError, is_asked_for: bool) -> Finding:
    if not isinstance(error, UnavailableError):
        advice = (
            "correct it; `tupletree config list security.` explains tokens, `tupletree config list tls.` certificates"
        )
        return Finding("nimbus", "problem", str(error), advice)
    if is_asked_for:
        return Finding(
            "nimbus", "problem", str(error), "start a nimbus there, or correct the key nimbus.seeds or --nimbus"
        )
    advice = "`tupletree dev` starts a cluster on this machine; the key nimbus.seeds names another one"
    return Finding("nimbus", "warning", str(error), advice)


def _versions(cluster: ClusterDescription) -> Finding:
    versions, mine = cluster_versions(cluster), metadata.version("tupletree")
    sentence = cluster_sentence(versions, mine)
    if any(counts.keys() - {mine} for counts in versions["daemons"].values()):
        return Finding("nimbus", "warning", sentence, "upgrade what is older")
    return Finding("nimbus", "ok", f"{sentence}; `tupletree health` judges it")


def _clock(cluster: ClusterDescription, conf: Mapping[str, Any]) -> Iterator[Finding]:
    """Compare the clock with that of the leader, by the date of an HTTP response, which has whole seconds."""
    leader = next((one.presence.http_address for one in cluster.nimbuses if one.leader), None)
    if leader is None or conf["tls.ca"] is not None:
        return
    connection = http.client.HTTPConnection(*split_address(leader, 80), timeout=TIMEOUT_S)
    began_s = time.time()
    try:
        connection.request("GET", "/healthz")
        date = parsedate_to_datetime(str(connection.getresponse().getheader("date"))).timestamp()
    except (OSError, ValueError, http.client.HTTPException):
        return  # the HTTP port may be closed to this machine
    finally:
        connection.close()
    skew_s = max(began_s - (date + 1), date - time.time(), 0.0)
    if skew_s <= MAX_SKEW_S:
        yield Finding("clock", "ok", f"within {MAX_SKEW_S:g} s of nimbus's")
        return
    sentence = f"{skew_s:,.0f} s from nimbus's: tokens, certificates and times of traces may be wrong"
    yield Finding("clock", "warning", sentence, "synchronise the clocks: on Debian, with chrony or systemd-timesyncd")


def _zookeeper(conf: Mapping[str, Any], is_asked_for: bool) -> Iterator[Finding]:
    try:
        tls = tls_of(conf)
    except ConfigError as error:
        yield Finding("zookeeper", "problem", str(error), "`tupletree config list zookeeper.tls` explains the files")
        return
    for server in conf["zookeeper.servers"]:
        address = with_port(server, conf["zookeeper.port"])
        try:
            _reach_zookeeper(split_address(server, conf["zookeeper.port"]), tls)
        except OSError as error:
            sentence = (
                f"{address} cannot be reached from here: {error.strerror or error}; daemons need it, commands do not"
            )
            advice = "start it, or correct the key zookeeper.servers" if is_asked_for else "`tupletree dev` starts one"
            yield Finding("zookeeper", "problem" if is_asked_for else "warning", sentence, advice)
        else:
            yield Finding("zookeeper", "ok", f"{address} accepts connections")


def _reach_zookeeper(address: tuple[str, int], tls: Tls | None) -> None:
    """Connect, over TLS where that is configured. Raises OSError."""
    if tls is None:
        socket.create_connection(address, TIMEOUT_S).close()
    else:
        open_socket(tls, address, address[0], TIMEOUT_S).close()


def _drpc(conf: Mapping[str, Any]) -> Iterator[Finding]:
    """Ask each server of ``drpc.servers`` whether it serves."""
    for server in conf["drpc.servers"] or ():
        address = with_port(server, conf["drpc.port"])
        peer = f"the DRPC server at {address}"
        try:
            with channel(address, Security.of_client(conf)) as opened:
                reply = health_pb2_grpc.HealthStub(opened).Check(health_pb2.HealthCheckRequest(), timeout=TIMEOUT_S)
        except (grpc.RpcError, TupletreeError) as error:
            known = from_rpc_error(error, peer) if isinstance(error, grpc.RpcError) else error
            advice = "start it with `tupletree drpc`, or correct the key drpc.servers"
            yield Finding("drpc", "problem", str(known), advice)
            continue
        if reply.status == health_pb2.HealthCheckResponse.SERVING:
            yield Finding("drpc", "ok", f"{peer} serves")
        else:
            yield Finding("drpc", "warning", f"{peer} is not ready", "it starts or ends: its log says which")


def _ports(conf: Mapping[str, Any]) -> Iterator[Finding]:
    try:
        check_ports(plan_with_fixed_ports("dev", Size(), conf, {}))
    except TupletreeError as error:
        said = f"`tupletree dev` cannot start: {error}"
        yield Finding("ports", "warning", said, "end what uses the port, or add the option")
    else:
        yield Finding("ports", "ok", "those of `tupletree dev` are free")
