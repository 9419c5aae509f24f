"""`python -m examples.monitoring.demo`: two hosts report, one of them dies, is missed, and comes back.

Exits 0 only if the one that died was missed, the other was not, and the incident is closed at the end.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from examples.warren import Warren

from warrener_contracts.state_machine import JobState
from warrener_store import StateStore, open_store
from warrener_store.jobs.rows import JobFilter

HERE = Path(__file__).parent
PATIENCE = 180.0  # seconds for each fact


def main() -> int:
    """Run the story; the exit code."""
    data = Path(".warrener/monitoring").absolute()
    shutil.rmtree(data, ignore_errors=True)
    os.environ["WARRENER_SUPERVISOR_ESCALATION_FILE"] = str(HERE / "escalation.toml")
    warren = Warren(data)
    hosts = dict[str, subprocess.Popen[bytes]]()
    try:
        warren.start(within=240)
        asyncio.run(watch(warren, data, hosts))
    finally:
        for host in hosts.values():
            host.terminate()
        for host in hosts.values():
            host.wait(60)
        warren.stop()
    print("\n".join(warren.alerts))
    missed = [alert for alert in warren.alerts if "host-b" in alert]
    return 0 if missed and not [alert for alert in warren.alerts if "host-a" in alert] else 1


async def watch(warren: Warren, data: Path, hosts: dict[str, "subprocess.Popen[bytes]"]) -> None:
    """Start two hosts and their schedules, kill one, wait until it is missed, and start it again."""
    store = open_store(f"sqlite:///{data / 'state.db'}")
    await store.start()
    try:
        for name in ("host-a", "host-b"):
            hosts[name] = start_host(warren, data, name)
        apply = (sys.executable, "-m", "warrener", "schedule", "apply", str(HERE / "schedules.toml"), "--yes")
        urls = ("--broker", warren.broker_url(), "--store", f"sqlite:///{data / 'state.db'}")
        await until(lambda: _is_announced(store), "the agents to announce their job type")
        await asyncio.to_thread(subprocess.run, [*apply, *urls], check=True)
        await until(lambda: _has_reported(store, "host-a", "host-b"), "a report of each host")
        print(f"kill -9 of the agent of host-b (process {hosts['host-b'].pid})")
        hosts["host-b"].kill()
        hosts["host-b"].wait()
        await until(lambda: _is_missed(store, "host-b"), "an incident about host-b")
        print("host-b is missed; it starts again")
        hosts["host-b"] = start_host(warren, data, "host-b")
        await until(lambda: _is_missed(store, "host-b", missed=False), "the end of the incident")
        print("host-b reports again, and its incident is closed")
    finally:
        await store.close()


def start_host(warren: Warren, data: Path, name: str) -> "subprocess.Popen[bytes]":
    """Start the agent of a host: its queue, and a ledger of its own."""
    environment = {
        "WARRENER_BROKER_URL": warren.broker_url(),
        "WARRENER_LEDGER_URL": f"sqlite:///{data / name / 'ledger.db'}",
        "WARRENER_LOG_LEVEL": "error",
    }
    command = [sys.executable, "-m", "warrener_agent", "examples.monitoring.handlers", "--queue", name]
    return subprocess.Popen(command, env={**os.environ, **environment})  # noqa: S603 - our own command


async def until(fact: Callable[[], Awaitable[bool]], what: str) -> None:
    """Wait for a fact; raises SystemExit if it does not come."""
    try:
        async with asyncio.timeout(PATIENCE):
            while not await fact():  # noqa: ASYNC110 - other processes bring it about
                await asyncio.sleep(0.3)
    except TimeoutError:
        raise SystemExit(f"expected {what} within {PATIENCE:.0f} s") from None


async def _is_announced(store: StateStore) -> bool:
    return "monitoring.report" in await store.job_types()


async def _has_reported(store: StateStore, *queues: str) -> bool:
    reports = await store.list_jobs(JobFilter(job_type="monitoring.report", states=(JobState.SUCCEEDED,)))
    last = {job.queue: job.result for job in reversed(reports)}
    if last.keys() >= set(queues):
        print(json.dumps(last))
    return last.keys() >= set(queues)


async def _is_missed(store: StateStore, schedule: str, *, missed: bool = True) -> bool:
    incidents = await store.incidents()
    return missed == any(one.kind.startswith("schedule.") and one.subject == schedule for one in incidents)


if __name__ == "__main__":
    sys.exit(main())
