"""A busy system: services at work on a store with a long past, jobs that keep coming, and the console."""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, cast
from urllib.parse import quote

from examples.export.files import damage, write_days
from tests.acceptance.warren import ROOT, Warren, free_port, until
from tests.broker_access import publish
from tests.store_access import on_store

from warrener_client import JobFailed, SyncClient
from warrener_contracts.events import SchedulePutData
from warrener_contracts.schedule_rules import IntervalRule

HANDLERS = "console_handlers"
WORKFLOWS = ("examples.export.handlers", "examples.orders.handlers")
JOBS_PER_SECOND = 200


@dataclass(frozen=True)
class LiveSite:
    """The console of a running system. `address` is its address in the browser."""

    warren: Warren
    address: str
    samples: Mapping[str, str]
    """Names of things to look at: a job in each state of interest, a schedule, a cause, a queue, an agent."""

    def get(self, path: str) -> object:
        """The answer of its API."""
        with urllib.request.urlopen(f"{self.address}/api/v1{path}", timeout=20) as answer:
            return json.load(answer)


def find_names(site: LiveSite) -> dict[str, str]:
    """Return the names of what came about by itself: a cause of dead letters, an incident, an agent."""

    def first(path: str, list_name: str, field: str, subject: str) -> str:
        def found() -> str | None:
            answer = cast("Any", site.get(path))
            rows = answer[list_name]
            return quote(rows[0][field], safe="") if rows else None

        return until(found, f"{subject} to be listed")

    return {
        "cause": first("/causes?job_type=import.broken", "causes", "fingerprint", "the dead letter"),
        "incident": first("/incidents", "incidents", "fingerprint", "an incident"),
        "agent": first("/agents", "agents", "agent_id", "an agent"),
    }


class ServedConsole(NamedTuple):
    """A console that runs."""

    address: str
    process_id: int


@contextmanager
def _running(command: Sequence[str], **options: Any) -> Generator[subprocess.Popen[Any]]:
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, **options)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(20)


@contextmanager
def run_console(warren: Warren, *options: str, **environment: str) -> Generator[ServedConsole]:
    """A console of this system; it has ended afterwards."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    log = warren.folder / "console.log"
    command = [sys.executable, "-m", "warrener", "console", "--port", str(port), *options]
    settings = warren.settings(free_port()) | environment
    with (
        log.open("wb") as out,
        _running(command, cwd=warren.folder, env=settings, stdout=out, stderr=out) as process,
    ):

        def answers() -> bool:
            if process.poll() is not None:
                raise AssertionError(f"the console ended with {process.returncode}:\n{log.read_text()}")
            try:
                with urllib.request.urlopen(f"{address}/health", timeout=5):
                    return True
            except OSError:
                return False

        until(answers, "the console to answer")
        yield ServedConsole(address, process.pid)


@contextmanager
def keep_requesting(warren: Warren, rate: int = JOBS_PER_SECOND) -> Generator[None]:
    """Jobs are requested at this rate, by a process of its own."""
    command = [sys.executable, "-m", "tests.console.load", warren.broker_url, str(rate)]
    with _running(command, cwd=ROOT, env=dict(os.environ)):
        yield


def prepare(warren: Warren) -> dict[str, str]:
    """Request one job of each fate, declare a schedule, and return their names once they are so far."""
    (warren.folder / f"{HANDLERS}.py").write_text(
        (Path(__file__).parent / "console_handlers.py").read_text(encoding="utf-8"), encoding="utf-8"
    )
    warren.start("scheduler", WARRENER_SCHEDULER_QUEUES="nobody-*")
    warren.start("supervisor")
    for version in ("2026.11.2", "2026.11.3"):
        warren.start("agent", HANDLERS, *WORKFLOWS, "--slots", "20", WARRENER_VERSION=version)
    warren.wait_ready()
    until(
        lambda: on_store(warren.store_url, lambda store: store.job_types(["import.rows"])),
        "the agents to announce their job types",
    )
    damage(list(islice(write_days(warren.folder / "flights"), 12)))
    broken = b'{"specversion": "1.0", "type": "warrener.job.requested.v1", "data": {"job_type": <b>'
    kind = "application/cloudevents+json"
    publish(warren.broker_url, "warrener.requests", "job.requested.v1", broken, content_type=kind)
    with SyncClient(warren.broker_url) as client:
        done = client.request("import.rows", {"path": "2013-01.csv"})
        retried = client.request("import.third_time", {"path": "2013-02.csv"})
        dead = client.request("import.broken", {"path": "2013-03.csv", "note": "<script>alert(1)</script>"})
        running = client.request("import.long", {"path": "2013-04.csv"})
        exported = client.request("export.night", {"folder": str(warren.folder / "flights")})
        nowhere = client.request("import.rows", {"path": "2013-05.csv"}, queue="nobody-serves-it")
        often = SchedulePutData(
            name="every-two-seconds",
            rule=IntervalRule(every=timedelta(seconds=2)),
            job_type="import.rows",
            arguments={"path": "{{ tick.local_at | %Y-%m-%d }}.csv"},
        )
        client.put_schedules([often])
        done.result(timeout=60)
        retried.result(timeout=60)
        exported.result(timeout=240)
        undone = client.request("orders.fulfil", {"order": 2, "item": "anvil", "cents": 9_900})
        with suppress(JobFailed):
            undone.result(timeout=60)
    jobs = {"done": done, "retried": retried, "dead": dead, "running": running, "waiting": nowhere}
    jobs |= {"exported": exported, "undone": undone}
    ids = {name: str(job.job_id) for name, job in jobs.items()}
    return ids | {"schedule": "every-two-seconds", "queue": "imports"}
