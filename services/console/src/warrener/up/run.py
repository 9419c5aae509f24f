"""`warrener up` from start to stop: broker, store, services, banner."""

import asyncio
import contextlib
import json
import os
import urllib.error
import urllib.request
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from warrener.context import ResolvedEndpoints, connect_store, copyable_broker_url
from warrener.doctor.inspector import open_inspector
from warrener.errors import BrokerUnreachable, CommandError
from warrener.installation import adopt, claim
from warrener.up import processes
from warrener.up.folder import DataFolder
from warrener.up.output import ConsoleOutput, banner_lines
from warrener_devservers import PrivateRabbitMQ, ServerError
from warrener_runtime.backoff import ExponentialBackoff
from warrener_runtime.running_up import Endpoints
from warrener_store import StateStore, StoreError, migrate
from warrener_store.agents.rows import JobTypeRow

_NOT_READY_REPORT_INTERVAL = 30.0  # seconds
_POLL_INTERVAL, _READY_POLL_INTERVAL = 0.5, 0.2  # seconds
_READY_TIMEOUT = 20.0  # seconds; longer than all checks of a service take


@dataclass(frozen=True, slots=True)
class ConsoleAddress:
    """The listening socket of the console, by its file descriptor, and its address for a browser."""

    listening: int
    url: str


@dataclass(frozen=True, slots=True)
class UpOptions:
    """Options of `up`. A URL of None means a private broker, store or ledger."""

    services: Sequence[processes.ProcessSpec]
    broker_url: str | None
    store_url: str | None
    ledger_url: str | None
    namespace: str
    log_levels: processes.LogLevels
    console: "ConsoleAddress | None" = None


class Up:
    """Starts the broker and the services, reports readiness, keeps them alive, and stops them in reverse."""

    def __init__(self, options: UpOptions, folder: DataFolder, output: ConsoleOutput) -> None:
        self._options, self._folder, self._output = options, folder, output
        self._shutdown = processes.Shutdown(output)
        self._broker_name = "the broker"

    async def run(self) -> None:
        """Run until Ctrl-C or SIGTERM. Raises CommandError if it cannot start."""
        with self._folder.hold(), self._shutdown.on_signals():
            async with self._broker() as broker_url:
                endpoints = ResolvedEndpoints(
                    copyable_broker_url(broker_url),
                    self._options.store_url or self._folder.state_url,
                    self._options.ledger_url or self._folder.ledger_url,
                    self._options.namespace,
                    from_up=True,
                )
                await migrate(endpoints.store_url)
                # Before any service consumes. A private broker belongs to the folder, whatever its store.
                await (claim(endpoints) if self._options.broker_url else adopt(endpoints))
                self._folder.announce(endpoints)
                await self._serve(endpoints)

    @asynccontextmanager
    async def _broker(self) -> AsyncGenerator[str]:
        if self._options.broker_url:
            await self._check_broker(self._options.broker_url)
            yield self._options.broker_url
            return
        # It keeps its port from one `up` to the next, unless it is taken.
        node = PrivateRabbitMQ(
            self._folder.broker, self._folder.broker_port(), password=self._folder.broker_password()
        )
        self._folder.save_broker_port(node.port)
        self._output.event(
            "starting", "starting a private RabbitMQ; this takes some seconds", source="broker"
        )
        starting = asyncio.create_task(asyncio.to_thread(node.start))
        try:
            if not await self._shutdown.ends_before_signal(starting):
                raise CommandError("stopped before it was ready")
            version = await asyncio.to_thread(node.version)
            if self._shutdown.requested.is_set():
                raise CommandError("stopped before it was ready")
            self._broker_name = f"RabbitMQ {version}, private,"
            self._output.event("started", f"RabbitMQ {version} is up", source="broker", version=version)
            watching = asyncio.create_task(self._watch(node))
            try:
                yield node.url
            finally:
                watching.cancel()
                await asyncio.wait({watching})
        finally:
            await asyncio.wait({starting})
            with contextlib.suppress(ServerError):  # its data stays
                await asyncio.to_thread(node.kill if self._shutdown.hurried else node.stop)

    async def _watch(self, node: PrivateRabbitMQ) -> None:
        """Restart the private broker whenever it dies; never returns."""
        backoff = ExponentialBackoff(first=0.5, ceiling=30.0)
        while True:
            await asyncio.sleep(_POLL_INTERVAL)
            if node.running:
                continue
            self._output.event("exited", "died; restarting it with its data", source="broker")
            try:
                await asyncio.to_thread(node.start)
                self._output.event("started", "is back", source="broker")
                backoff.succeeded()
            except ServerError as error:
                self._output.event("failed", str(error), source="broker")
                await asyncio.sleep(backoff.failed())

    async def _check_broker(self, broker_url: str) -> None:
        """Fail at once without a broker: services would wait for it, and a person is watching."""
        try:
            async with open_inspector(broker_url, self._options.namespace) as inspector:
                self._broker_name = inspector.broker
        except BrokerUnreachable as error:
            do = "start it, or leave --broker out for a private one"
            raise BrokerUnreachable(error.url, error.cause, do) from error

    async def _serve(self, endpoints: ResolvedEndpoints) -> None:
        since = datetime.now(UTC)
        options = self._options
        children = [self._supervised(spec, endpoints) for spec in options.services]
        tasks = {asyncio.create_task(child.run(), name=child.spec.name): child for child in children}
        async with connect_store(endpoints) as store:
            banner_task = asyncio.create_task(self._print_banner(endpoints, store, children, since))
            if options.console is not None:
                console = self._supervised(processes.console_spec(options.console.listening), endpoints)
                tasks[asyncio.create_task(_run_after(banner_task, console), name="console")] = console
            requested = asyncio.create_task(self._shutdown.requested.wait())
            await asyncio.wait({*tasks, requested}, return_when=asyncio.FIRST_COMPLETED)
            banner_task.cancel()
            requested.cancel()
            await self._shutdown.stop_all(tasks)
            await asyncio.wait({banner_task, requested})
        for task, child in tasks.items():
            if isinstance(error := task.exception(), processes.Unusable):
                why = str(error) or "no reason, see its output above"
                raise CommandError(
                    f"expected the {child.spec.service} to start, got: {why}",
                    do="mend the cause, and run `warrener up` again",
                )

    def _supervised(self, spec: processes.ProcessSpec, endpoints: Endpoints) -> processes.SupervisedProcess:
        environment = processes.build_environment(spec, os.environ, endpoints, self._options.log_levels)
        return processes.SupervisedProcess(spec, environment, self._output)

    async def _print_banner(
        self,
        endpoints: Endpoints,
        store: StateStore,
        children: Sequence[processes.SupervisedProcess],
        since: datetime,
    ) -> None:
        agents = [child for child in children if child.spec.service == "agent"]
        reporting = asyncio.create_task(self._report_not_ready(children))
        try:
            await asyncio.gather(*(_wait_until_ready(child) for child in children))
            types: list[JobTypeRow] = await _wait_for_job_types(store, agents, since) if agents else []
        finally:
            reporting.cancel()
        console_url = None if self._options.console is None else self._options.console.url
        self._output.ready(
            banner_lines(endpoints, self._broker_name, len(agents), types, console_url=console_url),
            broker_url=endpoints.broker_url,
            store_url=endpoints.store_url,
            ledger_url=endpoints.ledger_url,
            console_url=console_url,
            job_types=[row.name for row in types],
            processes={child.spec.name: child.pid for child in children},
        )

    async def _report_not_ready(self, children: Sequence[processes.SupervisedProcess]) -> None:
        while True:
            await asyncio.sleep(_NOT_READY_REPORT_INTERVAL)
            for child in children:
                if reason := await asyncio.to_thread(_not_ready_reason, child):
                    self._output.event("waiting", f"not ready yet: {reason}", source=child.spec.name)


async def _run_after(banner: "asyncio.Task[None]", console: processes.SupervisedProcess) -> None:
    """Run the console once the banner is printed, so that it takes no processor time from the services while
    they start; or once an end has begun, which it then notices at once."""
    await asyncio.wait({banner})
    await console.run()


# -- readiness ---------------------------------------------------------------------------------------------


async def _wait_until_ready(child: processes.SupervisedProcess) -> None:
    while await asyncio.to_thread(_not_ready_reason, child) is not None:  # noqa: ASYNC110 - another process
        await asyncio.sleep(_READY_POLL_INTERVAL)


def _not_ready_reason(child: processes.SupervisedProcess) -> str | None:
    """Why the service is not ready; None if it is."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{child.health_port}/ready", timeout=_READY_TIMEOUT):
            return None
    except urllib.error.HTTPError as answer:
        with answer:
            body = answer.read()
    except (OSError, ValueError):
        return "does not answer yet"
    checks: dict[str, str] = {}
    with contextlib.suppress(ValueError):
        checks = json.loads(body).get("checks", {})
    failing = "; ".join(f"{name}: {status}" for name, status in checks.items() if status != "ok")
    return failing or "is not ready"


async def _wait_for_job_types(
    store: StateStore, agents: Sequence[processes.SupervisedProcess], since: datetime
) -> list[JobTypeRow]:
    """Wait for every agent and its job types, and return these."""
    while True:
        try:
            known = await store.agents(since)  # not former agents with the same process id
            types = await store.job_types()
        except StoreError:
            known, types = [], {}
        pids = [agent.pid for agent in agents]
        announced = [row for _, row in sorted(types.items()) if row.announced_at >= since]
        if announced and sum(row.pid in pids for row in known) == len(agents):
            return announced
        await asyncio.sleep(_READY_POLL_INTERVAL)
