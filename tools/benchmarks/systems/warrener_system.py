"""Ours: a scheduler, a supervisor and agents, as processes."""

import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tools.benchmarks.place import ROOT, Place
from tools.benchmarks.systems.port import Command

from warrener_client import Client, JobSpec

_JOBS = "tools.benchmarks.apps.warrener_jobs"


@dataclass(frozen=True, slots=True)
class Warrener:
    """State, history and ledger in PostgreSQL; every job passes all three services."""

    slots: int = 125
    dispatch_batch: int = 16
    environment: dict[str, str] = field(default_factory=dict[str, str])
    variant: str = ""
    checkout: Path = ROOT
    """The folder whose code is measured: another commit's, with a .venv of its own."""
    finished: str | None = "SELECT coalesce(sum(jobs), 0) FROM warrener_job_counts WHERE state = 'succeeded'"

    @property
    def name(self) -> str:
        return f"warrener{self.variant}"

    @property
    def settings(self) -> str:
        return (
            "quorum queues with at-least-once dead-lettering, confirms, 1 scheduler, 1 supervisor, "
            f"state store and ledger in PostgreSQL, coroutine jobs, up to {self.dispatch_batch} of them a "
            f"message, {self.slots} slots an agent, "
            "client.request_many without answers, as no peer is asked for results"
        )

    @property
    def driver(self) -> Command:
        arguments = ("-m", "tools.benchmarks.driver", "warrener")
        return Command(arguments, self.environment, program=self._python, root=self.checkout)

    @property
    def _python(self) -> str:
        return sys.executable if self.checkout == ROOT else str(self.checkout / ".venv/bin/python")

    def prepare(self, place: Place) -> None:
        migration = [self._python, "-m", "warrener_store", "migrate", place.database_url]
        environment = place.environment(PYTHONPATH=str(self.checkout))
        subprocess.run(migration, cwd=self.checkout, env=environment, check=True)

    def workers(self, place: Place, count: int) -> Sequence[Command]:
        settings = {
            "WARRENER_BROKER_URL": place.broker_url,
            "WARRENER_STORE_URL": place.database_url,
            "WARRENER_LEDGER_URL": place.database_url,
            "WARRENER_HEALTH_PORT": "0",
            "WARRENER_LOG_LEVEL": "warning",
            "WARRENER_AGENT_SLOTS": str(self.slots),
            "JOBS_A_MESSAGE": str(self.dispatch_batch),
        } | self.environment
        services = [
            (("-m", "warrener_scheduler"), "scheduler"),
            (("-m", "warrener_supervisor"), "supervisor"),
            *[(("-m", "warrener_agent", _JOBS), "agents")] * count,
        ]
        return [
            Command(arguments, settings, part, self._python, self.checkout) for arguments, part in services
        ]

    @asynccontextmanager
    async def requester(self, place: Place) -> AsyncGenerator["_Requester"]:
        async with Client(place.broker_url) as client:
            yield _Requester(client)


class _Requester:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def request(self, count: int, payload: str) -> None:
        specs = (JobSpec("noop", {"payload": payload}) for _ in range(count))
        async for _ in self._client.request_many(specs, want_results=False):
            pass

    async def request_and_wait(self) -> None:
        await (await self._client.request("stamped", {})).result()
