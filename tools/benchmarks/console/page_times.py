"""Server time of each page and API route on a store with a long past."""

import asyncio
import shutil
import statistics
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from time import perf_counter
from urllib.parse import urlsplit

from tests.acceptance.warren import Warren
from tests.console.big_store import fill, past_job_id, schedule_name
from tests.console.site import run_console
from tests.servers.postgres import PrivatePostgres

from warrener_devservers import PrivateRabbitMQ
from warrener_store import migrate

TIMES = 60  # each path is requested, after two that fill caches
MAX_P95 = 0.100  # seconds


def measure_page_times(jobs: int, kind: str) -> int:
    """Print p50 and p95 of each page in milliseconds; 1 if a p95 is above the bound."""
    with _console(jobs, kind) as (address, dead):
        slow = 0
        print(f"{'page':44} {'p50':>8} {'p95':>8} {'bytes':>8}   ms at {jobs:,} jobs in {kind}")
        for name, path in _paths(jobs, dead).items():
            times, size, status = _measure(address, path)
            p95 = statistics.quantiles(times, n=20)[-1]
            is_slow = p95 > MAX_P95
            slow += is_slow or status != 200
            note = f" status {status}" if status != 200 else " above the bound" if is_slow else ""
            print(
                f"{name:44} {statistics.median(times) * 1e3:8.1f} {p95 * 1e3:8.1f} {size:8,}{note}",
                flush=True,
            )
    print(
        "all hold" if not slow else f"{slow} do not hold: expected p95 of at most {MAX_P95 * 1e3:.0f} ms each"
    )
    return 1 if slow else 0


def _paths(jobs: int, dead: str) -> Mapping[str, str]:
    middle = past_job_id(jobs // 2)
    pages = {
        "overview": "/",
        "overview of a day": "/?window=day",
        "overview of a week": "/?window=week",
        "jobs": "/jobs",
        "jobs, dead": "/jobs?state=dead",
        "jobs of a type": "/jobs?type=bank.pay",
        "jobs, dead, of a type": "/jobs?state=dead&type=bank.pay",
        "jobs of a queue": "/jobs?queue=search",
        "jobs, deep page": f"/jobs?after={middle}",
        "job": f"/jobs/{middle}",
        "job, dead": f"/jobs/{dead}",
        "job types": "/job-types",
        "job type": "/job-types/mail.send",
        "schedules": "/schedules",
        "schedule": f"/schedules/{schedule_name(7)}",
        "dead letters": "/dead-letters",
        "incidents": "/incidents",
        "agents": "/agents",
        "queues": "/queues",
        "queue": "/queues/imports",
        "parked": "/parked",
        "breakers": "/breakers",
        "audit": "/audit",
    }
    api = {
        "API jobs": "/api/v1/jobs",
        "API job": f"/api/v1/jobs/{middle}",
        "API overview": "/api/v1/overview",
        "API schedules": "/api/v1/schedules",
    }
    return {**pages, **api}


def _measure(address: str, path: str) -> tuple[list[float], int, int]:
    """Times in seconds, size in bytes and status."""
    connection = HTTPConnection(urlsplit(address).netloc, timeout=60)
    times: list[float] = []
    size = status = 0
    for number in range(TIMES + 2):
        began = perf_counter()
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
        if number >= 2:
            times.append(perf_counter() - began)
        size, status = len(body), answer.status
    connection.close()
    return times, size, status


@contextmanager
def _console(jobs: int, kind: str) -> Generator[tuple[str, str]]:
    """The address of a console on a filled store, and the id of a dead job."""
    folder = Path(tempfile.mkdtemp(prefix="warrener-"))
    folder.chmod(0o711)
    broker = PrivateRabbitMQ(folder / "rabbitmq")
    database = PrivatePostgres(folder / "postgres") if kind == "postgres" else None
    try:
        broker.start()
        if database is not None:
            database.start()
        store = f"sqlite:///{folder}/state.db" if database is None else database.add_database("state")
        began = perf_counter()
        asyncio.run(_make_past(store, jobs))
        print(f"filled in {perf_counter() - began:.0f} s", flush=True)
        warren = Warren(folder, broker.url, store, f"sqlite:///{folder}/ledger.db")
        with run_console(warren) as console:
            yield console.address, _dead_job(console.address)
    finally:
        broker.stop()
        if database is not None:
            database.stop()
        shutil.rmtree(folder, ignore_errors=True)


async def _make_past(store: str, jobs: int) -> None:
    await migrate(store)
    await fill(store, jobs)


def _dead_job(address: str) -> str:
    import json  # noqa: PLC0415

    connection = HTTPConnection(urlsplit(address).netloc, timeout=60)
    connection.request("GET", "/api/v1/jobs?state=dead&limit=1")
    answer = json.load(connection.getresponse())
    return str(answer["jobs"][0]["job_id"])
