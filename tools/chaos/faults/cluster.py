"""Faults of a cluster of brokers and of a standby (`make chaos CLUSTER=1`)."""

import asyncio

from tests.servers.kinds import PostgresServer
from tools.chaos.cluster import NOTICED_AFTER, BrokerCluster
from tools.chaos.faults.registry import Stage, kind

_OVER = 5  # seconds beyond the time after which the other nodes notice


@kind("cluster: nodes restarted in turn", weight=0.5, needs_cluster=True)
async def rolling_restart(stage: Stage) -> str:
    """Each node ends in order and is started again, the next one after it."""
    await asyncio.to_thread(_cluster(stage).roll)
    return ""


@kind("cluster: node frozen until it is given up", needs_cluster=True)
async def frozen_for_long(stage: Stage) -> str:
    """SIGSTOP of one node, for longer than net_ticktime. One that does not find back to the others by itself
    is restarted, as by its supervisor: `pause_minority` is not made for nodes that are suspended."""
    cluster = _cluster(stage)
    cluster.pause()
    try:
        await asyncio.sleep(NOTICED_AFTER * 1.25 + _OVER)
    finally:
        cluster.resume()
    restarted = await asyncio.to_thread(cluster.restart_parted)
    return f"net_ticktime {NOTICED_AFTER} s{', restarted' if restarted else ''}"


@kind("cluster: partition", needs_cluster=True)
async def partition(stage: Stage) -> str:
    """One node is cut off from the two others, and pauses itself."""
    cluster, seconds = _cluster(stage), stage.outage()
    await asyncio.to_thread(cluster.cut_off)
    try:
        await asyncio.sleep(seconds)
    finally:
        await asyncio.to_thread(cluster.rejoin)
    return f"for {seconds} s"


@kind("database: routed to its standby and back", needs_cluster=True)
async def routed_to_the_standby(stage: Stage) -> str:
    """Every session ends, and new ones are led to the read-only standby for a while. Its sessions stay."""
    assert stage.system.standbys is not None
    seconds = stage.outage()
    _lead_to(stage, stage.system.standbys.standby)
    try:
        await stage.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
        await asyncio.sleep(seconds)
    finally:
        _lead_to(stage, stage.system.postgres)
    return f"for {seconds} s"


@kind("database: standby promoted", weight=0.5, needs_cluster=True)
async def standby_promoted(stage: Stage) -> str:
    """kill -9 of the primary; its standby is promoted, and everybody led there."""
    assert stage.system.standbys is not None
    stage.system.postgres = await asyncio.to_thread(stage.system.standbys.promote)
    _lead_to(stage, stage.system.postgres)
    return ""


def _lead_to(stage: Stage, server: PostgresServer) -> None:
    for member in stage.system.members:
        member.database.target_port = server.port


def _cluster(stage: Stage) -> BrokerCluster:
    assert isinstance(stage.system.rabbitmq, BrokerCluster)
    return stage.system.rabbitmq
