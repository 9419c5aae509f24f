"""Faults of PostgreSQL, which holds the state store and the ledger."""

import asyncio

from tools.chaos.clients import session
from tools.chaos.faults.registry import Stage, kind

_LOCKED = ("warrener_jobs", "warrener_ledger", "warrener_schedules")


@kind("database restarted")
async def database_restarted(stage: Stage) -> str:
    """PostgreSQL ends every connection, and is started again."""
    await asyncio.to_thread(stage.system.postgres.restart)
    return ""


@kind("database killed")
async def database_killed(stage: Stage) -> str:
    """kill -9 of all its processes; it recovers from its log."""
    await asyncio.to_thread(stage.system.postgres.kill)
    await asyncio.to_thread(stage.system.postgres.start)
    return ""


@kind("database frozen")
async def database_frozen(stage: Stage) -> str:
    """SIGSTOP for a while: connections stay open, and nothing answers."""
    seconds = stage.outage()
    stage.system.postgres.pause()
    try:
        await asyncio.sleep(seconds)
    finally:
        stage.system.postgres.resume()
    return f"for {seconds} s"


@kind("database read-only")
async def database_read_only(stage: Stage) -> str:
    """Every new transaction is read-only for a while, as after a failover to a replica."""
    seconds = stage.outage()
    await stage.execute("ALTER SYSTEM SET default_transaction_read_only = on")
    await stage.execute("SELECT pg_reload_conf()")
    try:
        await asyncio.sleep(seconds)
    finally:
        async with session(stage.system.store_url) as connection:
            await connection.execute("SET default_transaction_read_only = off")
            await connection.execute("ALTER SYSTEM RESET default_transaction_read_only")
            await connection.execute("SELECT pg_reload_conf()")
    return f"for {seconds} s"


@kind("table locked")
async def table_locked(stage: Stage) -> str:
    """Somebody's migration holds a table for a while."""
    table, seconds = stage.dice.choice(_LOCKED), stage.outage()
    async with session(stage.system.store_url) as connection, connection.transaction():
        await connection.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        await asyncio.sleep(seconds)
    return f"{table} for {seconds} s"


@kind("database connections terminated")
async def connections_terminated(stage: Stage) -> str:
    """An operator ends every connection."""
    await stage.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
    )
    return ""
