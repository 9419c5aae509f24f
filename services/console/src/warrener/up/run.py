"""`up` from its first to its last moment."""

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from warrener.exits import CommandError
from warrener.installation import adopt, claim
from warrener.places import Places
from warrener.probe import probing
from warrener.running import Unreachable
from warrener.up.broker import Broker
from warrener.up.child import Child, Unusable
from warrener.up.crew import Member, crew, environment_of
from warrener.up.folder import DataFolder, Endpoints
from warrener.up.greeting import greeting
from warrener.up.readiness import trouble_of, until_announced, until_ready
from warrener.up.stopping import Stopping
from warrener.up.voice import Voice
from warrener_store import StateStore, migrate, open_store
from warrener_store.rows import JobTypeRow

_IMPATIENT_AFTER = 30.0  # seconds without being ready until `up` says what is missing


@dataclass(frozen=True, slots=True)
class Wish:
    """What the user wants to be up. URLs: None means private ones."""

    modules: Sequence[str]
    agents: int
    slots: int | None
    broker_url: str | None
    store_url: str | None
    ledger_url: str | None
    namespace: str
    log_level: str


class Up:
    """Starts the broker, then the services, then says that all is ready; keeps them alive; stops them in
    reverse."""

    def __init__(self, wish: Wish, folder: DataFolder, voice: Voice) -> None:
        self._wish, self._folder, self._voice = wish, folder, voice
        self._stopping = Stopping(voice)
        self._broker_name = "the broker"

    async def run(self) -> None:
        """Until Ctrl-C or SIGTERM. Raises CommandError if it cannot work."""
        with self._folder.hold(), self._stopping.on_signals():
            async with self._broker() as broker_url:
                endpoints = Endpoints(
                    broker_url,
                    self._wish.store_url or self._folder.state_url,
                    self._wish.ledger_url or self._folder.ledger_url,
                    self._wish.namespace,
                )
                await migrate(endpoints.store_url)
                await self._belong(endpoints)
                self._folder.announce(endpoints)
                await self._serve(endpoints)

    @asynccontextmanager
    async def _broker(self) -> AsyncGenerator[str]:
        if self._wish.broker_url:
            await self._look_at(self._wish.broker_url)
            yield self._wish.broker_url
            return
        broker = Broker(self._folder, self._voice)
        self._voice.event("starting", "starting a private RabbitMQ; this takes some seconds", of="broker")
        starting = asyncio.create_task(broker.start())
        try:
            if (version := await self._stopping.unless_asked(starting)) is None:
                raise CommandError("stopped before it was ready")
            self._broker_name = f"RabbitMQ {version}, private,"
            self._voice.event("started", f"RabbitMQ {version} is up", of="broker", version=version)
            watching = asyncio.create_task(broker.watch())
            try:
                yield broker.url
            finally:
                watching.cancel()
                await asyncio.wait({watching})
        finally:
            await asyncio.wait({starting})
            await broker.stop(hurry=self._stopping.hurried)

    async def _belong(self, endpoints: Endpoints) -> None:
        """Before any child takes from a queue. A private broker belongs to the folder, whatever its store."""
        places = Places(
            endpoints.broker_url,
            endpoints.store_url,
            endpoints.ledger_url,
            of_up=True,
            namespace=endpoints.namespace,
        )
        await (claim(places) if self._wish.broker_url else adopt(places))

    async def _look_at(self, broker_url: str) -> None:
        """Services wait for a broker for ever, and here somebody looks on: it is told at once."""
        try:
            async with probing(broker_url, self._wish.namespace) as probe:
                self._broker_name = probe.broker
        except Unreachable as error:
            do = "start it, or leave --broker out for a private one"
            raise Unreachable(error.url, error.came, do) from error

    async def _serve(self, endpoints: Endpoints) -> None:
        since = datetime.now(UTC)
        children = self._children(endpoints)
        lives = {asyncio.create_task(child.live(), name=child.member.name): child for child in children}
        async with _open(endpoints.store_url) as store:
            greeting_task = asyncio.create_task(self._greet(endpoints, store, children, since))
            asked = asyncio.create_task(self._stopping.asked.wait())
            await asyncio.wait({*lives, asked}, return_when=asyncio.FIRST_COMPLETED)
            greeting_task.cancel()
            asked.cancel()
            await self._stopping.in_order(lives)
            await asyncio.wait({greeting_task, asked})
        _raise_if_unusable(lives)

    def _children(self, endpoints: Endpoints) -> list[Child]:
        def environment(member: Member, port: int) -> Mapping[str, str]:
            return environment_of(member, os.environ, endpoints, port, self._wish.log_level)

        members = crew(self._wish.modules, self._wish.agents, self._wish.slots)
        return [Child(member, environment, self._voice) for member in members]

    async def _greet(
        self, endpoints: Endpoints, store: StateStore, children: Sequence[Child], since: datetime
    ) -> None:
        agents = [child for child in children if child.member.service == "agent"]
        impatience = asyncio.create_task(self._say_what_is_missing(children))
        try:
            await asyncio.gather(*(until_ready(child) for child in children))
            types: list[JobTypeRow] = await until_announced(store, agents, since) if agents else []
        finally:
            impatience.cancel()
        self._voice.ready(
            greeting(endpoints, self._broker_name, len(agents), types),
            broker_url=endpoints.broker_url,
            store_url=endpoints.store_url,
            ledger_url=endpoints.ledger_url,
            job_types=[row.name for row in types],
            processes={child.member.name: child.pid for child in children},
        )

    async def _say_what_is_missing(self, children: Sequence[Child]) -> None:
        while True:
            await asyncio.sleep(_IMPATIENT_AFTER)
            for child in children:
                if told := await asyncio.to_thread(trouble_of, child):
                    self._voice.event("waiting", f"not ready yet: {told}", of=child.member.name)


@asynccontextmanager
async def _open(url: str) -> AsyncGenerator[StateStore]:
    store = open_store(url)
    await store.start()
    try:
        yield store
    finally:
        await store.close()


def _raise_if_unusable(lives: dict[asyncio.Task[None], Child]) -> None:
    for life, child in lives.items():
        if isinstance(life.exception(), Unusable):
            raise CommandError(
                f"expected the {child.member.service} to start, got that it cannot (see what it said above)",
                do="put that right, and run `warrener up` again",
            )
