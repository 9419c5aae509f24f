"""Handlers for child processes, which import this module by its name."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from datetime import date
from decimal import Decimal
from pathlib import Path

from warrener_agent import Agent, JobContext

agent = Agent()
_warm: list[int] = []
release = threading.Event()


@agent.job("where", executor="process")
def where(name: str) -> dict[str, str | int]:
    _warm.append(1)
    return {"pid": os.getpid(), "calls": len(_warm), "name": name}


@agent.job("waits", executor="process")
async def waits(job: JobContext) -> int:
    await asyncio.sleep(0)
    transaction = await job.transaction()
    await transaction.execute("CREATE TABLE effects (note TEXT)")
    return job.attempt


@agent.job("load", executor="process", no_retry_on=(KeyError,))
def load(job: JobContext, note: str) -> dict[str, object]:
    job.progress(0.5, "half")
    transaction = job.transaction_sync()
    transaction.execute("CREATE TABLE IF NOT EXISTS effects (note TEXT)")
    rows = [{"note": note}, {"note": note + "!"}]
    transaction.execute("INSERT INTO effects VALUES (:note)", rows)
    values = {"a": b"\x00\xff", "b": date(2026, 1, 2), "c": Decimal("1.5")}
    (row,) = transaction.execute("SELECT :a AS a, :b AS b, :c AS c", values)
    assert row["a"] == b"\x00\xff"
    child_job_id = job.request("other", {"$type": "date", "value": "not ours to read"}, key="k")
    if note == "caught":
        try:
            transaction.execute("SELECT 1 FROM nowhere")
        except sqlite3.OperationalError as error:
            return {"caught": str(error)}
    if note == "raise":
        raise KeyError(note)
    return {"asked": str(child_job_id), "b": row["b"], "$type": "date"}


@agent.job("dies", executor="process")
def dies(job: JobContext, how: str) -> None:
    job.transaction_sync().execute("CREATE TABLE effects (note TEXT)")
    if how == "segfault":
        os.kill(os.getpid(), signal.SIGSEGV)
    if how == "exit":
        os._exit(7)
    raise SystemExit(how)


@agent.job("hangs", executor="process")
def hangs(job: JobContext, pids: Path) -> None:
    """It hangs, and so does what it has started."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    job.transaction_sync().execute("CREATE TABLE effects (note TEXT)")
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    whole = pids.with_suffix(".new")
    whole.write_text(f"{os.getpid()}\n{child.pid}\n")
    whole.rename(pids)
    while True:
        time.sleep(60)  # the fault: it never ends by itself


@agent.job("thread")
def thread(job: JobContext, note: str) -> str:
    job.progress(1.0)
    job.request("other")
    transaction = job.transaction_sync()
    transaction.execute("CREATE TABLE effects (note TEXT)")
    transaction.execute("INSERT INTO effects VALUES (:note)", {"note": note})
    return threading.current_thread().name


@agent.job("blocks")
def blocks(job: JobContext) -> str:
    """A thread that does not listen until it is let go, and then tries to write."""
    job.progress(0.1, "blocked")
    release.wait()
    try:
        job.transaction_sync().execute("CREATE TABLE effects (note TEXT)")
    except Exception as error:
        job.progress(0.9, str(error))
        raise
    return "too late"
